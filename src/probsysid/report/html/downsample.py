"""Downsample long series for plotting: of each bin of samples, the ends, the minimum and the maximum stay.

The page carries all samples and downsamples what is in view at each zoom, by the same rule in `downsample.js`.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

BINS = 600
"""Bins across the width of a plot, which is about twice as many pixels wide."""

MOST = 200_000
"""Largest number of samples per series that a page carries; longer series are downsampled when it is written."""


def chosen(columns: Mapping[str, np.ndarray], keys: Sequence[str], bins: int = BINS) -> np.ndarray:
    """Indices of the samples that stay: the ends of each bin, and the minimum and maximum of each key in it."""
    count = len(next(iter(columns.values())))
    if count <= bins * (2 + 2 * len(keys)):
        return np.arange(count)
    edges = np.linspace(0, count, bins + 1).astype(int)
    kept = [edges[:-1], edges[1:] - 1]
    for key in keys:
        values = columns[key]
        low = np.where(np.isfinite(values), values, np.inf)
        high = np.where(np.isfinite(values), values, -np.inf)
        pairs = list(pairwise(edges))
        kept.append(np.array([a + np.argmin(low[a:b]) for a, b in pairs]))
        kept.append(np.array([a + np.argmax(high[a:b]) for a, b in pairs]))
    return np.unique(np.concatenate(kept))
