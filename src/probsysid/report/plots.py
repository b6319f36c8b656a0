"""`posterior.plot`: the figures that one wants to see first, each returned as a Matplotlib figure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from probsysid._internal.errors import InputError
from probsysid.data.record import Record
from probsysid.report.figures.corner import plot_corner
from probsysid.report.figures.marginals import plot_marginals
from probsysid.report.figures.prediction import plot_fit
from probsysid.report.figures.style import POSTERIOR, panels, written
from probsysid.report.html.formatting import labelled

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior
    from probsysid.report.interactive import InteractiveFigure

MOST_IN_CORNER = 8
"""Quantities that a corner plot shows unless they are named: more are too small to read."""


@dataclass(frozen=True)
class PosteriorPlots:
    """Figures of a posterior: `posterior.plot()`, `posterior.plot.corner()` and so on.

    Where a `path` is given, the figure is also written there.
    """

    posterior: "Posterior"

    def __call__(self, path: str | Path | None = None) -> Figure:
        """Marginals of every quantity with their priors."""
        return plot_marginals(self.posterior, path)

    def corner(self, names: Sequence[str] | None = None, path: str | Path | None = None) -> Figure:
        """All pairs of quantities; by default of the first eight."""
        known = list(self.posterior.columns)
        unknown = [name for name in names or () if name not in known]
        if unknown:
            raise InputError(f"names has {unknown[0]!r}; the quantities are: {', '.join(known)}.")
        return written(plot_corner(self.posterior, names or known[:MOST_IN_CORNER]), path)

    def states(self, record: int = 0, *, draws: int = 20, path: str | Path | None = None) -> Figure:
        """Smoothed states on a training record: a band of two standard deviations, and sample paths."""
        states = self.posterior.states(record, draws=draws)
        names = list(states.mean)
        figure, axes = panels(len(names), 1, width=9.0, height=1.6, sharex=True)
        units = self.posterior.setup.problem.model.units
        for name, axis in zip(names, axes[:, 0], strict=True):
            mean, sd = np.asarray(states.mean[name]), np.asarray(states.sd[name])
            axis.plot(states.time, np.asarray(states.paths[name]).T, color=POSTERIOR, lw=0.4, alpha=0.3)
            axis.fill_between(states.time, mean - 2 * sd, mean + 2 * sd, color=POSTERIOR, alpha=0.25, lw=0)
            axis.plot(states.time, mean, color=POSTERIOR, lw=1.2)
            axis.set_ylabel(labelled(name, units))
        axes[-1, 0].set_xlabel("time [s]")
        return written(figure, path)

    def fit(self, record: Record | None = None, *, output: str | None = None, path: str | Path | None = None) -> Figure:
        """Measured and simulated output in free run with a 90 % band, and the error; by default of the first training
        record."""
        if record is None and not self.posterior.records:
            raise InputError("the posterior has no training record; name a record to compare with.")
        chosen = self.posterior.records[0] if record is None else record
        return plot_fit(self.posterior.simulate(chosen), path, output=output)

    def interactive_fit(self, record: Record | None = None, *, output: str | None = None) -> "InteractiveFigure":
        """The same to zoom into, in notebooks or, by its `save`, as a page."""
        from probsysid.report.interactive import interactive_fit  # Bokeh takes long to import

        if record is None and not self.posterior.records:
            raise InputError("the posterior has no training record; name a record to compare with.")
        return interactive_fit(self.posterior, self.posterior.records[0] if record is None else record, output)

    def interactive_states(self, record: int = 0, *, draws: int = 20) -> "InteractiveFigure":
        """Smoothed states on a training record, to zoom into."""
        from probsysid.report.interactive import interactive_states

        return interactive_states(self.posterior, record, draws)
