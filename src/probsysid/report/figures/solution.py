"""Figure of a probabilistic ODE solution."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from probsysid.report.figures.style import written
from probsysid.report.html.formatting import labelled

if TYPE_CHECKING:
    from probsysid.inference.solve import Solution


def plot_solution(solution: "Solution", path: str | Path | None = None, names: Sequence[str] | None = None) -> Figure:
    """Each component's mean with a band of two standard deviations, and beside it that standard deviation."""
    names = list(names or solution.ode_filter.model.physical_names)
    figure, axes = plt.subplots(len(names), 2, figsize=(10, 1 + 2.2 * len(names)), squeeze=False, sharex=True)
    units = solution.ode_filter.model.units
    for row, name in zip(axes, names, strict=True):
        mean, sd = solution.mean[name], solution.sd[name]
        label = labelled(name, units)
        row[0].plot(solution.time, mean, color="C0", lw=1.2)
        row[0].fill_between(solution.time, mean - 2 * sd, mean + 2 * sd, color="C0", alpha=0.3, lw=0)
        row[0].set_ylabel(label)
        positive = np.where(sd > 0, sd, np.nan)
        row[1].semilogy(solution.time, positive, color="C1", lw=1.2)
        row[1].set_ylabel(f"sd of {label}")
    axes[0, 0].set_title("solution, mean and 2 sd")
    axes[0, 1].set_title("integration error, sd")
    for axis in axes[-1]:
        axis.set_xlabel("time [s]")
    figure.tight_layout()
    return written(figure, path)
