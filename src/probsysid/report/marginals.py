"""Prior and posterior of every quantity, side by side."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator
from scipy.stats import gaussian_kde

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from probsysid.posterior import Posterior

PRIOR_DRAWS = 4000
POSTERIOR_DRAWS = 2000


def plot_marginals(
    posterior: "Posterior",
    path: str | Path | None = None,
    *,
    truth: Mapping[str, float] | None = None,
    columns: int = 3,
) -> "Figure":
    """Histogram and density of the posterior over the density of the prior; a line at the truth where it is known."""
    names = list(posterior.columns)
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.4 * columns, 2.6 * rows), squeeze=False, layout="constrained")
    prior = _prior_draws(posterior)
    chosen = posterior.draw_indices(POSTERIOR_DRAWS)
    units = posterior.settings.get("units", {})
    for name, axis in zip(names, axes.flat, strict=False):
        _one(axis, posterior.columns[name][chosen], prior.get(name), (truth or {}).get(name))
        unit = units.get(name.split("[")[0])
        axis.set_xlabel(f"{name} [{unit}]" if unit else name)
        axis.set_yticks([])
        axis.xaxis.set_major_locator(MaxNLocator(4))
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    axes.flat[0].legend(frameon=False, fontsize="small")
    if path is not None:
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return figure


def _prior_draws(posterior: "Posterior") -> dict[str, np.ndarray]:
    space = posterior.question.space
    values = space.values(space.sample(jax.random.key(0), PRIOR_DRAWS))
    return {name: np.asarray(value) for name, value in values.items() if np.ndim(value) == 1}


def _one(axis: "Axes", posterior: np.ndarray, prior: np.ndarray | None, truth: float | None) -> None:
    """The view is the posterior with room around it; a prior much wider shows as a flat line."""
    middle, spread = np.median(posterior), np.ptp(np.quantile(posterior, [0.005, 0.995]))
    low, high = middle - 1.2 * spread, middle + 1.2 * spread
    if truth is not None:
        low, high = min(low, truth - 0.2 * spread), max(high, truth + 0.2 * spread)
    grid = np.linspace(low, high, 200)
    axis.hist(posterior, bins=30, density=True, color="C0", alpha=0.35)
    axis.plot(grid, gaussian_kde(posterior)(grid), color="C0", label="posterior")
    if prior is not None:
        axis.plot(grid, gaussian_kde(prior)(grid), color="0.4", ls="--", label="prior")
    if truth is not None:
        axis.axvline(truth, color="C3", lw=1.2, label="truth")
    axis.set_xlim(low, high)


def plot_fit(
    simulation: Any, path: str | Path | None = None, *, output: str | None = None, zoom: slice | None = None
) -> "Figure":
    """Measured and simulated output with a 90 % band over the posterior, and the error below."""
    name = simulation._output(output)
    record = simulation.record
    measured, mean = np.asarray(record.outputs[name]), simulation.mean(name)
    low, high = simulation.band(0.9, name)
    window = zoom or slice(0, record.samples)
    time = record.time[window]
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(9, 4.6), sharex=True, layout="constrained", height_ratios=[2, 1]
    )
    top.plot(time, measured[window], ".", color="0.35", ms=3, label="measured")
    top.plot(time, mean[window], color="C0", lw=1.2, label="posterior mean, free run")
    top.fill_between(time, low[window], high[window], color="C0", alpha=0.3, lw=0, label="90 % of the posterior")
    unit = record.units.get(name)
    top.set_ylabel(f"{name} [{unit}]" if unit else name)
    top.legend(frameon=False, ncols=3, fontsize="small", loc="upper right")
    bottom.plot(time, (measured - mean)[window], color="C1", lw=0.8)
    bottom.set_ylabel("error")
    bottom.set_xlabel("time [s]")
    if path is not None:
        figure.savefig(path, dpi=150)
        plt.close(figure)
    return figure
