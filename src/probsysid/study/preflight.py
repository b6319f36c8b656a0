"""Checks of a study before a long run: data, priors, sampling step, and the expected run time."""

import re
import time as clock
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from probsysid._internal.figure_text import literal_labels
from probsysid.data.sensor_limits import runs_at, sensor_limits
from probsysid.parallel.default import default_executor
from probsysid.study.candidates import CandidateModel
from probsysid.study.prior_simulation import (
    Finding,
    PriorSimulation,
    prior_findings,
    resonance_findings,
    simulate_prior,
    step_findings,
)
from probsysid.study.priors import Prior
from probsysid.study.records import StudyRecord
from probsysid.study.resolve import ResolvedStudy
from probsysid.study.schema import NoiseSection
from probsysid.study.stopwatch import in_seconds
from probsysid.study.toml_writer import quoted
from probsysid.study.unit_check import has_pint, unit_findings
from probsysid.targets.batch_target import BatchTarget

LOOK = 2000
"""Samples of each record over which draws from the prior are simulated."""

SWEEPS = 14.0
"""Sweeps over the data per unknown, checks, states and predictions included, at the price of one with one step."""

PROGRAMS = 4.2
"""Processor time of compiling all programs of a run, relative to that of the filter's.  Both from runs on a drug's
concentration, a lag, a spring and a motor, 15 to 2666 samples: 15.3, 13.4, 23.4 and 29.4 s of processor time where this
says 15.2, 12.7, 26.5 and 28.8."""

PICTURES = (".png", ".pdf", ".svg", ".jpg")
"""File extensions of figures."""


def preflight(
    resolved: ResolvedStudy, candidate: CandidateModel, draws: int, seed: int
) -> tuple[list[Finding], list[PriorSimulation]]:
    """All findings about one model of a study, and its prior simulations."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what is not finite is a finding, in words
        return _preflight(resolved, candidate, draws, seed)


def _preflight(
    resolved: ResolvedStudy, candidate: CandidateModel, draws: int, seed: int
) -> tuple[list[Finding], list[PriorSimulation]]:
    given = resolved.study.noise
    findings = [finding for item in resolved.measured for finding in data_findings(item, given)]
    simulations = []
    for index, item in enumerate(resolved.trained):
        assert item.train is not None
        record = item.record[item.train]
        record = record[: min(record.samples, LOOK)]
        simulations.append(simulate_prior(candidate, item.name, record, index, draws, seed))
        last = simulations[-1]
        found = [*prior_findings(last), *resonance_findings(last), *step_findings(last, candidate.solver.steps)]
        which = f"{item.name}: " if len(resolved.trained) > 1 else ""
        findings += [replace(finding, text=which + finding.text) for finding in found]
    findings += units_findings(candidate)
    findings.append(time_finding(resolved, candidate))
    return findings, simulations


# Units


def units_findings(candidate: CandidateModel) -> list[Finding]:
    """Whether the sides of every equation agree in unit, as far as units are given."""
    given = {name: unit for name, unit in candidate.model.units.items() if unit}
    if not given:
        return []
    if not has_pint():
        return [Finding("units are not compared: that needs pip install 'probsysid[units]'")]
    found = unit_findings(candidate.formulas, given)
    if not found:
        return [Finding("units: both sides of every equation agree, as far as units are given")]
    return [Finding(f"units: {sentence}", "is not known" not in sentence) for sentence in found]


# Data


def data_findings(item: StudyRecord, noise: Mapping[str, Any] | None = None) -> list[Finding]:
    """Findings about a record alone, without a model; `noise` is the study's section."""
    record, name = item.record, item.name
    sampling = "non-uniform" if record.dt is None else f"dt = {record.dt:.6g} s"
    ranges = [f"{word} {part.stop - part.start}" for word, part in (("train", item.train), ("test", item.test)) if part]
    findings = [Finding(f"{name}: {record.samples} samples, {sampling}, {record.duration:.6g} s; {', '.join(ranges)}")]
    findings += [Finding(f"{name}: {note}", warning=_is_doubtful(note)) for note in item.notes]
    for channel, values in {**record.inputs, **record.outputs}.items():
        given = (noise or {}).get(channel)
        findings += _channel_findings(name, channel, np.asarray(values), channel in record.outputs, given)
    return findings


def _is_doubtful(note: str) -> bool:
    """Whether a note on a record is a warning: times that are nearly uniform and kept, and overlapping ranges; times
    that are off by whole steps are meant to be."""
    off = re.search(r"by up to (\S+) steps", note)
    return "flatter" in note or ("kept" in note and not (off is not None and float(off[1]) >= 1))


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


# Time


def time_finding(resolved: ResolvedStudy, candidate: CandidateModel) -> Finding:
    """Estimate the run time from compiling and running one chunk of the filter, in processor time, which other programs
    on the machine do not change; what they take is added in the end."""
    particles, unknowns = resolved.sampler.particles, len(candidate.problem.space.names)
    target = BatchTarget(candidate.problem, candidate.solver, resolved.training, particles, default_executor())
    theta = np.asarray(target.sample_prior(jax.random.key(0), particles))
    began, worked = clock.perf_counter(), clock.process_time()
    state, _ = target.advance(None, theta, 0, 1)
    last = target.limit(1)
    jax.block_until_ready(target.advance(state, theta, 1, last))
    first = clock.process_time() - worked
    jax.block_until_ready(target.advance(state, theta, 1, last))
    sweep = (clock.process_time() - worked - first) / (last - 1) * target.samples
    slowed = (clock.perf_counter() - began) / max(clock.process_time() - worked, 1e-3)
    compiling, running = PROGRAMS * first * slowed, SWEEPS * unknowns * sweep * slowed
    return Finding(
        f"identifying {unknowns} unknowns from {target.samples} samples with {particles} particles will take about "
        f"{in_seconds(compiling + running)}, of which {in_seconds(compiling)} for compiling; "
        "less if this model was fitted before"
    )


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
