"""ODE residuals on arrays: `unrolled/residuals.py` for states of many components."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probsysid._internal.array_types import Numbers
from probsysid.odefilter.arrays.sqrt_algebra import SquareRootAlgebra
from probsysid.odefilter.layout import Layout


def change_along_ode(
    layout: Layout,
    jacobian: Float[Numbers, "coordinate physical"],
    scales: Float[Numbers, "D"],
    change: Float[Numbers, "physical"],
    algebra: SquareRootAlgebra,
) -> Float[Array, "D"]:
    """`unrolled.residuals.change_along_ode`."""
    physical, highest, coordinate = (np.array(x) for x in (layout.physical, layout.highest, layout.coordinate))
    slopes = jacobian * scales[highest][:, None] / scales[physical]
    derivative = np.arange(layout.size) - np.array(layout.offsets)[coordinate]
    order, place = np.array(layout.orders)[coordinate], np.argsort(physical)
    known, count = change * scales[physical], len(physical)
    coordinates = len(highest)

    def rows(k: int, components: np.ndarray) -> np.ndarray:
        """Where the k-th derivatives of components are found among the changes known."""
        above = derivative[components] + k - order[components]
        below = np.minimum(np.searchsorted(physical, components + k), count - 1)
        return np.where(above < 0, place[below], count + coordinates * above + coordinate[components])

    for k in range(max(q - n for n, q in zip(layout.orders, layout.smoothness, strict=True)) + 1):
        known = jnp.concatenate([known, algebra.product(slopes, known[rows(k, physical)])])
    return known[rows(0, np.arange(layout.size))] / scales


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
