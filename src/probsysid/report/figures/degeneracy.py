"""Particle degeneracy and rejuvenation: filtered paths, effective sample size, threshold."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from probsysid.report.figures.style import MEASURED, POSTERIOR, TRUTH, legend, panels


def plot_degeneracy(
    samples: Int[np.ndarray, " sample"],
    paths: Float[np.ndarray, "draw sample"],
    measured: Float[np.ndarray, " sample"],
    ess: Float[np.ndarray, " sample"],
    threshold: float,
    rejuvenations: Sequence[int],
    label: str,
) -> Figure:
    """Draws of the filtering distribution over a window, the effective sample size below, a line per rejuvenation.

    `ess` and `threshold` are fractions of the number of particles.
    """
    figure, axes = panels(2, 1, height=2.0, sharex=True)
    top, bottom = axes[:, 0]
    top.plot(samples, measured, ".", color=POSTERIOR, ms=2, alpha=0.5, label="measured")
    lines = top.plot(samples, paths.T, color=MEASURED, lw=0.5, alpha=0.5)
    lines[0].set_label("draws of the filtering distribution")
    top.set_ylabel(label)
    legend(top, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    bottom.plot(samples, 100 * ess, color=POSTERIOR, lw=1.2, label="effective sample size")
    bottom.axhline(100 * threshold, color=TRUTH, ls="--", lw=1.0, label="threshold")
    for axis in (top, bottom):
        for sample in rejuvenations:
            axis.axvline(sample, color="0.7", lw=0.7, zorder=0)
    bottom.plot([], [], color="0.7", lw=0.7, label="rejuvenation")
    bottom.set_ylabel("% of the particles")
    bottom.set_xlabel("sample")
    bottom.set_ylim(0, 105)
    legend(bottom, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
