"""Matplotlib figures for papers, one concept per file.

In: arrays, records, posteriors.  Out: a `Figure`, legible at the width of a column; where there is a `path`, it is also
written there and closed.
"""

from probsysid.report.figures.characteristic import plot_characteristic, plot_loop
from probsysid.report.figures.corner import plot_corner
from probsysid.report.figures.degeneracy import plot_degeneracy
from probsysid.report.figures.evolution import plot_evolution
from probsysid.report.figures.marginals import plot_apart, plot_marginals, plot_prior_posterior
from probsysid.report.figures.paths import plot_paths
from probsysid.report.figures.prediction import plot_fit, plot_prediction
from probsysid.report.figures.signals import plot_signals
from probsysid.report.figures.spectrum import plot_spectrum

__all__ = [
    "plot_apart",
    "plot_characteristic",
    "plot_corner",
    "plot_degeneracy",
    "plot_evolution",
    "plot_fit",
    "plot_loop",
    "plot_marginals",
    "plot_paths",
    "plot_prediction",
    "plot_prior_posterior",
    "plot_signals",
    "plot_spectrum",
]
