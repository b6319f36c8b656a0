"""ODE residuals on arrays: `unrolled/residuals.py` for states of many components."""

from collections.abc import Sequence
from functools import partial
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probsysid._internal.array_types import Numbers, Scalar
from probsysid.odefilter.arrays.sqrt_algebra import SparseRows, SquareRootAlgebra
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.process_noise import TERMS, kick_weights


def change_along_ode(
    layout: Layout,
    jacobian: Float[Numbers, "coordinate physical"],
    scales: Float[Numbers, "D"],
    change: Float[Numbers, "physical"],
    algebra: SquareRootAlgebra,
) -> Float[Array, "D"]:
    """`unrolled.residuals.change_along_ode`."""
    count = max(q - n for n, q in zip(layout.orders, layout.smoothness, strict=True)) + 1
    start = change * scales[np.array(layout.physical)]
    known = derivatives_along_ode(layout, jacobian, scales, start, count, algebra)
    return known[derivative_rows(layout, 0, np.arange(layout.size))] / scales


def derivatives_along_ode(
    layout: Layout,
    jacobian: Float[Numbers, "coordinate physical"],
    scales: Float[Numbers, "D"],
    physical: Float[Numbers, "physical"],
    count: int,
    algebra: SquareRootAlgebra,
) -> Float[Array, "known"]:
    """`unrolled.residuals.derivatives_along_ode`: the physical components, then the coordinates' derivatives from the
    highest on, one block of coordinates after the other."""
    places = np.array(layout.physical)
    slopes = jacobian * scales[np.array(layout.highest)][:, None] / scales[places]
    known = jnp.asarray(physical)
    for k in range(count):
        known = jnp.concatenate([known, algebra.product(slopes, known[derivative_rows(layout, k, places)])])
    return known


def derivative_rows(layout: Layout, k: int, components: np.ndarray) -> np.ndarray:
    """Where the k-th derivatives of components are found in `derivatives_along_ode`."""
    coordinate, physical = np.array(layout.coordinate), np.array(layout.physical)
    derivative = components - np.array(layout.offsets)[coordinate[components]]
    above = derivative + k - np.array(layout.orders)[coordinate[components]]
    below = np.minimum(np.searchsorted(physical, components + k), len(physical) - 1)
    return np.where(above < 0, below, len(physical) + len(layout.orders) * above + coordinate[components])


def carry_along_ode(
    layout: Layout,
    jacobian: Float[Numbers, "coordinate physical"],
    scales: Float[Numbers, "D"],
    step: Scalar,
    change: Float[Numbers, "physical"],
    algebra: SquareRootAlgebra,
) -> Float[Array, "D"]:
    """`unrolled.residuals.carry_along_ode`."""
    physical = np.array(layout.physical)
    known = derivatives_along_ode(layout, jacobian, scales, change * scales[physical], TERMS, algebra)
    factors = step ** np.arange(TERMS) / np.array([factorial(k) for k in range(TERMS)])
    rows = np.stack([derivative_rows(layout, k, physical) for k in range(TERMS)])
    after = jnp.sum(factors[:, None] * known[rows], axis=0) / scales[physical]
    return change_along_ode(layout, jacobian, scales, after, algebra)


def disturbance_rows(
    layout: Layout,
    jacobian: Float[Numbers, "coordinate physical"],
    scales: Float[Numbers, "D"],
    step: Scalar,
    levels: Sequence[Scalar | None],
    algebra: SquareRootAlgebra,
) -> Float[Array, "D column"]:
    """`unrolled.residuals.disturbance_rows`."""
    physical = np.array(layout.physical)
    rows = np.stack([derivative_rows(layout, k, physical) for k in range(TERMS)])
    columns = []
    for c, level in enumerate(levels):
        if level is None:
            continue
        unit = np.where(physical == layout.highest[c] - 1, 1.0, 0.0)
        known = derivatives_along_ode(layout, jacobian, scales, unit, TERMS, algebra)
        for weights in kick_weights(layout):
            factors = level * weights * step ** (np.arange(TERMS) + 0.5)
            kicked = jnp.sum(factors[:, None] * known[rows], axis=0) / scales[physical]
            columns.append(change_along_ode(layout, jacobian, scales, kicked, algebra))
    return jnp.stack(columns, axis=1)


