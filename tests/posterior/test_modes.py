"""Modes and curvature against functions whose modes are known."""

import numpy as np
import pytest
from scipy import stats

from probsysid.posterior.modes import find_modes, peaks, polish

RANDOM = np.random.default_rng(0)


class Regression:
    """A linear regression with a Gaussian prior and a known noise level: the posterior is Gaussian."""

    def __init__(self, samples: int, dimension: int, condition: float):
        self.design = RANDOM.standard_normal((samples, dimension)) * np.logspace(0, np.log10(condition), dimension)
        self.data = self.design @ RANDOM.standard_normal(dimension) + RANDOM.standard_normal(samples)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        return self.terms(points).sum(axis=0)

    def terms(self, points: np.ndarray) -> np.ndarray:
        fits = stats.norm.logpdf(self.data[:, None] - self.design @ points)
        return np.vstack([fits, stats.norm.logpdf(points).sum(axis=0)])

    @property
    def covariance(self) -> np.ndarray:
        return np.linalg.inv(self.design.T @ self.design + np.eye(self.design.shape[1]))

    @property
    def mean(self) -> np.ndarray:
        return self.covariance @ self.design.T @ self.data

    @property
    def log_evidence(self) -> float:
        """log p(mean) + log p(data | mean) - log p(mean | data)"""
        posterior = -0.5 * np.linalg.slogdet(2 * np.pi * self.covariance)[1]
        return float(self(self.mean[:, None])[0] - posterior)


def test_of_a_gaussian_mode_curvature_and_evidence_are_exact() -> None:
    """Also where widths differ by a factor of 1e5: differences are taken in widths.  Their error is that of rounding,
    1e-16 times the log density over the square of the step."""
    posterior = Regression(samples=60, dimension=5, condition=1e5)
    starts = RANDOM.standard_normal((5, 4))
    (mode,) = find_modes(posterior, starts, np.ones(5))
    assert mode.converged
    sd = np.sqrt(np.diag(posterior.covariance))
    np.testing.assert_allclose((mode.theta - posterior.mean) / sd, 0, atol=0.0015)  # gain below 1e-6: half its square
    scale = np.outer(sd, sd)
    np.testing.assert_allclose(mode.factor @ mode.factor.T / scale, posterior.covariance / scale, atol=1e-4)
    assert mode.log_evidence == pytest.approx(posterior.log_evidence, abs=1e-3)


class Banana:
    """Rosenbrock's valley as a least-squares problem: one mode, at (1, 1)."""

    def __call__(self, points: np.ndarray) -> np.ndarray:
        return self.terms(points).sum(axis=0)

    def terms(self, points: np.ndarray) -> np.ndarray:
        x, y = points
        return np.stack([-0.5 * (1 - x) ** 2, -0.5 * 1e2 * (y - x**2) ** 2, np.zeros_like(x)])


def test_a_long_bent_valley_is_followed_to_its_end() -> None:
    (mode,) = find_modes(Banana(), np.array([[-3.0, 2.0], [5.0, -4.0]]), np.ones(2))
    assert mode.converged
    np.testing.assert_allclose(mode.theta, [1, 1], atol=0.1)
    exact = np.linalg.inv(np.array([[1 + 4e2, -2e2], [-2e2, 1e2]]))
    np.testing.assert_allclose(mode.factor @ mode.factor.T, exact, rtol=0.2)


class TwoModes:
    """Known b^2, unknown sign; a tenth of the mass is on the negative side."""

    def __call__(self, points: np.ndarray) -> np.ndarray:
        return self.terms(points).sum(axis=0)

    def terms(self, points: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            likelihood = np.where(np.abs(points[0]) < 10, -0.5 * ((points[0] ** 2 - 4) / 0.01) ** 2, np.nan)
        return np.stack([likelihood, np.log(np.where(points[0] > 0, 0.9, 0.1)) + 0 * likelihood])


def test_all_modes_best_first_and_undefined_starts_left_out() -> None:
    modes = find_modes(TwoModes(), np.array([[-3.0, -1.0, 0.5, 3.0, 50.0]]), np.ones(1))
    np.testing.assert_allclose([mode.theta[0] for mode in modes], [2, -2], atol=1e-3)
    assert np.exp(modes[1].log_evidence - modes[0].log_evidence) == pytest.approx(1 / 9, rel=0.01)


def test_nothing_defined_no_mode() -> None:
    assert find_modes(TwoModes(), np.array([[50.0, 60.0]]), np.ones(1)) == []
    assert find_modes(TwoModes(), np.empty((1, 0)), np.ones(1)) == []
    assert polish(TwoModes(), []) == []


def test_peaks_are_on_both_sides_though_one_is_far_better() -> None:
    """The hundred best points are all on the positive side."""
    points = np.linspace(-3, 3, 601)[None]
    values = -0.5 * ((points[0] ** 2 - 4) / 0.5) ** 2 + np.where(points[0] > 0, 1e3, 0.0)
    assert set(np.sign(points[0, np.argsort(-values)[:100]])) == {1.0}
    np.testing.assert_allclose(peaks(points, values, 5), [[2.0, -2.0]], atol=0.01)
    np.testing.assert_allclose(peaks(points, values, 1), [[2.0]], atol=0.01)


def test_peaks_leave_out_what_is_not_finite() -> None:
    points = np.arange(4.0)[None]
    assert peaks(points, np.full(4, -np.inf), 3).shape == (1, 0)
    np.testing.assert_array_equal(peaks(points, np.array([np.nan, -np.inf, 1.0, -np.inf]), 3), [[2.0]])


def test_polished_modes_are_those_of_the_other_density() -> None:
    posterior = Regression(samples=60, dimension=4, condition=1e3)
    (mode,) = find_modes(posterior, RANDOM.standard_normal((4, 2)), np.ones(4))
    posterior.data += 0.1 * RANDOM.standard_normal(60)
    (moved,) = polish(posterior, [mode])
    assert moved.converged
    sd = np.sqrt(np.diag(posterior.covariance))
    assert np.max(np.abs(mode.theta - posterior.mean) / sd) > 0.02
    np.testing.assert_allclose((moved.theta - posterior.mean) / sd, 0, atol=0.0015)
    assert moved.log_evidence == pytest.approx(posterior.log_evidence, abs=1e-3)


def test_a_search_ends_when_it_is_told_to() -> None:
    left = iter([True, True, False])
    (mode,) = find_modes(Banana(), np.array([[-3.0], [5.0]]), np.ones(2), go_on=lambda: next(left))
    assert not mode.converged
