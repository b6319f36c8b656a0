"""A study made ready to run: data read and cut, models built, every name checked against every other.

Everything that can be wrong is found here, before anything compiles and before anything is written.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.data.readers import Channel, Table, read_record, read_table
from probsysid.data.record import Record
from probsysid.inference.identify import default_noise
from probsysid.model.model import Model, derivative_name
from probsysid.model.problem import Problem
from probsysid.odefilter.solver import Solver
from probsysid.smc.options import Sampler
from probsysid.study.catalogue import look_up
from probsysid.study.equations import Equation, EquationError, parse
from probsysid.study.priors import Prior
from probsysid.study.schema import (
    DataSection,
    ModelSection,
    ParameterSection,
    RangeSection,
    SamplerSection,
    SolverSection,
    Study,
    StudyError,
)

LEAST_SAMPLES = 3

LONGEST_NAME = 100
"""Bytes of a model's name; file systems take 255, endings included."""


@dataclass(frozen=True, eq=False)
class StudyRecord:
    """A record of the study and the parts of it that are for training and for testing."""

    key: str
    """How messages call its section."""
    section: DataSection
    path: Path
    record: Record
    train: slice | None
    test: slice | None
    skip: int
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.record.name or self.path.name


@dataclass(frozen=True, eq=False)
class ModelEquations:
    """The equations of a model as they were written."""

    coordinates: Mapping[str, int]
    equations: Mapping[str, Equation]
    outputs: Mapping[str, Equation]
    inputs: tuple[str, ...] = ()

    @property
    def physical(self) -> tuple[str, ...]:
        return tuple(derivative_name(c, i) for c, order in self.coordinates.items() for i in range(order))

    @property
    def highest(self) -> tuple[str, ...]:
        return tuple(derivative_name(c, order) for c, order in self.coordinates.items())

    def dynamics(self, s: Any, u: Any, p: Any) -> dict[str, Any]:
        """What `Model` calls: the highest derivative of each coordinate."""
        return self._values(self.equations, s, u, p)

    def measured(self, s: Any, u: Any, p: Any) -> dict[str, Any]:
        """What `Model` calls: the outputs."""
        return self._values(self.outputs, s, u, p)

    def _values(self, equations: Mapping[str, Equation], s: Any, u: Any, p: Any) -> dict[str, Any]:
        states = {*self.physical, *self.highest}
        result = {}
        for key, equation in equations.items():
            values = {n: s[n] if n in states else u[n] if n in self.inputs else p[n] for n in equation.names}
            result[key] = equation.evaluate(values)
        return result


@dataclass(frozen=True, eq=False)
class CandidateModel:
    """One model of the study with its priors."""

    name: str
    formulas: ModelEquations
    model: Model
    parameters: Mapping[str, ParameterSection]
    problem: Problem

    @property
    def descriptions(self) -> dict[str, str]:
        return {name: section.description for name, section in self.parameters.items() if section.description}


@dataclass(frozen=True, eq=False)
class ResolvedStudy:
    """Everything that a run needs."""

    path: Path
    study: Study
    measured: tuple[StudyRecord, ...]
    candidates: tuple[CandidateModel, ...]
    solver: Solver
    sampler: Sampler

    @property
    def training(self) -> tuple[Record, ...]:
        """The records to learn from."""
        return tuple(m.record[m.train] for m in self.measured if m.train is not None)

    @property
    def trained(self) -> tuple[StudyRecord, ...]:
        """Where they come from."""
        return tuple(m for m in self.measured if m.train is not None)

    @property
    def title(self) -> str:
        return self.study.title or self.path.stem


class Problems:
    """A list that gathers mistakes, so that all are told at once."""

    def __init__(self, path: Path):
        self.path = path
        self.found: list[str] = []

    def add(self, key: str, error: Any) -> None:
        text = str(error)
        self.found.append(f"`{key}`: {text}" if key else text)

    def stop(self) -> None:
        """Raise if there are any."""
        if self.found:
            raise StudyError(self.path, list(dict.fromkeys(self.found)))


