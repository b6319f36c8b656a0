"""Marginals: histograms and kernel density estimates of prior and posterior."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from scipy.stats import gaussian_kde

from probsysid._internal.statistics import ess_of_weights, weighted_quantile
from probsysid.posterior.draws import draw_indices
from probsysid.report.figures.style import POSTERIOR, PRIOR, TRUTH, hide, legend, panels, written
from probsysid.report.html.formatting import labelled

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

PRIOR_DRAWS = 4000
POSTERIOR_DRAWS = 2000
COLUMNS = 4


def prior_draws(posterior: "Posterior", count: int = PRIOR_DRAWS) -> dict[str, np.ndarray]:
    """Prior draws of every scalar quantity."""
    space = posterior.setup.problem.space
    values = space.values(space.sample(jax.random.key(0), count))
    return {name: np.asarray(value) for name, value in values.items() if np.ndim(value) == 1}


def prior_density(posterior: "Posterior", name: str, draws: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The prior's density, NaN where it does not allow values; of a joint prior an estimate from draws."""
    for site in posterior.setup.problem.space.sites:
        if site.name == name and site.shape == ():
            inside = np.asarray(site.prior.support(grid))
            density = np.exp(np.asarray(site.prior.log_prob(np.where(inside, grid, draws[0]))))
            return np.where(inside, density, np.nan)
    inside = (grid >= draws.min()) & (grid <= draws.max())
    return np.where(inside, gaussian_kde(draws)(grid), np.nan)


def plot_marginals(
    posterior: "Posterior", path: str | Path | None = None, *, truth: Mapping[str, float] | None = None
) -> Figure:
    """Posterior of every quantity, on its own scale: a much wider prior shows as a flat line; lines at true values."""
    names = list(posterior.columns)
    figure, flat = _grid(len(names), columns=3, width=10.0, height=2.6)
    prior, chosen = prior_draws(posterior), draw_indices(posterior.weights, POSTERIOR_DRAWS)
    units = posterior.settings.units
    for name, axis in zip(names, flat, strict=False):
        draws, known = posterior.columns[name][chosen], (truth or {}).get(name)
        middle, spread = np.median(draws), np.ptp(np.quantile(draws, [0.005, 0.995]))
        low, high = middle - 1.2 * spread, middle + 1.2 * spread
        if known is not None:
            low, high = min(low, known - 0.2 * spread), max(high, known + 0.2 * spread)
            axis.axvline(known, color=TRUTH, lw=1.2, label="truth")
        _density(axis, posterior.columns[name], POSTERIOR, "posterior", posterior.weights)
        if name in prior:
            grid = np.linspace(low, high, 200)
            density = prior_density(posterior, name, prior[name], grid)
            axis.plot(grid, density, color=PRIOR, ls="--", label="prior")
            possible = grid[np.isfinite(density)]
            low, high = (possible[0], possible[-1]) if len(possible) else (low, high)
        axis.set_xlim(low, high)
        axis.set_xlabel(labelled(name, units))
        _tidy(axis, ticks=4)
    legend(flat[0])
    return written(figure, path)


def plot_prior_posterior(
    posterior: "Posterior", names: Sequence[str], truth: Mapping[str, float] | None = None
) -> Figure:
    """Prior and posterior, one panel per parameter, relative to the true value where it is known."""
    figure, flat = _grid(len(names))
    prior = prior_draws(posterior)
    units = posterior.settings.units
    for name, axis in zip(names, flat, strict=False):
        scale = (truth or {}).get(name)
        divisor = 1.0 if scale is None else scale
        before, after = prior[name] / divisor, posterior.columns[name] / divisor
        _density(axis, before, PRIOR, "prior")
        _density(axis, after, POSTERIOR, "posterior", posterior.weights)
        _square_root_heights(axis)
        axis.set_xlim(*_view(before, after))
        if scale is not None:
            axis.axvline(1.0, color=TRUTH, lw=1.0, label="truth")
        axis.set_xlabel(labelled(name, units) if scale is None else f"{name} / true value")
        _tidy(axis)
    legend(flat[0])
    return figure


def plot_apart(posterior: "Posterior", names: Sequence[str], reference: Mapping[str, float] | None = None) -> Figure:
    """Each prior in a panel above its posterior: for posteriors too narrow to show on the scale of their priors."""
    bands = -(-len(names) // COLUMNS)
    columns = -(-len(names) // bands)
    figure, axes = panels(2 * bands, columns, height=1.5)
    prior = prior_draws(posterior)
    units = posterior.settings.units
    for number, name in enumerate(names):
        band, column = divmod(number, columns)
        above, below = axes[2 * band, column], axes[2 * band + 1, column]
        before, after = prior[name], posterior.columns[name]
        _density(above, before, PRIOR, "prior")
        above.set_xlim(*np.quantile(before, [0.0, 0.99]))
        _density(below, after, POSTERIOR, "posterior", posterior.weights)
        if reference and name in reference:
            below.axvline(reference[name], color=TRUTH, lw=1.0, label="published")
        below.set_xlabel(labelled(name, units))
        for axis in (above, below):
            _tidy(axis)
    for axis in axes[:2, 0]:
        legend(axis)
    hide([axis for row in axes[-2:] for axis in row[len(names) - columns * (bands - 1) :]])
    return figure


def _grid(count: int, columns: int = COLUMNS, **size: float) -> tuple[Figure, list[Axes]]:
    columns = min(columns, count)
    rows = -(-count // columns)
    figure, axes = panels(rows, columns, **size)
    flat = list(axes.flat)
    hide(flat[count:])
    return figure, flat


def _density(axis: Axes, draws: np.ndarray, color: str, label: str, weights: np.ndarray | None = None) -> None:
    """Histogram and kernel estimate; how fine both are follows from the effective number of draws.  Neither goes beyond
    zero where all draws are on one side of it."""
    count = len(draws) if weights is None else ess_of_weights(weights)
    axis.hist(draws, bins=bins(count), weights=weights, density=True, color=color, alpha=0.35)
    low, high = weighted_quantile(draws, np.full(len(draws), 1 / len(draws)) if weights is None else weights, ENDS)
    margin = 0.3 * (high - low)
    ends = (max(low - margin, 0.0) if draws.min() > 0 else low - margin, high + margin)
    grid = np.linspace(*ends, 300)
    axis.plot(grid, gaussian_kde(draws, weights=weights)(grid), color=color, lw=1.2, label=label)


ENDS = [0.001, 0.999]


def bins(count: float) -> int:
    """Twice the cube root (Rice's rule), at most 30."""
    return int(np.clip(np.ceil(2 * np.cbrt(count)), 5, 30))


def _square_root_heights(axis: Axes) -> None:
    """Square-root scale for densities: the prior stays visible beside a posterior fifty times narrower."""
    axis.set_yscale("function", functions=(lambda h: np.sqrt(np.maximum(h, 0.0)), lambda h: h**2))


def _view(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(before, [0.005, 0.995])
    return float(min(low, after.min())), float(max(high, after.max()))


def _tidy(axis: Axes, ticks: int = 2) -> None:
    axis.set_yticks([])
    axis.set_ylim(bottom=0.0)
    axis.xaxis.set_major_locator(MaxNLocator(ticks))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axis.tick_params(labelsize="small")
