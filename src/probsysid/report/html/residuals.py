"""Interactive figures of the one-step prediction errors: correlation, spectrum, dependence on the inputs."""

from typing import Literal

import numpy as np
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from probsysid.data.record import Record
from probsysid.posterior.diagnostics.residuals import Residuals
from probsysid.report.html.series import BLUE, GREY, VERMILION
from probsysid.report.spectral import residual_segment, welch

MOST_POINTS = 2000
"""Points of a scatter plot; of more errors, evenly spaced ones are shown."""


def residual_figures(found: Residuals, record: Record) -> list[figure]:
    """Correlation, spectrum, and a scatter plot against each input."""
    plots = [_correlation(found), _spectrum(found, record)]
    plots += [_against(found, record, name) for name in record.inputs]
    for plot in plots:
        plot.toolbar_location = None
    return plots


def _plot(title: str, x: str, y: str, y_scale: Literal["auto", "log"] = "auto") -> figure:
    return figure(
        height=230,
        title=title,
        x_axis_label=x,
        y_axis_label=y,
        y_axis_type=y_scale,
        tools="box_zoom,reset",
        sizing_mode="stretch_width",
    )


def _mark(plot: figure, level: float) -> None:
    plot.add_layout(Span(location=level, dimension="width", line_dash="dashed", line_color=GREY))


def _correlation(found: Residuals) -> figure:
    plot = _plot("correlation of one-step errors", "lag [samples]", "correlation")
    lags = np.arange(1.0, len(found.correlation) + 1)
    plot.segment(lags, np.zeros(len(lags)), lags, found.correlation, color=BLUE, line_width=2)
    for level in (-found.bound, found.bound):
        _mark(plot, level)
    return plot


def _spectrum(found: Residuals, record: Record) -> figure:
    """Relative to white noise of the same variance."""
    plot = _plot("spectrum of one-step errors", "frequency [Hz]", "density / white", y_scale="log")
    rate = 1 / (record.dt or float(np.median(np.diff(record.time))))
    frequency, density = welch(found.values, rate, residual_segment(len(found.values)))
    level = np.var(found.values) * 2 / rate
    plot.line(frequency, np.maximum(density / level, 1e-6), color=BLUE)
    _mark(plot, 1.0)
    return plot


def _against(found: Residuals, record: Record, name: str) -> figure:
    plot = _plot(f"one-step errors against {name}", record.label(name), "error / sd")
    inputs = record.input_derivatives(0)[found.samples, record.input_names.index(name), 0]
    few = np.unique(np.linspace(0, len(inputs) - 1, min(len(inputs), MOST_POINTS)).astype(int))
    plot.scatter(inputs[few], found.values[few], size=3, color=VERMILION, alpha=0.5)
    return plot