def embed(layout: Layout, others: Sequence[int], values: Float[Numbers, "other"]) -> Float[Array, "D"]:
    """`unrolled.residuals.embed`."""
    return jnp.zeros(layout.size).at[np.array(others, dtype=int)].set(values)


def off_solutions(
    layout: Layout,
    others: Sequence[int],
    change: Float[Numbers, "free"],
    jacobian: Float[Numbers, "coordinate physical"],
    scales: Float[Numbers, "D"],
    algebra: SquareRootAlgebra,
) -> Float[Array, "other"]:
    """`unrolled.residuals.off_solutions`."""
    count = len(layout.physical)
    along = change_along_ode(layout, jacobian, scales, change[:count], algebra)
    return jnp.asarray(change[count:] - along[np.array(others, dtype=int)])


def rows_along_ode(
    layout: Layout,
    others: Sequence[int],
    state: FilterState,
    jacobian: Float[Numbers, "coordinate physical"],
    scales: Float[Numbers, "D"],
    step: Scalar,
    algebra: SquareRootAlgebra,
) -> Float[Array, "D column"]:
    """`unrolled.residuals.rows_along_ode`."""
    transition = SparseRows.of(layout.transition)

    def carried(column: Array) -> Array:
        off = off_solutions(layout, others, column, state.jacobian, scales, algebra)
        extrapolated = algebra.times(transition, embed(layout, others, off))
        physical = column[: len(layout.physical)]
        return extrapolated + carry_along_ode(layout, jacobian, scales, step, physical, algebra)

    return jax.vmap(carried, in_axes=1, out_axes=1)(state.factor)


def others_along_ode(
    layout: Layout,
    others: Sequence[int],
    jacobian: Float[Numbers, "coordinate physical"],
    scales: Float[Numbers, "D"],
    rows: Float[Numbers, "physical column"],
    algebra: SquareRootAlgebra,
) -> Float[Array, "other column"]:
    """`unrolled.residuals.others_along_ode`."""
    along = partial(change_along_ode, layout, jacobian, scales, algebra=algebra)
    return jax.vmap(along, in_axes=1, out_axes=1)(rows)[np.array(others, dtype=int)]


def residual_energy(
    rows: Float[Numbers, "predicted column"],
    jacobian: Float[Numbers, "coordinate physical"],
    spread: Float[Numbers, "coordinate"],
    residuals: Float[Numbers, "coordinate"],
    algebra: SquareRootAlgebra,
) -> Scalar:
    """Minus the log density of the ODE residuals being zero up to noise of the given spread; the rows are those of the
    highest derivatives, then those of the free components."""
    count, physical = jacobian.shape
    residual_rows = rows[:count] - algebra.product(jacobian, rows[count : count + physical])
    return algebra.observe(residual_rows, residuals, jnp.zeros(count), list(spread), rows[:0], residuals[:0])[0]


def residual_variance_ratios(
    layout: Layout, jacobian: Float[Numbers, "coordinate physical"], algebra: SquareRootAlgebra
) -> Float[Array, "coordinate"]:
    """`unrolled.residuals.residual_variance_ratio` of all coordinates."""
    physical, highest = np.array(layout.physical), np.array(layout.highest)
    noise, coordinate = layout.process_factor, np.array(layout.coordinate)
    own = coordinate[:, None] == np.arange(len(highest))  # each coordinate's noise has its own columns
    highest_rows = noise[highest]
    rows = highest_rows - algebra.product(jacobian, noise[physical])
    return jnp.sum(jnp.where(own.T, rows**2, 0.0), axis=1) / np.sum(highest_rows**2, axis=1)


def diffusions_from_others(
    layout: Layout,
    jacobian: Float[Numbers, "coordinate physical"],
    variances: Float[Numbers, "coordinate"],
    algebra: SquareRootAlgebra,
) -> Float[Array, "coordinate"]:
    """`unrolled.residuals.diffusion_from_others` of all coordinates; 0 where they do not depend on others."""
    physical, highest = np.array(layout.physical), np.array(layout.highest)
    unit, coordinate = np.sum(layout.process_factor**2, axis=1), np.array(layout.coordinate)[physical]
    others = coordinate != np.arange(len(highest))[:, None]
    slopes = jnp.where(others, jacobian, 0.0)
    return algebra.product(slopes**2, unit[physical] * variances[coordinate]) / unit[highest]
