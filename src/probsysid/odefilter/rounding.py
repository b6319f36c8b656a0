"""The least diffusion that rounding errors leave meaningful, where process noise has made the state uncertain.

With process noise the rows of the prediction lie on solutions of the linearised ODE, and residual rows are differences
of numbers that should cancel.  A system at rest has residuals, and so a diffusion, of zero: conditioning on the ODE
would then divide rounding errors by rounding errors.  A diffusion that gives the residual a standard deviation of 1e-8
of what cancels is far above them, and adds 1e-16 to variances.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.unrolled import gaussian

RELATIVE = 1e-8
"""Half of the digits of a double."""


def above_rounding(layout: Layout, state: FilterState, variance: Any) -> Any:
    """Squared diffusions, not below this bound; in either form of the filter."""
    count = len(layout.physical)
    units = RELATIVE**2 / np.sum(layout.process_factor[np.array(layout.highest)] ** 2, axis=1)
    if not isinstance(variance, list):
        variances = jnp.sum(state.factor[:count] ** 2, axis=1)
        return jnp.maximum(variance, units * jnp.sum(state.jacobian**2 * variances, axis=1))
    squares = [gaussian.dot(row, row) for row in state.factor[:count]]
    bounds = []
    for value, unit, slopes in zip(variance, units, state.jacobian, strict=True):
        terms = [s * s * q for s, q in zip(slopes, squares, strict=True) if s is not None and q is not None]
        bounds.append(jnp.maximum(value, unit * sum(terms[1:], start=terms[0])) if terms else value)
    return bounds
