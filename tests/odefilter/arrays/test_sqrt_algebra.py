"""Square-root algebra on matrices: the same numbers as the unrolled algebra."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probsysid  # noqa: F401  (double precision)
from probsysid.odefilter.arrays.batched import Batched
from probsysid.odefilter.arrays.lapack import PANEL_ENTRIES, Lapack, solve_lower, triangularise
from probsysid.odefilter.arrays.sqrt_algebra import SparseRows, SquareRootAlgebra
from probsysid.odefilter.unrolled import gaussian
from tests.odefilter.unrolled.test_gaussian import as_matrix, as_rows, random_factor

# Numbers of order one and condition numbers below 1e3 (asserted): round-off stays below 1e3 * 1e-16 * a few hundred
# operations.
ROUNDING = 1e-11


def condition(algebra: SquareRootAlgebra, known: Any, residuals: Any, rows: Any, means: Any) -> Any:
    """Condition exactly on quantities with these rows: the linearised ODE, without slopes and noise."""
    nothing = jnp.zeros((len(known), 0))
    return algebra.condition_on_rate(jnp.concatenate([known, rows]), nothing, nothing, residuals, means)


def batched(rows: np.ndarray) -> Any:
    """The triangular factor that conditioning on an independent quantity gives."""
    other = jnp.zeros((1, rows.shape[1] + 1)).at[0, -1].set(1.0)
    wider = jnp.pad(rows, ((0, 0), (0, 1)))
    return condition(Batched(), other, jnp.ones((1, 1)), wider, jnp.zeros((len(rows), 1)))[0]


BOTH = (triangularise, batched)
both = pytest.mark.parametrize("triangular", BOTH)
algebras = pytest.mark.parametrize("algebra", [Batched(), Lapack()], ids=["batched", "LAPACK"])


SHAPES = [(1, 1), (5, 9), (17, 30), (70, 140), (100, 100)]


@pytest.mark.parametrize(
    ("shape", "triangular"),
    # Batched, the two largest take half a minute to compile; (17, 30) has three stages already.
    [pytest.param(s, t, marks=[pytest.mark.long] * (t is batched and s[0] > 50)) for s in SHAPES for t in BOTH],
)
def test_triangularise_is_a_cholesky_factor(shape: tuple[int, int], triangular: Any) -> None:
    """LAPACK in one piece, in two panels, and in three of a square; batched in one stage, in three and in many."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=shape) + 12 * np.eye(*shape)
    assert np.linalg.cond(rows) < 1e3
    assert (rows.size > PANEL_ENTRIES) == (shape[0] > 50)
    lower = np.array(jax.jit(triangular)(rows))
    np.testing.assert_array_equal(np.triu(lower, 1), 0)
    np.testing.assert_allclose(lower, np.linalg.cholesky(rows @ rows.T), rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize(("triangular", "size"), [(triangularise, 80), (batched, 24)])
def test_triangularise_does_not_square_the_condition(triangular: Any, size: int) -> None:
    """Rows that are equal up to 1e-9 of their length: a Cholesky factor of L L' would lose the difference.

    Backward stable: the error of each row is a few units of its length's last digit, here 1e-16 / 1e-9 of the rest.
    """
    rng = np.random.default_rng(1)
    common, rest = rng.normal(size=(1, 2 * size)), rng.normal(size=(size, 2 * size))
    rows = common + 1e-9 * rest
    lower = np.array(jax.jit(triangular)(rows))
    orthogonal = np.linalg.qr(rows.T)[1].T
    expected = np.abs(np.diagonal(orthogonal))[1:]
    assert np.all(expected < 1e-6)
    np.testing.assert_allclose(np.diagonal(lower)[1:], expected, rtol=1e-4)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(rows @ rows.T)


@both
def test_triangularise_tolerates_missing_rank(triangular: Any) -> None:
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])
    lower = np.array(triangular(rows))
    np.testing.assert_allclose(lower @ lower.T, rows @ rows.T, atol=1e-14)


@algebras
def test_sparse_rows_are_a_matrix(algebra: SquareRootAlgebra) -> None:
    matrix = np.array([[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]])
    sparse = SparseRows.of(matrix)
    assert sparse.columns.shape == (3, 2)
    rng = np.random.default_rng(2)
    for values in (rng.normal(size=4), rng.normal(size=(4, 5))):
        np.testing.assert_allclose(algebra.times(sparse, jnp.asarray(values)), matrix @ values, rtol=1e-15)


