"""Are the one-step prediction errors white, and free of the input?  If not, the model or the noise is wrong."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.signal
from bokeh.models.annotations import Span
from bokeh.plotting import figure
from scipy.stats import chi2

from probsysid.record import Record
from probsysid.report.html.series import BLUE, VERMILION

LAGS = 40
SIGNIFICANT = 0.01


@dataclass(frozen=True, eq=False)
class Residuals:
    """Whitened one-step prediction errors of one output, and what they say."""

    values: np.ndarray
    samples: np.ndarray
    """Which sample each belongs to: missing ones have none."""
    correlation: np.ndarray
    """At lags 1, 2, ..."""
    probability: float
    """Of correlations at least as large if the errors were white (Ljung and Box)."""

    @property
    def spread(self) -> float:
        """Their standard deviation: 1 if noise and model are right."""
        return float(np.std(self.values))

    @property
    def bound(self) -> float:
        """95 % of the correlations of white noise lie within."""
        return 1.96 / float(np.sqrt(len(self.values)))

    @property
    def white(self) -> bool:
        return self.probability > SIGNIFICANT


def analyse(innovations: np.ndarray, measured: np.ndarray | None = None) -> Residuals | None:
    """The mean over draws; missing samples, NaN in `measured`, are left out.  None if there is too little to say."""
    values = innovations.mean(axis=0)
    present = np.isfinite(values) if measured is None else np.isfinite(values) & np.isfinite(measured)
    samples = np.flatnonzero(present)
    values = values[samples]
    if len(values) < 20 or np.std(values) == 0:
        return None
    centred = values - values.mean()
    lags = min(LAGS, len(values) // 4)
    full = scipy.signal.correlate(centred, centred, method="fft")[len(centred) - 1 :]
    correlation = full[1 : lags + 1] / full[0]
    count = len(values)
    statistic = count * (count + 2) * np.sum(correlation**2 / (count - np.arange(1, lags + 1)))
    return Residuals(values, samples, correlation, float(chi2.sf(statistic, lags)))


def verdict(output: str, found: Residuals) -> str:
    """In a sentence."""
    spread = f"standard deviation {found.spread:.2f} (1 expected)"
    if found.white:
        return f"{output}: white as far as the data can tell (Ljung-Box p = {found.probability:.2g}); {spread}."
    return (
        f"{output}: not white (Ljung-Box p = {found.probability:.1g}); {spread}. Something is left that the model does "
        "not explain: look at the spectrum for where, or try another model or model_error."
    )


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
