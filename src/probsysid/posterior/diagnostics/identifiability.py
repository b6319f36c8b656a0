"""Warnings about what the data do not tell: quantities left at their prior, at a bound, or tied to another."""

from typing import TYPE_CHECKING

import jax
import numpy as np

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

LEARNT = 0.8
"""A posterior wider than this share of the prior has learnt next to nothing."""

TIED = 0.95
"""Correlation beyond which two quantities are hardly told apart."""

PRIOR_DRAWS = 4000


def flags(posterior: "Posterior") -> dict[str, list[str]]:
    """Warnings for each quantity: `at prior`, `at bound`, `tied to k (0.98)`."""
    result: dict[str, list[str]] = {name: [] for name in posterior.columns}
    _mark_ties(posterior, result)
    if posterior._problem or posterior.pickled_problem is not None:
        _mark_unlearnt(posterior, result)
    return result


def _mark_ties(posterior: "Posterior", result: dict[str, list[str]]) -> None:
    correlation = posterior.correlation()
    for name in correlation.index:
        others = correlation[name].drop(name).abs()
        if len(others) and np.isfinite(others).any() and others.max() > TIED:
            other = others.idxmax()
            result[name].append(f"tied to {other} ({correlation.loc[other, name]:.2f})")


def _mark_unlearnt(posterior: "Posterior", result: dict[str, list[str]]) -> None:
    """Compare with the prior in unconstrained coordinates, where bounds are far away."""
    space = posterior.problem.space
    prior = np.asarray(space.sample(jax.random.key(0), PRIOR_DRAWS))
    chosen = posterior.theta[:, posterior.draw_indices(PRIOR_DRAWS)]
    for site in space.sites:
        names = site.name if isinstance(site.name, tuple) else (site.name,)
        single = site.size == len(names)
        for k, name in enumerate(names):
            if not single or name not in result:
                continue
            row = site.start + k
            width = _middle(chosen[row]) / max(_middle(prior[row]), 1e-300)
            if width > LEARNT:
                result[name].append("at prior")
            elif _at_bound(site.prior.support, posterior.values[name], posterior.weights):
                result[name].append("at bound")


def _middle(values: np.ndarray) -> float:
    """Width of the middle half."""
    return float(np.subtract(*np.quantile(values, [0.75, 0.25])))


def _at_bound(support: object, values: np.ndarray, weights: np.ndarray) -> bool:
    """Whether a good part of the posterior piles up within a hundredth of its width from a finite bound."""
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    ends = np.minimum(np.searchsorted(cumulative, [0.05, 0.95]), len(order) - 1)
    width = np.ptp(values[order[ends]])
    for bound in (getattr(support, "lower_bound", None), getattr(support, "upper_bound", None)):
        if bound is not None and np.ndim(bound) == 0 and np.isfinite(float(bound)):
            near = np.abs(values - float(bound)) < 0.05 * width
            if float(weights[near].sum()) > 0.05:
                return True
    return False
