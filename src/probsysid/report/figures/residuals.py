"""Whiteness of one-step prediction errors."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from probsysid.posterior.diagnostics.residuals import Residuals
from probsysid.report.figures.style import ERROR, POSTERIOR, panels, written
from probsysid.report.spectral import residual_segment, welch


def plot_residuals(found: Residuals, path: str | Path | None = None, rate: float = 1.0) -> Figure:
    """Errors by sample, their autocorrelation and their spectrum; dashed: bounds and level of white noise."""
    figure, axes = panels(1, 3, width=9.0, height=2.4)
    errors, correlation, spectrum = axes[0]
    errors.plot(found.samples, found.values, ".", color=POSTERIOR, ms=2)
    for level in (-2.0, 2.0):
        errors.axhline(level, color="0.4", ls="--", lw=0.8)
    errors.set(xlabel="sample", ylabel="error / sd", title=f"spread {found.spread:.2f} (1 expected)")
    lags = np.arange(1, len(found.correlation) + 1)
    correlation.vlines(lags, 0, found.correlation, color=POSTERIOR if found.white else ERROR, lw=1.5)
    for level in (-found.bound, found.bound):
        correlation.axhline(level, color="0.4", ls="--", lw=0.8)
    correlation.set(xlabel="lag [samples]", ylabel="correlation", title=f"white: p = {found.probability:.2g}")
    frequency, density = welch(found.values, rate, residual_segment(len(found.values)))
    spectrum.semilogy(frequency, density * rate / 2, color=POSTERIOR, lw=1)
    spectrum.axhline(1.0, color="0.4", ls="--", lw=0.8)
    spectrum.set(xlabel="frequency [Hz]" if rate != 1 else "frequency [1/sample]", ylabel="density / white")
    return written(figure, path)
