"""Unknown inputs and drifting parameters, with their bands."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from probsysid.report.figures.style import MEASURED, POSTERIOR, legend, panels, written
from probsysid.report.html.formatting import labelled

if TYPE_CHECKING:
    from probsysid.posterior.unknown_inputs import UnknownInputs

PATHS = 20
"""Sample paths that are drawn; more hide the band."""


def plot_spectra(found: "UnknownInputs", names: Sequence[str], path: str | Path | None = None) -> Figure:
    """Power densities of sample paths: median and 90 % band."""
    figure, axes = panels(1, len(names), width=4.5 * max(len(names), 2), height=2.6)
    for name, axis in zip(names, axes[0], strict=True):
        frequency, median, low, high = (values[1:] for values in found.spectrum(name))
        axis.fill_between(frequency, low, high, color=POSTERIOR, alpha=0.25, lw=0)
        axis.plot(frequency, median, color=POSTERIOR, lw=1.2)
        axis.set(xscale="log", yscale="log", xlabel="frequency [Hz]", ylabel=f"power density of {name}")
    return written(figure, path)


def plot_inputs(found: "UnknownInputs", path: str | Path | None = None) -> Figure:
    """Mean, 90 % band and sample paths, and the truth where it is known."""
    figure, axes = panels(len(found.mean), 1, width=9.0, height=2.2, sharex=True)
    for name, axis in zip(found.mean, axes[:, 0], strict=True):
        low, high = found.band(name)
        axis.plot(found.time, found.paths[name][:PATHS].T, color=POSTERIOR, lw=0.4, alpha=0.3)
        axis.fill_between(found.time, low, high, color=POSTERIOR, alpha=0.25, lw=0, label="90 % of the posterior")
        axis.plot(found.time, found.mean[name], color=POSTERIOR, lw=1.2, label="posterior mean")
        if name in found.truth:
            axis.plot(found.time, found.truth[name], color=MEASURED, lw=0.9, label="true")
        axis.set_ylabel(labelled(name, found.units))
    legend(axes[0, 0], ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    axes[-1, 0].set_xlabel("time [s]")
    return written(figure, path)
