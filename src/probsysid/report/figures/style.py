"""Colours, panels, axes and downsampling shared by the figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from probsysid._internal.figure_text import literal_labels
from probsysid.report.html.downsample import chosen

PRIOR, POSTERIOR, TRUTH, MEASURED, ERROR = "0.55", "C0", "C3", "0.25", "C1"

MOST_POINTS = 6000
"""Points per curve; longer curves are downsampled, because a printed column resolves no more."""


def panels(
    rows: int, columns: int, width: float = 7.0, height: float = 1.9, **options: Any
) -> tuple[Figure, np.ndarray]:
    """A grid of axes, always two-dimensional."""
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, height * rows + 0.5), squeeze=False, layout="constrained", **options
    )
    return figure, axes


def subsampled(count: int, most: int = MOST_POINTS) -> slice:
    """Every n-th sample, fewer than twice `most` of them."""
    return slice(None, None, max(1, count // most))


def extremes(values: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """Indices of at most `most` samples: the ends, the minimum and the maximum of each bin.  Taking every n-th sample
    would alias an oscillation to a lower frequency."""
    return chosen({"values": values}, ["values"], most // 4)


def mark_zoom(axis: Axes, low: float, high: float) -> None:
    """Shade the part that a neighbouring panel enlarges."""
    axis.axvspan(low, high, color="C2", alpha=0.18, lw=0)


def quantile_band(curves: np.ndarray, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the interval that holds `level` of equally weighted curves."""
    low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def legend(axis: Axes, **options: Any) -> None:
    """A small legend without a frame."""
    axis.legend(frameon=False, fontsize="small", **options)


def plain_ticks(axis: Axes, count: int, digits: int = 5) -> None:
    """About `count` ticks per axis, labelled in full: without offset or common exponent."""
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(MaxNLocator(count))
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.{digits}g}"))


def hide(axes: Sequence[Axes]) -> None:
    """Blank the unused panels of a grid."""
    for axis in axes:
        axis.set_axis_off()


def written(figure: Figure, path: str | Path | None) -> Figure:
    """The figure; saved and closed if there is a path for it."""
    literal_labels(figure)
    if path is not None:
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return figure
