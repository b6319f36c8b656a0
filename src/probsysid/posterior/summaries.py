"""Numbers of a posterior: moments, quantiles, correlations, and the table of all quantities."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from probsysid._internal.errors import InputError
from probsysid._internal.statistics import weighted_moments, weighted_quantile
from probsysid._internal.validation import check_level
from probsysid.model.fingerprint import describe_prior
from probsysid.model.problem import Problem

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior


def mean(posterior: "Posterior", name: str) -> float:
    """Posterior mean of a quantity."""
    return weighted_moments(_column(posterior, name), posterior.weights)[0]


def sd(posterior: "Posterior", name: str) -> float:
    """Posterior standard deviation of a quantity."""
    return weighted_moments(_column(posterior, name), posterior.weights)[1]


def quantile(posterior: "Posterior", name: str, level: float | list[float]) -> Any:
    """Posterior quantiles of a quantity: a number for one level, an array for several."""
    check_level("level", level)
    found = weighted_quantile(_column(posterior, name), posterior.weights, level)
    return float(found) if np.ndim(level) == 0 else found


def correlation(posterior: "Posterior") -> pd.DataFrame:
    """Posterior correlation of all quantities."""
    names = list(posterior.columns)
    stacked = np.stack([posterior.columns[name] for name in names])
    covariance = np.atleast_2d(np.cov(stacked, aweights=posterior.weights, bias=True))
    spread = np.sqrt(np.diag(covariance))
    with np.errstate(invalid="ignore", divide="ignore"):
        return pd.DataFrame(covariance / np.outer(spread, spread), index=names, columns=names)


def table(posterior: "Posterior") -> pd.DataFrame:
    """Mean, sd, 5 % and 95 % quantiles, sources of variance, unit, prior and flags of every quantity."""
    settings = posterior.settings
    marks = posterior.identifiability.flags
    rows = []
    for name in posterior.columns:
        base = name.split("[")[0]
        low, high = quantile(posterior, name, [0.05, 0.95])
        rows.append(
            {
                "mean": mean(posterior, name),
                "sd": sd(posterior, name),
                "q05": low,
                "q95": high,
                "unit": settings.units.get(base, ""),
                "prior": settings.priors.get(name, settings.priors.get(base, "")),
                "flags": "; ".join(marks.get(name, ())),
            }
        )
    result = pd.DataFrame(rows, index=pd.Index(list(posterior.columns), name="parameter"))
    if posterior.sampling is not None:
        for column, figures in (("r_hat", posterior.sampling.r_hat), ("ess", posterior.sampling.ess)):
            found = [figures.get(name, float("nan")) for name in posterior.columns]
            result.insert(result.columns.get_loc("unit"), column, found)
    if posterior.variance_shares is not None:
        shares = shares_table(posterior.variance_shares)
        for source in shares:
            result.insert(result.columns.get_loc("unit"), f"from {source}", shares[source])
    return result


def shares_table(shares: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Variance shares with one row per quantity and one column per source."""
    return pd.DataFrame.from_dict(dict(shares), orient="index").rename_axis("parameter")


def prior_descriptions(problem: Problem) -> dict[str, str]:
    """The prior of each quantity in words."""
    result = {}
    for site in problem.space.sites:
        for name in site.name if isinstance(site.name, tuple) else (site.name,):
            result[name] = describe_prior(site.prior)
    for varying in problem.space.varying:
        del result[varying.deviations_name]
        result |= dict.fromkeys(varying.record_names, varying.describe())
    return result


def _column(posterior: "Posterior", name: str) -> np.ndarray:
    if name not in posterior.columns:
        raise InputError(f"there is no {name!r} in the posterior; it has: {', '.join(posterior.columns)}.")
    return posterior.columns[name]
