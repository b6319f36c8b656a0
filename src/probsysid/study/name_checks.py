"""Checks of every name in a study against every other: states, inputs, outputs, parameters, initial values, noise."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from probsysid._internal.errors import did_you_mean
from probsysid.model.equations import EquationError
from probsysid.model.model_equations import CyclicExpression, ModelEquations, check_acyclic
from probsysid.study.mistakes import Mistakes
from probsysid.study.records import data_key
from probsysid.study.schema import ModelSection, ParameterSection, Study

COMPONENT = "component with an initial value"


def model_key(study: Study, section: ModelSection) -> str:
    """`model`, or `model[2]` if there are several, counted from 1."""
    if len(study.model) == 1:
        return "model"
    return f"model[{next(i for i, s in enumerate(study.model) if s is section) + 1}]"


def check_coordinates(mistakes: Mistakes, key: str, section: ModelSection) -> None:
    """Every coordinate has an equation, and every equation a coordinate."""
    for name in section.equations:
        if name not in section.coordinates:
            hint = did_you_mean(name, section.coordinates)
            mistakes.add(f"{key}.equations.{name}", f"there is no coordinate {name!r}; add it to coordinates.{hint}")
    for name in section.coordinates:
        if name not in section.equations:
            hint = did_you_mean(name, section.equations)
            mistakes.add(f"{key}.coordinates.{name}", f"there is no equation for {name!r}; add it to equations.{hint}")


def check_disjoint(
    mistakes: Mistakes, key: str, formulas: ModelEquations, inputs: Iterable[str], parameters: Iterable[str]
) -> None:
    """No name is used for two of state, input, parameter and intermediate expression."""
    seen: dict[str, str] = {}
    kinds = (
        ("a state", (*formulas.physical, *formulas.highest)),
        ("an input", inputs),
        ("a parameter", parameters),
        ("an intermediate expression", formulas.let),
    )
    for kind, names in kinds:
        for name in names:
            if name in seen:
                mistakes.add(key, f"{name!r} is {seen[name]} and {kind}; rename one.")
            seen[name] = kind


def check_let(mistakes: Mistakes, key: str, formulas: ModelEquations, known: tuple[str, ...]) -> bool:
    """Intermediate expressions use known names and each other, not themselves, and are used."""
    before = len(mistakes.found)
    for name, equation in formulas.let.items():
        try:
            equation.check_names((*known, *formulas.let))
        except EquationError as error:
            mistakes.add(f"{key}.let.{name}", f"{error} If it is a constant, add it to [parameters].")
    try:
        check_acyclic(formulas.let)
    except CyclicExpression as error:
        mistakes.add(f"{key}.let.{error.name}", error)
        return False
    for name in formulas.let:
        if name not in formulas.let_used:
            mistakes.add(f"{key}.let.{name}", "no equation and no output uses it.")
    return len(mistakes.found) == before


def check_equations(
    mistakes: Mistakes,
    key: str,
    formulas: ModelEquations,
    inputs: tuple[str, ...],
    parameters: Mapping[str, ParameterSection],
) -> None:
    """Every name in the equations is known, and every output depends on the state."""
    states = (*formulas.physical, *formulas.highest)
    common = (*formulas.physical, *inputs, *parameters, *formulas.let)
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
                mistakes.add(f"{key}.{table}.{name}", f"{text} If it is a constant, add it to [parameters].")
                continue
            if table == "outputs" and not set(formulas.names_in(equation)) & set(states):
                text = f"{equation.text!r} does not depend on the state; write an expression of {', '.join(states)}."
                mistakes.add(f"{key}.{table}.{name}", text)


def check_catalogue(
    mistakes: Mistakes, section: ModelSection, inputs: tuple[str, ...], parameters: Mapping[str, ParameterSection]
) -> None:
    """The parameters and inputs that a model of the catalogue needs are there."""
    entry = section.entry
    if entry is None:
        return
    missing_inputs = [name for name in entry.inputs if name not in inputs]
    missing = [name for name in entry.parameters if name not in parameters]
    if missing or missing_inputs:  # the messages below are clearer than those of the equations
        mistakes.drop("unknown name")
    for name in missing_inputs:
        hint = did_you_mean(name, inputs)
        mistakes.add("data.inputs", f"the model {section.catalogue} has an input {name!r}, the data have none.{hint}")
    for name in missing:
        hint = did_you_mean(name, parameters)
        text = f"it is missing; the model {section.catalogue} uses it ({entry.parameters[name].description}).{hint}"
        mistakes.add(f"parameters.{name}", text)


def check_use(mistakes: Mistakes, study: Study, models: Sequence[ModelEquations]) -> None:
    """Every parameter and input is used, and every initial value, noise and variation belongs to something."""
    if len(models) != len(study.model):
        return
    _check_parameters(mistakes, study, models)
    outputs = (*dict.fromkeys(name for data in study.data for name in data.outputs), *study.measured_inputs)
    physical = tuple(dict.fromkeys(name for m in models for name in m.physical))
    coordinates = tuple(dict.fromkeys(name for m in models for name in m.coordinates))
    _check_keys(mistakes, "initial", study.initial, physical, COMPONENT)
    _check_keys(mistakes, "noise", study.noise, outputs, "output")
    _check_keys(mistakes, "process_noise", study.process_noise, coordinates, "coordinate")
    _check_keys(mistakes, "varies", study.varies, _parameters_of(study, models), "parameter")
    _check_keys(mistakes, "drifts", study.drifts, _parameters_of(study, models), "parameter")
    for section, equations in zip(study.model, models, strict=True):
        key = model_key(study, section)
        _check_keys(mistakes, f"{key}.initial", section.initial, equations.physical, COMPONENT)
        _check_keys(mistakes, f"{key}.noise", section.noise, outputs, "output")
        _check_keys(mistakes, f"{key}.process_noise", section.process_noise, tuple(equations.coordinates), "coordinate")
        own = {**study.parameters, **section.parameters}
        used = tuple(name for name in own if name in equations.used)
        _check_keys(mistakes, f"{key}.varies", section.varies, used, "parameter")
    used_inputs = tuple(dict.fromkeys(name for m in models for name in m.used if name in m.inputs))
    _check_keys(mistakes, "unknown", study.unknown, used_inputs, "input of a model")
    for index, data in enumerate(study.data):
        key = data_key(study, index)
        _check_keys(mistakes, f"{key}.initial", data.initial, physical, COMPONENT)
        for name in used_inputs:
            if name not in data.inputs and name not in study.unknown:
                hint = did_you_mean(name, data.inputs)
                mistakes.add(f"{key}.inputs", f"the input {name!r} is missing; a model uses it.{hint}")


def _parameters_of(study: Study, models: Sequence[ModelEquations]) -> tuple[str, ...]:
    """Parameters that any model uses."""
    pairs = zip(study.model, models, strict=True)
    used = [n for section, m in pairs for n in {**study.parameters, **section.parameters} if n in m.used]
    return tuple(dict.fromkeys(used))


def _check_parameters(mistakes: Mistakes, study: Study, models: Sequence[ModelEquations]) -> None:
    used = [name for equations in models for name in equations.used]
    for name in study.parameters:
        if name not in used:
            mistakes.add(f"parameters.{name}", f"no model uses it.{did_you_mean(name, used)}")
    for section, equations in zip(study.model, models, strict=True):
        for name in section.parameters:
            if name not in equations.used:
                mistakes.add(f"{model_key(study, section)}.parameters.{name}", "the model does not use it.")


def _check_keys(mistakes: Mistakes, key: str, table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in table:
        if name not in known:
            hint = did_you_mean(name, known)
            mistakes.add(f"{key}.{name}", f"there is no {what} {name!r}; there are: {', '.join(known)}.{hint}")
