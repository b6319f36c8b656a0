"""The tree of a search as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from probsysid.report.figures.style import ERROR, POSTERIOR, panels, written
from probsysid.selection.probabilities import log_model_prior
from probsysid.selection.terms import Names

if TYPE_CHECKING:
    from probsysid.selection.result import Selection

LISTED = 12
"""Models whose terms are written beside the picture."""

SHIFT = 0.13
"""Of models of equal size, so that their numbers can be read."""

LINEAR = 10.0
"""Differences in log probability up to which the axis is linear; beyond, logarithmic."""


def plot_tree(selection: "Selection", path: str | Path | None = None) -> Figure:
    """Models by number of terms and log posterior probability below the best: numbered ones were run, grey dots
    screened; a line leads to each from the model it was reached from."""
    figure, axes = panels(1, 2, width=10.0, height=4.2, gridspec_kw={"width_ratios": [3, 2]})
    tree, words = axes[0]
    places = _places(selection)
    _draw(tree, selection, places)
    words.set_axis_off()
    lines = [
        f"{model.number:>3}  {share:6.1%}  {_shortened(selection.label(model))}"
        for model, share in zip(selection.models[:LISTED], selection.probabilities, strict=False)
    ]
    left = len(selection.models) - LISTED
    lines += [f"     and {left} more"] if left > 0 else []
    words.text(0, 1, "\n".join(lines), va="top", family="monospace", fontsize=8, transform=words.transAxes)
    return written(figure, path)


def _places(selection: "Selection") -> dict[Names, tuple[float, float]]:
    """Number of terms, and log probability relative to the best; models of equal size side by side."""
    runs = {model.names: model.log_evidence for model in selection.models}
    known = {**dict(selection.screened), **runs}
    values = {
        names: value + log_model_prior(selection.menu.terms, names, selection.model_prior)
        for names, value in known.items()
        if np.isfinite(value)
    }
    best = max(values[names] for names in runs if names in values)
    found: dict[Names, tuple[float, float]] = {}
    for size in {len(names) for names in values}:
        row = [names for names in values if len(names) == size and names not in runs]
        for index, names in enumerate(sorted(row, key=lambda n: values[n])):
            found[names] = size - 0.28 + 0.56 * (index + 0.5) / len(row), values[names] - best
    for size in {len(names) for names in values}:
        row = sorted((names for names in runs if names in values and len(names) == size), key=lambda n: -values[n])
        found |= {names: (size + SHIFT * (index % 3), values[names] - best) for index, names in enumerate(row)}
    return found


def _draw(axis: Axes, selection: "Selection", places: dict[Names, tuple[float, float]]) -> None:
    for names, parent in selection.parents.items():
        if names in places and parent in places and parent is not None:
            run = any(model.names == names for model in selection.models)
            ends = np.array([places[parent], places[names]])
            axis.plot(*ends.T, color=POSTERIOR if run else "0.88", lw=1.2 if run else 0.5, zorder=2 if run else 1)
    for place in places.values():
        axis.plot(*place, ".", color="0.7", ms=4, zorder=2)
    for model in selection.models:
        if model.names in places:
            box = {"boxstyle": "circle,pad=0.25", "fc": "white", "ec": POSTERIOR if model.trusted else ERROR}
            axis.text(*places[model.names], str(model.number), ha="center", va="center", fontsize=7, bbox=box, zorder=3)
    axis.set_yscale("symlog", linthresh=LINEAR)
    lowest = min((place[1] for place in places.values()), default=-1.0)
    axis.set_ylim(min(1.5 * lowest, -2.0), 2.5)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    sizes = sorted({len(names) for names in places})
    axis.set_xticks(range(sizes[0], sizes[-1] + 1))
    axis.set_xlim(sizes[0] - 0.6, sizes[-1] + 0.6)
    axis.set(xlabel="terms", ylabel="log probability below the best")


def _shortened(text: str, most: int = 52) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
