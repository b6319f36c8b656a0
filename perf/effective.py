"""Effective sample sizes, and agreement of posteriors: the same definitions for every method.

Draws have the axes (run or chain, quantity, draw).  The effective sample size is the number of independent draws that
would estimate a figure with the same uncertainty: the mean, the spread (mean squared deviation), or the tail (share
below the 5 % quantile).  Its inverses, the uncertainties, are averaged over the quantities.  It can exceed the number
of draws where these are negatively correlated: those of NUTS within a chain, and quasi-random ones all together.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

MEAN_TOLERANCE = 0.2
"""Largest difference of a posterior mean from the reference, in posterior standard deviations."""
SD_TOLERANCE = 0.1
"""The same for standard deviations, relative."""
LOW = 0.05
"""The tail is what lies below this quantile."""


@dataclass(frozen=True)
class Moments:
    """Of the posterior, by quantity."""

    mean: np.ndarray
    sd: np.ndarray


@dataclass(frozen=True)
class Reference(Moments):
    """The posterior to compare with, by quantity."""

    kurtosis: np.ndarray
    low: np.ndarray
    """The 5 % quantile."""

    @classmethod
    def of(cls, draws: np.ndarray, weights: np.ndarray) -> "Reference":
        known = moments(draws, weights)
        white = (draws - known.mean[:, None]) / known.sd[:, None]
        kurtosis = np.mean(run_means(white**4, weights), axis=0)
        return cls(known.mean, known.sd, kurtosis, np.array([quantile(q, weights[0], LOW) for q in draws[0]]))

    def figures(self) -> Mapping[str, tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]]:
        """The figures of each quantity: a function of the draws, and its variance over the posterior."""
        mean, sd, low = self.mean[:, None], self.sd[:, None], self.low[:, None]
        return {
            "mean": (lambda x: (x - mean) / sd, np.ones(len(mean))),
            "spread": (lambda x: ((x - mean) / sd) ** 2, self.kurtosis - 1),
            "tail": (lambda x: (x < low).astype(float), np.full(len(low), LOW * (1 - LOW))),
        }


def quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """Of weighted values."""
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), share)])


def moments(draws: np.ndarray, weights: np.ndarray | None = None) -> Moments:
    """Over all runs together, equally weighted."""
    mean = np.mean(run_means(draws, weights), axis=0)
    square = np.mean(run_means((draws - mean[:, None]) ** 2, weights), axis=0)
    return Moments(mean, np.sqrt(square))


def run_means(draws: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """(run, quantity)."""
    return draws.mean(axis=-1) if weights is None else np.einsum("rqd,rd->rq", draws, weights)


def effective(draws: np.ndarray, weights: np.ndarray | None, reference: Reference, kind: str) -> dict[str, float]:
    """Effective sample sizes for each figure: of all chains together, or of one run of a population."""
    found = {}
    for name, (function, variance) in reference.figures().items():
        values = function(draws)
        if kind == "smc":
            found[name] = between_runs(values, weights, variance)
        else:
            found[name] = of_chains(values, "bulk" if name == "mean" else "mean")
    return found


def between_runs(values: np.ndarray, weights: np.ndarray | None, variance: np.ndarray) -> float:
    """Of one run, from the spread of means over independent runs; NaN for one run."""
    if len(values) < 2:
        return float("nan")
    spread = np.var(run_means(values, weights), axis=0, ddof=1)
    return float(1 / np.mean(spread / variance))


def of_weights(weights: np.ndarray) -> float:
    """Of one run, from its weights alone (Kish), averaged over the runs: an upper bound for independent draws."""
    return float(np.mean(1 / np.sum(weights**2, axis=-1)))


def of_chains(values: np.ndarray, method: str = "bulk") -> float:
    """Of all chains together: one of ArviZ' effective sample sizes."""
    import arviz

    each = [float(arviz.ess(np.ascontiguousarray(values[:, q]), method=method)) for q in range(values.shape[1])]
    return float(1 / np.mean(1 / np.array(each)))


def agreement(found: Moments, reference: Moments) -> dict[str, Any]:
    """Largest differences, and whether they are within the tolerances."""
    shift = float(np.max(np.abs(found.mean - reference.mean) / reference.sd))
    ratio = found.sd / reference.sd
    worst = float(ratio[np.argmax(np.abs(np.log(ratio)))])
    return {
        "mean_shift": shift,
        "sd_ratio": worst,
        "agrees": bool(shift <= MEAN_TOLERANCE and abs(worst - 1) <= SD_TOLERANCE),
    }
