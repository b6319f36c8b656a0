"""What notebooks show for an object: a card with facts, verdicts, equations and one table with small pictures.

Light enough to import anywhere: Jinja is imported when a card is shown.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from probsysid._internal.statistics import ess_of_weights, weighted_quantile

if TYPE_CHECKING:
    from jinja2 import Template

Light = Literal["good", "doubtful", "bad", "unknown"]

COLOURS = {"good": "#2e8b57", "doubtful": "#d18b00", "bad": "#c0392b", "unknown": "#888888"}

MOST_BINS = 24
WIDTH, HEIGHT = 240, 40
"""Of the picture of a signal, in pixels."""


class Histogram(NamedTuple):
    """A small picture of a distribution: the height of each bin, of 1."""

    heights: list[float]
    label: str

    @classmethod
    def of(cls, values: Float[np.ndarray, " particle"], weights: Float[np.ndarray, " particle"]) -> "Histogram":
        """Weighted, from the 0.5 % to the 99.5 % quantile."""
        low, high = weighted_quantile(values, weights, [0.005, 0.995])
        if not high > low:
            return cls([1.0], f"all at {low:.4g}")
        # Rice's rule, for the effective number of particles
        bins = int(np.clip(np.ceil(2 * np.cbrt(ess_of_weights(weights))), 5, MOST_BINS))
        counts, _ = np.histogram(values, bins, (low, high), weights=weights)
        return cls((counts / counts.max()).round(3).tolist(), f"histogram from {low:.4g} to {high:.4g}")


class Signal(NamedTuple):
    """A small picture of a signal: lines as SVG points, interrupted where values are missing."""

    points: list[str]
    label: str

    @classmethod
    def of(cls, time: Float[np.ndarray, " sample"], values: Float[np.ndarray, " sample"]) -> "Signal":
        """The extremes of every pixel's width, so that no peak is left out."""
        known = np.isfinite(values)
        if not known.any():
            return cls([], "no values")
        low, high = float(values[known].min()), float(values[known].max())
        reach = (high - low) or 1.0
        across = (time - time[0]) / (time[-1] - time[0] or 1.0) * WIDTH
        lines: list[str] = []
        for part in np.split(np.arange(len(values)), np.flatnonzero(np.diff(known)) + 1):
            if known[part[0]]:
                shown = _extremes(across[part], values[part])
                up = HEIGHT - 1 - (values[part][shown] - low) / reach * (HEIGHT - 2)
                lines.append(" ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across[part][shown], up, strict=True)))
        return cls(lines, f"from {low:.4g} to {high:.4g}")


def _extremes(across: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Indices of the ends and, for every pixel, of the smallest and the largest value."""
    if len(values) <= 2 * WIDTH:
        return np.arange(len(values))
    bins = np.split(np.arange(len(values)), np.flatnonzero(np.diff(across.astype(int))) + 1)
    chosen = {0, len(values) - 1}
    for part in bins:
        chosen |= {int(part[np.argmin(values[part])]), int(part[np.argmax(values[part])])}
    return np.array(sorted(chosen))


Cell = str | Histogram | Signal


class Verdict(NamedTuple):
    """A traffic light with its sentence."""

    subject: str
    light: Light
    sentence: str


class Card(NamedTuple):
    """What is shown; texts are escaped, `mathematics` is MathML."""

    title: str
    facts: Sequence[str] = ()
    verdicts: Sequence[Verdict] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
    mathematics: Sequence[str] = ()


def html(card: Card) -> str:
    """The card as a fragment of HTML."""
    return _template().render(card=card, colours=COLOURS)


@cache
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    source = files("probsysid._internal").joinpath("templates/card.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(source)
