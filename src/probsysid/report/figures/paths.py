"""Posterior state trajectories against the truth or measurements."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probsysid.report.figures.style import MEASURED, POSTERIOR, TRUTH, mark_zoom, panels, subsampled

if TYPE_CHECKING:
    from probsysid.posterior.states import States

Curves = Mapping[str, Float[np.ndarray, " sample"]]


def plot_paths(
    states: "States",
    names: Sequence[str],
    labels: Mapping[str, str],
    zoom: tuple[float, float],
    truth: Curves | None = None,
    measured: Curves | None = None,
) -> Figure:
    """One row per state: the whole record, an enlarged part, and that part minus the mean; paths and a band of 2 sd."""
    figure, axes = panels(len(names), 3, height=1.8, sharex="col", width_ratios=[1.3, 1, 1])
    inside = (states.time >= zoom[0]) & (states.time <= zoom[1])
    whole = np.zeros(len(states.time), dtype=bool)
    whole[subsampled(len(states.time))] = True
    for row, name in zip(axes, names, strict=True):
        nothing = np.zeros(len(states.time))
        known = ((truth or {}).get(name), (measured or {}).get(name))
        _one(row[0], states, name, whole, *known, less=nothing)
        _one(row[1], states, name, inside, *known, less=nothing)
        _one(row[2], states, name, inside, *known, less=states.mean[name])
        row[0].set_ylabel(labels.get(name, name))
        mark_zoom(row[0], *zoom)
        for axis in row[1:]:
            axis.set_xlim(*zoom)
        row[2].ticklabel_format(axis="y", scilimits=(-2, 3))
    axes[0, 1].set_title("enlarged", fontsize="medium")
    axes[0, 2].set_title("minus the mean", fontsize="medium")
    for axis in axes[-1]:
        axis.set_xlabel("time [s]")
    figure.align_ylabels(axes[:, 0])
    described = next((row[1] for row, name in zip(axes, names, strict=True) if name in (measured or {})), axes[0, 1])
    handles, words = described.get_legend_handles_labels()
    figure.legend(handles, words, loc="outside upper center", ncols=4, frameon=False, fontsize="small")
    return figure


def _one(
    axis: Axes,
    states: "States",
    name: str,
    shown: np.ndarray,
    truth: np.ndarray | None,
    measured: np.ndarray | None,
    less: np.ndarray,
) -> None:
    time = states.time[shown]
    if measured is not None:
        color = "C2" if truth is not None else MEASURED
        axis.plot(time, (measured - less)[shown], ".", color=color, ms=2.5, label="measured")
    low, high = states.band(name)
    axis.fill_between(time, (low - less)[shown], (high - less)[shown], color=POSTERIOR, alpha=0.25, lw=0, label="2 sd")
    lines = axis.plot(time, (states.paths[name] - less)[:, shown].T, color=POSTERIOR, lw=0.5, alpha=0.6)
    lines[0].set_label("posterior paths")
    if truth is not None:
        axis.plot(time, (truth - less)[shown], color=TRUTH, lw=1.0, label="truth")
