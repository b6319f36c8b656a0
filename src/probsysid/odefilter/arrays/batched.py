"""Batched matrix algebra, for states of medium size: all particles of a block at once.

Arrays have the particle axis last, whose entries fill the lanes of vector instructions; explicit loops run over rows.
A loop over time without library calls is compiled as one function; with one, every operation in it costs a microsecond
more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from probsysid._internal.array_types import Numbers
from probsysid.odefilter.arrays.sqrt_algebra import SparseRows, SquareRootAlgebra

BATCHED_ENTRIES = 3000
"""Entries of the largest matrix for which batching is used.  Triangularising 16 x 28 numbers takes 1.0 us per particle
(LAPACK 3.5), 20 x 35 1.9 (5.3), 40 x 70 15 (32)."""

STAGE = 8
"""Rows that are finished before they are dropped from the rest of the work: 4 are as fast, and slower to compile."""


def fits_batched(rows: int, columns: int) -> bool:
    """Whether a filter whose largest matrix has this shape uses batching."""
    return rows * columns <= BATCHED_ENTRIES


@final
@dataclass(frozen=True)
class Batched(SquareRootAlgebra):
    """Operations on the matrices of all particles, whose axis is the last."""

    def for_one_particle(self, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """Under `jax.vmap` the function gets the arrays of all particles at once."""

        @jax.custom_batching.custom_vmap
        def of_one(*arrays: Array) -> Array:
            results = function(*(leaf[..., None] for leaf in arrays))
            return jax.tree.map(lambda leaf: leaf[..., 0], results)

        @of_one.def_vmap
        def of_all(size: int, mapped: list[bool], *arrays: Array) -> tuple[Array, Array]:
            pairs = zip(arrays, mapped, strict=True)
            batch = [leaf if is_mapped else jnp.broadcast_to(leaf, (size, *leaf.shape)) for leaf, is_mapped in pairs]
            results = function(*(jnp.moveaxis(leaf, 0, -1) for leaf in batch))
            return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), results), jax.tree.map(lambda _: True, results)

        return of_one

    def for_all_particles(self, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        return function

    def _constant(self, matrix: np.ndarray) -> Numbers:
        return matrix[..., None]

    def _times(self, sparse: SparseRows, values: Array) -> Array:
        """Dense, since gathering the nonzeros is not vectorised."""
        return self._product(self._constant(sparse.matrix), values)

    def _product(self, matrix: Numbers, other: Array) -> Array:
        """Row by row in a loop, whose result is stored: otherwise it would be recomputed wherever it is used."""
        left, empty = jnp.asarray(matrix), jnp.zeros((len(matrix), *other.shape[1:]))
        if not left.size:
            return empty

        def put(r: Array, product: Array) -> Array:
            factors = left[r].reshape(len(other), *[1] * (other.ndim - 2), -1)
            row = sum((factors[k] * other[k] for k in range(1, len(other))), start=factors[0] * other[0])
            return lax.dynamic_update_index_in_dim(product, row, r, 0)

        return lax.fori_loop(0, len(matrix), put, empty)

    def _dot(self, rows: Float[Array, "row column particle"], vector: Float[Array, "column particle"]) -> Array:
        """Written out: a sum over an axis is not vectorised over particles."""
        return sum((rows[:, c] * vector[c] for c in range(1, len(vector))), start=rows[:, 0] * vector[0])

    def _condition(self, residual_rows: Array, residuals: Array, rows: Array, means: Array) -> tuple[Array, Array]:
        """Modified Gram-Schmidt: each row is projected out of those below, and out of their values.  For the factor
        this is as accurate as Householder reflections: the square L L' is never formed."""
        rows, values = jnp.concatenate([residual_rows, rows]), jnp.concatenate([residuals, means])
        _, rows, means = self._eliminate(rows, values, len(residuals))
        return self._lower(rows), means

    def _lower(self, rows: Array) -> Array:
        parts = []
        for first in range(0, len(rows), STAGE):
            below, rows, _ = self._eliminate(rows, jnp.zeros((len(rows), 0, 1)), min(STAGE, len(rows)))
            parts.append(jnp.pad(below, ((first, 0), (0, 0), (0, 0))))
        return jnp.concatenate(parts, axis=1)

    def _right_solve(self, matrix: Array, lower: Array) -> Array:
        """Back substitution, column by column from the last."""
        count = len(lower)

        def solve(k: Array, solution: Array) -> Array:
            column = count - 1 - k
            below = lower[:, column]
            pivot = below[column]
            inverse = jnp.where(pivot > 0, 1 / pivot, 0.0)
            value = (matrix[:, column] - self._dot(solution, below)) * inverse
            return lax.dynamic_update_index_in_dim(solution, value, column, 1)

        return lax.fori_loop(0, count, solve, jnp.zeros_like(matrix))

    def _eliminate(self, rows: Array, values: Array, count: int) -> tuple[Array, Array, Array]:
        """Eliminate the first `count` rows: their columns of the triangular factor, and the remainders of the rows
        below and of their values."""
        indices = jnp.arange(len(rows))[:, None]

        def project(k: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            below, rows, values = carry
            row = rows[k]
            length = jnp.sqrt(self._dot(row[None], row)[0])
            inverse = jnp.where(length > 0, 1 / length, 0.0)  # nothing is learnt from a quantity without variance
            direction = row * inverse
            along = jnp.where(indices < k, 0.0, self._dot(rows, direction))
            if values.shape[1]:
                values = values - along[:, None] * (values[k] * inverse)
            return lax.dynamic_update_index_in_dim(below, along, k, 1), rows - along[:, None] * direction, values

        below = jnp.zeros((len(rows), count, rows.shape[-1]))
        below, rows, values = lax.fori_loop(0, count, project, (below, rows, values))
        return below, rows[count:], values[count:]
