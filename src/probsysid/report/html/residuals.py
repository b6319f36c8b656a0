"""Pictures of the one-step prediction errors: are they white, and free of the input?"""

from typing import Any

import numpy as np
import scipy.signal
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from probsysid.data.record import Record
from probsysid.posterior.diagnostics.residuals import Residuals, analyse, verdict
from probsysid.report.html.series import BLUE, VERMILION

__all__ = ["analyse", "residual_figures", "verdict"]


def residual_figures(found: Residuals, record: Record) -> list[Any]:
    """Correlation, spectrum, and against each input."""
    plots = [_correlation(found), _spectrum(found, record)]
    plots += [_against(found, record, name) for name in record.inputs]
    for plot in plots:
        plot.toolbar_location = None
    return plots


def _plot(title: str, x: str, y: str) -> Any:
    return figure(
        height=230, title=title, x_axis_label=x, y_axis_label=y, tools="box_zoom,reset", sizing_mode="stretch_width",
            )  # fmt: skip


def _correlation(found: Residuals) -> Any:
    plot = _plot("correlation of one-step errors", "lag [samples]", "correlation")
    lags = np.arange(1, len(found.correlation) + 1)
    plot.segment(lags, np.zeros(len(lags)), lags, found.correlation, color=BLUE, line_width=2)
    for level in (-found.bound, found.bound):
        plot.add_layout(Span(location=level, dimension="width", line_dash="dashed", line_color="#666666"))
    return plot


def _spectrum(found: Residuals, record: Record) -> Any:
    """Against the flat line of white noise."""
    plot = figure(
        height=230, title="spectrum of one-step errors", x_axis_label="frequency [Hz]", y_axis_label="density / white",
        y_axis_type="log", tools="box_zoom,reset", sizing_mode="stretch_width",
    )  # fmt: skip
    rate = 1 / (record.dt or float(np.median(np.diff(record.time))))
    pieces = min(len(found.values), max(32, len(found.values) // 8))
    frequency, density = scipy.signal.welch(found.values, fs=rate, nperseg=pieces)
    level = np.var(found.values) * 2 / rate
    plot.line(frequency[1:], np.maximum(density[1:] / level, 1e-6), color=BLUE)
    plot.add_layout(Span(location=1.0, dimension="width", line_dash="dashed", line_color="#666666"))
    return plot


def _against(found: Residuals, record: Record, name: str) -> Any:
    plot = _plot(f"one-step errors against {name}", record.label(name), "error / sd")
    inputs = record.input_derivatives(0)[found.samples, record.input_names.index(name), 0]
    few = np.unique(np.linspace(0, len(inputs) - 1, min(len(inputs), 2000)).astype(int))
    plot.scatter(inputs[few], found.values[few], size=3, color=VERMILION, alpha=0.5)
    return plot
