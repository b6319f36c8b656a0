"""Checks of a study before a long run: data, priors, sampling step, and the expected run time."""

import time as clock
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probsysid._internal.figure_text import literal_labels
from probsysid.data.record import Record
from probsysid.data.sensor_limits import runs_at, sensor_limits
from probsysid.model.initial_state import gaussian_moments
from probsysid.model.latent_processes import LatentProcess
from probsysid.model.model import Model
from probsysid.model.problem import Problem
from probsysid.parallel.default import default_executor
from probsysid.posterior.simulate import first_order_rates, simulate
from probsysid.study.candidates import CandidateModel
from probsysid.study.priors import Prior
from probsysid.study.records import StudyRecord
from probsysid.study.resolve import ResolvedStudy
from probsysid.study.schema import NoiseSection
from probsysid.study.toml_writer import quoted
from probsysid.targets.batch_target import BatchTarget

LOOK = 2000
"""Samples of each record over which draws from the prior are simulated."""

SLOW = 30.0
"""Seconds between samples from which on rates may have been given per minute, hour or day."""

FAR = 30.0
"""Ratio of the sizes of simulation and data beyond which units are doubtful."""

COARSE = 1.0
"""Radians of the fastest mode per step beyond which the step is long."""

SWEEPS = (5.0, 30.0)
"""Sweeps over the data per unknown, lower and upper estimate; from runs on oscillators."""

PICTURES = (".png", ".pdf", ".svg", ".jpg")
"""File extensions of figures."""

PILOTS = 16
"""Draws whose fastest rate is computed."""

POINTS = 40
"""Points per draw at which the model is linearised."""


@dataclass(frozen=True)
class Finding:
    """One sentence about the study, possibly a warning."""

    text: str
    warning: bool = False


@dataclass(frozen=True, eq=False)
class PriorSimulation:
    """Outputs simulated for draws from the prior, over the first part of a training record."""

    name: str
    record: Record
    outputs: dict[str, np.ndarray]
    """(draw, sample), finite draws only."""
    failed: int
    rates: np.ndarray
    """Fastest rate of each draw, in rad/s."""


def preflight(
    resolved: ResolvedStudy, candidate: CandidateModel, draws: int, seed: int
) -> tuple[list[Finding], list[PriorSimulation]]:
    """All findings about one model of a study, and its prior simulations."""
    given = resolved.study.noise
    findings = [finding for item in resolved.measured for finding in data_findings(item, given)]
    simulations = []
    for index, item in enumerate(resolved.trained):
        assert item.train is not None
        record = item.record[item.train]
        record = record[: min(record.samples, LOOK)]
        simulations.append(_simulate_prior(candidate, item.name, record, index, draws, seed))
        found = [*prior_findings(simulations[-1]), *step_findings(simulations[-1], resolved.solver.steps)]
        which = f"{item.name}: " if len(resolved.trained) > 1 else ""
        findings += [replace(finding, text=which + finding.text) for finding in found]
    findings.append(time_finding(resolved, candidate))
    return findings, simulations


# Data


def data_findings(item: StudyRecord, noise: Mapping[str, Any] | None = None) -> list[Finding]:
    """Findings about a record alone, without a model; `noise` is the study's section."""
    record, name = item.record, item.name
    sampling = "non-uniform" if record.dt is None else f"dt = {record.dt:.6g} s"
    ranges = [f"{word} {part.stop - part.start}" for word, part in (("train", item.train), ("test", item.test)) if part]
    findings = [Finding(f"{name}: {record.samples} samples, {sampling}, {record.duration:.6g} s; {', '.join(ranges)}")]
    findings += [Finding(f"{name}: {note}", warning="kept" in note or "flatter" in note) for note in item.notes]
    for channel, values in {**record.inputs, **record.outputs}.items():
        given = (noise or {}).get(channel)
        findings += _channel_findings(name, channel, np.asarray(values), channel in record.outputs, given)
    return findings


