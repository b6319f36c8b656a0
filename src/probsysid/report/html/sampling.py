"""Interactive figure of the sampler's course: effective sample size and acceptance over the run."""

import numpy as np
from bokeh.layouts import column
from bokeh.models import Column, Range1d
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from probsysid.posterior.posterior import Posterior
from probsysid.report.html.series import BLUE, GREEN, GREY, VERMILION, Series, legend

TOOLS = "xpan,xwheel_zoom,reset"


def sampling_figure(posterior: Posterior) -> Column:
    """Effective sample size by sample; acceptance rate and fraction of particles moved by rejuvenation."""
    top = _effective_size(posterior)
    bottom = _moves(posterior, top)
    for plot in (top, bottom):
        plot.min_border_left = 70
        plot.toolbar.logo = None
        legend(plot)
    return column(top, bottom, sizing_mode="stretch_width")


def _effective_size(posterior: Posterior) -> figure:
    ess = posterior.history.ess
    members = max(posterior.settings.run_particles // max(ess.shape[1], 1), 1)
    share = ess / members
    columns = {"time": np.arange(len(ess), dtype=float), "worst": share.min(axis=1), "mean": share.mean(axis=1)}
    series = Series(columns, ["worst"])
    plot = figure(height=200, sizing_mode="stretch_width", y_axis_label="effective share", tools=TOOLS)
    plot.line("time", "mean", source=series.view, color=BLUE, legend_label="mean over islands")
    plot.line("time", "worst", source=series.view, color=VERMILION, line_dash="dotted", legend_label="worst island")
    threshold = posterior.settings.ess_threshold
    plot.add_layout(Span(location=threshold, dimension="width", line_dash="dashed", line_color=GREY))
    return plot


def _moves(posterior: Posterior, above: figure) -> figure:
    plot = figure(
        height=200,
        sizing_mode="stretch_width",
        x_range=above.x_range,
        x_axis_label="sample",
        y_axis_label="share",
        tools=TOOLS,
        y_range=Range1d(start=0, end=1.05),
    )
    table = posterior.history.table()
    sample = table["sample"].to_numpy(float)
    plot.scatter(sample, table["acceptance"].to_numpy(float), color=GREEN, size=6, legend_label="proposals accepted")
    plot.scatter(
        sample, table["moved"].to_numpy(float), color=BLUE, marker="triangle", size=6, legend_label="particles moved"
    )
    return plot
