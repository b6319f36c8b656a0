"""What the figures have in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from probsysid.report.html.downsample import chosen

PRIOR, POSTERIOR, TRUTH, MEASURED, ERROR = "0.55", "C0", "C3", "0.25", "C1"

MOST_POINTS = 6000
"""Longer curves are thinned: a printed column shows no more."""


def panels(rows: int, columns: int, width: float = 7.0, height: float = 1.9, **options: Any) -> tuple[Figure, Any]:
    """A grid of axes, always two-dimensional."""
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, height * rows + 0.5), squeeze=False, layout="constrained", **options
    )
    return figure, axes


def thinned(count: int, most: int = MOST_POINTS) -> slice:
    """Every n-th sample, so that at most so many are left."""
    return slice(None, None, max(1, count // most))


def extremes(values: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """Indices of at most so many samples: the ends, the smallest and the largest of each stretch.  Every n-th sample of
    an oscillation would show another one, slower, that is not there."""
    return chosen({"values": values}, ["values"], most // 4)


def mark_zoom(axis: Axes, low: float, high: float) -> None:
    """Shade the part that a neighbouring panel enlarges."""
    axis.axvspan(low, high, color="C2", alpha=0.18, lw=0)


def quantile_band(curves: np.ndarray, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the interval that holds `level` of equally weighted curves."""
    low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def legend(axis: Axes, **options: Any) -> None:
    """Small and without a frame."""
    axis.legend(frameon=False, fontsize="small", **options)


def plain_ticks(axis: Axes, count: int, digits: int = 5) -> None:
    """A few ticks on both axes with all their digits: no offset or exponent written apart."""
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(MaxNLocator(count))
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.{digits}g}"))


def hide(axes: Sequence[Axes]) -> None:
    """Blank panels of a grid that is not full."""
    for axis in axes:
        axis.set_axis_off()


def written(figure: Figure, path: str | Path | None) -> Figure:
    """The figure, saved and closed if there is a path for it."""
    if path is not None:
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return figure