def _channel_findings(record: str, channel: str, values: np.ndarray, measured: bool, noise: Any) -> list[Finding]:
    where, finite = f"{record}: {channel}", values[np.isfinite(values)]
    findings = []
    missing = len(values) - len(finite)
    if missing:
        findings.append(
            Finding(f"{where}: {missing} of {len(values)} samples are missing", missing > 0.2 * len(values))
        )
    if len(finite) and np.ptp(finite) == 0:
        findings.append(Finding(f"{where} is constant ({finite[0]:.6g})", True))
        return findings
    if not measured or not len(finite):
        return findings
    found = sensor_limits(values)
    for word, key in (("largest", "upper"), ("smallest", "lower")):
        if key in found:
            longest, count = runs_at(finite, found[key])
            text = f"{count} samples sit at its {word} value {found[key]:.6g}, up to {longest} in a row"
            known = getattr(noise, key, None) is not None
            verdict = f"is clipped, and the noise has the bound {key}" if known else "may be clipped"
            findings.append(Finding(f"{where} {verdict}: {text}", not known))
    if "step" in found:
        known = getattr(noise, "step", None) is not None
        word = ", and the noise has its step" if known else ": is it quantised?"
        findings.append(Finding(f"{where} has only {len(np.unique(finite))} different values{word}", not known))
    new = {key: value for key, value in found.items() if getattr(noise, key, None) is None}
    if new:
        findings.append(Finding(f"{where}: if so, write `[noise] {noise_line(channel, noise, new)}`"))
    return findings


def noise_line(output: str, given: Any, new: Mapping[str, float]) -> str:
    """The line of a study for the noise of an output: what is there already, and what is new."""
    if isinstance(given, NoiseSection):
        entries = {key: getattr(given, key) for key in NoiseSection.model_fields}
        entries = {key: value for key, value in entries.items() if value is not None}
    else:
        entries = {} if given is None else {"level": given}
    texts = [f"{key} = {quoted(value.text) if isinstance(value, Prior) else value!r}" for key, value in entries.items()]
    texts += [f"{key} = {value!r}" for key, value in new.items()]
    return f"{output} = {{ {', '.join(texts)} }}"


# The prior


def _simulate_prior(
    candidate: CandidateModel, name: str, record: Record, index: int, draws: int, seed: int
) -> PriorSimulation:
    problem, model = candidate.problem, candidate.model
    values = {
        k: np.asarray(v) for k, v in problem.space.values(problem.space.sample(jax.random.key(seed), draws)).items()
    }
    quantities = {p: problem.parameter_name(index, p) for p in model.parameter_names}
    parameters = {p: values.get(q, np.full(draws, problem.priors.get(p, np.nan))) for p, q in quantities.items()}
    random = np.random.default_rng(seed)
    start = np.stack([_start(problem, values, index, n, draws, random) for n in model.physical_names])
    observer = _with_states(model)
    outputs, _, _ = simulate(observer, parameters, start, record)
    finite = np.all([np.all(np.isfinite(v), axis=1) for v in outputs.values()], axis=0)
    rates = _fastest_rates(model, {k: v[..., finite] for k, v in parameters.items()}, outputs, finite, record)
    kept = {key: outputs[key][finite] for key in model.output_names}
    return PriorSimulation(name, record, kept, int(np.sum(~finite)), rates)


def _start(
    problem: Problem, values: Mapping[str, np.ndarray], index: int, name: str, draws: int, random: np.random.Generator
) -> np.ndarray:
    """Draws of one component of the initial state."""
    latent = {c: sd for process in problem.latent.processes for c, sd in _latent_start(problem, process, values)}
    if name in latent:
        return np.broadcast_to(latent[name], draws) * random.standard_normal(draws)
    sampled = values.get(problem.initial_name(index, name))
    if sampled is not None:
        return sampled
    mean, sd = gaussian_moments(name, problem.initials[index][name])
    return mean + sd * random.standard_normal(draws)


