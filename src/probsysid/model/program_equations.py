"""The recorded operations of a model as equations to be read: `k*x + c*dx` from a Python function."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from probsysid.model.equations import Binary, Call, Minus, Node, Number, Symbol

MOST_NODES = 400
"""Longer equations are no help to a reader; an expression that is used twice counts twice."""

BINARY = {
    "add": "+",
    "add_any": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "pow": "**",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
SAME = ("convert_element_type", "copy", "copy_p", "stop_gradient", "broadcast_in_dim", "reshape", "squeeze")
"""Operations that leave a number as it is."""

NESTED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}
"""Calls of other programs, with the name of the parameter that holds them."""

NAMED = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "abs"),
    *("sign", "max", "min", "log1p", "expm1", "erf", "floor", "ceil"),
)


class UnwritableError(Exception):
    """A program that is not a formula of numbers."""


def program_equations(program: ClosedJaxpr, names: Sequence[str]) -> list[Node]:
    """The results of a program as formulas; raises `UnwritableError` for arrays, loops and very long ones."""
    nodes = [Symbol(name, 0) for name in names]
    results = _run(program, nodes)
    if sum(map(_size, results)) > MOST_NODES:
        raise UnwritableError(f"the equations have more than {MOST_NODES} parts")
    return results


def _run(program: ClosedJaxpr, given: Sequence[Node]) -> list[Node]:
    if len(given) != len(program.jaxpr.invars):
        raise UnwritableError("some arguments are arrays")
    known: dict[Any, Node] = dict(zip(program.jaxpr.invars, given, strict=True))
    for variable, value in zip(program.jaxpr.constvars, program.consts, strict=True):
        known[variable] = _number(value)

    def node(atom: Any) -> Node:
        return _number(atom.val) if isinstance(atom, Literal) else known[atom]

    for equation in program.jaxpr.eqns:
        if any(getattr(part.aval, "shape", ()) for part in (*equation.invars, *equation.outvars)):
            raise UnwritableError(f"{equation.primitive.name} works on arrays")
        arguments = [node(atom) for atom in equation.invars]
        name = equation.primitive.name
        if name in NESTED:
            inner = equation.params[NESTED[name]]
            results = _run(inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()), arguments)
        else:
            results = [_formula(name, arguments, equation.params)]
        known.update(zip(equation.outvars, results, strict=True))
        if any(_size(result, MOST_NODES) > MOST_NODES for result in results):
            raise UnwritableError(f"an equation has more than {MOST_NODES} parts")
    return [node(atom) for atom in program.jaxpr.outvars]


def _formula(name: str, arguments: list[Node], settings: dict[str, Any]) -> Node:
    if name in SAME:
        return arguments[0]
    if name in BINARY:
        return _binary(BINARY[name], *arguments)
    if name in NAMED:
        return Call(name, tuple(arguments))
    special: dict[str, Callable[[], Node]] = {
        "neg": lambda: Minus(arguments[0]),
        "integer_pow": lambda: _power(arguments[0], settings["y"]),
        "square": lambda: _power(arguments[0], 2),
        "rsqrt": lambda: Binary("/", _number(1), Call("sqrt", (arguments[0],))),
        "select_n": lambda: Call("where", (arguments[0], arguments[2], arguments[1])),
    }
    if name not in special or (name == "select_n" and len(arguments) != 3):
        raise UnwritableError(f"{name} is not a formula")
    return special[name]()


def _binary(operator: str, left: Node, right: Node) -> Node:
    """Without factors of one and terms of zero, which code leaves behind."""
    if operator == "*" and _is(left, 1):
        return right
    if (operator in ("*", "/") and _is(right, 1)) or (operator in ("+", "-") and _is(right, 0)):
        return left
    return right if operator == "+" and _is(left, 0) else Binary(operator, left, right)


def _is(node: Node, value: float) -> bool:
    return isinstance(node, Number) and node.value == value


def _power(base: Node, exponent: int) -> Node:
    return Binary("/", _number(1), _power(base, -exponent)) if exponent < 0 else Binary("**", base, _number(exponent))


def _number(value: Any) -> Node:
    if np.ndim(value) != 0:
        raise UnwritableError("a constant is an array")
    number = float(value)
    if number < 0:
        return Minus(_number(-number))
    return Number(np.pi, "pi") if number == np.pi else Number(number, f"{number:.6g}")


def _size(node: Node, most: int = 10**6) -> int:
    """Number of parts; counting ends beyond `most`."""
    waiting, count = [node], 0
    while waiting and count <= most:
        part = waiting.pop()
        count += 1
        match part:
            case Binary(left=left, right=right):
                waiting += [left, right]
            case Minus(part=inside):
                waiting.append(inside)
            case Call(arguments=arguments):
                waiting += arguments
    return count
