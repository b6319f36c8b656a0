"""Flags of quantities that the data do not identify: left at their prior, at a bound, or tied to another."""

from typing import TYPE_CHECKING

import jax
import numpy as np
import pandas as pd

from probsysid._internal.statistics import weighted_quantile
from probsysid.posterior.draws import draw_indices

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

LEARNT = 0.8
"""A posterior wider than this fraction of the prior has learnt next to nothing."""

TIED = 0.95
"""Correlation beyond which two quantities are hardly told apart."""

NEAR, PILED = 0.05, 0.05
"""A posterior is at a bound if more than this probability lies within this fraction of its 90 % width from it."""

PRIOR_DRAWS = 4000


def flags(posterior: "Posterior", correlation: pd.DataFrame) -> dict[str, list[str]]:
    """Warnings for each quantity: `at prior`, `at bound`, `tied to k (0.98)`."""
    result: dict[str, list[str]] = {name: [] for name in posterior.columns}
    _mark_ties(correlation, result)
    if posterior.setup.known:
        _mark_unlearnt(posterior, result)
    return result


def _mark_ties(correlation: pd.DataFrame, result: dict[str, list[str]]) -> None:
    for name in correlation.index:
        others = correlation[name].drop(name).abs()
        if len(others) and np.isfinite(others).any() and others.max() > TIED:
            other = others.idxmax()
            result[name].append(f"tied to {other} ({correlation.loc[other, name]:.2f})")


def _mark_unlearnt(posterior: "Posterior", result: dict[str, list[str]]) -> None:
    """Compare with the prior in unconstrained coordinates, where bounds are far away."""
    space = posterior.setup.problem.space
    prior = np.asarray(space.sample(jax.random.key(0), PRIOR_DRAWS))
    chosen = posterior.theta[:, draw_indices(posterior.weights, PRIOR_DRAWS)]
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
    """Whether more than `PILED` of the posterior lies within `NEAR` of its width from a finite bound."""
    width = np.ptp(weighted_quantile(values, weights, [0.05, 0.95]))
    for bound in (getattr(support, "lower_bound", None), getattr(support, "upper_bound", None)):
        if bound is not None and np.ndim(bound) == 0 and np.isfinite(float(bound)):
            near = np.abs(values - float(bound)) < NEAR * width
            if float(weights[near].sum()) > PILED:
                return True
    return False
