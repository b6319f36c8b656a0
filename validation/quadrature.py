"""Means, standard deviations and the integral of a density in up to three dimensions, by cells that are divided."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

FIRST = {1: 4096, 2: 128, 3: 24}
"""Cells along each axis at first, by the number of axes."""

KEPT = {1: 20_000, 2: 30_000, 3: 60_000}
"""Cells that are divided: those with the highest density."""

LEVELS = 24
CLOSE = 1e-4
"""Change of the log of the integral by two further divisions at which it is known."""


class Answer(NamedTuple):
    """What quadrature knows."""

    mean: np.ndarray
    sd: np.ndarray
    log_evidence: float


def integrate(log_density: Callable[..., np.ndarray], ranges: Sequence[tuple[float, float]]) -> Answer:
    """By the midpoint rule.  The density must lead to its peaks: what the first cells do not see is left out."""
    dimension = len(ranges)
    low, high = np.array(ranges, dtype=float).T
    width = (high - low) / FIRST[dimension]
    axes = [a + w * (np.arange(FIRST[dimension]) + 0.5) for a, w in zip(low, width, strict=True)]
    cells = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
    corners = np.stack(np.meshgrid(*[[-0.25, 0.25]] * dimension, indexing="ij")).reshape(dimension, -1)
    points, logs, totals = [], [], []
    for _ in range(LEVELS):
        found = np.asarray(log_density(*cells)) + np.sum(np.log(width))
        totals.append(float(logsumexp(np.concatenate([*logs, found]))))
        if len(totals) > 2 and np.ptp(totals[-3:]) < CLOSE:
            break
        order = np.argsort(-found)
        chosen = order[: KEPT[dimension]]
        rest = np.setdiff1d(order, chosen)
        points.append(cells[:, rest])
        logs.append(found[rest])
        cells = (cells[:, chosen, None] + (corners * width[:, None])[:, None, :]).reshape(dimension, -1)
        width = width / 2
    else:
        raise AssertionError(f"the integral was not found: {totals[-3:]}")
    every, weights = np.hstack([*points, cells]), np.exp(np.concatenate([*logs, found]) - totals[-1])
    mean = every @ weights
    return Answer(mean, np.sqrt((every - mean[:, None]) ** 2 @ weights), totals[-1])
