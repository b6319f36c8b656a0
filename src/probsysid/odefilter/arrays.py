"""Square-root algebra on matrices, for one particle: `gaussian.py` for states of many components.

A factor is one array here, a row a quantity, and what `gaussian.py` unrolls is done by a few operations on whole
matrices.  The program is then as long for a hundred components as for ten.

Matrices of middling size are worked on in *lanes*: arrays with the particle axis last, in loops of our own that work on
all particles of a block at once.  A loop over time that holds no call of a library is compiled as one function; with
one, every operation in it costs a microsecond more.  Large matrices go to LAPACK, one after the other.  Which of the
two it is to be is decided once for a system (`fit_lanes`).

The textbook form of each formula stands with its counterpart in `gaussian.py`; the tests hold the two equal.
"""

from collections.abc import Callable
from functools import partial
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


LANE_ENTRIES = 3000
"""Largest matrix that is worked on in lanes.  To make 16 x 28 numbers triangular takes 1.0 us a particle (LAPACK 3.5),
20 x 35 1.9 (5.3), 40 x 70 15 (32)."""

STAGE = 8
"""Rows that are finished before they are left out of what follows: 4 are as good, and take longer to compile."""


def fit_lanes(rows: int, columns: int) -> bool:
    """Whether a system whose largest matrix is this is worked on in lanes."""
    return rows * columns <= LANE_ENTRIES


