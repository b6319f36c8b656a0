"""The model simulated for constants drawn from the prior, against the data: size, range, resonance, time scales."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from probsysid.data.record import Record
from probsysid.model.initial_state import gaussian_moments
from probsysid.model.latent_processes import LatentProcess
from probsysid.model.model import Model
from probsysid.model.problem import Problem
from probsysid.posterior.simulate import first_order_rates, simulate
from probsysid.study.candidates import CandidateModel
from probsysid.study.first_look import look
from probsysid.study.nonfinite import first_failure

SLOW = 30.0
"""Seconds between samples from which on rates may have been given per minute, hour or day."""

FAR = 30.0
"""Ratio of the sizes of simulation and data beyond which units are doubtful."""

COARSE = 1.0
"""Radians of the fastest mode per step beyond which the step is long."""

MANY = 0.2
"""Share of simulations that may fail before a fit is advised against."""

APART = 3.0
"""Factor between the resonances of prior draws and data beyond which they conflict."""

RARE = 0.05
"""Share of prior draws near the resonance of the data below which they conflict."""

FEW_LINES = 5
"""Lines of an input's spectrum that hold most of its power, below which it shows no resonance."""

PILOTS = 16
"""Draws whose fastest rate is computed."""

POINTS = 40
"""Points per draw at which the model is linearised."""


@dataclass(frozen=True)
class Finding:
    """One sentence about the study, possibly a warning."""

    text: str
    warning: bool = False
    blocking: bool = False
    """Whether it has to be mended before a fit makes sense."""


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
    resonances: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    """Natural frequencies of each draw in hertz, one for each state; 0 where it does not oscillate."""
    failure: str = ""
    """What is not finite, and when, for the first draw that fails; without a full stop."""


def simulate_prior(
    candidate: CandidateModel, name: str, record: Record, index: int, draws: int, seed: int
) -> PriorSimulation:
    """Free runs over a training record, the one of this index, for draws from the prior."""
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
    linear = _eigenvalues(model, {k: v[..., finite] for k, v in parameters.items()}, outputs, finite, record)
    rates = np.median(np.abs(linear).max(axis=-1), axis=1) if len(linear) else np.empty(0)
    resonances = (
        np.median(np.sort(np.abs(linear.imag), axis=-1), axis=1) / (2 * np.pi) if len(linear) else np.empty((0, 0))
    )
    kept = {key: outputs[key][finite] for key in model.output_names}
    failure = "" if finite.all() else _failure(candidate, record, parameters, start, outputs, int(np.argmin(finite)))
    return PriorSimulation(name, record, kept, int(np.sum(~finite)), rates, resonances, failure)


def _failure(
    candidate: CandidateModel,
    record: Record,
    parameters: Mapping[str, np.ndarray],
    start: np.ndarray,
    outputs: Mapping[str, np.ndarray],
    draw: int,
) -> str:
    """What is not finite for a draw."""
    names = candidate.model.physical_names
    return first_failure(
        candidate.formulas,
        record,
        {name: float(values[draw]) for name, values in parameters.items() if np.ndim(values) == 1},
        {name: float(start[i, draw]) for i, name in enumerate(names)},
        {name: outputs[f"state {name}"][draw] for name in names},
    )


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


def _eigenvalues(
    model: Model,
    parameters: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    finite: np.ndarray,
    record: Record,
) -> np.ndarray:
    """Eigenvalues of the linearised system (draw, point, state), at points of each draw's trajectory."""
    count = min(int(finite.sum()), PILOTS)
    if count == 0:
        return np.empty((0, 0, 0), complex)
    at = np.linspace(0, record.samples - 1, min(POINTS, record.samples)).astype(int)
    used = [record.input_names.index(name) for name in model.input_names]
    inputs = record.input_derivatives(0)[at][:, used, 0]
    states = np.stack([outputs[f"state {n}"][finite][:count][:, at] for n in model.physical_names])

    rate = partial(first_order_rates, model)
    over_time = jax.vmap(jax.jacfwd(rate), in_axes=(-1, 0, None))
    over_draws = jax.jit(jax.vmap(over_time, in_axes=(1, None, -1)))
    chosen = {k: v[..., :count] for k, v in parameters.items()}
    jacobians = np.nan_to_num(np.asarray(over_draws(jnp.asarray(states), inputs, chosen)), posinf=0, neginf=0)
    return np.asarray(np.linalg.eigvals(jacobians).astype(complex))


def prior_findings(simulation: PriorSimulation) -> list[Finding]:
    """Compare size and range of the prior simulations with the data."""
    total = simulation.failed + len(next(iter(simulation.outputs.values())))
    findings = []
    if simulation.failed:
        many = simulation.failed > MANY * total
        why = f": {simulation.failure}" if simulation.failure else ""
        text = f"{simulation.failed} of {total} simulations from the prior do not stay finite{why}"
        gap = simulation.record.duration / max(simulation.record.samples - 1, 1)
        if gap > SLOW:
            text += f"; time is in seconds, and samples are {gap:.6g} s apart: are all rates per second?"
        findings.append(Finding(text, many, blocking=many))
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


def resonance_findings(simulation: PriorSimulation) -> list[Finding]:
    """Compare the resonance of the prior's draws with that of the data, where they show one."""
    record = simulation.record
    seen = _resonance(record)
    if seen is None or not simulation.resonances.size:
        return []
    name, hertz = seen
    all_of_them = simulation.resonances
    near = np.any((all_of_them > hertz / APART) & (all_of_them < hertz * APART), axis=1)
    highest = all_of_them.max(axis=1)
    if np.mean(near) >= RARE:
        return [Finding(f"{name}: the data resonate near {hertz:.3g} Hz, which prior draws reach")]
    if np.median(highest) == 0:
        text = f"prior draws do not oscillate, the data do, near {hertz:.3g} Hz"
    else:
        low, middle, high = np.quantile(highest, [0.05, 0.5, 0.95])
        prior = f"the resonance of prior draws is at {middle:.2g} Hz ({low:.2g} to {high:.2g})"
        text = f"{prior}, of the data at {hertz:.3g} Hz"
    return [Finding(f"{name}: {text}: look at the sampling step, the units and the priors", True)]


def _resonance(record: Record) -> tuple[str, float] | None:
    """The output and the frequency in hertz at which it resonates, as far as a linear model of second order says."""
    if len(record.inputs) > 1:
        return None
    drive = next((np.asarray(u) for u in record.inputs.values() if not callable(u)), None)
    if drive is not None:
        power = np.sort(np.abs(np.fft.rfft(drive - drive.mean())) ** 2)[::-1]
        if np.sum(power[:FEW_LINES]) > 0.9 * np.sum(power):
            return None
    for name, values in record.outputs.items():
        seen = look(record.time, drive, np.asarray(values))
        if seen is not None and seen.oscillates and seen.left < 0.5:
            return name, 1 / (2 * np.pi * seen.time)
    return None


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
