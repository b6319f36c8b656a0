"""The candidate models of a study: equations from text or the catalogue, with priors, noise and initial states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpyro.distributions as dist

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.data.record import Record
from probsysid.inference.problem_arguments import LatentArguments
from probsysid.model.equations import Equation, parse
from probsysid.model.latent_processes import LatentProcesses
from probsysid.model.model import Model
from probsysid.model.model_equations import ModelEquations
from probsysid.model.noise import Noise, check_records, with_levels
from probsysid.model.priors import Priors
from probsysid.model.problem import Problem
from probsysid.model.process_noise_prior import with_default_priors
from probsysid.odefilter.solver import Solver
from probsysid.selection.menu import Menu
from probsysid.study.mistakes import Mistakes
from probsysid.study.name_checks import (
    check_catalogue,
    check_coordinates,
    check_disjoint,
    check_equations,
    check_let,
    model_key,
)
from probsysid.study.priors import Prior
from probsysid.study.records import StudyRecord
from probsysid.study.schema import ModelSection, NoiseSection, ParameterSection, Study

LONGEST_NAME = 100
"""Bytes of a model's name; file systems allow 255, extensions included."""


@dataclass(frozen=True, eq=False)
class CandidateModel:
    """One model of the study with its priors."""

    name: str
    formulas: ModelEquations
    model: Model
    parameters: Mapping[str, ParameterSection]
    problem: Problem
    solver: Solver
    menu: Menu | None = None
    """The model with its optional terms, where it has any."""

    @property
    def descriptions(self) -> dict[str, str]:
        return {name: section.description for name, section in self.parameters.items() if section.description}


@dataclass(frozen=True, eq=False)
class ParsedModel:
    """A model section whose names have all been resolved, before priors are attached."""

    section: ModelSection
    equations: ModelEquations
    parameters: Mapping[str, ParameterSection]


def parse_models(mistakes: Mistakes, study: Study) -> list[ParsedModel]:
    """The models of the study without mistakes."""
    _check_model_names(mistakes, study)
    return [parsed for section in study.model if (parsed := _parse(mistakes, study, section)) is not None]


def _check_model_names(mistakes: Mistakes, study: Study) -> None:
    names = [section.name or section.catalogue for section in study.model]
    for section, name in zip(study.model, names, strict=True):
        if len(study.model) > 1 and name is None:
            mistakes.add(model_key(study, section), "give each of several models a name.")
        elif names.count(name) > 1:
            mistakes.add("model.name", f"two models are called {name!r}; give each a name of its own.")
        if name is not None and not _is_folder_name(name):
            mistakes.add(f"{model_key(study, section)}.name", f"{name!r} cannot be the name of a folder.")


def _is_folder_name(name: str) -> bool:
    """Whether a folder of results can have this name on any operating system."""
    allowed = not any(c in name for c in '/\\:*?"<>|\x00') and not name.startswith(".")
    return allowed and bool(name.strip()) and len(name.encode()) <= LONGEST_NAME


def _parse(mistakes: Mistakes, study: Study, section: ModelSection) -> ParsedModel | None:
    """The equations of a section with every name in them checked; None if there are mistakes."""
    key, before = model_key(study, section), len(mistakes.found)
    inputs = tuple(dict.fromkeys((*(name for data in study.data for name in data.inputs), *study.unknown)))
    channels = tuple(dict.fromkeys(name for data in study.data for name in data.outputs))
    parameters = {**study.parameters, **section.parameters}
    quantities: Mapping[str, str] = {}
    entry = section.entry
    if entry is not None:
        coordinates, quantities = entry.coordinates, entry.quantities
        equations = {name: parse(text) for name, text in entry.equations.items()}
    else:
        coordinates, equations = section.coordinates, section.equations
        check_coordinates(mistakes, key, section)
    bare = ModelEquations(coordinates, equations, {}, inputs, section.let)
    complete = replace(bare, outputs=_outputs(mistakes, key, section, bare, quantities, channels))
    check_disjoint(mistakes, key, bare, inputs, parameters)
    if not check_let(mistakes, key, complete, (*bare.physical, *inputs, *parameters)):
        return None
    check_equations(mistakes, key, complete, inputs, parameters)
    check_catalogue(mistakes, section, inputs, parameters)
    return ParsedModel(section, complete, parameters) if len(mistakes.found) == before else None


