"""Channels whose sensor clips or is quantised, told from the values alone."""

import numpy as np
from jaxtyping import Float

CLIPPED_RUN, PILED_UP = 4, 2.0
"""A channel is called clipped where so many samples in a row have its largest or smallest value, and so many times more
samples have it than the value next to it.  A slow peak seen with a coarse resolution has 1.4 times more."""

MOST_LEVELS, LEAST_SAMPLES = 12, 200
"""A channel with fewer different values than this, in more samples than this, is called quantised; so is one ..."""
UNCHANGED, PER_LEVEL, ON_GRID = 0.3, 5, 1e-3
"""... whose values are multiples of a step (within this share of it), at least five times fewer than its samples, if
this share of them equals the one before.  Noise and motion from sample to sample are then no larger than the step, and
it matters: noise of one step leaves 0.28 of the values of a constant unchanged."""


def sensor_limits(values: Float[np.ndarray, " sample"]) -> dict[str, float]:
    """What its noise should be told: `upper` and `lower` where it looks clipped, `step` where it looks quantised."""
    finite = values[np.isfinite(values)]
    if not len(finite) or np.ptp(finite) == 0:
        return {}
    levels, counts = np.unique(finite, return_counts=True)
    found: dict[str, float] = {}
    for key, extreme, beside in (("upper", -1, -2), ("lower", 0, 1)):
        piled_up = counts[extreme] > PILED_UP * counts[beside]
        if piled_up and runs_at(finite, levels[extreme])[0] >= CLIPPED_RUN:
            found[key] = float(levels[extreme])
    few = len(finite) > LEAST_SAMPLES and len(levels) < MOST_LEVELS
    if few or (len(finite) >= PER_LEVEL * len(levels) and np.mean(np.diff(finite) == 0) > UNCHANGED):
        gaps = np.diff(levels)
        step = float(f"{np.min(gaps):.6g}")
        if few or np.all(np.abs(gaps / step - np.round(gaps / step)) < ON_GRID):
            found["step"] = step
    return found


def runs_at(values: Float[np.ndarray, " sample"], extreme: float) -> tuple[int, int]:
    """Length of the longest run of samples at an extreme, and the number of samples in runs of two or more."""
    at = np.concatenate([[0], (values == extreme).astype(int), [0]])
    edges = np.flatnonzero(np.diff(at)).reshape(-1, 2)
    lengths = edges[:, 1] - edges[:, 0]
    return int(lengths.max(initial=0)), int(lengths[lengths >= 2].sum())