@algebras
@pytest.mark.parametrize(("rows", "inner"), [(0, 3), (2, 0), (2, 3)])
def test_products_may_be_empty(rows: int, inner: int, algebra: SquareRootAlgebra) -> None:
    """A state without higher components has an empty product."""
    rng = np.random.default_rng(5)
    matrix, other = rng.normal(size=(4, rows, inner)), rng.normal(size=(4, inner, 5))
    # Each of the two products is within n eps |A| |B| of the exact one, for n terms in a sum.
    bound = 2 * inner * np.finfo(float).eps * (np.abs(matrix) @ np.abs(other))
    assert np.all(np.abs(jax.vmap(algebra.product)(matrix, other) - matrix @ other) <= bound)


@algebras
@pytest.mark.parametrize("residuals", [1, 3])
def test_condition_agrees_with_the_unrolled_algebra(residuals: int, algebra: SquareRootAlgebra) -> None:
    rng = np.random.default_rng(residuals)
    rows, means = random_factor(rng, 5, 12), rng.normal(size=(5, 2))
    known, residual_values = random_factor(rng, residuals, 12), rng.normal(size=(residuals, 2))
    assert np.linalg.cond(np.concatenate([known, rows])) < 1e3
    vectors = [(list(z), list(m)) for z, m in zip(residual_values.T, means.T, strict=True)]
    expected, expected_means = gaussian.condition(as_rows(known), as_rows(rows), vectors)
    found, found_means = condition(algebra, *map(jnp.asarray, (known, residual_values, rows, means)))
    np.testing.assert_allclose(found, as_matrix(gaussian.triangularise(expected)), rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(found_means, np.array(expected_means, dtype=float).T, rtol=ROUNDING, atol=ROUNDING)


def test_a_quantity_without_variance_carries_no_information() -> None:
    lower = jnp.array([[2.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(solve_lower(lower, jnp.array([4.0, 7.0])), [2.0, -2.0])
    np.testing.assert_allclose(solve_lower(jnp.zeros((1, 1)), jnp.array([7.0])), [0.0])


@algebras
def test_observe_agrees_with_the_unrolled_algebra(algebra: SquareRootAlgebra) -> None:
    """Three outputs, the second one missing."""
    rng = np.random.default_rng(4)
    rows, means = random_factor(rng, 5, 8), rng.normal(size=5)
    known, predictions = random_factor(rng, 3, 8), rng.normal(size=3)
    observed, noise = np.array([0.3, np.nan, -1.2]), np.array([0.1, 0.2, 0.3])
    energy, innovations, new_rows, new_means = gaussian.observe(
        as_rows(known), list(predictions), list(observed), list(noise), as_rows(rows), list(means)
    )
    found = algebra.observe(*map(jnp.asarray, (known, predictions, observed, noise, rows, means)))
    np.testing.assert_allclose(found[0], energy, rtol=ROUNDING)
    np.testing.assert_allclose(np.array(found[1]), np.array(innovations, dtype=float), rtol=ROUNDING)
    np.testing.assert_allclose(found[2], as_matrix(new_rows), rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(found[3], np.array(new_means, dtype=float), rtol=ROUNDING, atol=ROUNDING)


def test_batched_particles_are_independent() -> None:
    """Mapped over particles, with some arguments shared, as one by one; a NaN particle does not affect the others."""
    rng = np.random.default_rng(3)
    rows, means = rng.normal(size=(4, 5, 12)), rng.normal(size=(4, 5, 2))
    rows[2] = np.nan
    known, residual_values = rng.normal(size=(2, 12)), rng.normal(size=(4, 2, 2))
    one = partial(condition, Batched())
    factors, found = jax.vmap(one, in_axes=(None, 0, 0, 0))(known, residual_values, rows, means)
    for k in (0, 1, 3):
        factor, mean = one(*map(jnp.asarray, (known, residual_values[k], rows[k], means[k])))
        np.testing.assert_allclose(factors[k], factor, rtol=ROUNDING, atol=ROUNDING)
        np.testing.assert_allclose(found[k], mean, rtol=ROUNDING, atol=ROUNDING)
