"""Evolution of the parameters' posterior with the number of samples."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from probsysid.report.figures.style import POSTERIOR, TRUTH, hide, panels, plain_ticks
from probsysid.report.html.formatting import labelled


def plot_evolution(
    quantiles: xr.Dataset,
    names: Sequence[str],
    units: Mapping[str, str],
    reference: Mapping[str, float] | None = None,
    columns: int = 2,
) -> Figure:
    """Median and 90 % interval of each parameter against the number of samples, on a logarithmic axis."""
    rows = -(-len(names) // columns)
    figure, axes = panels(rows, columns, height=1.5, sharex=True)
    flat = list(axes.flat)
    samples = quantiles["samples"].values
    for name, axis in zip(names, flat, strict=False):
        low, middle, high = quantiles[name].values.T
        axis.fill_between(samples, low, high, color=POSTERIOR, alpha=0.3, lw=0, step="post")
        axis.step(samples, middle, where="post", color=POSTERIOR, lw=1.0)
        if reference and name in reference:
            axis.axhline(reference[name], color=TRUTH, lw=1.0, ls="--")
        settled = samples > 0.02 * samples[-1]
        bottom, top = np.min(low[settled]), np.max(high[settled])
        axis.set_ylim(bottom - 0.15 * (top - bottom), top + 0.15 * (top - bottom))
        plain_ticks(axis, 3)
        axis.set_xscale("log")
        axis.set_ylabel(labelled(name, units), fontsize="small")
        axis.tick_params(labelsize="small")
    hide(flat[len(names) :])
    for axis in flat[max(0, len(names) - columns) : len(names)]:  # the lowest panel in use of each column
        axis.set_xlabel("samples")
        axis.tick_params(labelbottom=True)
    figure.align_ylabels(axes[:, 0])
    return figure
