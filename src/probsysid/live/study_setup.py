"""A study file for a live run: its models and channels, without data.

The data section names columns, units and the sampling interval; its file need not exist.  What a batch run guesses from
the data has to be given: noise levels, and priors of process noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probsysid._internal.errors import InputError
from probsysid.data.readers import Channel
from probsysid.data.readers.read import TextOptions, read_table
from probsysid.data.readers.sample_times import SECONDS, sample_times
from probsysid.live.channels import Channels
from probsysid.model.process_noise_prior import AUTO
from probsysid.odefilter.solver import Solver
from probsysid.smc.options import Sampler
from probsysid.study.candidates import CandidateModel, make_candidate, parse_models
from probsysid.study.mistakes import Mistakes
from probsysid.study.name_checks import check_use, model_key
from probsysid.study.resolve import options_of, own_solver
from probsysid.study.schema import DataSection, NoiseSection, Study
from probsysid.study.study_file import read_toml, study_of


@dataclass(frozen=True, eq=False)
class LiveStudy:
    """What a live run takes from a study file."""

    title: str
    channels: Channels
    dt: float
    text: TextOptions
    candidates: Mapping[str, Mapping[str, Any]]
    """Arguments of `Identifier` by the name of a model."""


@dataclass(frozen=True)
class _Stream:
    """In place of a record: only its section is known."""

    section: DataSection


def live_study(
    path: Path, dt: float | None = None, particles: int | None = None, window: int | None = None
) -> LiveStudy:
    """Read and check a study file; `dt` and `particles` are in place of those in the file."""
    tables = read_toml(path)
    if particles is not None:
        tables["sampler"] = {**tables.get("sampler", {}), "particles": particles}
    study = study_of(tables, path)
    mistakes = Mistakes(path)
    solver = options_of(mistakes, "solver", study.solver, Solver)
    sampler = options_of(mistakes, "sampler", study.sampler, Sampler)
    if len(study.data) > 1:
        mistakes.add("data", "a stream is one record; leave one [data] section.")
    section = study.data[0]
    intersample = _intersample(mistakes, section)
    models = parse_models(mistakes, study)
    check_use(mistakes, study, [parsed.equations for parsed in models])
    _check_given(mistakes, study)
    mistakes.stop()
    interval = _interval(section, path, dt)
    candidates: dict[str, CandidateModel] = {}
    solvers: dict[str, Solver] = {}
    for parsed in models:
        try:
            own = own_solver(mistakes, study, parsed.section, solver)
            made = make_candidate(study, parsed, own, [_Stream(section)], [])  # type: ignore[list-item]
            candidates[made.name], solvers[made.name] = made, own
        except InputError as error:
            mistakes.add(model_key(study, parsed.section), error)
    mistakes.stop()
    shared = {"dt": interval, "intersample": intersample, "sampler": sampler, "seed": study.seed, "window": window}
    arguments = {name: {**_arguments(made), "solver": solvers[name], **shared} for name, made in candidates.items()}
    options: TextOptions = {
        "separator": section.separator,
        "decimal": section.decimal,
        "encoding": section.encoding,
        "skip": section.skip_lines,
    }
    return LiveStudy(study.title or path.stem, _channels(section, study), interval, options, arguments)


def _arguments(made: CandidateModel) -> dict[str, Any]:
    """What a model gives an `Identifier`."""
    problem = made.problem
    return {
        "model": problem.given_model,
        "priors": problem.given_priors,
        "noise": problem.noise,
        "initial": problem.initials[0],
        "process_noise": problem.process_noise or None,
        "unknown": problem.latent.unknown or None,
        "drifts": problem.latent.drifts or None,
    }


def _channels(section: DataSection, study: Study) -> Channels:
    """Unknown inputs that are measured come as outputs, the others do not come."""
    measured = {name: item for name, item in section.inputs.items() if name in study.measured_inputs}
    inputs = {name: Channel(**dict(item)) for name, item in section.inputs.items() if name not in study.unknown}
    outputs = {name: Channel(**dict(item)) for name, item in {**section.outputs, **measured}.items()}
    time = None if section.time is None else str(section.time)
    return Channels(inputs, outputs, time, SECONDS[section.time_unit])


def _interval(section: DataSection, path: Path, given: float | None) -> float:
    """The sampling interval: as given, or that of the file if there is one already."""
    if given is not None:
        if not 0 < given < float("inf"):
            raise InputError(f"--dt is {given}; it must be a positive number of seconds.")
        return given
    if section.dt is not None:
        return section.dt
    file = path.parent / section.file
    if not file.is_file():
        raise InputError("the sampling interval is not known before the data; give it with --dt SECONDS.")
    options = {"separator": section.separator, "decimal": section.decimal, "encoding": section.encoding}
    table = read_table(file, **options, skip=section.skip_lines)
    found = sample_times(table, section.time, section.time_unit, section.jitter)
    if found.dt is None or len(found.time) < 3:
        raise InputError(f"the times in {file} are not uniform; give the sampling interval with --dt SECONDS.")
    return found.dt


def _intersample(mistakes: Mistakes, section: DataSection) -> str:
    """One for all inputs: what an Identifier takes."""
    words = {item.intersample for item in section.inputs.values()} or {"linear"}
    for name, item in section.inputs.items():
        if item.intersample not in ("zoh", "linear"):
            text = f"{item.intersample!r} needs data of the future; in a stream take 'zoh' or 'linear'."
            mistakes.add(f"data.inputs.{name}.intersample", text)
    if len(words) > 1:
        mistakes.add("data.inputs", "in a stream all inputs are either 'zoh' or 'linear'.")
    return min(words)


def _check_given(mistakes: Mistakes, study: Study) -> None:
    """What cannot be guessed without data."""
    for section in study.model:
        noise = {**study.noise, **section.noise}
        for name in study.data[0].outputs:
            given = noise.get(name)
            if given is None or (isinstance(given, NoiseSection) and given.level is None):
                mistakes.add(
                    "noise", f"give the level of {name!r}, a number or a prior: a stream has no data to guess."
                )
        for name, force in {**study.process_noise, **section.process_noise}.items():
            if force == AUTO:
                mistakes.add(f"process_noise.{name}", "'auto' needs data; give a number or a prior for a stream.")
