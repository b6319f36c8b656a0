"""How the sampler fared: effective size and acceptance over the run."""

from typing import Any

import numpy as np
from bokeh.layouts import column
from bokeh.models import Range1d
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from probsysid.posterior.posterior import Posterior
from probsysid.report.html.series import BLUE, GREEN, VERMILION, Series, legend


def sampling_figure(posterior: Posterior) -> Any:
    """Effective sample size by sample; acceptance and moved share by rejuvenation."""
    ess = posterior.history.ess
    members = max(posterior.run_particles // max(ess.shape[1], 1), 1)
    share = ess / members
    columns = {"time": np.arange(len(ess), dtype=float), "worst": share.min(axis=1), "mean": share.mean(axis=1)}
    series = Series(columns, ["worst"])
    top = figure(
        height=200, sizing_mode="stretch_width", y_axis_label="effective share", tools="xpan,xwheel_zoom,reset"
    )
    top.line("time", "mean", source=series.view, color=BLUE, legend_label="mean over islands")
    top.line("time", "worst", source=series.view, color=VERMILION, line_dash="dotted", legend_label="worst island")
    threshold = float(posterior.settings.get("ess_threshold", 0.5))
    top.add_layout(Span(location=threshold, dimension="width", line_dash="dashed", line_color="#666666"))
    table = posterior.rejuvenations()
    bottom = figure(
        height=200,
        sizing_mode="stretch_width",
        x_range=top.x_range,
        x_axis_label="sample",
        y_axis_label="share",
        tools="xpan,xwheel_zoom,reset",
        y_range=Range1d(start=0, end=1.05),
    )
    sample = table["sample"].to_numpy(float)
    bottom.scatter(sample, table["acceptance"].to_numpy(float), color=GREEN, size=6, legend_label="proposals accepted")
    bottom.scatter(
        sample, table["moved"].to_numpy(float), color=BLUE, marker="triangle", size=6, legend_label="particles moved"
    )
    for plot in (top, bottom):
        plot.min_border_left = 70
        plot.toolbar.logo = None
        legend(plot)
    return column(top, bottom, sizing_mode="stretch_width")
