"""Free-run predictions against measurements."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from probsysid.report.figures.style import (
    ERROR,
    MEASURED,
    POSTERIOR,
    extremes,
    legend,
    mark_zoom,
    panels,
    quantile_band,
    written,
)
from probsysid.report.html.formatting import labelled

if TYPE_CHECKING:
    from probsysid.posterior.simulate import Simulation


def plot_fit(
    simulation: "Simulation",
    path: str | Path | None = None,
    *,
    output: str | None = None,
    zoom: slice | None = None,
) -> Figure:
    """Measured and simulated output with a 90 % posterior band, and the error below."""
    name, record = output or simulation.scored[0], simulation.record
    measured, mean = np.asarray(record.outputs[name]), simulation.mean(name)
    low, high = simulation.band(0.9, name)
    window = zoom or slice(0, record.samples)
    time = record.time[window]
    figure, axes = panels(2, 1, width=9.0, height=2.05, sharex=True, height_ratios=[2, 1])
    top, bottom = axes[:, 0]
    top.plot(time, measured[window], ".", color=MEASURED, ms=3, label="measured")
    top.plot(time, mean[window], color=POSTERIOR, lw=1.2, label="posterior mean, free run")
    top.fill_between(time, low[window], high[window], color=POSTERIOR, alpha=0.3, lw=0, label="90 % of the posterior")
    top.set_ylabel(labelled(name, record.units))
    legend(top, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    bottom.plot(time, (measured - mean)[window], color=ERROR, lw=0.8)
    bottom.set_ylabel("error")
    bottom.set_xlabel("time [s]")
    return written(figure, path)


def plot_prediction(
    time: Float[np.ndarray, " sample"],
    measured: Float[np.ndarray, " sample"],
    curves: Float[np.ndarray, "draw sample"],
    label: str,
    zoom: tuple[float, float],
) -> Figure:
    """The whole record, an enlarged part with a 90 % posterior band, and the error of the mean against that band."""
    figure, axes = panels(3, 1, height=1.6, height_ratios=[1, 1, 0.8])
    whole, part, error = axes[:, 0]
    mean = curves.mean(axis=0)
    shown, misses = extremes(measured), extremes(measured - mean)
    inside = (time >= zoom[0]) & (time <= zoom[1])
    whole.plot(time[shown], measured[shown], color=MEASURED, lw=0.5, label="measured")
    whole.plot(time[shown], mean[shown], color=POSTERIOR, lw=0.5, label="posterior mean, free run")
    mark_zoom(whole, *zoom)
    low, high = quantile_band(curves[:, inside])
    part.plot(time[inside], measured[inside], ".", color=MEASURED, ms=3, label="measured")
    part.plot(time[inside], mean[inside], color=POSTERIOR, lw=1.0, label="posterior mean, free run")
    part.fill_between(time[inside], low, high, color=POSTERIOR, alpha=0.3, lw=0, label="90 % of the posterior")
    part.set_xlim(*zoom)
    error.plot(time[misses], (measured - mean)[misses], color=ERROR, lw=0.5)
    low, high = quantile_band(curves[:, misses])
    error.fill_between(time[misses], low - mean[misses], high - mean[misses], color=POSTERIOR, alpha=0.6, lw=0)
    whole.set_ylabel(label)
    part.set_ylabel(label)
    error.set_ylabel("measured\nminus mean")
    error.set_xlabel("time [s]")
    error.sharex(whole)
    legend(part, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