def _latent_start(
    problem: Problem, process: LatentProcess, values: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, np.ndarray]]:
    """Standard deviation of each component of an unknown input or drift before any data."""
    given = {name: prior for name, prior in problem.latent.quantities.items() if name not in values}
    yield from zip(process.components, map(np.asarray, process.start({**given, **values})), strict=True)


def _with_states(model: Model) -> Model:
    """The same model with its states as further outputs."""
    assert model.outputs is not None
    outputs = model.outputs
    return Model(
        model.coordinates,
        model.dynamics,
        lambda s, u, p: {**outputs(s, u, p), **{f"state {n}": s[n] for n in model.physical_names}},
        name=model.name,
    )


def _fastest_rates(
    model: Model,
    parameters: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    finite: np.ndarray,
    record: Record,
) -> np.ndarray:
    """Largest eigenvalue magnitude of the linearised system, median over points of each draw's trajectory."""
    count = min(int(finite.sum()), PILOTS)
    if count == 0:
        return np.empty(0)
    at = np.linspace(0, record.samples - 1, min(POINTS, record.samples)).astype(int)
    used = [record.input_names.index(name) for name in model.input_names]
    inputs = record.input_derivatives(0)[at][:, used, 0]
    states = np.stack([outputs[f"state {n}"][finite][:count][:, at] for n in model.physical_names])

    rate = partial(first_order_rates, model)
    over_time = jax.vmap(jax.jacfwd(rate), in_axes=(-1, 0, None))
    over_draws = jax.jit(jax.vmap(over_time, in_axes=(1, None, -1)))
    chosen = {k: v[..., :count] for k, v in parameters.items()}
    jacobians = np.nan_to_num(np.asarray(over_draws(jnp.asarray(states), inputs, chosen)), posinf=0, neginf=0)
    return np.asarray(np.median(np.abs(np.linalg.eigvals(jacobians)).max(axis=-1), axis=1))


def prior_findings(simulation: PriorSimulation) -> list[Finding]:
    """Compare size and range of the prior simulations with the data."""
    total = simulation.failed + len(next(iter(simulation.outputs.values())))
    findings = []
    if simulation.failed:
        text = f"{simulation.failed} of {total} simulations from the prior do not stay finite"
        gap = simulation.record.duration / max(simulation.record.samples - 1, 1)
        if gap > SLOW:
            text += f"; time is in seconds, and samples are {gap:.6g} s apart: are all rates per second?"
        findings.append(Finding(text, simulation.failed > 0.2 * total))
    if simulation.failed == total:
        return findings
    for name, values in simulation.outputs.items():
        if name not in simulation.record.outputs:
            continue
        measured = np.asarray(simulation.record.outputs[name])
        size = float(np.nanstd(measured))
        if not size > 0:
            continue
        ratio = float(np.median(np.std(values, axis=1))) / size
        low, high = np.quantile(values, [0.02, 0.98], axis=0)
        reached = float(np.nanmean((measured >= low - 0.05 * size) & (measured <= high + 0.05 * size)))
        text = f"{name}: simulations from the prior are typically {ratio:.2g} times as large as the data"
        if ratio > FAR or ratio < 1 / FAR:
            findings.append(Finding(f"{text}: look at the units, the columns and the priors", True))
        elif reached < 0.8:
            text = f"{text}, but their middle 96 % holds only {100 * reached:.0f} % of the data"
            findings.append(Finding(f"{text}: are the priors wide enough?", True))
        else:
            findings.append(Finding(f"{text}; their middle 96 % holds {100 * reached:.0f} % of the data"))
    return findings


