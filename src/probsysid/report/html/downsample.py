"""Long series with few points: of each stretch of samples the lowest and the highest stay.

The page carries all samples and thins what is in view, anew at each zoom, by the same rule in JavaScript.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

BINS = 600
"""Stretches across the width of a plot: a plot on a page has about as many pixels, twice."""

MOST = 200_000
"""Samples that a page carries at most of a series; longer ones are thinned once for all."""


def chosen(columns: Mapping[str, np.ndarray], keys: Sequence[str], bins: int = BINS) -> np.ndarray:
    """Indices of the samples that stay: of each bin the ends, and where each key is lowest and highest."""
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


SCRIPT = """
const all = full.data, time = all.time, n = time.length;
const before = (value) => {
  let low = 0, high = n;
  while (low < high) { const mid = (low + high) >> 1; if (time[mid] < value) low = mid + 1; else high = mid; }
  return low;
};
const first = Math.max(0, before(range.start) - 1), last = Math.min(n, before(range.end) + 1);
const count = last - first, keep = new Set();
if (count <= bins * (2 + 2 * keys.length)) {
  for (let i = first; i < last; i++) keep.add(i);
} else {
  for (let b = 0; b < bins; b++) {
    const from = first + Math.floor(count * b / bins), to = first + Math.floor(count * (b + 1) / bins);
    keep.add(from); keep.add(to - 1);
    for (const key of keys) {
      const values = all[key];
      let low = -1, high = -1;
      for (let i = from; i < to; i++) {
        if (Number.isNaN(values[i])) continue;
        if (low < 0 || values[i] < values[low]) low = i;
        if (high < 0 || values[i] > values[high]) high = i;
      }
      if (low >= 0) { keep.add(low); keep.add(high); }
    }
  }
}
const order = Array.from(keep).sort((a, b) => a - b), shown = {};
for (const name of Object.keys(all)) shown[name] = Float64Array.from(order, (i) => all[name][i]);
view.data = shown;
"""
"""The same for the samples between the ends of a range: arguments full, view, range, keys, bins."""
