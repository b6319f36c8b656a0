"""Columns of the matrix from the results of single data sets, each with its standard error.

Quantities of one data set are correlated: data sets are the independent units, and their spread gives every error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from validation.honesty.study import Cell, read

BOOTSTRAPS = 400

HOPELESS = 1000
"""Standard deviations beyond which the sampler itself has collapsed and the number is meaningless."""


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error."""

    value: float
    error: float

    @property
    def text(self) -> str:
        """With digits by the magnitude of the number."""
        if not np.isfinite(self.value):
            return "-"
        if self.value > HOPELESS:
            return f"over {HOPELESS}"
        digits = int(np.clip(2 - np.floor(np.log10(max(self.value, 1e-9))), 0, 2)) if self.value >= 10 else 2
        return f"{self.value:.{digits}f} ± {self.error:.{digits}f}"

    @property
    def percent(self) -> str:
        return f"{100 * self.value:.0f} ± {100 * self.error:.0f}" if np.isfinite(self.value) else "-"


@dataclass(frozen=True)
class Row:
    """One cell of the matrix."""

    cell: Cell
    sets: int
    """Number of data sets."""
    failed: int
    """Number of runs among them that lost all particles."""
    scores: dict[str, np.ndarray]
    """z-scores of each quantity over the data sets that did not fail."""
    rms: Estimate
    covered: dict[float, Estimate]
    """Coverage of the intervals by their nominal level."""
    width: Estimate
    """Median ratio of the standard deviation to that of the gold standard on the same data."""
    shift: Estimate
    """Root mean square distance of the posterior mean from that of the gold standard, in its own standard deviations;
    noise and truth are common to both and cancel."""
    seconds: Estimate
    """Median processor time of a run; the first data set of a process includes the compilation."""
    sweeps: float
    steps: dict[int, int]
    """Final number of steps per sample -> number of data sets."""

    @property
    def worst(self) -> tuple[str, float]:
        """The quantity with the largest root mean square z-score."""
        squares = {name: float(np.sqrt(np.mean(z**2))) for name, z in self.scores.items()}
        name = max(squares, key=lambda key: squares[key])
        return name, squares[name]


def summarise(folder: Path, cell: Cell) -> Row | None:
    """The columns of a cell; None if it has no results."""
    results = read(folder, cell)
    good = {index: r for index, r in results.items() if "failed" not in r}
    if not results:
        return None
    gold = read(folder, Cell(cell.problem, "gold", 0))
    names = list(cell.problem.quantities(cell.problem.truth(0)))
    z = _gather(good, names, _z)
    rank = _gather(good, names, lambda q: q["rank"])
    both = [(good[index]["quantities"], gold[index]["quantities"]) for index in good if index in gold]
    ratios = [[ours[name]["sd"] / theirs[name]["sd"] for name in names] for ours, theirs in both]
    shifts = [
        [(ours[name]["mean"] - theirs[name]["mean"]) / ours[name]["sd"] for name in names] for ours, theirs in both
    ]
    steps = [r["steps"] for r in good.values()]
    return Row(
        cell,
        sets=len(results),
        failed=len(results) - len(good),
        scores=dict(zip(names, z.T, strict=True)),
        rms=root_mean_square(z),
        covered={level: coverage(rank, level) for level in (0.5, 0.9)},
        width=median(np.array(ratios).reshape(-1, len(names))),
        shift=root_mean_square(np.array(shifts).reshape(-1, len(names))),
        seconds=median(np.array([[r["cpu seconds"]] for r in good.values()]).reshape(-1, 1)),
        sweeps=float(np.median([r["sweeps"] for r in good.values()])) if good else np.nan,
        steps={count: steps.count(count) for count in sorted(set(steps))},
    )


def _z(quantity: dict[str, float]) -> float:
    """Huge where the particles have become one."""
    return (quantity["mean"] - quantity["truth"]) / max(quantity["sd"], 1e-9 * abs(quantity["truth"]))


def _gather(
    results: Mapping[int, dict[str, Any]], names: list[str], number: Callable[[dict[str, float]], float]
) -> np.ndarray:
    """(data set, quantity)"""
    rows = [[number(r["quantities"][name]) for name in names] for r in results.values()]
    return np.array(rows).reshape(-1, len(names))


def root_mean_square(z: np.ndarray) -> Estimate:
    """Over quantities and data sets; the error of a root is that of its square divided by twice the root."""
    if len(z) < 2:
        return Estimate(np.nan, np.nan)
    squares = np.mean(z**2, axis=1)
    root = float(np.sqrt(squares.mean()))
    return Estimate(root, float(squares.std(ddof=1) / np.sqrt(len(z)) / (2 * root)) if root else 0.0)


def coverage(rank: np.ndarray, level: float) -> Estimate:
    """Fraction of the central intervals that contain the truth.

    If all data sets agree, their spread does not measure the error, which is then that of one more that disagrees.
    """
    if len(rank) < 2:
        return Estimate(np.nan, np.nan)
    inside = np.mean(np.abs(rank - 0.5) <= level / 2, axis=1)
    count = len(inside)
    least = np.sqrt(count + 1) / (count + 2) ** 1.5
    return Estimate(float(inside.mean()), float(max(inside.std(ddof=1) / np.sqrt(count), least)))


def median(values: np.ndarray) -> Estimate:
    """Over quantities and data sets; its error by bootstrap over data sets."""
    if len(values) < 2:
        return Estimate(np.nan, np.nan)
    random = np.random.default_rng(0)
    draws = [np.median(values[random.integers(len(values), size=len(values))]) for _ in range(BOOTSTRAPS)]
    return Estimate(float(np.median(values)), float(np.std(draws)))
