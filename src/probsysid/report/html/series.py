"""Interactive time series: Bokeh figures that zoom quickly with a hundred thousand samples."""

from collections.abc import Mapping, Sequence

import numpy as np
from bokeh.layouts import column
from bokeh.models import BoxZoomTool, Column, ColumnDataSource, CustomJS, Range1d
from bokeh.models.annotations import BoxAnnotation, Label
from bokeh.plotting import figure

from probsysid.posterior.diagnostics.noise_marks import NoiseMarks
from probsysid.posterior.states import States
from probsysid.posterior.unknown_inputs import UnknownInputs
from probsysid.report.html.downsample import BINS, MOST, chosen
from probsysid.report.html.formatting import labelled
from probsysid.report.html.rendering import source
from probsysid.report.views import DataView, RunView

# Okabe and Ito's colours, which colour-blind readers can tell apart.
BLACK, BLUE, ORANGE, GREEN, VERMILION = "#222222", "#0072B2", "#E69F00", "#009E73", "#D55E00"
GREY = "#666666"

TOOLS = "xpan,xwheel_zoom,reset,save"


class Series:
    """Columns over time, downsampled to what a view needs."""

    def __init__(self, columns: Mapping[str, np.ndarray], keys: Sequence[str]):
        columns = {name: np.asarray(values) for name, values in columns.items()}
        if len(columns["time"]) > MOST:
            kept = chosen(columns, keys, MOST // (2 + 2 * len(keys)))
            columns = {name: values[kept] for name, values in columns.items()}
        few = chosen(columns, keys)
        self.keys = list(keys)
        downsampled = len(few) < len(columns["time"])
        carried = {n: v if n == "time" else v.astype(np.float32) for n, v in columns.items()}
        self.full = ColumnDataSource(carried) if downsampled else None
        self.view = ColumnDataSource({name: values[few] for name, values in columns.items()})

    def follow(self, x_range: Range1d) -> None:
        """Downsample again whenever the range changes."""
        if self.full is None:
            return
        arguments = {"full": self.full, "view": self.view, "range": x_range, "keys": self.keys, "bins": BINS}
        callback = CustomJS(args=arguments, code=source("downsample.js"))
        x_range.js_on_change("start", callback)
        x_range.js_on_change("end", callback)


def panel(x_range: Range1d, label: str, height: int, *, last: bool) -> figure:
    """An empty plot over time."""
    plot = figure(
        height=height,
        x_range=x_range,
        tools=TOOLS,
        sizing_mode="stretch_width",
        y_axis_label=label,
        x_axis_label="time [s]" if last else None,
        output_backend="canvas",
    )
    zoom = BoxZoomTool(dimensions="width")
    plot.add_tools(zoom)
    plot.toolbar.active_drag = zoom
    plot.toolbar.logo = None
    plot.xaxis.visible = last
    plot.min_border_left = 70
    plot.xgrid.grid_line_alpha = plot.ygrid.grid_line_alpha = 0.4
    return plot


def legend(plot: figure) -> None:
    """One line above the plot; a click hides a curve."""
    if not plot.legend:
        return
    plot.add_layout(plot.legend[0], "above")
    plot.legend[0].update(
        orientation="horizontal",
        click_policy="hide",
        border_line_color=None,
        padding=2,
        label_text_font_size="12px",
    )


def time_range(time: np.ndarray) -> Range1d:
    """The whole record, which also bounds panning and zooming."""
    first, last = float(time[0]), float(time[-1])
    return Range1d(start=first, end=last, bounds=(first, last), min_interval=(last - first) * 1e-6 or None)


def shade_test(plot: figure, time: np.ndarray, test: slice | None, *, named: bool = True) -> None:
    """A grey background behind the test samples, which inference did not use."""
    if test is None:
        return
    left, right = float(time[test.start]), float(time[test.stop - 1])
    plot.add_layout(BoxAnnotation(left=left, right=right, fill_color="#888888", fill_alpha=0.13, line_color=None))
    if not named:
        return
    plot.add_layout(
        Label(x=left, y=0, y_units="screen", text=" test", text_font_size="11px", text_color="#555555", x_offset=2)
    )


def data_figure(view: DataView) -> Column:
    """Inputs and outputs of a record, one plot each, on a common range."""
    record = view.record
    x_range = time_range(record.time)
    plots = []
    channels = [(name, np.asarray(v), ORANGE) for name, v in record.inputs.items() if not callable(v)]
    channels += [(name, np.asarray(v), BLUE) for name, v in record.outputs.items()]
    for j, (name, values, colour) in enumerate(channels):
        series = Series({"time": record.time, "value": values}, ["value"])
        plot = panel(x_range, record.label(name), 170, last=j == len(channels) - 1)
        if record.intersample.get(name) == "zoh":
            plot.step("time", "value", source=series.view, color=colour, mode="after")
        else:
            plot.line("time", "value", source=series.view, color=colour)
        if np.any(np.isnan(values)):  # no line reaches a sample between missing ones
            plot.scatter("time", "value", source=series.view, color=colour, size=2)
        shade_test(plot, record.time, view.test, named=j == 0)
        series.follow(x_range)
        plots.append(plot)
    return column(*plots, sizing_mode="stretch_width")


def fit_figure(run: RunView, output: str, marks: NoiseMarks | None = None) -> Column:
    """Measured and simulated output with a 90 % band over the posterior; the error below."""
    record = run.simulation.record
    measured = np.asarray(record.outputs[output])
    mean = run.simulation.mean(output)
    low, high = run.simulation.band(0.9, output)
    columns = {"time": record.time, "measured": measured, "mean": mean, "low": low, "high": high}
    series = Series({**columns, "error": measured - mean}, ["measured", "error"])
    x_range = time_range(record.time)
    top = panel(x_range, record.label(output), 280, last=False)
    top.varea("time", "low", "high", source=series.view, color=BLUE, alpha=0.25, legend_label="90 % of the posterior")
    top.line("time", "measured", source=series.view, color=BLACK, alpha=0.8, legend_label="measured")
    top.line(
        "time",
        "mean",
        source=series.view,
        color=BLUE,
        line_dash="dashed",
        line_width=1.5,
        legend_label="free run, mean",
    )
    if marks is not None:
        for word, places, colour in (("clipped", marks.clipped, ORANGE), ("outliers", marks.outliers, VERMILION)):
            if len(places):
                top.scatter(record.time[places], measured[places], color=colour, size=5, legend_label=word)
    bottom = panel(x_range, "error", 150, last=True)
    bottom.line("time", "error", source=series.view, color=VERMILION)
    shade_test(top, record.time, run.test)
    shade_test(bottom, record.time, run.test, named=False)
    legend(top)
    series.follow(x_range)
    return column(top, bottom, sizing_mode="stretch_width")


def states_figure(states: States, names: Sequence[str], units: Mapping[str, str]) -> Column:
    """Smoothed states with bands of two standard deviations."""
    return _bands(states.time, {name: (states.mean[name], *states.band(name)) for name in names}, units, {})


def inputs_figure(found: UnknownInputs) -> Column:
    """Unknown inputs and drifts with bands of 90 %, and the truth where it is known."""
    curves = {name: (mean, *found.band(name)) for name, mean in found.mean.items()}
    return _bands(found.time, curves, found.units, found.truth)


def _bands(
    time: np.ndarray,
    curves: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    units: Mapping[str, str],
    truth: Mapping[str, np.ndarray],
) -> Column:
    """One plot for each mean with its band."""
    x_range = time_range(time)
    plots = []
    for j, (name, (mean, low, high)) in enumerate(curves.items()):
        series = Series({"time": time, "mean": mean, "low": low, "high": high}, ["mean"])
        plot = panel(x_range, labelled(name, units), 180, last=j == len(curves) - 1)
        plot.varea("time", "low", "high", source=series.view, color=BLUE, alpha=0.3)
        plot.line("time", "mean", source=series.view, color=BLUE)
        series.follow(x_range)
        if name in truth:
            known = Series({"time": time, "true": truth[name]}, ["true"])
            plot.line("time", "true", source=known.view, color=VERMILION, legend_label="true")
            known.follow(x_range)
            legend(plot)
        plots.append(plot)
    return column(*plots, sizing_mode="stretch_width")
