"""Square-root algebra on matrices, for one particle: `gaussian.py` for states of many components.

A factor is one array here, a row a quantity, and what `gaussian.py` unrolls is done by a few operations on whole
matrices.  The program is then as long for a hundred components as for ten.

The textbook form of each formula stands with its counterpart in `gaussian.py`; the tests hold the two equal.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from probsysid.odefilter.gaussian import Innovation

PANEL_ENTRIES = 8192
"""Largest matrix that is handed to LAPACK whole.  From the next entry on OpenBLAS splits rank-one updates over threads,
which wait for each other at every column: 140 x 80 numbers took 0.6 ms of processor time on an idle machine and up to
15 ms on a busy one, in panels 0.25 ms."""

PANEL_ROWS = 40
"""Rows a panel of a larger matrix.  For 80 x 140 and 100 x 180 numbers, 20 to 40 are equally good."""


class SparseRows(NamedTuple):
    """A constant matrix with few entries a row: where they are, and what they are."""

    columns: np.ndarray
    entries: np.ndarray

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "row column"]) -> "SparseRows":
        width = max(1, int(np.max(np.count_nonzero(matrix, axis=1))))
        columns = np.argsort(matrix == 0, axis=1, kind="stable")[:, :width]
        return cls(columns, np.take_along_axis(matrix, columns, axis=1))

    def __matmul__(self, values: Float[Array, "column *more"]) -> Float[Array, "row *more"]:
        entries = self.entries.reshape(*self.entries.shape, *[1] * (values.ndim - 1))
        return jnp.sum(entries * values[self.columns], axis=1)


def triangularise(rows: Float[Array, "row column"]) -> Float[Array, "row row"]:
    """The lower triangular factor of the same Gaussian, its diagonal not negative; at least as many columns as rows.

    Householder reflections within a panel of rows; what the panel says about the rows below is removed from them as in
    modified Gram-Schmidt, which is as good: the square L L' is never formed.
    """
    count, columns = rows.shape
    whole = count * columns <= PANEL_ENTRIES
    width = count if whole else max(1, min(PANEL_ROWS, PANEL_ENTRIES // columns))
    parts = []
    for first in range(0, count, width):
        panel, rows = rows[:width], rows[width:]
        if len(rows):
            directions, upper = jnp.linalg.qr(panel.T)
            along = rows @ directions
            rows = rows - along @ directions.T
            below = jnp.concatenate([upper.T, along])
        else:
            below = jnp.linalg.qr(panel.T, mode="r").T
        signs = jnp.where(jnp.diagonal(below) < 0, -1.0, 1.0)
        parts.append(jnp.pad(below * signs, ((first, 0), (0, 0))))
    return jnp.concatenate(parts, axis=1)


def condition(
    residual_rows: Float[Array, "residual column"],
    residuals: Float[Array, "residual"],
    rows: Float[Array, "row column"],
    means: Float[Array, "row"],
) -> tuple[Float[Array, "row row"], Float[Array, "row"]]:
    """Condition exactly (without noise) on all residuals being zero; returns a lower triangular factor and the means.

    In the triangular factor of residuals and rows together, the columns after the residuals' are what is left.
    """
    count = len(residuals)
    lower = triangularise(jnp.concatenate([residual_rows, rows]))
    white = solve_lower(lower[:count, :count], residuals)
    return lower[count:, count:], means - lower[count:, :count] @ white


def solve_lower(lower: Float[Array, "row row"], values: Float[Array, "row"]) -> Float[Array, "row"]:
    """inverse(lower) @ values; nothing is learnt from a quantity without variance."""
    known = jnp.diagonal(lower) == 0
    safe = lower + jnp.diag(jnp.where(known, 1.0, 0.0))
    return jax.scipy.linalg.solve_triangular(safe, jnp.where(known, 0.0, values), lower=True)


def observe(
    output_rows: Float[Array, "output column"],
    predictions: Float[Array, "output"],
    observations: Float[Array, "output"],
    noise: Float[Array, "output"],
    rows: Float[Array, "row column"],
    means: Float[Array, "row"],
) -> tuple[Float[Array, ""], Innovation, Float[Array, "row column"], Float[Array, "row"]]:
    """Condition on noisy observations of outputs, one after the other; a missing one (NaN) changes nothing.

    The same update as `gaussian.observe`.  The innovation holds arrays over the outputs.
    """
    count = len(predictions)

    def update(carry: tuple[Any, Any], item: tuple[Any, Any, Any]) -> tuple[tuple[Any, Any], tuple[Any, Innovation]]:
        everything, values = carry
        k, observed, r = item
        row, predicted = everything[k], values[k]
        present = ~jnp.isnan(observed)
        variance = row @ row + r * r
        innovation = jnp.where(present, observed - predicted, 0.0)
        energy = jnp.where(present, 0.5 * (jnp.log(2 * jnp.pi * variance) + innovation**2 / variance), 0.0)
        correction = innovation / variance
        shrink = jnp.where(present, 1 / (variance + r * jnp.sqrt(variance)), 0.0)
        covariances = everything @ row
        carry = everything - jnp.outer(covariances * shrink, row), values + covariances * correction
        seen = Innovation(jnp.where(present, innovation, jnp.nan), variance, correction * jnp.sqrt(variance))
        return carry, (energy, seen)

    start = jnp.concatenate([output_rows, rows]), jnp.concatenate([predictions, means])
    (everything, values), (energies, innovations) = lax.scan(
        update, start, (jnp.arange(count), jnp.asarray(observations), noise)
    )
    return jnp.sum(energies), innovations, everything[count:], values[count:]