def _outputs(
    mistakes: Mistakes,
    key: str,
    section: ModelSection,
    bare: ModelEquations,
    quantities: Mapping[str, str],
    channels: tuple[str, ...],
) -> dict[str, Equation]:
    """The expression of each measured channel: as given by the section, or by the channel's name if none is given."""
    components = (*bare.physical, *bare.highest)
    outputs = dict(section.outputs)
    for name in outputs:
        if name not in channels:
            text = f"the data have no output {name!r}; they have: {', '.join(channels)}.{did_you_mean(name, channels)}"
            mistakes.add(f"{key}.outputs.{name}", text)
    for name in channels:
        if section.outputs and name not in outputs:
            mistakes.add(f"{key}.outputs", f"what {name!r} measures is not said; add it, or take it out of the data.")
        elif not section.outputs and (name in quantities or name in components):
            outputs[name] = parse(quantities.get(name, name))
        elif not section.outputs:
            hint = did_you_mean(name, (*quantities, *components))
            text = f"add {name} = '...', an expression of {', '.join(components)}"
            mistakes.add(f"{key}.outputs", f"what {name!r} measures is not said; {text}.{hint}")
    return outputs


def make_candidate(
    study: Study, parsed: ParsedModel, solver: Solver, training: Sequence[StudyRecord], records: Sequence[Record]
) -> CandidateModel:
    """The model with its priors; raises `InputError` if they do not fit together.

    Args:
        training: the study's records with a training range.
        records: those ranges.
    """
    section, equations = parsed.section, parsed.equations
    own = {key: value for key, value in parsed.parameters.items() if key in equations.used}
    title = None if section.entry is None else section.entry.title
    model = Model(
        equations.coordinates,
        equations.dynamics,
        equations.measured,
        units=_units(study, equations, own),
        name=section.name or title or "model",
    )
    initials = [_initial(study, section, item, model) for item in training]
    forces = {k: v for k, v in {**study.process_noise, **section.process_noise}.items() if k in equations.coordinates}
    priors = {
        key: value.fixed if value.prior is None else _value(value.prior)
        for key, value in own.items()
        if key in model.parameter_names
    }
    forces = with_default_priors(model, priors, records, _values(forces))
    varies = {key: value for key, value in {**study.varies, **section.varies}.items() if key in equations.used}
    latent = _latent(study, section, model, priors, solver)
    outputs = latent.joined(model).output_names
    given = {key: _noise(value) for key, value in {**study.noise, **section.noise}.items()}
    elsewhere = {key for key in study.unknown if key not in outputs}
    noise = with_levels({k: v for k, v in given.items() if k not in elsewhere}, outputs, records)
    check_records(noise, records)
    problem = Problem.make(model, priors, noise, initials, forces, _values(varies), latent)
    assert problem.space is not None  # built on first use: its errors belong here
    solver.ode_filter(problem.model, None)
    return CandidateModel(section.name or section.catalogue or "model", equations, problem.model, own, problem, solver)


def _latent(study: Study, section: ModelSection, model: Model, priors: Priors, solver: Solver) -> LatentProcesses:
    """The unknown inputs and drifts of the study that the model has."""
    unknown = {name: kernel for name, kernel in study.unknown.items() if name in model.input_names}
    drifts = {name: kernel for name, kernel in study.drifts.items() if name in model.parameter_names}
    noisy = {**study.noise, **section.noise}
    measured = [name for name in study.measured_inputs if name in noisy]
    return LatentArguments(unknown, drifts).processes(model, priors, measured, solver)


def _units(study: Study, equations: ModelEquations, parameters: Mapping[str, ParameterSection]) -> dict[str, str]:
    """Units of parameters, channels, and coordinates that a channel measures directly."""
    units = {key: value.unit for key, value in parameters.items() if value.unit}
    for data in study.data:
        units |= {key: c.unit for key, c in {**data.inputs, **data.outputs}.items() if c.unit}
    for key, equation in equations.outputs.items():
        if equation.text.strip() in equations.coordinates and key in units:
            units.setdefault(equation.text.strip(), units[key])
    return units


def _initial(
    study: Study, section: ModelSection, item: StudyRecord, model: Model
) -> dict[str, float | dist.Distribution]:
    given = {**study.initial, **section.initial, **item.section.initial}
    missing = [name for name in model.physical_names if name not in given]
    if missing:
        raise InputError(
            f"`initial.{missing[0]}` is missing: the value of {missing[0]!r} at the first training sample; "
            "give a number if it is known, or a prior such as 'Normal(0, 1)'."
        )
    return {name: _value(given[name]) for name in model.physical_names}


def _value(quantity: float | str | Prior) -> float | str | dist.Distribution:
    return quantity.distribution if isinstance(quantity, Prior) else quantity


def _noise(given: float | Prior | NoiseSection) -> Any:
    if not isinstance(given, NoiseSection):
        return _value(given)
    return Noise(**_values({name: getattr(given, name) for name in NoiseSection.model_fields}))


def _values(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(quantity) for name, quantity in table.items()}
