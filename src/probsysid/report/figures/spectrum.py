"""Spectrum of the residuals beside that of the output: whether any dynamics are left unexplained."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from probsysid.report.figures.style import ERROR, MEASURED, POSTERIOR, legend, panels
from probsysid.report.spectral import welch

SEGMENT = 1024
"""Samples per segment of Welch's method."""


def plot_spectrum(
    rate: float,
    output: Float[np.ndarray, " sample"],
    residuals: Mapping[str, Float[np.ndarray, " sample"]],
    unit: str,
    noise: float | None = None,
) -> Figure:
    """Amplitude densities by Welch's method; a line at the density of white noise of the inferred level."""
    figure, axes = panels(1, 1, height=2.8)
    axis = axes[0, 0]
    colors = (POSTERIOR, ERROR, "C2", "C4")
    axis.semilogy(*_density(output, rate), color=MEASURED, lw=1.0, label="output")
    for (name, values), color in zip(residuals.items(), colors, strict=False):
        style = "-" if color == POSTERIOR else "--"
        axis.semilogy(*_density(values, rate), color=color, lw=1.0, ls=style, label=name)
    if noise is not None:
        axis.axhline(noise / np.sqrt(rate / 2), color="C3", ls="--", lw=1.0, label="inferred noise")
    axis.set_xlabel("frequency [Hz]")
    axis.set_ylabel(f"amplitude density [{unit}/√Hz]")
    legend(axis, ncols=2)
    return figure


def _density(values: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray]:
    frequency, power = welch(values, rate, SEGMENT)
    return frequency, np.sqrt(power)
