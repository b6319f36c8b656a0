"""The figures of the page."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, DataRange1d, Range1d
from bokeh.models.annotations import LabelSet, Span, Title
from bokeh.plotting import figure

from probsysid.live.change import WIDER
from probsysid.report.html.series import GREEN, ORANGE, VERMILION, legend

BLUE = "#2A8CD0"
"""Okabe and Ito's, a little lighter, which is also seen on a dark page."""

MEASURED = "#808080"
"""A grey with a contrast of more than 3 on the light page and on the dark one."""

PALETTE = (BLUE, VERMILION, GREEN, ORANGE, "#CC79A7", "#56B4E9", "#F0E442")
"""Okabe and Ito's."""

TOOLS = "xpan,xwheel_zoom,xbox_zoom,reset"


def panel(title: str, label: str, x_range: Any, *, height: int = 220) -> figure:
    """An empty plot over time."""
    plot = figure(
        title=Title(text=title, text_font_size="15px"),
        height=height,
        x_range=x_range,
        y_range=DataRange1d(only_visible=True),
        tools=TOOLS,
        sizing_mode="stretch_width",
        y_axis_label=label,
        output_backend="canvas",
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_alpha=0.3,
    )
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    plot.min_border_left = 62
    _soften(plot)
    plot.axis.major_label_text_font_size = plot.axis.axis_label_text_font_size = "13px"
    return plot


def _soften(plot: figure) -> None:
    plot.grid.grid_line_color = "#808080"
    plot.grid.grid_line_alpha = 0.25


def following() -> DataRange1d:
    """A range that holds all data, until the reader zooms; the tool `reset` lets it follow again."""
    return DataRange1d(range_padding=0.0)


def outputs(source: ColumnDataSource, names: Sequence[str], labels: Sequence[str], x_range: Any) -> list[figure]:
    """Measured and predicted outputs."""
    plots = []
    for name, label in zip(names, labels, strict=True):
        plot = panel(f"{name}, and one sample ahead", label, x_range, height=260)
        plot.varea(
            "time", f"low:{name}", f"high:{name}", source=source, color=BLUE, alpha=0.3, legend_label="90 % band"
        )
        plot.line("time", f"mean:{name}", source=source, color=BLUE, line_dash="dashed", legend_label="predicted")
        plot.line("time", f"measured:{name}", source=source, color=MEASURED, legend_label="measured")
        plots.append(plot)
        legend(plot)
    return plots


def states(source: ColumnDataSource, names: Sequence[str], x_range: Any) -> list[figure]:
    """Hidden states given the data so far."""
    plots = []
    for name in names:
        plot = panel(f"state {name}", name, x_range, height=170)
        low, high = f"state_low:{name}", f"state_high:{name}"
        plot.varea("time", low, high, source=source, color=GREEN, alpha=0.3)
        plot.line("time", f"state:{name}", source=source, color=GREEN)
        plots.append(plot)
    return plots


def residuals(source: ColumnDataSource, names: Sequence[str], x_range: Any) -> figure:
    """Whitened residuals, with the lines beyond which a right model has one in a thousand."""
    plot = panel("whitened residuals; lines: 1 in 1000", "sd", x_range)
    for j, name in enumerate(names):
        plot.scatter("time", f"white:{name}", source=source, color=PALETTE[j % len(PALETTE)], size=4)
    for place in (-3.29, 3.29):
        plot.add_layout(Span(location=place, dimension="width", line_color=VERMILION, line_dash="dashed"))
    plot.y_range = Range1d(start=-WIDER[-1] - 1, end=WIDER[-1] + 1)
    return plot


def constant(
    source: ColumnDataSource,
    density: ColumnDataSource,
    name: str,
    label: str,
    prior: tuple[float, float] | None,
    x_range: Any,
) -> tuple[figure, figure]:
    """A constant against time with its prior, and its posterior now."""
    plot = panel(f"{name}", label, x_range, height=200)
    plot.varea("time", f"q05:{name}", f"q95:{name}", source=source, color=BLUE, alpha=0.3)
    plot.line("time", f"q50:{name}", source=source, color=BLUE, line_width=2)
    for place in prior or ():
        plot.add_layout(Span(location=place, dimension="width", line_color=ORANGE, line_dash="dotted", line_width=2))
    plot.y_range = DataRange1d(only_visible=True, range_padding=0.15)
    now = figure(
        title="now",
        height=200,
        width=110,
        tools="",
        toolbar_location=None,
        x_axis_type=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_alpha=0.3,
    )
    now.quad(left=0, right="share", bottom="bottom", top="top", source=density, color=BLUE, alpha=0.6, line_alpha=0)
    now.yaxis.visible = False
    _soften(now)
    return plot, now


def health(source: ColumnDataSource, models: Sequence[str], x_range: Any, particles: int) -> list[figure]:
    """Effective sample size, lag and load, the watch for changes, and the evidence."""
    size = panel(f"effective particles, of {particles}", "particles", x_range, height=170)
    size.line("time", "ess", source=source, color=BLUE)
    size.y_range = Range1d(start=0, end=particles)
    lag = panel("lag [s], and load (at most 1)", "", x_range, height=170)
    lag.line("time", "lag", source=source, color=VERMILION, legend_label="lag")
    lag.line("time", "load", source=source, color=BLUE, line_dash="dashed", legend_label="load")
    legend(lag)
    change = panel("change; an alarm at the line", "log e-value", x_range, height=170)
    evidence = panel("log evidence of models, less the best", "", x_range, height=170)
    for j, name in enumerate(models):
        colour = PALETTE[j % len(PALETTE)]
        change.line("time", f"change:{name}", source=source, color=colour, legend_label=name)
        evidence.line("time", f"relative:{name}", source=source, color=colour, line_width=2, legend_label=name)
    change.add_layout(Span(location=0, dimension="width", line_color=VERMILION, line_dash="dashed"))
    legend(change)
    legend(evidence)
    return [size, lag, change, *([evidence] if len(models) > 1 else [])]


def show_events(plot: figure, source: ColumnDataSource) -> None:
    """Marks and alarms as lines with their texts: drawn on a canvas, not as HTML."""
    plot.segment("time", "bottom", "time", "top", source=source, color=VERMILION, line_dash="dotdash")
    labels = LabelSet(
        x="time",
        y="top",
        text="short",
        source=source,
        text_font_size="12px",
        text_color=VERMILION,
        y_offset=-14,
        x_offset=3,
    )
    plot.add_layout(labels)


def relative(columns: dict[str, np.ndarray], models: Sequence[str]) -> dict[str, np.ndarray]:
    """Log evidences less the largest."""
    found = np.array([columns[f"evidence:{name}"] for name in models])
    best = np.max(np.where(np.isfinite(found), found, -np.inf), axis=0)
    return {f"relative:{name}": row - best for name, row in zip(models, found, strict=True)}
