"""The sparsity pattern of a Jacobian, derived from the function's program rather than from its values.

Jacobians of mechanical systems are mostly zero.  With the pattern known before compilation, the filter omits the zeros.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var

SparsityPattern = tuple[tuple[bool, ...], ...]
"""One row per output, one column per scalar argument: whether the output can depend on the argument."""

_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
"""Primitives that only call another program, and the name of the parameter that holds it."""


def sparsity_pattern(function: Callable[..., Sequence[Any]], *fixed: Any, count: int) -> SparsityPattern:
    """Whether each output of a function can depend on each of its last `count` scalar arguments.

    `function(*fixed, x_1, ..., x_count)` returns a list of numbers; `fixed` holds the abstract values of the arguments
    that do not count.
    """
    numbers = [jax.ShapeDtypeStruct((), float)] * count
    program = jax.make_jaxpr(function)(*fixed, *numbers).jaxpr
    leading = len(program.invars) - count
    sources: list[frozenset[int]] = [frozenset()] * leading + [frozenset([i]) for i in range(count)]
    return tuple(tuple(i in used for i in range(count)) for used in _propagate(program, sources))


def _propagate(program: Jaxpr, sources: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """The arguments that each result of a program can depend on, given those that its inputs depend on.

    The programs of control flow are not entered: every result of a loop or a branch depends on all its arguments.
    """
    known: dict[Var, frozenset[int]] = dict(zip(program.invars, sources, strict=True))

    def of(variable: Var | Literal) -> frozenset[int]:
        return frozenset() if isinstance(variable, Literal) else known.get(variable, frozenset())

    for equation in program.eqns:
        incoming = [of(variable) for variable in equation.invars]
        inner = equation.params.get(_CALLS.get(equation.primitive.name, ""))
        inner = inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner
        if isinstance(inner, Jaxpr) and len(inner.invars) == len(incoming):
            outgoing = _propagate(inner, incoming)
        else:
            outgoing = [frozenset().union(*incoming)] * len(equation.outvars)
        known.update(zip(equation.outvars, outgoing, strict=True))
    return [of(variable) for variable in program.outvars]