def in_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays whose last axis is that of particles, made one of a single particle's arrays: `jax.vmap`
    then hands it those of all particles at once."""

    @jax.custom_batching.custom_vmap
    def of_one(*given: Any) -> Any:
        found = function(*(leaf[..., None] for leaf in given))
        return jax.tree.map(lambda leaf: leaf[..., 0], found)

    @of_one.def_vmap
    def of_all(size: int, mapped: list[bool], *given: Any) -> tuple[Any, Any]:
        pairs = zip(given, mapped, strict=True)
        whole = [leaf if is_mapped else jnp.broadcast_to(leaf, (size, *leaf.shape)) for leaf, is_mapped in pairs]
        found = function(*(jnp.moveaxis(leaf, 0, -1) for leaf in whole))
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), found), jax.tree.map(lambda _: True, found)

    return of_one


class SparseRows(NamedTuple):
    """A constant matrix with few entries a row: as it is, where they are, and what they are."""

    matrix: np.ndarray
    columns: np.ndarray
    entries: np.ndarray

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "row column"]) -> "SparseRows":
        width = max(1, int(np.max(np.count_nonzero(matrix, axis=1))))
        columns = np.argsort(matrix == 0, axis=1, kind="stable")[:, :width]
        return cls(matrix, columns, np.take_along_axis(matrix, columns, axis=1))

    def times(self, values: Float[Array, "column *more"], *, lanes: bool) -> Float[Array, "row *more"]:
        """The matrix times values.  In lanes with all entries, since picking some is not vectorised."""
        if lanes:
            return in_lanes(partial(_product, self.matrix[..., None]))(values)
        entries = self.entries.reshape(*self.entries.shape, *[1] * (values.ndim - 1))
        return jnp.sum(entries * values[self.columns], axis=1)


def product(
    matrix: Float[Array, "row inner"], other: Float[Array, "inner *more"], *, lanes: bool
) -> Float[Array, "row *more"]:
    """`matrix @ other`."""
    return in_lanes(_product)(matrix, other) if lanes else matrix @ other


def _product(matrix: Any, other: Float[Array, "inner *more lane"]) -> Float[Array, "row *more lane"]:
    """(row, inner, lane) times other, row by row in a loop, whose result is kept: otherwise it would be worked out anew
    wherever it is used."""
    left = jnp.asarray(matrix)

    def put(r: Any, found: Any) -> Any:
        factors = left[r].reshape(len(other), *[1] * (other.ndim - 2), -1)
        row = sum((factors[k] * other[k] for k in range(1, len(other))), start=factors[0] * other[0])
        return lax.dynamic_update_index_in_dim(found, row, r, 0)

    return lax.fori_loop(0, len(matrix), put, jnp.zeros((len(matrix), *other.shape[1:])))


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


def predict(
    transition: SparseRows,
    noise: Float[np.ndarray, "wanted noise"],
    factor: Float[Array, "free free"],
    jacobian: Float[Array, "given physical"],
    sigma: Float[Array, "wanted"],
    *,
    lanes: bool,
) -> Float[Array, "wanted column"]:
    """[A L, sigma sqrt(Q)] of the wanted components; the last rows of L are the Jacobian times its first ones."""
    if lanes:
        apply = partial(_product, transition.matrix[..., None])
        return in_lanes(partial(_predict, apply, _product, noise[..., None]))(factor, jacobian, sigma)
    apply = partial(transition.times, lanes=False)
    return _predict(apply, jnp.matmul, noise, factor, jacobian, sigma)


def _predict(apply: Any, product: Any, noise: Any, factor: Any, jacobian: Any, sigma: Any) -> Any:
    kept = jnp.concatenate([factor, product(jacobian, factor[: jacobian.shape[1]])]) if len(jacobian) else factor
    return jnp.concatenate([apply(kept), noise * sigma[:, None]], axis=1)


def condition_on_rate(
    rows: Float[Array, "wanted column"],
    slopes: Float[Array, "rate physical"],
    spread: Float[Array, "rate rate"],
    residuals: Float[Array, "rate"],
    means: Float[Array, "free"],
    *,
    lanes: bool,
) -> tuple[Float[Array, "free free"], Float[Array, "free"]]:
    """Condition on rates being what the slopes make of the physical components, up to a spread; without columns in it,
    exactly.  Rows are those of rates, then of all free components, physical ones first."""
    if lanes:
        return in_lanes(partial(_condition_on_rate, _condition, _product))(rows, slopes, spread, residuals, means)
    return _condition_on_rate(partial(condition, lanes=False), jnp.matmul, rows, slopes, spread, residuals, means)


def _condition_on_rate(
    condition: Any, product: Any, rows: Any, slopes: Any, spread: Any, residuals: Any, means: Any
) -> Any:
    count, columns = spread.shape[:2]
    free = rows[count:]
    residual_rows = rows[:count] - product(slopes, free[: slopes.shape[1]])
    if columns:
        residual_rows = jnp.concatenate([residual_rows, spread], axis=1)
        free = jnp.pad(free, [(0, 0), (0, columns), *[(0, 0)] * (free.ndim - 2)])
    return condition(residual_rows, residuals, free, means)


def condition(
    residual_rows: Float[Array, "residual column"],
    residuals: Float[Array, "residual"],
    rows: Float[Array, "row column"],
    means: Float[Array, "row"],
    *,
    lanes: bool,
) -> tuple[Float[Array, "row row"], Float[Array, "row"]]:
    """Condition exactly (without noise) on all residuals being zero; returns a lower triangular factor and the means.

    In the triangular factor of residuals and rows together, the columns after the residuals' are what is left.
    """
    if lanes:
        return in_lanes(_condition)(residual_rows, residuals, rows, means)
    count = len(residuals)
    lower = triangularise(jnp.concatenate([residual_rows, rows]))
    white = solve_lower(lower[:count, :count], residuals)
    return lower[count:, count:], means - lower[count:, :count] @ white


def _condition(
    residual_rows: Float[Array, "residual column lane"],
    residuals: Float[Array, "residual lane"],
    rows: Float[Array, "row column lane"],
    means: Float[Array, "row lane"],
) -> tuple[Float[Array, "row row lane"], Float[Array, "row lane"]]:
    """Modified Gram-Schmidt: what a row says about those below is taken out of them, and of their values.  For the
    factor that is as good as reflections: the square L L' is never formed."""
    rows, values = jnp.concatenate([residual_rows, rows]), jnp.concatenate([residuals, means])
    _, rows, means = _taken_out(rows, values, len(residuals))
    parts = []
    for first in range(0, len(means), STAGE):
        below, rows, _ = _taken_out(rows, jnp.zeros((len(rows), 0)), min(STAGE, len(rows)))
        parts.append(jnp.pad(below, ((first, 0), (0, 0), (0, 0))))
    return jnp.concatenate(parts, axis=1), means


