"""Figures of the honesty matrix, in the width of a paper's column."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from validation.honesty.study import Cell
from validation.honesty.study import cells as all_cells
from validation.honesty.summary import Row

COLOURS = {
    "rk4": "#D55E00",
    "paper": "#CC79A7",
    "plain": "#56B4E9",
    "fixed": "#009E73",
    "auto": "#0072B2",
    "gold": "#000000",
}
"""From Okabe and Ito's colour-blind safe palette; markers differ as well."""

MARKERS = {"rk4": "v", "paper": "s", "plain": "^", "fixed": "P", "auto": "o", "gold": "D"}

STYLE = {"font.size": 7, "axes.titlesize": 8, "axes.linewidth": 0.6, "legend.fontsize": 7}
COLUMN = 3.5
"""Width in inches."""

CROWDED = 1.4
"""Ratio below which points lie too close together for labels."""

FARTHEST = 1000.0
"""Larger z-scores are drawn at this value."""


def strips(rows: Mapping[str, Sequence[Row]], path: Path) -> None:
    """All z-scores by method: 90 % should lie in the grey band."""
    from matplotlib import pyplot

    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(len(rows), 1, figsize=(COLUMN, 1.5 * len(rows) + 0.6), layout="constrained")
        for (name, cells), axis in zip(rows.items(), axes, strict=True):
            axis.axhspan(-1.645, 1.645, color="0.87", lw=0)
            axis.axhline(0, color="0.5", lw=0.6)
            columns = all_cells([name])
            places = _places(columns)
            for row in cells:
                _strip(axis, places[columns.index(row.cell)], row)
            axis.set_yscale("symlog", linthresh=3, linscale=1.2)
            axis.set_ylim(-1.6 * FARTHEST, 1.6 * FARTHEST)
            axis.set_yticks([-1000, -100, -10, -2, 0, 2, 10, 100, 1000])
            axis.set_yticklabels(["−1000", "", "−10", "−2", "0", "2", "10", "", "1000"])
            axis.minorticks_off()
            axis.set_title(name, loc="left")
            axis.set_ylabel("z-score")
            axis.set_xlim(-0.6, places[-1] + 0.6)
            axis.set_xticks(places, [_label(cell) for cell in columns])
        axes[-1].set_xlabel("likelihood, and its steps per sample")
        _save(figure, path)


def _places(columns: Sequence[Cell]) -> np.ndarray:
    """Positions of the columns: those labelled by a name need more space."""
    return np.cumsum([1.0 if cell.steps else 1.5 for cell in columns]) - 1


def _strip(axis: Any, x: float, row: Row) -> None:
    if row.failed:
        axis.annotate(f"{row.failed}\nlost", (x, 0.3 * FARTHEST), ha="center", va="center", fontsize=6)
    z = np.array(list(row.scores.values())).ravel()
    spread = np.random.default_rng(0).uniform(-0.28, 0.28, len(z))
    method = row.cell.method
    axis.plot(
        x + spread,
        np.clip(z, -FARTHEST, FARTHEST),
        MARKERS[method],
        color=COLOURS[method],
        ms=1.8,
        alpha=0.6,
        mew=0,
    )


def _label(cell: Cell) -> str:
    """The number of steps, and the method below the middle one."""
    if not cell.steps:
        return f"\n{cell.method}"
    return f"{cell.steps}\n{cell.method}" if cell.steps == 2 else f"{cell.steps}"


def widths(rows: Mapping[str, Sequence[Row]], path: Path) -> None:
    """Root mean square z-score against width: the best place is in the grey band on the vertical line."""
    from matplotlib import pyplot

    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            2, 2, figsize=(COLUMN, 3.7), sharex=True, sharey=True, layout="constrained", squeeze=False
        )
        seen: dict[str, Any] = {}
        for (name, cells), axis in zip(rows.items(), axes.flat, strict=True):
            axis.axhspan(0.7, 1.3, color="0.87", lw=0)
            axis.axvline(1, color="0.6", lw=0.6)
            for row in cells:
                if np.isfinite(row.rms.value) and np.isfinite(row.width.value):
                    seen[row.cell.method] = _point(axis, row)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlim(0.15, 150)
            axis.set_ylim(0.4, 2 * FARTHEST)
            axis.set_xticks([1, 10, 100], ["1", "10", "100"])
            axis.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
            axis.set_title(name, loc="left")
        for axis in axes[:, 0]:
            axis.set_ylabel("rms z-score")
        for axis in axes[-1]:
            axis.set_xlabel("sd / sd of gold")
        order = [method for method in COLOURS if method in seen]
        figure.legend([seen[m] for m in order], order, loc="outside lower center", ncols=3, frameon=False)
        _save(figure, path)


def _point(axis: Any, row: Row) -> Any:
    method, steps = row.cell.method, row.cell.steps
    height = min(row.rms.value, FARTHEST)
    (point,) = axis.plot(
        row.width.value,
        height,
        MARKERS[method],
        color=COLOURS[method],
        ms=4.5 if method != "gold" else 3.5,
        mfc="none" if method == "gold" else COLOURS[method],
        mew=0.8,
        ls="none",
        zorder=3 if method in ("auto", "gold") else 2,
    )
    if steps and (row.width.value > CROWDED or row.rms.value > CROWDED):
        text = dict(xytext=(4, 1), textcoords="offset points", fontsize=6, color=COLOURS[method])
        axis.annotate(str(steps), (row.width.value, height), **text)
    return point


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=220)
    pyplot.close(figure)
