"""Static characteristics of the system: hysteresis loop, restoring force, friction against velocity."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from probsysid.report.figures.style import MEASURED, POSTERIOR, TRUTH, legend, panels, quantile_band


def plot_loop(
    across: Float[np.ndarray, "draw sample"],
    force: Float[np.ndarray, "draw sample"],
    xlabel: str,
    ylabel: str,
    truth: tuple[np.ndarray, np.ndarray] | None = None,
) -> Figure:
    """One loop per posterior draw, and the true one."""
    figure, axes = panels(1, 1, width=4.5, height=3.2)
    axis = axes[0, 0]
    lines = axis.plot(across.T, force.T, color=POSTERIOR, lw=0.6, alpha=0.6)
    lines[0].set_label("posterior")
    if truth is not None:
        axis.plot(*truth, color=TRUTH, lw=1.0, ls="--", label="truth")
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    legend(axis)
    return figure


def plot_characteristic(
    grid: Float[np.ndarray, " point"],
    curves: Float[np.ndarray, "draw point"],
    xlabel: str,
    ylabel: str,
    points: tuple[np.ndarray, np.ndarray] | None = None,
    reference: Float[np.ndarray, " point"] | None = None,
    known_as: str = "published",
    difference: str = "2 sd of the posterior",
) -> Figure:
    """Force against position or velocity: posterior mean with measured points, and beside it the posterior's width."""
    figure, axes = panels(1, 2, height=2.8, width_ratios=[1.3, 1])
    left, right = axes[0]
    mean = curves.mean(axis=0)
    low, high = quantile_band(curves)
    if points is not None:
        left.plot(*points, ".", color=MEASURED, ms=1.0, alpha=0.25, label="from the record", rasterized=True)
    left.plot(grid, mean, color=POSTERIOR, lw=1.5, label="posterior mean")
    left.fill_between(grid, low, high, color=POSTERIOR, alpha=0.3, lw=0)
    if reference is not None:
        left.plot(grid, reference, color=TRUTH, lw=1.0, ls="--", label=known_as)
    legend(left, markerscale=6)
    right.plot(grid, 2 * curves.std(axis=0), color=POSTERIOR, lw=1.2)
    right.set_ylim(bottom=0.0)
    right.set_title(difference, fontsize="medium")
    for axis in (left, right):
        axis.set_xlabel(xlabel)
    left.set_ylabel(ylabel)
    return figure