def resolve_study(study: Study, path: Path) -> ResolvedStudy:
    """Read the data, build the models; raise with every mistake that was found."""
    problems = Problems(path)
    solver = _options(problems, "solver", study.solver, Solver)
    sampler = _options(problems, "sampler", study.sampler, Sampler)
    measured = _measured(problems, study, path.parent)
    built = _models(problems, study)
    _check_use(problems, study, [formulas for _, formulas, _ in built])
    problems.stop()
    training = [m for m in measured if m.train is not None]
    records = [m.record[m.train] for m in training if m.train is not None]
    candidates = []
    for section, formulas, parameters in built:
        key = _model_key(study, section)
        try:
            candidates.append(_candidate(study, section, formulas, parameters, solver, training, records))
        except InputError as error:
            problems.add(key, error)
    problems.stop()
    return ResolvedStudy(path, study, tuple(measured), tuple(candidates), solver, sampler)


# Settings


def _options(problems: Problems, key: str, section: SolverSection | SamplerSection, kind: Any) -> Any:
    """The settings object of a section; its own checks speak of its own fields."""
    given = {name: value for name, value in section if name not in ("preset", "refine") and value is not None}
    try:
        return kind.paper(**given) if section.preset == "paper" else kind(**given)
    except InputError as error:
        problems.add(key, str(error).removeprefix(f"{key}: "))
        return kind()


# Data


def _measured(problems: Problems, study: Study, folder: Path) -> list[StudyRecord]:
    tables: dict[Any, Table] = {}
    measured = []
    for index, section in enumerate(study.data):
        key = "data" if len(study.data) == 1 else f"data[{index + 1}]"
        try:
            measured.append(_one_record(key, section, folder, tables))
        except InputError as error:
            problems.add(key, error)
    if len(measured) == len(study.data) and not any(m.train is not None for m in measured):
        problems.add("data.train", "no record is for training; add train = 'all' or a range.")
    names = [m.name for m in measured]
    for name in names:
        if names.count(name) > 1:
            problems.add("data.name", f"two records are called {name!r}; give each a name of its own.")
    return measured


def _one_record(key: str, section: DataSection, folder: Path, tables: dict[Any, Table]) -> StudyRecord:
    path = Path(section.file) if Path(section.file).is_absolute() else folder / section.file
    options = (section.separator, section.decimal, section.encoding, section.skip_lines)
    if (path, options) not in tables:
        separator, decimal, encoding, skip = options
        tables[path, options] = read_table(path, separator=separator, decimal=decimal, encoding=encoding, skip=skip)
    record, notes = read_record(
        tables[path, options],
        inputs={name: Channel(**dict(channel)) for name, channel in section.inputs.items()},
        outputs={name: Channel(**dict(channel)) for name, channel in section.outputs.items()},
        time=section.time,
        dt=section.dt,
        time_unit=section.time_unit,
        jitter=section.jitter,
        name=section.name,
    )
    whole = slice(0, record.samples) if section.test is None else None
    train = _cut("train", section.train, record) or whole
    test = _cut("test", section.test, record)
    if train is not None and train.stop - train.start < LEAST_SAMPLES:
        raise InputError(f"train has {train.stop - train.start} samples; it needs {LEAST_SAMPLES} or more.")
    for name in record.outputs if train is not None else ():
        if not np.any(np.isfinite(record.outputs[name][train])):
            raise InputError(f"output {name!r} has no value in the training range.")
    if train is not None and test is not None:
        notes = (*notes, *_in_both(train, test))
    skip = 0 if section.test is None else section.test.skip
    if test is not None and skip >= test.stop - test.start:
        raise InputError(f"test.skip is {skip}; the test range has only {test.stop - test.start} samples.")
    return StudyRecord(key, section, path, record, train, test, skip, notes)


