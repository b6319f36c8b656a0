"""Effective numbers of samples, and whether posteriors agree: the same definitions for every method.

Draws have the axes (run or chain, quantity, draw).  An effective number is that of independent draws whose mean would
be as uncertain; over the quantities the uncertainties, its inverses, are averaged.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

MEAN_TOLERANCE = 0.2
"""Largest difference of a posterior mean from the reference, in posterior standard deviations."""
SD_TOLERANCE = 0.1
"""The same for standard deviations, relative."""


@dataclass(frozen=True)
class Moments:
    """Of the posterior, by quantity."""

    mean: np.ndarray
    sd: np.ndarray


def moments(draws: np.ndarray, weights: np.ndarray | None = None) -> Moments:
    """Over all runs together, each counting the same."""
    mean = np.mean(run_means(draws, weights), axis=0)
    square = np.mean(run_means((draws - mean[:, None]) ** 2, weights), axis=0)
    return Moments(mean, np.sqrt(square))


def run_means(draws: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """(run, quantity)."""
    return draws.mean(axis=-1) if weights is None else np.einsum("rqd,rd->rq", draws, weights)


def between_runs(draws: np.ndarray, weights: np.ndarray | None, sd: np.ndarray) -> float:
    """Of one run, from the spread of the posterior means over independent runs; NaN for one run."""
    if len(draws) < 2:
        return float("nan")
    spread = np.var(run_means(draws, weights), axis=0, ddof=1)
    return float(1 / np.mean(spread / sd**2))


def of_weights(weights: np.ndarray) -> float:
    """Of one run, from its weights alone (Kish), averaged over the runs: draws that were independent have no more."""
    return float(np.mean(1 / np.sum(weights**2, axis=-1)))


def of_chains(draws: np.ndarray) -> float:
    """Of all chains together: ArviZ' bulk effective sample size."""
    import arviz

    each = [float(arviz.ess(np.ascontiguousarray(draws[:, q]), method="bulk")) for q in range(draws.shape[1])]
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
