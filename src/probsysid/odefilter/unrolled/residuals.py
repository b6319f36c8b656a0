"""ODE residuals on rows of numbers: their variance, what data add to them, and changes that leave them as they are."""

from collections.abc import Sequence
from functools import reduce
from math import factorial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from probsysid._internal.array_types import Numbers, Scalar
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.process_noise import TERMS, kick_weights
from probsysid.odefilter.unrolled import gaussian
from probsysid.odefilter.unrolled.gaussian import Row


def change_along_ode(layout: Layout, jacobian: list[Row], scales: Numbers, physical: Row) -> Row:
    """The change of every component when the physical ones change and the solution remains one of the ODE.

    The k-th time derivative of x^(n) = f(x, ..., x^(n-1)) changes by J times the change of the k-th derivatives of the
    physical components.  The Jacobian's own rate of change is neglected: with it the ODE would have to be
    differentiated again.
    """
    count = max(q - n for n, q in zip(layout.orders, layout.smoothness, strict=True)) + 1
    start = [None if v is None else v * scales[i] for i, v in zip(layout.physical, physical, strict=True)]
    changes = derivatives_along_ode(layout, jacobian, scales, start, count)
    values = [value for known, q in zip(changes, layout.smoothness, strict=True) for value in known[: q + 1]]
    return [None if value is None else value * (1 / scales[i]) for i, value in enumerate(values)]


def derivatives_along_ode(layout: Layout, jacobian: list[Row], scales: Numbers, physical: Row, count: int) -> list[Row]:
    """Each coordinate's change and its time derivatives, `count` of them from the highest on, in physical units."""
    slopes = [
        [None if s is None else s * (scales[i] / scales[j]) for s, j in zip(row, layout.physical, strict=True)]
        for i, row in zip(layout.highest, jacobian, strict=True)
    ]
    changes: list[Row] = [[] for _ in layout.orders]
    for i, value in zip(layout.physical, physical, strict=True):
        changes[layout.coordinate[i]].append(value)
    for k in range(count):
        derivatives = [known[i + k] for known, n in zip(changes, layout.orders, strict=True) for i in range(n)]
        for known, row in zip(changes, slopes, strict=True):
            known.append(gaussian.combine_values(row, derivatives))
    return changes


def carry_along_ode(layout: Layout, jacobian: list[Row], scales: Numbers, step: Scalar, physical: Row) -> Row:
    """All components after a step of the linearised ODE, from a change of the physical ones before it; scaled."""
    start = [None if v is None else v * scales[i] for i, v in zip(layout.physical, physical, strict=True)]
    changes = derivatives_along_ode(layout, jacobian, scales, start, TERMS)
    factors = [step**k / factorial(k) for k in range(TERMS)]
    places = zip(changes, layout.offsets, layout.orders, strict=True)
    after = [
        gaussian.multiply(gaussian.dot(factors, known[i : i + TERMS]), 1 / scales[offset + i])
        for known, offset, n in places
        for i in range(n)
    ]
    return change_along_ode(layout, jacobian, scales, after)


def disturbance_rows(
    layout: Layout, jacobian: list[Row], scales: Numbers, step: Scalar, levels: Row, components: Sequence[int]
) -> list[Row]:
    """Rows of some components of the process noise's factor (`process_noise.py`), scaled.

    `levels` holds each coordinate's s, None where there is none.
    """
    kicked = _kicked(layout, jacobian, scales, step, levels)
    columns = [change_along_ode(layout, jacobian, scales, column) for column in kicked]
    return [[column[i] for column in columns] for i in components]


def _kicked(layout: Layout, jacobian: list[Row], scales: Numbers, step: Scalar, levels: Row) -> list[Row]:
    """Columns over the physical components."""
    columns = []
    for c, level in enumerate(levels):
        if level is None:
            continue
        kicked = layout.highest[c] - 1
        unit = [jnp.ones(()) if i == kicked else None for i in layout.physical]
        changes = derivatives_along_ode(layout, jacobian, scales, unit, TERMS)
        for weights in kick_weights(layout):
            factors = [level * (weight * step ** (k + 0.5)) for k, weight in enumerate(weights)]
            columns.append(
                [
                    gaussian.multiply(gaussian.dot(factors, known[i : i + TERMS]), 1 / scales[offset + i])
                    for known, offset, n in zip(changes, layout.offsets, layout.orders, strict=True)
                    for i in range(n)
                ]
            )
    return columns


def embed(layout: Layout, others: Sequence[int], values: Row) -> Row:
    """All components, of which only the `others` are not zero."""
    components: Row = [None] * layout.size
    for i, value in zip(others, values, strict=True):
        components[i] = value
    return components


def off_solutions(layout: Layout, others: Sequence[int], change: Row, jacobian: list[Row], scales: Numbers) -> Row:
    """The part of a change of the physical components and the `others` off the ODE's solutions, of the others."""
    count = len(layout.physical)
    along = change_along_ode(layout, jacobian, scales, change[:count])
    return [gaussian.subtract(value, along[i]) for i, value in zip(others, change[count:], strict=True)]


