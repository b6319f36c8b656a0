"""Posteriors that are hard to sample and known exactly: means, standard deviations, evidence.

Most are a normalised density p, reached from a Gaussian prior: the likelihood is p / prior, in equal shares of several
samples, so that the log evidence is zero.  The others are regressions with data, known in closed form or on a grid.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from scipy.special import logsumexp

from tests.smc.conjugate import EnergyTarget, Regression

SHARES = 16
"""Samples that a density is divided into."""


@dataclass(frozen=True, eq=False)
class HardTarget:
    """A target, and what is known of it."""

    name: str
    target: EnergyTarget
    mean: np.ndarray
    sd: np.ndarray
    log_evidence: float
    share: Callable[[np.ndarray], np.ndarray] | None = None
    """Indicator (mode, particle) of the modes."""
    shares: np.ndarray | None = None
    """Their exact shares."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What it is made of, as plain data."""


def _normal(theta: np.ndarray, mean: np.ndarray | float, sd: np.ndarray | float) -> np.ndarray:
    """Log density, summed over the first axis."""
    white = (theta - mean) / sd
    return np.sum(-0.5 * white**2 - np.log(sd * np.ones_like(white)) - 0.5 * np.log(2 * np.pi), axis=0)


def _prior(dimension: int, sd: float, energy: Callable[[np.ndarray, int], np.ndarray], samples: int) -> EnergyTarget:
    """A target with a Gaussian prior around zero."""
    return EnergyTarget(
        energy,
        lambda key, count: sd * jax.random.normal(key, (dimension, count)),
        lambda theta: _normal(np.asarray(theta), 0.0, sd),
        samples,
    )


def _density(dimension: int, sd: float, log_density: Callable[[np.ndarray], np.ndarray]) -> EnergyTarget:
    """A normalised density as the posterior of a Gaussian prior and data that are equally informative."""

    def energy(theta: np.ndarray, sample: int) -> np.ndarray:
        return (_normal(theta, 0.0, sd) - log_density(theta)) / SHARES

    return _prior(dimension, sd, energy, SHARES)


def four_modes() -> HardTarget:
    """Four Gaussians with weights 1 : 2 : 4 : 8 and a standard deviation of 0.3 in six dimensions."""
    centres = 2.5 * np.sign(np.random.default_rng(1).standard_normal((4, 6)))
    shares, sd = np.array([1.0, 2.0, 4.0, 8.0]) / 15, 0.3

    def parts(theta: np.ndarray) -> np.ndarray:
        return np.stack([np.log(w) + _normal(theta, c[:, None], sd) for w, c in zip(shares, centres, strict=True)])

    mean = shares @ centres
    spread = np.sqrt(sd**2 + shares @ (centres - mean) ** 2)
    target = _density(6, 3.0, lambda theta: logsumexp(parts(theta), axis=0))
    member = lambda theta: np.argmax(parts(theta), axis=0) == np.arange(4)[:, None]  # noqa: E731
    numbers = {"prior_sd": 3.0, "shares": shares.tolist(), "centres": centres.tolist()}
    return HardTarget("four modes, 1:2:4:8, 6 dimensions", target, mean, spread, 0.0, member, shares, numbers)


def banana() -> HardTarget:
    """x ~ N(0, 1), y ~ N(x^2, 0.2^2)."""

    def log_density(theta: np.ndarray) -> np.ndarray:
        return _normal(theta[:1], 0.0, 1.0) + _normal(theta[1:], theta[:1] ** 2, 0.2)

    target, numbers = _density(2, 3.0, log_density), {"prior_sd": 3.0}
    return HardTarget("banana", target, np.array([0, 1.0]), np.sqrt([1, 2.04]), 0.0, numbers=numbers)


def funnel() -> HardTarget:
    """Log scale v ~ N(0, 1.5^2), four coordinates with standard deviation exp(v / 2)."""

    def log_density(theta: np.ndarray) -> np.ndarray:
        return _normal(theta[:1], 0.0, 1.5) + _normal(theta[1:], 0.0, np.exp(theta[:1] / 2))

    sd = np.array([1.5, *[np.exp(1.5**2 / 4)] * 4])
    target, numbers = _density(5, 3.0, log_density), {"prior_sd": 3.0}
    return HardTarget("funnel, 5 dimensions", target, np.zeros(5), sd, 0.0, numbers=numbers)


def correlated_gaussian() -> HardTarget:
    """20 dimensions, correlations of 0.9 between all."""
    factor = np.linalg.cholesky(0.1 * np.eye(20) + 0.9)
    inverse, log_det = np.linalg.inv(factor), np.sum(np.log(np.diag(factor)))
    target = _density(20, 2.0, lambda theta: _normal(inverse @ theta, 0.0, 1.0) - log_det)
    numbers = {"prior_sd": 2.0, "inverse": inverse.tolist(), "log_det": float(log_det)}
    return HardTarget("correlated Gaussian, 20 dimensions", target, np.zeros(20), np.ones(20), 0.0, numbers=numbers)


def wandering() -> HardTarget:
    """A straight line through data that bend: a wrong model, whose posterior moves away with every sample."""
    time = np.linspace(0, 1, 60)
    design = np.stack([np.ones(60), time, time**2], axis=1)
    outputs = 8 * time**4 - 3 * np.sin(9 * time)
    problem = Regression(design, outputs, np.full(60, 0.05), np.zeros(3), np.full(3, 10.0))
    exact = problem.exact
    sd = np.sqrt(np.diag(exact.covariance[-1]))
    return HardTarget("wandering, wrong model", problem.target(), exact.mean[-1], sd, float(exact.log_evidence[-1]))


def frequency() -> HardTarget:
    """y = a sin(w t) + noise with w ~ N(0, 8^2), sampled nearly regularly: w and its aliases fit nearly as well."""
    random = np.random.default_rng(4)
    time = 1.0 * np.arange(1, 25) + 0.02 * random.standard_normal(24)
    noise = 0.8
    outputs = 1.5 * np.sin(1.1 * time) + noise * random.standard_normal(24)

    def energy(theta: np.ndarray, sample: int) -> np.ndarray:
        return -_normal(outputs[sample] - theta[1:] * np.sin(8 * theta[:1] * time[sample]), 0.0, noise)

    target = _prior(2, 1.0, energy, len(time))
    w, a = np.linspace(-6, 6, 24001), np.linspace(-5, 5, 401)
    signal = np.sin(8 * w[:, None] * time)
    square, cross = np.sum(signal**2, axis=1), signal @ outputs
    logs = -0.5 * (np.sum(outputs**2) - 2 * a * cross[:, None] + a**2 * square[:, None]) / noise**2
    logs += -len(time) * np.log(noise * np.sqrt(2 * np.pi))
    logs += _normal(w[None, :, None], 0.0, 1.0) + _normal(a[None, None], 0.0, 1.0)
    total = logsumexp(logs)
    p = np.exp(logs - total)
    mean = np.array([p.sum(axis=1) @ w, p.sum(axis=0) @ a])
    second = np.array([p.sum(axis=1) @ w**2, p.sum(axis=0) @ a**2])
    log_evidence = float(total + np.log((w[1] - w[0]) * (a[1] - a[0])))
    numbers = {"prior_sd": 1.0, "time": time.tolist(), "outputs": outputs.tolist(), "noise": noise}
    sd = np.sqrt(second - mean**2)
    return HardTarget("frequency with aliases", target, mean, sd, log_evidence, numbers=numbers)


TARGETS = (four_modes, banana, funnel, wandering, frequency, correlated_gaussian)
