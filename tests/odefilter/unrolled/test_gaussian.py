"""Square-root algebra against the covariance formulas, on random numbers."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import probsysid  # noqa: F401  (double precision)
from probsysid.odefilter.unrolled import gaussian
from tests.odefilter.textbook import DOUBLES, Moments
from tests.odefilter.textbook import condition as textbook_condition

# Numbers of order one and condition numbers below 1e3 (asserted): round-off stays below 1e3 * 1e-16 * a few dozen
# operations.
ROUNDING = 1e-11


def as_rows(matrix: np.ndarray) -> list[list[Any]]:
    """Zeros become structural."""
    return [[float(entry) if entry else None for entry in row] for row in matrix]


def as_matrix(rows: list[list[Any]]) -> np.ndarray:
    return np.array([[0.0 if entry is None else float(entry) for entry in row] for row in rows])


def random_factor(rng: np.random.Generator, rows: int, columns: int, zeros: float = 0.3) -> np.ndarray:
    matrix = rng.normal(size=(rows, columns))
    matrix[rng.uniform(size=matrix.shape) < zeros] = 0
    return matrix


def test_dot_and_combine() -> None:
    rng = np.random.default_rng(0)
    rows, weights = random_factor(rng, 4, 6), random_factor(rng, 1, 4)[0]
    combined = gaussian.combine(as_rows(weights[None])[0], as_rows(rows))
    np.testing.assert_allclose(as_matrix([combined])[0], weights @ rows, rtol=1e-14, atol=1e-14)
    assert float(gaussian.dot(as_rows(rows)[0], as_rows(rows)[1])) == pytest.approx(rows[0] @ rows[1], rel=1e-14)
    assert gaussian.dot([1.0, None], [None, 2.0]) is None
    assert gaussian.combine([None, None], [[1.0], [2.0]]) == [None]


@pytest.mark.parametrize("seed", range(5))
def test_triangularise_is_a_cholesky_factor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_factor(rng, 4, 7)
    assert np.linalg.cond(rows) < 1e3
    lower = as_matrix(gaussian.triangularise(as_rows(rows)))
    assert lower.shape == (4, 4)
    assert np.all(np.triu(lower, 1) == 0)
    assert np.all(np.diag(lower) >= 0)
    np.testing.assert_allclose(lower, np.linalg.cholesky(rows @ rows.T), rtol=ROUNDING, atol=ROUNDING)


def test_triangularise_keeps_structural_zeros_and_tolerates_missing_rank() -> None:
    """Independent quantities stay so by structure; a quantity without variance gives zeros, not NaN."""
    rows = [[1.0, None, None], [None, 2.0, None], [None, None, None]]
    lower = gaussian.triangularise(rows)
    assert lower[1][0] is None and lower[2] == [None, None, None]
    dependent = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    lower = as_matrix(gaussian.triangularise([[zero(), zero()], [1.0, 2.0], [2.0, 4.0]]))
    assert np.all(np.isfinite(lower))
    np.testing.assert_allclose(lower @ lower.T, dependent @ dependent.T, atol=1e-14)


def zero() -> Any:
    """A zero by value, not by structure."""
    return jnp.zeros(())


@pytest.mark.parametrize("residuals", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_condition_is_the_textbook_update_without_noise(seed: int, residuals: int) -> None:
    rng = np.random.default_rng(seed)
    rows, mean = random_factor(rng, 4, 7), rng.normal(size=4)
    weights, miss = random_factor(rng, residuals, 4, zeros=0.2), rng.normal(size=residuals)
    residual_rows = weights @ rows
    assert np.linalg.cond(residual_rows) < 1e3
    other = rng.normal(size=residuals), rng.normal(size=4)  # a second vector, updated by the same gains
    vectors = [(list(z), list(m)) for z, m in ((miss, mean), other)]
    new_rows, new_means = gaussian.condition(as_rows(residual_rows), as_rows(rows), vectors)
    for (z, m), found in zip(((miss, mean), other), new_means, strict=True):
        expected, _ = textbook_condition(Moments(m, rows @ rows.T), weights, z, np.zeros(residuals), DOUBLES)
        np.testing.assert_allclose(np.array(found, dtype=float), expected.mean.astype(float), atol=ROUNDING)
    new_rows = as_matrix(new_rows)
    np.testing.assert_allclose(new_rows @ new_rows.T, expected.covariance.astype(float), atol=ROUNDING)
    # Exact conditioning leaves no variance in the conditioned quantities.
    assert np.max(np.abs(weights @ new_rows)) < ROUNDING


def test_condition_on_a_quantity_without_variance_changes_nothing() -> None:
    rows, mean = [[1.0, 2.0], [0.5, 1.0]], [1.0, 2.0]
    new_rows, (new_mean,) = gaussian.condition([[zero(), zero()]], rows, [([3.0], mean)])
    np.testing.assert_array_equal(as_matrix(new_rows), as_matrix(rows))
    np.testing.assert_array_equal(np.array(new_mean, dtype=float), mean)


@pytest.mark.parametrize("missing", [(), (0,), (1,), (0, 1, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_observe_is_the_textbook_update_of_all_outputs_at_once(seed: int, missing: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    rows, mean = random_factor(rng, 4, 4), rng.normal(size=4)
    weights, noise, y = random_factor(rng, 3, 4, zeros=0.2), rng.uniform(0.1, 1, 3), rng.normal(size=3)
    offset = rng.normal(size=3)  # predictions need not be linear in the mean
    y[list(missing)] = np.nan
    predictions = weights @ mean + offset
    energy, innovations, new_rows, new_mean = gaussian.observe(
        as_rows(weights @ rows), list(predictions), list(y), list(noise), as_rows(rows), list(mean)
    )
    present = [i for i in range(3) if i not in missing]
    expected, expected_energy = textbook_condition(
        Moments(mean, rows @ rows.T), weights[present], (predictions - y)[present], noise[present] ** 2, DOUBLES
    )
    np.testing.assert_allclose(float(energy), float(expected_energy), rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(np.array(new_mean, dtype=float), expected.mean.astype(float), atol=ROUNDING)
    new_rows = as_matrix(new_rows)
    np.testing.assert_allclose(new_rows @ new_rows.T, expected.covariance.astype(float), atol=ROUNDING)
    assert [bool(np.isnan(v)) for v, _, _ in innovations] == [i in missing for i in range(3)]


def test_observe_a_state_known_exactly() -> None:
    """Rows of structural zeros: the energy is that of the noise alone, and the state does not change."""
    energy, _, rows, mean = gaussian.observe([[None]], [1.0], [1.5], [0.25], [[None]], [2.0])
    assert float(energy) == pytest.approx(0.5 * np.log(2 * np.pi * 0.25**2) + 0.5 * 4, rel=1e-14)
    assert rows == [[None]] and float(mean[0]) == 2.0