def _taken_out(rows: Any, values: Any, count: int) -> tuple[Any, Any, Any]:
    """The columns of the triangular factor for so many rows from the first, and what is left of the rows below and of
    their values."""
    places = jnp.arange(len(rows))[:, None]

    def direct(k: Any, carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        below, rows, values = carry
        row = rows[k]
        length = jnp.sqrt(_dot(row[None], row)[0])
        inverse = jnp.where(length > 0, 1 / length, 0.0)  # nothing is learnt from a quantity without variance
        direction = row * inverse
        along = jnp.where(places < k, 0.0, _dot(rows, direction))
        if values.shape[1]:
            values = values - along * (values[k] * inverse)
        return lax.dynamic_update_index_in_dim(below, along, k, 1), rows - along[:, None] * direction, values

    below = jnp.zeros((len(rows), count, rows.shape[-1]))
    below, rows, values = lax.fori_loop(0, count, direct, (below, rows, values))
    return below, rows[count:], values[count:]


def _dot(rows: Float[Array, "row column lane"], vector: Float[Array, "column lane"]) -> Float[Array, "row lane"]:
    """Scalar products, written out: a sum over an axis is not vectorised over lanes."""
    return sum((rows[:, c] * vector[c] for c in range(1, len(vector))), start=rows[:, 0] * vector[0])


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
    *,
    lanes: bool,
) -> tuple[Float[Array, ""], Innovation, Float[Array, "row column"], Float[Array, "row"]]:
    """Condition on noisy observations of outputs, one after the other; a missing one (NaN) changes nothing.

    The same update as `gaussian.observe`.  The innovation holds arrays over the outputs.
    """
    given = output_rows, predictions, jnp.asarray(observations), noise, rows, means
    if lanes:
        return in_lanes(partial(_observe, _dot))(*given)
    return _observe(jnp.matmul, *given)


def _observe(
    dot: Any, output_rows: Any, predictions: Any, observations: Any, noise: Any, rows: Any, means: Any
) -> tuple[Any, Innovation, Any, Any]:
    """For one particle, or in lanes."""
    count = len(predictions)

    def update(carry: tuple[Any, Any], item: tuple[Any, Any, Any]) -> tuple[tuple[Any, Any], tuple[Any, Innovation]]:
        everything, values = carry
        k, observed, r = item
        row, predicted = everything[k], values[k]
        present = ~jnp.isnan(observed)
        variance = dot(row[None], row)[0] + r * r
        innovation = jnp.where(present, observed - predicted, 0.0)
        energy = jnp.where(present, 0.5 * (jnp.log(2 * jnp.pi * variance) + innovation**2 / variance), 0.0)
        correction = innovation / variance
        shrink = jnp.where(present, 1 / (variance + r * jnp.sqrt(variance)), 0.0)
        covariances = dot(everything, row)
        carry = everything - (covariances * shrink)[:, None] * row, values + covariances * correction
        seen = Innovation(jnp.where(present, innovation, jnp.nan), variance, correction * jnp.sqrt(variance))
        return carry, (energy, seen)

    start = jnp.concatenate([output_rows, rows]), jnp.concatenate([predictions, means])
    (everything, values), (energies, innovations) = lax.scan(update, start, (jnp.arange(count), observations, noise))
    return jnp.sum(energies, axis=0), innovations, everything[count:], values[count:]
