"""Corner plot: all pairs of parameters."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probsysid.posterior.draws import draw_indices
from probsysid.posterior.summaries import correlation as correlation_of
from probsysid.report.figures.marginals import bins
from probsysid.report.figures.style import POSTERIOR, TRUTH, panels, plain_ticks
from probsysid.report.html.formatting import labelled

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

DRAWS = 1000

PANEL, LEFT, BELOW, EDGE = 1.1, 1.35, 1.1, 0.1
"""Inches: size of a panel, margins for labels on the left and below, margin on the other two sides."""

LONGEST = 14
"""Characters of a label that fit beside a panel."""


def plot_corner(posterior: "Posterior", names: Sequence[str], truth: Mapping[str, float] | None = None) -> Figure:
    """Histograms on the diagonal, draws below it, correlations above; lines at true values where they are known."""
    count = len(names)
    chosen = draw_indices(posterior.weights, DRAWS)
    draws = {name: posterior.columns[name][chosen] for name in names}
    correlation = correlation_of(posterior)
    units = posterior.settings.units
    figure, axes = panels(count, count)
    _fix_panels(figure, count)
    for i, across in enumerate(names):
        for j, along in enumerate(names):
            axis = axes[i, j]
            if i == j:
                values, weights = posterior.columns[along], posterior.weights
                axis.hist(values, bins(posterior.ess), weights=weights, color=POSTERIOR, alpha=0.5)
            elif i > j:
                axis.plot(draws[along], draws[across], ".", color=POSTERIOR, ms=1.5, alpha=0.4)
                if truth and across in truth:
                    axis.axhline(truth[across], color=TRUTH, lw=0.8)
            else:
                value = float(correlation.loc[across, along])
                axis.text(0.5, 0.5, f"{value:+.2f}", ha="center", va="center", transform=axis.transAxes)
                axis.set_facecolor((0.85, 0.3, 0.2, 0.5 * abs(value)) if value > 0 else (0.1, 0.4, 0.8, -0.5 * value))
                axis.set_xticks([])
                axis.set_yticks([])
                continue
            if truth and along in truth:
                axis.axvline(truth[along], color=TRUTH, lw=0.8)
            _ticks(axis, bottom=i == count - 1, left=j == 0 and i > 0)
            if i == j:
                axis.set_yticks([])
            if i == count - 1:
                axis.set_xlabel(_broken(labelled(along, units)), fontsize="small")
            if j == 0 and i > 0:
                axis.set_ylabel(_broken(labelled(across, units)), fontsize="small")
    figure.align_labels()
    return figure


def _fix_panels(figure: Figure, count: int) -> None:
    """Equal panels with fixed margins: a layout engine that makes room for each label spreads the columns unevenly."""
    width, height = PANEL * count + LEFT + EDGE, PANEL * count + BELOW + EDGE
    figure.set_layout_engine(None)
    figure.set_size_inches(width, height)
    figure.subplots_adjust(
        left=LEFT / width,
        bottom=BELOW / height,
        right=1 - EDGE / width,
        top=1 - EDGE / height,
        wspace=0.12,
        hspace=0.12,
    )


def _broken(label: str) -> str:
    """Break a label that is too long for its panel into several lines."""
    return label if len(label) <= LONGEST else label.replace(".", ".\n", 1).replace(" [", "\n[")


def _ticks(axis: Axes, *, bottom: bool, left: bool) -> None:
    """Few ticks, with labels only at the outer panels."""
    plain_ticks(axis, 2)
    axis.tick_params(labelsize="x-small", labelbottom=bottom, labelleft=left)
    axis.tick_params(axis="x", rotation=35)
    for label in axis.get_xticklabels():
        label.set(ha="right", rotation_mode="anchor")