def step_findings(simulation: PriorSimulation, steps: int) -> list[Finding]:
    """Compare step and record length with the model's fastest time scale."""
    if len(simulation.rates) == 0:
        return []
    record = simulation.record
    rate = float(np.median(simulation.rates))
    step = float(np.median(np.diff(record.time))) / steps
    radians = rate * step
    scale = f"the model's fastest time scale is typically {1 / rate if rate > 0 else np.inf:.3g} s (1/rate)"
    if radians > 30:
        text = f"{scale}, the step {step:.3g} s: are times in seconds, and the priors right?"
        return [Finding(text, True)]
    if radians > COARSE:
        needed = int(np.ceil(radians * steps / COARSE))
        text = f"{scale}, the step {step:.3g} s: that is long; set solver.substeps = {needed} or more"
        return [Finding(text, True)]
    if rate * record.duration < 0.3:
        text = f"{scale}, the record only {record.duration:.3g} s: are times in seconds, and the priors right?"
        return [Finding(text, True)]
    return [Finding(f"{scale}, the step {step:.3g} s: that fits")]


# Time


def time_finding(resolved: ResolvedStudy, candidate: CandidateModel) -> Finding:
    """Estimate the run time from that of one chunk of the filter."""
    target = BatchTarget(
        candidate.problem, resolved.solver, resolved.training, resolved.sampler.particles, default_executor()
    )
    theta = np.asarray(target.sample_prior(jax.random.key(0), resolved.sampler.particles))
    began = clock.perf_counter()
    state, _ = target.advance(None, theta, 0, 1)
    last = target.limit(1)
    jax.block_until_ready(target.advance(state, theta, 1, last))
    compiled = clock.perf_counter() - began
    began = clock.perf_counter()
    jax.block_until_ready(target.advance(state, theta, 1, last))
    seconds = (clock.perf_counter() - began) / (last - 1) * target.samples
    unknowns = len(candidate.problem.space.names)
    few, many = (_duration(compiled + seconds * sweeps * unknowns) for sweeps in SWEEPS)
    return Finding(
        f"identifying {unknowns} unknowns from {target.samples} samples with {resolved.sampler.particles} particles "
        f"will take about {few if few == many else f'{few} to {many}'}"
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# The figure


def draw_prior(candidate: CandidateModel, simulations: list[PriorSimulation], path: Path) -> None:
    """Draw the data over the band of the prior simulations and some of their trajectories."""
    import matplotlib.pyplot as plt

    panels = [(s, name) for s in simulations for name in s.outputs if name in s.record.outputs]
    figure, axes = plt.subplots(len(panels), 1, figsize=(9, 1 + 2.6 * len(panels)), squeeze=False, layout="constrained")
    for axis, (simulation, name) in zip(axes[:, 0], panels, strict=True):
        values, record = simulation.outputs[name], simulation.record
        measured = np.asarray(record.outputs[name])
        if len(values):
            low, high = np.quantile(values, [0.05, 0.95], axis=0)
            axis.fill_between(record.time, low, high, color="C0", alpha=0.2, lw=0, label="90 % of the prior")
            axis.plot(record.time, values[:5].T, color="C0", lw=0.7, alpha=0.6)
            axis.plot([], [], color="C0", lw=0.7, label="draws from the prior")
        axis.plot(record.time, measured, color="0.1", lw=1.0, label="measured")
        axis.set_ylabel(record.label(name))
        axis.set_title(f"{candidate.name}: {simulation.name}", loc="left", fontsize="small")
        reach = np.nanmax(np.abs(measured - np.nanmean(measured)), initial=0.0) or 1.0
        centre, (bottom, top) = float(np.nanmean(measured)), axis.get_ylim()
        if top - bottom > 40 * reach:  # a prior that is far too wide must not hide the data
            axis.set_ylim(centre - 20 * reach, centre + 20 * reach)
    axes[0, 0].legend(frameon=False, fontsize="small", ncols=3, loc="upper right")
    axes[-1, 0].set_xlabel("time [s]")
    literal_labels(figure)
    figure.savefig(path, dpi=120)
    plt.close(figure)
