"""Interactive figures for notebooks: Bokeh's, in a frame of their own, which needs no extension and no network."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from bokeh.models import Column

from probsysid._internal.files import write_atomically
from probsysid._internal.validation import checked_target
from probsysid.report.html.rendering import InteractiveFigures
from probsysid.report.html.series import fit_figure, states_figure
from probsysid.report.views import RunView, record_name

if TYPE_CHECKING:
    from probsysid.data.record import Record
    from probsysid.posterior.posterior import Posterior

MARGIN = 30
"""Of the frame, in pixels."""


@dataclass(frozen=True, eq=False)
class InteractiveFigure:
    """A figure that zooms: notebooks show it, `save` writes it as a page, `layout` is Bokeh's object."""

    layout: Column
    title: str

    def page(self) -> str:
        """A self-contained HTML page."""
        figures = InteractiveFigures()
        key = figures.add(self.layout)
        library, elements, script = figures.embedded()
        head = f'<meta charset="utf-8"><title>{escape(self.title)}</title>{library}'
        return f"<!DOCTYPE html><html><head>{head}</head><body>{elements[key]}{script}</body></html>"

    def save(self, path: str | Path) -> None:
        """Write the page."""
        write_atomically(checked_target(path), self.page().encode())

    def _repr_html_(self) -> str:
        height = sum(getattr(child, "height", None) or 0 for child in self.layout.children) + MARGIN
        style = f"width:100%;height:{height}px;border:0;background:#fff"
        return f'<iframe style="{style}" title="{escape(self.title)}" srcdoc="{escape(self.page())}"></iframe>'

    def __repr__(self) -> str:
        return f"InteractiveFigure({self.title!r})"


def interactive_fit(posterior: "Posterior", record: "Record", output: str | None) -> InteractiveFigure:
    """Measured and simulated output in free run with a 90 % band, and the error."""
    simulation = posterior.simulate(record)
    name = output or simulation.scored[0]
    run = RunView(record_name(record, 0), simulation, None, None, {}, simulation.start)
    return InteractiveFigure(fit_figure(run, name), f"{name}, free run")


def interactive_states(posterior: "Posterior", record: int, draws: int) -> InteractiveFigure:
    """Smoothed states with bands of two standard deviations."""
    states = posterior.states(record, draws=draws)
    names, units = posterior.setup.problem.model.physical_names, posterior.settings.units
    return InteractiveFigure(states_figure(states, names, units), "smoothed states")
