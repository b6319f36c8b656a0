"""Taylor-mode initialisation: all derivatives in the filter's state from the initial positions and velocities.

The ODE determines the highest derivative of each coordinate; differentiating the ODE in time, along its own solution,
determines all further ones.  Taylor-mode automatic differentiation (`jax.experimental.jet`) does this at a cost that
grows with the square of the number of derivatives; functions that it does not support fall back to nested forward mode.
"""

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax.experimental.jet import jet

from probsysid._internal.array_types import Scalar
from probsysid.model.model import Model
from probsysid.model.sparsity import SparsityPattern, sparsity_pattern
from probsysid.odefilter.layout import Layout

VectorField = Callable[[Sequence[Scalar], Sequence[Scalar]], Sequence[Scalar]]
"""Physical components and inputs to the highest derivative of each coordinate."""


def taylor_derivatives(
    field: VectorField, layout: Layout, physical: Sequence[Scalar], inputs: Sequence[Sequence[Scalar]]
) -> list[Scalar]:
    """Every component of the state, in physical units.

    Args:
        field: the dynamics at one particle's parameters.
        layout: which derivatives to compute.
        physical: value of each physical component.
        inputs: for each input its value and time derivatives, at least as many as there are higher derivatives.
    """
    derivatives = _split(layout, physical)
    further = max(q - n for n, q in zip(layout.orders, layout.smoothness, strict=True))
    for k in range(further + 1):
        newest = _time_derivative(field, layout, derivatives, inputs, k)
        derivatives = [[*known, new] for known, new in zip(derivatives, newest, strict=True)]
    return [value for known, q in zip(derivatives, layout.smoothness, strict=True) for value in known[: q + 1]]


def completion_sparsity(model: Model, layout: Layout) -> SparsityPattern:
    """Which physical components each component of the state can depend on at a restart."""
    derivatives = max(q - n for n, q in zip(layout.orders, layout.smoothness, strict=True)) + 1
    number = jax.ShapeDtypeStruct((), float)
    inputs = [[number] * derivatives for _ in model.input_names]
    parameters = {p: jax.ShapeDtypeStruct(model.shapes.get(p, ()), float) for p in model.parameter_names}

    def complete(
        inputs: Sequence[Sequence[Scalar]], parameters: Mapping[str, Scalar], *physical: Scalar
    ) -> list[Scalar]:
        return taylor_derivatives(
            lambda x, u: model.highest_derivatives(x, u, parameters), layout, list(physical), inputs
        )

    return sparsity_pattern(complete, inputs, parameters, count=len(layout.physical))


def _split(layout: Layout, physical: Sequence[Scalar]) -> list[list[Scalar]]:
    """The physical components, grouped by coordinate."""
    values = list(physical)
    parts = []
    for order in layout.orders:
        parts.append(values[:order])
        values = values[order:]
    return parts


def _time_derivative(
    field: VectorField,
    layout: Layout,
    derivatives: list[list[Scalar]],
    inputs: Sequence[Sequence[Scalar]],
    k: int,
) -> Sequence[Scalar]:
    """The k-th time derivative of the field along the solution, from the derivatives known so far."""
    paths = [
        known[i : i + k + 1] for known, order in zip(derivatives, layout.orders, strict=True) for i in range(order)
    ]
    paths += [list(values)[: k + 1] for values in inputs]
    paths = [[jnp.asarray(value, dtype=float) for value in path] for path in paths]
    count = len(paths) - len(inputs)

    def function(*arguments: Scalar) -> Sequence[Scalar]:
        return field(arguments[:count], arguments[count:])

    if k == 0:
        return function(*(path[0] for path in paths))
    try:
        _, series = jet(function, [path[0] for path in paths], [path[1:] for path in paths])
    except (NotImplementedError, KeyError, TypeError, ValueError, AssertionError):
        return nested_derivative(function, paths, k)
    return [terms[-1] for terms in series]


def nested_derivative(function: Callable[..., Sequence[Scalar]], paths: list[list[Scalar]], k: int) -> Sequence[Scalar]:
    """The same by nested forward mode: k derivatives of the function along the Taylor polynomials of its arguments."""

    def along_solution(time: Scalar) -> Sequence[Scalar]:
        arguments = []
        for path in paths:
            value = path[-1]
            for order in range(len(path) - 2, -1, -1):
                value = path[order] + value * time / (order + 1)
            arguments.append(value)
        return function(*arguments)

    derivative: Callable[[Scalar], Sequence[Scalar]] = along_solution
    for _ in range(k):
        derivative = _differentiate(derivative)
    return derivative(jnp.zeros(()))


def _differentiate(function: Callable[[Scalar], Sequence[Scalar]]) -> Callable[[Scalar], Sequence[Scalar]]:
    return lambda time: jax.jvp(function, (time,), (jnp.ones_like(time),))[1]
