"""Inputs and outputs of a record, with its training and test parts shaded."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from probsysid.data.record import Record
from probsysid.report.figures.style import MEASURED, extremes, panels
from probsysid.report.html.formatting import labelled

LONG = 20000
"""Points per curve; longer records are downsampled."""


def plot_signals(record: Record, parts: Mapping[str, slice] | None = None) -> Figure:
    """One row per channel; `parts` are shaded and named in the legend."""
    channels = {**{name: v for name, v in record.inputs.items() if not callable(v)}, **record.outputs}
    figure, axes = panels(len(channels), 1, height=1.7, sharex=True)
    for axis, (name, values) in zip(axes[:, 0], channels.items(), strict=True):
        shown = extremes(np.asarray(values), LONG)
        axis.plot(record.time[shown], np.asarray(values)[shown], color=MEASURED, lw=0.3)
        axis.set_ylabel(labelled(name, record.units))
        for number, (part, where) in enumerate((parts or {}).items()):
            low, high = record.time[where][[0, -1]]
            axis.axvspan(low, high, color=f"C{number}", alpha=0.25, lw=0, label=part, zorder=0)
    axes[-1, 0].set_xlabel("time [s]")
    if parts:
        handles, words = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, words, loc="outside upper center", ncols=4, frameon=False, fontsize="small")
    return figure
