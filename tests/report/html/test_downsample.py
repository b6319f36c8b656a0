"""Downsampling: few points, but every extreme."""

import numpy as np

from probsysid.report.html.downsample import BINS, chosen


def test_downsampling_keeps_every_extreme() -> None:
    random = np.random.default_rng(0)
    values = random.standard_normal(100_000)
    values[777], values[50_000] = 50.0, np.nan
    kept = chosen({"time": np.arange(100_000.0), "value": values}, ["value"])
    assert len(kept) <= 4 * BINS
    assert {0, 777, 99_999, int(np.nanargmin(values))} <= set(kept.tolist())
    np.testing.assert_array_equal(chosen({"value": values[:100]}, ["value"]), np.arange(100))