def _cut(word: str, part: RangeSection | None, record: Record) -> slice | None:
    """A range as samples of the record."""
    if part is None:
        return None
    first, last = part.samples if part.samples is not None else part.seconds  # type: ignore[misc]
    if part.samples is not None:
        stop = record.samples if last == "end" else last
        if first >= record.samples or stop > record.samples:
            raise InputError(f"{word}.samples is {[first, last]}; the record has {record.samples} samples.")
        return slice(first, stop)
    begin, end = float(record.time[0]), float(record.time[-1])
    tolerance = 1e-6 * (end - begin) / max(record.samples - 1, 1)
    start = int(np.searchsorted(record.time, first - tolerance))
    stop = record.samples if last == "end" else int(np.searchsorted(record.time, last - tolerance))
    if start >= stop or first > end or (last != "end" and last < begin):
        raise InputError(f"{word}.seconds is {[first, last]}; the record goes from {begin:g} to {end:g} s.")
    return slice(start, stop)


def _in_both(train: slice, test: slice) -> list[str]:
    """A score on samples that were learnt from tests little: allowed, and said."""
    first, stop = max(train.start, test.start), min(train.stop, test.stop)
    return [f"samples {first} to {stop} are in train and in test: scores there flatter"] if first < stop else []


# Models

Built = tuple[ModelSection, ModelEquations, dict[str, ParameterSection]]


def _models(problems: Problems, study: Study) -> list[Built]:
    names = [section.name or section.catalogue for section in study.model]
    for section in study.model:
        name = section.name or section.catalogue
        if len(study.model) > 1 and name is None:
            problems.add(_model_key(study, section), "give each of several models a name.")
        elif names.count(name) > 1:
            problems.add("model.name", f"two models are called {name!r}; give each a name of its own.")
        if name is not None and not _is_folder_name(name):
            problems.add(f"{_model_key(study, section)}.name", f"{name!r} cannot be the name of a folder.")
    return [built for section in study.model if (built := _formulas(problems, study, section)) is not None]


def _is_folder_name(name: str) -> bool:
    """Whether results can be kept under this name on any system."""
    allowed = not any(c in name for c in '/\\:*?"<>|\x00') and not name.startswith(".")
    return allowed and bool(name.strip()) and len(name.encode()) <= LONGEST_NAME


def _model_key(study: Study, section: ModelSection) -> str:
    if len(study.model) == 1:
        return "model"
    return f"model[{next(i for i, s in enumerate(study.model) if s is section) + 1}]"


def _formulas(problems: Problems, study: Study, section: ModelSection) -> Built | None:
    """The equations of a section with every name in them looked up."""
    key, before = _model_key(study, section), len(problems.found)
    inputs = tuple(dict.fromkeys(name for data in study.data for name in data.inputs))
    measured = tuple(dict.fromkeys(name for data in study.data for name in data.outputs))
    parameters = {**study.parameters, **section.parameters}
    quantities: Mapping[str, str] = {}
    if section.catalogue is not None:
        entry = look_up(section.catalogue, section.masses)
        coordinates, quantities = entry.coordinates, entry.quantities
        equations = {name: parse(text) for name, text in entry.equations.items()}
    else:
        coordinates, equations = section.coordinates, section.equations
        _check_coordinates(problems, key, section)
    bare = ModelEquations(coordinates, equations, {}, inputs)
    formulas = replace(bare, outputs=_outputs(problems, key, section, bare, quantities, measured))
    _check_disjoint(problems, key, bare, inputs, parameters)
    _check_equations(problems, key, formulas, inputs, parameters)
    _check_missing(problems, section, inputs, parameters)
    return (section, formulas, parameters) if len(problems.found) == before else None


def _outputs(
    problems: Problems,
    key: str,
    section: ModelSection,
    bare: ModelEquations,
    quantities: Mapping[str, str],
    measured: tuple[str, ...],
) -> dict[str, Equation]:
    """What each measured channel is: as the section says, or by its name if the section says nothing."""
    components = (*bare.physical, *bare.highest)
    outputs = dict(section.outputs)
    for name in outputs:
        if name not in measured:
            text = f"the data have no output {name!r}; they have: {', '.join(measured)}.{did_you_mean(name, measured)}"
            problems.add(f"{key}.outputs.{name}", text)
    for name in measured:
        if section.outputs and name not in outputs:
            problems.add(f"{key}.outputs", f"what {name!r} measures is not said; add it, or take it out of the data.")
        elif not section.outputs and (name in quantities or name in components):
            outputs[name] = parse(quantities.get(name, name))
        elif not section.outputs:
            hint = did_you_mean(name, (*quantities, *components))
            text = f"add {name} = '...', an expression of {', '.join(components)}"
            problems.add(f"{key}.outputs", f"what {name!r} measures is not said; {text}.{hint}")
    return outputs