def rows_along_ode(
    layout: Layout, others: Sequence[int], state: FilterState, jacobian: list[Row], scales: Numbers, step: Scalar
) -> list[Row]:
    """Rows of all components after a step: physical ones carried by the linearised ODE, together with what it gives for
    the others; the rest of the others, the integration error, extrapolated by the prior."""
    columns = []
    for column in map(list, zip(*state.factor, strict=True)):
        off = off_solutions(layout, others, column, state.jacobian, scales)
        extrapolated = apply(layout.transition, embed(layout, others, off))
        carried = carry_along_ode(layout, jacobian, scales, step, column[: len(layout.physical)])
        columns.append([gaussian.add(a, b) for a, b in zip(extrapolated, carried, strict=True)])
    return [[column[i] for column in columns] for i in range(layout.size)]


def others_along_ode(
    layout: Layout, others: Sequence[int], jacobian: list[Row], scales: Numbers, rows: list[Row]
) -> list[Row]:
    """Rows of the others from those of the physical components, as `rows_along_ode` carries them: nothing is then off
    the solutions.  Rows with the Jacobian's rate of change would be: the next Jacobian has it, too."""
    columns = [change_along_ode(layout, jacobian, scales, list(column)) for column in zip(*rows, strict=True)]
    return [[column[i] for column in columns] for i in others]


def residuals_at(layout: Layout, mean: Row, values: Row) -> Row:
    """Of the ODE, at the linearisation whose values of the vector field at the mean these are."""
    return [mean[i] - value for i, value in zip(layout.highest, values, strict=True)]


def rate_residuals(layout: Layout, components: Row, jacobian: list[Row]) -> Row:
    """Highest derivatives minus Jacobian times physical components."""
    physical = [components[i] for i in layout.physical]
    pairs = zip(layout.highest, jacobian, strict=True)
    return [gaussian.subtract(components[i], gaussian.combine_values(row, physical)) for i, row in pairs]


def residual_rows(layout: Layout, rows: list[Row], jacobian: list[Row], noise: Numbers | None) -> list[Row]:
    """Rows of the ODE residuals: highest derivative minus Jacobian times state, and the ODE's own noise, if it has any:
    its standard deviation for every component."""
    physical = [rows[i] for i in layout.physical]
    result = []
    for c, (i, slopes) in enumerate(zip(layout.highest, jacobian, strict=True)):
        rate_row = gaussian.combine(slopes, physical)
        row = [gaussian.subtract(x, y) for x, y in zip(rows[i], rate_row, strict=True)]
        if noise is not None:
            row = [*row, *(noise[i] if k == c else None for k in range(len(jacobian)))]
        result.append(row)
    return result


def residual_energy(
    layout: Layout, rows: list[Row], mean: Row, values: Row, jacobian: list[Row], spread: list[Scalar]
) -> Scalar:
    """Minus the log density of the ODE residuals being zero up to noise of the given spread, from the rows of the
    prediction and the ODE linearised at its mean."""
    directions = residual_rows(layout, rows, jacobian, None)
    zeros = [jnp.zeros(())] * len(spread)
    return gaussian.observe(directions, residuals_at(layout, mean, values), zeros, spread, [], [])[0]


def residual_variance_ratio(layout: Layout, jacobian_row: Row, coordinate: int) -> Scalar:
    """H Q H' over the same for H = e_n: the residual's variance from the newest step's noise, first order over zeroth.

    Where the ODE is stiff, noise that moves the highest derivative also moves the vector field, and for the same
    diffusion the first-order residual x^(n) - J x is the larger of the two.
    """
    own = [k for k, i in enumerate(layout.coordinate) if i == coordinate]
    noise = sparse(layout.process_factor[:, own])
    highest = noise[layout.highest[coordinate]]
    rate = gaussian.combine(jacobian_row, [noise[i] for i in layout.physical])
    row = [gaussian.subtract(x, y) for x, y in zip(highest, rate, strict=True)]
    return gaussian.dot(row, row) / gaussian.dot(highest, highest)


def diffusion_from_others(
    layout: Layout, jacobian_row: Row, coordinate: int, variances: Sequence[Scalar]
) -> Scalar | None:
    """The squared diffusion for which the process noise of a coordinate's highest derivative has the variance that the
    process noise of the other coordinates gives to its right-hand side; None where it does not depend on them."""
    unit = (layout.process_factor**2).sum(axis=1)
    terms = [
        slope * slope * (variances[layout.coordinate[i]] * (unit[i] / unit[layout.highest[coordinate]]))
        for slope, i in zip(jacobian_row, layout.physical, strict=True)
        if slope is not None and layout.coordinate[i] != coordinate
    ]
    return reduce(gaussian.add, terms) if terms else None


def sparse(matrix: np.ndarray) -> list[Row]:
    """A constant matrix as rows with structural zeros."""
    return [[float(entry) if entry else None for entry in row] for row in matrix]


def apply(matrix: np.ndarray, values: Row) -> Row:
    """`matrix @ values`."""
    return [gaussian.combine_values(row, values) for row in sparse(matrix)]


def dense(rows: list[Row]) -> Array:
    """Rows as an array."""
    return jnp.stack([jnp.stack([jnp.zeros(()) if e is None else jnp.asarray(e) for e in row]) for row in rows])
