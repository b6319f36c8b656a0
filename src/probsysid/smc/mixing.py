"""When moves have done enough: how much particles remember of where they were.

A particle that an independent proposal has replaced remembers nothing, so it is enough that nearly every particle has
moved once.  A step of a random walk is short: nearly every particle moves at once, and copies of one ancestor stay
together.  What decides there is the correlation between positions before and after all moves (Buchholz, Chopin and
Jacob 2021), along the axis where it is largest.
"""

import numpy as np
from jaxtyping import Float

from probsysid.smc.proposals import JITTER

FORGOTTEN = 0.3
"""Correlation below which particles have forgotten where they were."""

LONGER = 5
"""How many times as many moves walks may take as independent proposals."""

PROGRESS = 0.05
"""By how much the correlation must have fallen over the last moves for more of them to be worth their price."""

Populations = Float[np.ndarray, "dimension population member"]


def correlation(before: Populations, after: Populations) -> float:
    """Correlation between positions before and after, along the principal axis where it is largest."""
    old, new = (theta.reshape(len(theta), -1) - theta.mean(axis=(1, 2))[:, None] for theta in (before, after))
    scale = np.sqrt(np.mean(old**2, axis=1) + np.mean(new**2, axis=1))[:, None]
    old, new = old / np.where(scale > 0, scale, 1.0), new / np.where(scale > 0, scale, 1.0)
    _, axes = np.linalg.eigh(old @ old.T + new @ new.T)
    old, new = axes.T @ old, axes.T @ new
    sizes = np.sqrt(np.sum(old**2, axis=1) * np.sum(new**2, axis=1))
    return float(np.max(np.sum(old * new, axis=1) / np.maximum(sizes, JITTER)))


def walked_enough(correlations: list[float], moves: int) -> bool:
    """Whether a walk may end, by the correlations after each of its moves so far: forgotten, at the longest, or no
    longer getting anywhere."""
    latest, taken = correlations[-1], len(correlations)
    if latest <= FORGOTTEN or taken >= LONGER * moves:
        return True
    lag = max(1, moves // 2)
    return taken >= moves and taken > lag and correlations[-1 - lag] - latest < PROGRESS
