"""Pareto-smoothed importance weights (Vehtari, Simpson, Gelman, Yao and Gabry 2024).

ArviZ has them, too, and the tests hold the two equal; but it takes longer to import than a run's programs take to load,
and every run needs this one function.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

FEWEST = 5
"""Weights that make a tail to which a distribution can be fitted."""

SAME = 1e-8
"""Relative difference of weights that are the same but for rounding."""

SPREAD = 3.0
"""How wide Zhang and Stephens' (2009) prior of the fit is."""

PRIOR_SHAPE, PRIOR_SAMPLES = 0.5, 10
"""The shape towards which the fit is shrunk, with the weight of this many observations (Vehtari et al. 2024)."""


class Pareto(NamedTuple):
    """A generalised Pareto distribution of what exceeds a threshold."""

    shape: float
    scale: float

    def quantiles(self, levels: Float[np.ndarray, " level"]) -> Float[np.ndarray, " level"]:
        beyond = np.log1p(-levels)
        if abs(self.shape) < np.finfo(float).eps:
            return -self.scale * beyond
        with np.errstate(over="ignore"):  # a shape of hundreds, of weights that are one particle's alone
            return self.scale * np.expm1(-self.shape * beyond) / self.shape


def smoothed(log_weights: Float[np.ndarray, " weight"]) -> tuple[Float[np.ndarray, " weight"], float]:
    """Log weights whose largest ones are replaced by quantiles of a distribution fitted to them, and its shape; up to a
    constant.  The shape is infinite where there are too few, and zero where all are the same."""
    logs = log_weights - np.max(log_weights)
    count = len(logs)
    if count <= FEWEST:
        return logs, np.inf
    if np.ptp(logs) < SAME:
        return logs, 0.0
    largest = int(np.ceil(min(0.2 * count, 3 * np.sqrt(count))))
    threshold = max(np.sort(logs)[-largest - 1], np.log(np.finfo(float).tiny))
    tail = np.flatnonzero(logs > threshold)
    if len(tail) < FEWEST:
        return logs, np.inf
    tail = tail[np.argsort(logs[tail])]
    fitted = fit(np.exp(logs[tail]) - np.exp(threshold))
    if np.isfinite(fitted.shape):
        levels = (np.arange(len(tail)) + 0.5) / len(tail)
        logs[tail] = np.minimum(np.log(fitted.quantiles(levels) + np.exp(threshold)), 0.0)
    return logs, fitted.shape


def fit(excesses: Float[np.ndarray, " excess"]) -> Pareto:
    """Zhang and Stephens' (2009) estimate from sorted numbers above zero: with b = -shape / scale, the shape follows
    from the numbers for every b, and the mean of b over its profile likelihood is taken."""
    count = len(excesses)
    points = 30 + int(np.sqrt(count))
    quartile = excesses[int(count / 4 + 0.5) - 1]
    b = (1 - np.sqrt(points / (np.arange(points) + 0.5))) / (SPREAD * quartile) + 1 / excesses[-1]
    shapes = np.mean(np.log1p(-b[:, None] * excesses), axis=1)
    logs = count * (np.log(-b / shapes) - shapes - 1)
    weights = np.exp(logs - np.max(logs))
    weights /= weights.sum()
    weights = np.where(weights < 10 * np.finfo(float).eps, 0.0, weights)
    mean = np.sum(b * weights) / np.sum(weights)
    shape = np.mean(np.log1p(-mean * excesses))
    return Pareto(float((count * shape + PRIOR_SAMPLES * PRIOR_SHAPE) / (count + PRIOR_SAMPLES)), float(-shape / mean))