def _check_coordinates(problems: Problems, key: str, section: ModelSection) -> None:
    for name in section.equations:
        if name not in section.coordinates:
            hint = did_you_mean(name, section.coordinates)
            problems.add(f"{key}.equations.{name}", f"there is no coordinate {name!r}; add it to coordinates.{hint}")
    for name in section.coordinates:
        if name not in section.equations:
            hint = did_you_mean(name, section.equations)
            problems.add(f"{key}.coordinates.{name}", f"there is no equation for {name!r}; add it to equations.{hint}")


def _check_disjoint(
    problems: Problems, key: str, formulas: ModelEquations, inputs: Iterable[str], parameters: Iterable[str]
) -> None:
    """A name means one thing."""
    seen: dict[str, str] = {}
    kinds = (("state", (*formulas.physical, *formulas.highest)), ("input", inputs), ("parameter", parameters))
    for kind, names in kinds:
        for name in names:
            if name in seen:
                problems.add(key, f"{name!r} is a {seen[name]} and a {kind}; rename one.")
            seen[name] = kind


def _check_equations(
    problems: Problems, key: str, formulas: ModelEquations, inputs: tuple[str, ...], parameters: Mapping[str, Any]
) -> None:
    """Parameters that are not declared are told apart, all together; what is measured depends on the state."""
    states = (*formulas.physical, *formulas.highest)
    common = (*formulas.physical, *inputs, *parameters)
    groups = (
        ("equations", formulas.equations, common),
        ("outputs", formulas.outputs, (*common, *formulas.highest)),
    )
    for table, equations, known in groups:
        for name, equation in equations.items():
            try:
                equation.check_names(known)
            except EquationError as error:
                text = str(error)
                problems.add(f"{key}.{table}.{name}", f"{text} If it is a constant, add it to [parameters].")
                continue
            if table == "outputs" and not set(equation.names) & set(states):
                text = f"{equation.text!r} does not depend on the state; write an expression of {', '.join(states)}."
                problems.add(f"{key}.{table}.{name}", text)


def _check_missing(
    problems: Problems, section: ModelSection, inputs: tuple[str, ...], parameters: Mapping[str, Any]
) -> None:
    """A model of the catalogue says which parameters and inputs it needs."""
    if section.catalogue is None:
        return
    entry = look_up(section.catalogue, section.masses)
    missing_inputs = [name for name in entry.inputs if name not in inputs]
    missing = [name for name in entry.parameters if name not in parameters]
    # the equations' own complaints say the same less well
    if missing or missing_inputs:
        problems.found[:] = [text for text in problems.found if "unknown name" not in text]
    for name in missing_inputs:
        hint = did_you_mean(name, inputs)
        problems.add("data.inputs", f"the model {section.catalogue} has an input {name!r}, the data have none.{hint}")
    for name in missing:
        hint = did_you_mean(name, parameters)
        text = f"it is missing; the model {section.catalogue} uses it ({entry.parameters[name].description}).{hint}"
        problems.add(f"parameters.{name}", text)


