"""Matrix algebra with LAPACK, for large states: one particle after the other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from probsysid._internal.array_types import Numbers
from probsysid.odefilter.arrays.sqrt_algebra import SparseRows, SquareRootAlgebra

PANEL_ENTRIES = 8192
"""Entries of the largest matrix passed to LAPACK whole.  Above it OpenBLAS splits rank-one updates over threads,
which wait for each other at every column: 140 x 80 numbers took 0.6 ms of processor time on an idle machine and up to
15 ms on a busy one, in panels 0.25 ms."""

PANEL_ROWS = 40
"""Rows per panel of a larger matrix.  For 80 x 140 and 100 x 180 numbers, 20 to 40 are equally fast."""


@final
@dataclass(frozen=True)
class Lapack(SquareRootAlgebra):
    """Operations on the matrices of one particle."""

    def for_one_particle(self, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        return function

    def for_all_particles(self, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        return jax.vmap(function, in_axes=-1, out_axes=-1)

    def _constant(self, matrix: np.ndarray) -> Numbers:
        return matrix

    def _times(self, sparse: SparseRows, values: Array) -> Array:
        entries = sparse.entries.reshape(*sparse.entries.shape, *[1] * (values.ndim - 1))
        return jnp.sum(entries * values[sparse.columns], axis=1)

    def _product(self, matrix: Numbers, other: Array) -> Array:
        return jnp.matmul(matrix, other)

    def _dot(self, rows: Array, vector: Array) -> Array:
        return rows @ vector

    def _condition(self, residual_rows: Array, residuals: Array, rows: Array, means: Array) -> tuple[Array, Array]:
        count = len(residuals)
        lower = triangularise(jnp.concatenate([residual_rows, rows]))
        white = solve_lower(lower[:count, :count], residuals)
        return lower[count:, count:], means - lower[count:, :count] @ white

    def _lower(self, rows: Array) -> Array:
        missing = rows.shape[0] - rows.shape[1]
        return triangularise(jnp.pad(rows, ((0, 0), (0, missing))) if missing > 0 else rows)

    def _right_solve(self, matrix: Array, lower: Array) -> Array:
        return solve_lower(lower, matrix.T, transposed=True).T


def triangularise(rows: Float[Numbers, "row column"]) -> Float[Array, "row row"]:
    """The lower triangular factor of the same Gaussian, with a non-negative diagonal; `rows` is square or wide.

    Householder reflections within a panel of rows; the panel is projected out of the rows below as in block modified
    Gram-Schmidt, which is as accurate: the square L L' is never formed.
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


def solve_lower(
    lower: Float[Array, "row row"], values: Float[Array, "row *more"], *, transposed: bool = False
) -> Float[Array, "row *more"]:
    """inverse(lower), or its transpose, @ values; a quantity without variance (zero pivot) carries no information."""
    known = jnp.diagonal(lower) == 0
    safe = lower + jnp.diag(jnp.where(known, 1.0, 0.0))
    informative = jnp.where(known.reshape(-1, *[1] * (values.ndim - 1)), 0.0, values)
    return jax.scipy.linalg.solve_triangular(safe, informative, lower=True, trans=int(transposed))
