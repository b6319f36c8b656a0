"""What the data do not identify: quantities left at their prior or at a bound, and those known only in a formula."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Float

from probsysid._internal.statistics import weighted_moments, weighted_quantile
from probsysid.model.parameter_space import ParameterSpace
from probsysid.posterior.diagnostics.combinations import LARGEST_SET, Beliefs, find_combinations, prior_scores
from probsysid.posterior.diagnostics.constancy import Constancy, find_constancy
from probsysid.posterior.diagnostics.formulas import Combination
from probsysid.posterior.diagnostics.sampling_check import LEAST_ESS
from probsysid.posterior.draws import scalars

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

LEARNT, MOVED = 0.8, 0.3
"""A posterior wider than the first fraction of the prior, whose mean is within the second fraction of the prior's sd of
its mean, has learnt next to nothing: either alone is a Kullback-Leibler divergence of 0.045."""

BY_CHANCE = 3.0
"""Standard errors by which moments of a posterior equal to the prior differ from it, once in 400 quantities."""

TIED = 0.95
"""Correlation beyond which two quantities are hardly told apart."""

NEAR, PILED = 0.05, 0.05
"""A posterior is at a bound if more than this probability lies within this fraction of its 90 % width from it, and more
than there was before: wide log-normal distributions have as much."""

PRIOR_DRAWS = 4000


@dataclass(frozen=True)
class Identifiability:
    """What the data do not identify, by quantity and as formulas."""

    flags: Mapping[str, tuple[str, ...]]
    """Marks of each quantity: `at prior`, `at bound`, `tied to c (only b*c is known)`, `tied to k (0.98)`; of the size
    of a drift, `k is constant (14 to 1)`."""
    combinations: tuple[Combination, ...] = ()
    """Formulas that are known although their members are not."""
    drifts: tuple[Constancy, ...] = ()
    """Whether parameters that may drift do."""
    unmeasured: tuple[str, ...] = ()
    """Unknown inputs that are not measured at all."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Such as `only b*c is known: 2.0071 +- 0.0067 (b alone: 1.8 +- 1.2, c alone: 1.7 +- 1.2)`; with unknown
        inputs, what would tell more."""
        return tuple(f"{combination.sentence}{self._advice(combination)}" for combination in self.combinations)

    def _advice(self, combination: Combination) -> str:
        """A force that is not measured is known up to a factor, which masses and stiffnesses share."""
        scaled = [name for name in self.unmeasured if any(m.startswith(f"{name}.") for m in combination.members)]
        if len(combination.members) < 2 or not self.unmeasured:
            return ""
        which, would = (scaled[0], "would") if scaled else (self.unmeasured[0], "may")
        prior = f"a narrower prior for {' or '.join(combination.members)}"
        return f"; {prior}, or {which} measured during a part of the record, {would} tell them apart"


def find_identifiability(posterior: "Posterior") -> Identifiability:
    """Compare the posterior with the prior, and quantities with each other."""
    columns, weights = posterior.columns, posterior.weights
    marks: dict[str, list[str]] = {name: [] for name in columns}
    found: list[Combination] = []
    families: dict[str, str] = {}
    if posterior.setup.known:
        space = posterior.setup.problem.space
        prior = _prior_columns(space)
        families = _families(space)
        _mark_unlearnt(posterior, space, prior, marks)
        told = {name: values for name, values in columns.items() if families.get(name, name) == name}
        beliefs = Beliefs.of(told, weights, prior, posterior.settings.units)
        if posterior.ess >= LEAST_ESS:
            found = find_combinations(beliefs, LARGEST_SET if _agreed(posterior) else 2)
    _mark_ties(correlation(columns, weights), found, marks, families)
    drifts = find_constancy(posterior)
    for drift in drifts:  # at its bound, zero, is where the size of no drift is expected
        marks[drift.quantity] = [drift.mark, *(text for text in marks[drift.quantity] if text != "at bound")]
    unmeasured: tuple[str, ...] = ()
    if posterior.setup.known:
        latent = posterior.setup.problem.latent
        unmeasured = tuple(name for name in latent.unknown if name not in latent.measured)
    return Identifiability({name: tuple(texts) for name, texts in marks.items()}, tuple(found), drifts, unmeasured)


def _families(space: ParameterSpace) -> dict[str, str]:
    """The parameter that values on records and spreads belong to: being close to it is what they are about."""
    return {
        name: varying.name
        for varying in space.varying
        for name in (varying.name, varying.spread_name, *varying.record_names)
    }


def correlation(
    columns: Mapping[str, np.ndarray], weights: Float[np.ndarray, " particle"]
) -> Float[np.ndarray, "quantity quantity"]:
    """Correlation of values or, where it is larger, of their logarithms; those of quantities with both signs are zero.

    NaN for a quantity without spread.
    """
    values = np.array(list(columns.values())).reshape(len(columns), -1)
    positive = np.all(values > 0, axis=1)
    logs = np.log(np.where(positive[:, None], values, 1.0))
    plain, of_logs = _correlation(values, weights), _correlation(logs, weights)
    return np.where(np.abs(np.nan_to_num(of_logs)) > np.abs(np.nan_to_num(plain)), of_logs, plain)


def _correlation(
    values: Float[np.ndarray, "quantity particle"], weights: Float[np.ndarray, " particle"]
) -> Float[np.ndarray, "quantity quantity"]:
    centred = values - (values @ weights)[:, None]
    covariance = (centred * weights) @ centred.T
    spread = np.sqrt(np.diag(covariance))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(covariance / np.outer(spread, spread))


def _mark_ties(
    correlations: Float[np.ndarray, "quantity quantity"],
    found: list[Combination],
    marks: dict[str, list[str]],
    families: Mapping[str, str],
) -> None:
    """By the formulas with it, or by the largest correlation with a quantity of another family."""
    names = list(marks)
    kin = np.array([[families.get(a, a) == families.get(b, b) for b in names] for a in names])
    correlations = np.where(kin, 0.0, correlations)
    for i, name in enumerate(names):
        formulas = [item for item in found if name in item.members]
        if formulas:
            others = dict.fromkeys(other for item in formulas for other in item.members if other != name)
            known = f"only {', '.join(item.formula for item in formulas)} {'are' if len(formulas) > 1 else 'is'} known"
            marks[name].append(f"tied to {', '.join(others)} ({known})" if others else known)
            continue
        strength = np.abs(np.nan_to_num(np.delete(correlations[i], i)))
        if len(strength) and strength.max() > TIED:
            other = int(np.flatnonzero(np.arange(len(names)) != i)[np.argmax(strength)])
            marks[name].append(f"tied to {names[other]} ({correlations[i, other]:.2f})")


def _mark_unlearnt(
    posterior: "Posterior", space: ParameterSpace, prior: Mapping[str, np.ndarray], marks: dict[str, list[str]]
) -> None:
    bounded = {site.name: site.prior.support for site in space.sites if isinstance(site.name, str) and site.size == 1}
    expected = {varying.spread_name for varying in space.varying if varying.records == 1}
    for name, values in posterior.columns.items():
        if name not in prior or name in expected:  # one record says nothing about the spread between records
            continue
        if at_prior(prior_scores(values, prior[name]), posterior.weights, _effective(posterior, name)):
            marks[name].append("at prior")
        elif name in bounded and _at_bound(bounded[name], values, posterior.weights, prior[name]):
            marks[name].append("at bound")


def at_prior(scores: Float[np.ndarray, " particle"], weights: Float[np.ndarray, " particle"], effective: float) -> bool:
    """Whether normal scores of the prior are still standard normal, in location and in width.

    Their mean has a standard error of 1 / sqrt(n), their sd one of 1 / sqrt(2 n), for n effective particles.
    """
    mean, sd = weighted_moments(scores, weights)
    error = BY_CHANCE / np.sqrt(effective)
    return abs(mean) <= max(MOVED, error) and sd >= min(LEARNT, 1 - error / np.sqrt(2))


def _effective(posterior: "Posterior", name: str) -> float:
    """Effective particles: from populations where they were compared, from weights elsewhere."""
    between = posterior.ess if posterior.sampling is None else posterior.sampling.ess.get(name, posterior.ess)
    return max(min(posterior.ess, between), LEAST_ESS)


def _agreed(posterior: "Posterior") -> bool:
    """Whether populations agree.  If not, they may be on a ridge, yet three or four of their means, of eight
    populations, are correlated by chance."""
    return posterior.sampling is None or min(posterior.sampling.ess.values()) >= LEAST_ESS


def _prior_columns(space: ParameterSpace) -> dict[str, Float[np.ndarray, " draw"]]:
    """Draws from the prior, by scalar quantity."""
    values: dict[str, np.ndarray] = {}
    keys = jax.random.split(jax.random.key(0), len(space.sites))
    for site, key in zip(space.sites, keys, strict=True):
        draws = np.moveaxis(np.asarray(site.prior.sample(key, (PRIOR_DRAWS,))), 0, -1)
        values |= dict(zip(site.name, draws, strict=True)) if isinstance(site.name, tuple) else {site.name: draws}
    return scalars({name: np.asarray(value) for name, value in space.resolved(values).items()})


def _at_bound(
    support: object,
    values: Float[np.ndarray, " particle"],
    weights: Float[np.ndarray, " particle"],
    prior: Float[np.ndarray, " draw"],
) -> bool:
    """Whether more than `PILED` of the posterior, and more than of the prior, lies close to a finite bound."""
    width = np.ptp(weighted_quantile(values, weights, [0.05, 0.95]))
    for bound in (getattr(support, "lower_bound", None), getattr(support, "upper_bound", None)):
        if bound is not None and np.ndim(bound) == 0 and np.isfinite(float(bound)):
            near = np.abs(values - float(bound)) < NEAR * width
            before = float(np.mean(np.abs(prior - float(bound)) < NEAR * width))
            if float(weights[near].sum()) > max(PILED, before):
                return True
    return False
