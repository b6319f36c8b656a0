"""Which arguments a function can depend on, found from its program and not from its values.

Jacobians of mechanical systems are mostly zero.  Knowing where, before anything compiles, lets the filter skip the
zeros altogether.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

SparsityPattern = tuple[tuple[bool, ...], ...]
"""One row an output, one entry a scalar argument."""

_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
"""Primitives that only call another program, and the name under which they carry it."""


def sparsity_pattern(function: Callable[..., Sequence[Any]], *fixed: Any, count: int) -> SparsityPattern:
    """Row by output, column by each of the last `count` scalar arguments: can one depend on the other?

    `function(*fixed, x_1, ..., x_count)` returns a list of numbers; `fixed` are shapes of further arguments.
    """
    numbers = [jax.ShapeDtypeStruct((), float)] * count
    program = jax.make_jaxpr(function)(*fixed, *numbers).jaxpr
    leading = len(program.invars) - count
    sources: list[frozenset[int]] = [frozenset()] * leading + [frozenset([i]) for i in range(count)]
    return tuple(tuple(i in used for i in range(count)) for used in _propagate(program, sources))


def _propagate(program: Jaxpr, sources: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    known: dict[Any, frozenset[int]] = dict(zip(program.invars, sources, strict=True))

    def of(variable: Any) -> frozenset[int]:
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
