"""Plots of the channels of a record."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool

from probsysid._internal.errors import InputError
from probsysid._internal.figure_text import literal_labels
from probsysid.data.intersample import Intersample
from probsysid.data.time_axis import Samples, Times

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVE_POINTS = 4000
"""Points of the curve between samples; more cannot be resolved at the width of a page."""

MARKED_SAMPLES = 200
"""Records of at most this many samples show each as a dot."""


def plot_channels(
    time: Times,
    inputs: Mapping[str, Intersample],
    outputs: Mapping[str, Samples],
    *,
    label: Callable[[str], str],
    title: str | None,
    path: str | PathLike[str] | None,
    axes: "Sequence[Axes] | None",
) -> "Figure":
    """One row per channel, inputs first; into `axes` if given, saved to `path` if given."""
    from matplotlib import pyplot  # takes long to import, and is needed for plots only

    rows = len(inputs) + len(outputs)
    if rows == 0:
        raise InputError("there is nothing to plot: the record has no channels.")
    own = axes is None
    if axes is None:
        _, grid = pyplot.subplots(rows, squeeze=False, sharex=True, figsize=(9, 1 + 1.6 * rows), layout="constrained")
        axes = list(grid[:, 0])
    if len(axes) != rows:
        raise InputError(f"the record has {rows} channels to plot, but {len(axes)} axes were given.")
    for ax, (name, signal) in zip(axes, inputs.items(), strict=False):
        _draw_input(ax, time, signal, label(name))
    for ax, (name, values) in zip(axes[len(inputs) :], outputs.items(), strict=True):
        _draw_output(ax, time, values, label(name))
    _finish(axes, title)
    figure = axes[0].get_figure(root=True)
    assert figure is not None, "axes that are drawn into belong to a figure"
    figure.align_ylabels(axes)
    literal_labels(figure)
    if path is not None:
        figure.savefig(path, dpi=150)
        if own:
            pyplot.close(figure)
    return figure


def _draw_input(ax: "Axes", time: Times, signal: Intersample, label: str) -> None:
    """The samples, and the curve between them."""
    if signal.jump_order == 0:
        ax.step(time, signal.at(time), where="post", color="tab:orange", linewidth=1)
    else:
        substeps = max(1, min(16, CURVE_POINTS // len(time)))
        position = np.arange(substeps * (len(time) - 1) + 1) / substeps
        fine = np.interp(position, np.arange(len(time)), time)
        ax.plot(fine, signal.at(fine), color="tab:orange", linewidth=1)
    if len(time) <= MARKED_SAMPLES:
        ax.plot(time, signal.at(time), ".", color="tab:orange", markersize=4)
    _annotate(ax, label, f"input, {signal.word}")


def _draw_output(ax: "Axes", time: Times, values: Samples, label: str) -> None:
    """The samples, and red bars where they are missing."""
    missing = np.isnan(values)
    ax.plot(time, values, color="tab:blue", linewidth=1)
    if len(time) <= MARKED_SAMPLES or np.any(missing):  # a sample between missing ones has no line
        ax.plot(time, values, ".", color="tab:blue", markersize=4 if len(time) <= MARKED_SAMPLES else 1)
    if np.any(missing):
        whole_height = ax.get_xaxis_transform()
        ax.broken_barh(_runs(missing, time), (0, 1), transform=whole_height, color="tab:red", alpha=0.25)
    _annotate(ax, label, f"output, {np.sum(missing)} missing" if np.any(missing) else "output")


def _finish(axes: "Sequence[Axes]", title: str | None) -> None:
    for ax in axes:
        ax.margins(x=0.01)
        ax.grid(alpha=0.3)
    axes[-1].set_xlabel("time [s]")
    if title is not None:
        axes[0].set_title(title)


def _annotate(ax: "Axes", label: str, note: str) -> None:
    """Name and unit at the side, a note above the right corner."""
    ax.set_ylabel(label)
    ax.set_title(note, loc="right", fontsize="small")


def _runs(mask: Bool[np.ndarray, "T"], time: Times) -> list[tuple[float, float]]:
    """Start and width of each run of true samples, extended by half an interval on both sides."""
    edges = np.concatenate([time[:1], (time[1:] + time[:-1]) / 2, time[-1:]])
    change = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(edges[first], edges[last] - edges[first]) for first, last in change.reshape(-1, 2)]
