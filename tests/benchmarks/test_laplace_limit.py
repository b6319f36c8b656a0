"""The Laplace limit against the closed form of a linear problem."""

import numpy as np
import pytest

from probsysid import dist
from probsysid.benchmarks.case import LeastSquaresFit
from probsysid.benchmarks.laplace_limit import laplace_draws

SAMPLES = 4000


def test_a_linear_gaussian_problem_has_its_closed_form() -> None:
    random = np.random.default_rng(0)
    slopes = random.standard_normal((SAMPLES, 2))
    noise = 0.5
    measured = slopes @ [1.0, -2.0] + noise * random.standard_normal(SAMPLES)
    fit = LeastSquaresFit("line", measured, lambda p: np.outer(p["a"], slopes[:, 0]) + np.outer(p["b"], slopes[:, 1]))
    priors = {"a": dist.Normal(0.0, 0.02), "b": dist.Normal(0.0, 10.0)}
    draws = laplace_draws(fit, priors, {"a": 0.5, "b": 0.0}, draws=4000)
    estimate = np.linalg.lstsq(slopes, measured, rcond=None)[0]
    # the noise variance of the limit is that of the residuals at the mode
    at_mode = np.array([np.mean(draws["a"]), np.mean(draws["b"])])
    variance = np.mean((measured - slopes @ at_mode) ** 2)
    precision = slopes.T @ slopes / variance + np.diag([1 / 0.02**2, 1 / 100])
    mean = np.linalg.solve(precision, slopes.T @ slopes @ estimate / variance)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    for k, name in enumerate(priors):
        # four standard errors of the mean and of the standard deviation of 4000 draws
        assert np.mean(draws[name]) == pytest.approx(mean[k], abs=4 * sd[k] / np.sqrt(4000))
        assert np.std(draws[name]) == pytest.approx(sd[k], rel=4 / np.sqrt(2 * 4000))


def test_positive_parameters_stay_positive() -> None:
    grid = np.linspace(0, 1, 50)
    measured = np.exp(-3 * grid) + 0.2 * np.random.default_rng(1).standard_normal(50)
    fit = LeastSquaresFit("decay", measured, lambda p: np.exp(-np.outer(p["rate"], grid)))
    draws = laplace_draws(fit, {"rate": dist.LogNormal(0.0, 2.0)}, {"rate": 1.0}, draws=500)["rate"]
    assert draws.min() > 0
    # the truth is within four standard deviations of the posterior
    assert abs(np.median(draws) - 3) < 4 * np.std(draws)