def _check_use(problems: Problems, study: Study, built: list[ModelEquations]) -> None:
    """Parameters and inputs that nothing uses, and initial values or noise levels of nothing."""
    if len(built) != len(study.model):
        return
    used = [name for formulas in built for name in _used(formulas)]
    for name in study.parameters:
        if name not in used:
            problems.add(f"parameters.{name}", f"no model uses it.{did_you_mean(name, used)}")
    for section, formulas in zip(study.model, built, strict=True):
        for name in section.parameters:
            if name not in _used(formulas):
                problems.add(f"{_model_key(study, section)}.parameters.{name}", "the model does not use it.")
    physical = tuple(dict.fromkeys(name for f in built for name in f.physical))
    outputs = tuple(dict.fromkeys(name for data in study.data for name in data.outputs))
    coordinates = tuple(dict.fromkeys(name for f in built for name in f.coordinates))
    _check_keys(problems, "initial", study.initial, physical, "component with an initial value")
    _check_keys(problems, "noise", study.noise, outputs, "output")
    _check_keys(problems, "model_error", study.model_error, coordinates, "coordinate")
    for section, formulas in zip(study.model, built, strict=True):
        key = _model_key(study, section)
        _check_keys(problems, f"{key}.initial", section.initial, formulas.physical, "component with an initial value")
        _check_keys(problems, f"{key}.noise", section.noise, outputs, "output")
        _check_keys(problems, f"{key}.model_error", section.model_error, tuple(formulas.coordinates), "coordinate")
    for i, data in enumerate(study.data):
        key = "data.initial" if len(study.data) == 1 else f"data[{i + 1}].initial"
        _check_keys(problems, key, data.initial, physical, "component with an initial value")
        for name in dict.fromkeys(n for f in built for n in _used(f) if n in f.inputs):
            if name not in data.inputs:
                where = "data.inputs" if len(study.data) == 1 else f"data[{i + 1}].inputs"
                problems.add(where, f"the input {name!r} is missing; a model uses it.{did_you_mean(name, data.inputs)}")


def _used(formulas: ModelEquations) -> list[str]:
    equations = (*formulas.equations.values(), *formulas.outputs.values())
    return list(dict.fromkeys(name for equation in equations for name in equation.names))


def _check_keys(problems: Problems, key: str, table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in table:
        if name not in known:
            hint = did_you_mean(name, known)
            problems.add(f"{key}.{name}", f"there is no {what} {name!r}; there are: {', '.join(known)}.{hint}")


def _candidate(
    study: Study,
    section: ModelSection,
    formulas: ModelEquations,
    parameters: Mapping[str, ParameterSection],
    solver: Solver,
    training: list[StudyRecord],
    records: list[Record],
) -> CandidateModel:
    name = section.name or section.catalogue or "model"
    own = {key: value for key, value in parameters.items() if key in _used(formulas)}
    units = {key: value.unit for key, value in own.items() if value.unit}
    for data in study.data:
        units |= {key: c.unit for key, c in {**data.inputs, **data.outputs}.items() if c.unit}
    for key, equation in formulas.outputs.items():  # a coordinate that is measured as it is has the unit of its channel
        if equation.text.strip() in formulas.coordinates and key in units:
            units.setdefault(equation.text.strip(), units[key])
    model = Model(
        formulas.coordinates,
        formulas.dynamics,
        formulas.measured,
        units=units,
        name=name if section.name or section.catalogue is None else look_up(section.catalogue, section.masses).title,
    )
    noise = {key: default_noise(key, records) for key in model.output_names}
    noise |= _values({**study.noise, **section.noise})
    initials = [_initial(study, section, m, model) for m in training]
    errors = {k: v for k, v in {**study.model_error, **section.model_error}.items() if k in formulas.coordinates}
    priors = {
        key: value.fixed if value.prior is None else _value(value.prior)
        for key, value in own.items()
        if key in model.parameter_names
    }
    problem = Problem.make(model, solver, priors, noise, initials, _values(errors))
    assert problem.space is not None
    solver.ode_filter(model, None)
    return CandidateModel(name, formulas, model, own, problem)


def _initial(study: Study, section: ModelSection, measured: StudyRecord, model: Model) -> dict[str, Any]:
    given = {**study.initial, **section.initial, **measured.section.initial}
    missing = [name for name in model.physical_names if name not in given]
    if missing:
        raise InputError(
            f"`initial.{missing[0]}` is missing: the value of {missing[0]!r} at the first training sample; "
            "give a number if it is known, or a prior such as 'Normal(0, 1)'."
        )
    return {name: _value(given[name]) for name in model.physical_names}


def _value(quantity: float | Prior) -> Any:
    return quantity.distribution if isinstance(quantity, Prior) else quantity


def _values(table: Mapping[str, float | Prior]) -> dict[str, Any]:
    return {name: _value(quantity) for name, quantity in table.items()}
