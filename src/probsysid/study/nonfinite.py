"""Why a simulation stops being finite: the expression that does, by name, and the time."""

import warnings
from collections.abc import Iterator, Mapping

import numpy as np

from probsysid.data.record import Record
from probsysid.model.equations import Binary, Call, Equation, Minus, Node
from probsysid.model.model_equations import ModelEquations
from probsysid.study.expression_text import text_of


def first_failure(
    formulas: ModelEquations,
    record: Record,
    parameters: Mapping[str, float],
    start: Mapping[str, float],
    states: Mapping[str, np.ndarray],
) -> str:
    """A sentence on the first expression that is not finite along a simulation, without a full stop.

    Args:
        start: physical components at the first sample.
        states: the same over all samples, as simulated.
    """
    finite = np.all([np.isfinite(values) for values in states.values()], axis=0)
    last = len(finite) if finite.all() else int(np.argmin(finite))
    for k in range(max(last, 1)):
        at = {name: float(start[name] if k == 0 else states[name][k]) for name in start}
        inputs = {name: float(np.asarray(record.inputs[name])[k]) for name in formulas.inputs if name in record.inputs}
        found = _first_bad(formulas, {**parameters, **at, **inputs})
        if found:
            return f"{found} at t = {record.time[k]:.4g} s"
    if last == len(finite):
        return ""
    fastest = max(states, key=lambda name: abs(float(states[name][max(last - 1, 0)])))
    return f"{fastest} grows beyond all numbers by t = {record.time[last]:.4g} s: is the equation stable?"


def _first_bad(formulas: ModelEquations, values: dict[str, float]) -> str:
    """The innermost expression that is not finite, with the quantities in it."""
    known = dict(values)
    groups = [(name, formulas.let[name]) for name in formulas.let_used]
    groups += [(f"the equation of {name}", equation) for name, equation in formulas.equations.items()]
    groups += [(f"the output {name}", equation) for name, equation in formulas.outputs.items()]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for label, equation in groups:
            if not set(equation.names) <= set(known):  # an output that uses the highest derivative
                continue
            for node in _inside_out(equation.tree):
                value = float(Equation("", node).evaluate(known))
                if not np.isfinite(value):
                    return f"{text_of(node)} in {label} is {value:g}{_given(node, known)}"
            if label in formulas.let:
                known[label] = float(equation.evaluate(known))
    return ""


def _inside_out(node: Node) -> Iterator[Node]:
    """Every part of an expression after those inside it; of `where`, which never uses both branches, only the whole."""
    match node:
        case Binary(left=left, right=right):
            yield from _inside_out(left)
            yield from _inside_out(right)
        case Minus(part=part):
            yield from _inside_out(part)
        case Call(function=name, arguments=arguments) if name != "where":
            for argument in arguments:
                yield from _inside_out(argument)
    yield node


def _given(node: Node, values: Mapping[str, float]) -> str:
    names = Equation("", node).names
    return f" with {', '.join(f'{name} = {values[name]:.4g}' for name in names[:3])}" if names else ""
