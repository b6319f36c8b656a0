"""Can the sampling be trusted?  The verdict on the particles, beside the one on the integration.

A run has several populations that resample by themselves.  If each has found the posterior, they agree: the variance
between their means is what their sizes explain (the potential scale reduction factor R-hat, rank-normalised, Vehtari et
al. 2021), and so is the spread of their evidences.  What all populations get wrong alike does not show there.  So fresh
draws from a distribution fitted to the particles are weighted against the target, for one sweep over the data, or a few
where the fit has to be repeated: their importance weights must be reliable (Pareto shape below 0.7), and their means,
standard deviations and evidence those of the particles.  A search for modes says whether one was lost
(`mode_check.py`).

A Laplace approximation, which is not sampled at all, is a state of its own: neither trusted nor not.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from scipy.special import chdtrc, ndtri

from probsysid._internal.statistics import effective_sample_size, log_mean_exp
from probsysid.posterior import psis
from probsysid.posterior.diagnostics.mode_check import ModeCheck
from probsysid.posterior.diagnostics.solver_check import UNRELIABLE
from probsysid.smc.evidence import evidence_error
from probsysid.smc.proposals import cholesky, moments
from probsysid.smc.resampling import Systematic
from probsysid.smc.weights import normalise

LEAST_ESS = 25.0
"""Effective particles below which a mean is not known to a fifth of its standard deviation.  Populations whose means
leave fewer disagree: with 8 of them R-hat is then above 1.15."""

FEWEST_PARTICLES = 64
"""Particles below which nothing can be told: the default 8 populations are then of fewer than 8, and the number of
effective particles that their means give may be twice the real one.  On a banana, 4 of 5 runs with 32 particles and
nothing conspicuous about them had a standard deviation of about half the right one."""

LARGEST_SPREAD = 1.0
"""Standard deviation of the populations' log evidences above which a single one dominates the posterior."""

LEAST_P = 1e-6
"""Probability of a chance difference between fresh draws and particles below which they contradict each other."""

FEWEST_DRAWS = 2.0
"""Effective number of fresh draws below which nothing can be compared."""

LEAST_SHARE = 0.1
"""Effective over actual draws of a Laplace approximation from which on it is close: with a smaller share most of the
posterior's mass lies where it has few draws.  On the cascaded tanks, whose posterior is a bent ridge, it is 0.06."""

Values = Mapping[str, Float[np.ndarray, "population member"]]
Status = Literal["trusted", "not trusted", "Laplace approximation"]


@dataclass(frozen=True)
class FreshDraws:
    """What weighted draws from a distribution fitted to the particles say: probabilities of a difference by chance."""

    pareto_shape: float
    mean_p: float
    """Of all means together."""
    spread_p: float
    """Of all standard deviations together."""
    evidence_p: float

    @property
    def reliable(self) -> bool:
        """Whether the weights can be used at all."""
        return self.pareto_shape < UNRELIABLE

    @property
    def least_p(self) -> float:
        """Of the three."""
        return min(self.mean_p, self.spread_p, self.evidence_p)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What the draws contradict, in words."""
        found = {"means": self.mean_p, "standard deviations": self.spread_p, "log evidence": self.evidence_p}
        return tuple(name for name, p in found.items() if p < LEAST_P) if self.reliable else ()


NO_DRAWS = FreshDraws(float("inf"), 1.0, 1.0, 1.0)
"""Nothing could be drawn, or nothing compared: no confirmation."""


@dataclass(frozen=True)
class LaplaceCheck:
    """How close a Laplace approximation is: its draws weighted by the target."""

    modes: int
    draws: int
    pareto_shape: float
    """Of the weights."""
    effective: float
    """Number of the weighted draws."""
    weighted_evidence: float
    """Log evidence from the weights; the approximation has its own."""
    converged: bool = True
    """Whether the search for the mode came to its end."""
    refined: bool = False
    """Whether its draws were replaced by others, weighted by the target."""

    @property
    def close(self) -> bool:
        """Whether the weights are reliable, and even enough."""
        return self.converged and self.pareto_shape < UNRELIABLE and self.effective >= LEAST_SHARE * self.draws

    @property
    def verdict(self) -> str:
        """One sentence."""
        around = "the mode" if self.modes == 1 else f"{self.modes} modes"
        done = "refined by weighted draws" if self.refined else "not sampled"
        name = f"Laplace approximation around {around}, {done}"
        weights = (
            f"importance weights of its draws have a Pareto shape of {self.pareto_shape:.2g}, {self.effective:.0f} of "
            f"{self.draws} are effective, and the log evidence from them is {self.weighted_evidence:.2f}"
        )
        if not self.converged:
            return f"{name}, and not to be relied on: the search for the mode came to no end; {weights}."
        if not self.close:
            return f"{name}, and not to be relied on: {weights}. Sample instead (method 'sample')."
        return f"{name}; it is close: {weights}."


@dataclass(frozen=True)
class SamplingCheck:
    """How well the populations of a run agree, and whether fresh draws confirm them."""

    particles: int
    r_hat: dict[str, float]
    """By quantity; NaN with a single population."""
    ess: dict[str, float]
    """Effective particles by quantity, from the variance between the populations' means."""
    evidence_spread: float
    """Standard deviation of the populations' log evidences; NaN with a single one."""
    evidence_error: float
    fresh: FreshDraws | None = None
    course: str = ""
    """What was done because the first particles were not to be trusted, in words."""
    modes: ModeCheck | None = None
    """What a search for modes found; None where there was none, as for refined draws."""
    laplace: LaplaceCheck | None = None
    """How close a Laplace approximation is; None where the posterior was sampled."""
    before: str = ""
    """What speaks against the particles that refined draws were fitted to: draws cannot know what they all miss."""

    @property
    def trusted(self) -> bool:
        """Whether the posterior was sampled, and nothing speaks against that."""
        return self.laplace is None and not self.reasons

    @property
    def status(self) -> Status:
        """In one word or two."""
        if self.laplace is not None:
            return "Laplace approximation"
        return "trusted" if self.trusted else "not trusted"

    @property
    def usable(self) -> bool:
        """Trusted, or a Laplace approximation that was asked for and is close."""
        return self.trusted if self.laplace is None else self.laplace.close

    @property
    def reasons(self) -> tuple[str, ...]:
        """What speaks against it, in words."""
        if self.laplace is not None:
            return () if self.laplace.close else (self.laplace.verdict,)
        found = []
        if self.particles < FEWEST_PARTICLES:
            found.append(f"{self.particles} particles are too few to tell; take at least {FEWEST_PARTICLES}")
        fewest = min(self.ess, key=lambda name: self.ess[name])
        if self.ess[fewest] < LEAST_ESS:
            r_hat = f", R-hat {self.r_hat[fewest]:.2f}" if np.isfinite(self.r_hat[fewest]) else ""
            found.append(
                f"populations disagree about {fewest} ({self.ess[fewest]:.0f} effective particles of {self.particles}"
                f"{r_hat})"
            )
        if _or_zero(self.evidence_spread) > LARGEST_SPREAD:
            found.append(f"log evidences of the populations differ by {self.evidence_spread:.2g} (standard deviation)")
        if self.fresh is not None and not self.fresh.reliable:
            found.append(f"fresh draws could not confirm the particles (Pareto shape {self.fresh.pareto_shape:.2g})")
        if self.fresh is not None and self.fresh.contradictions:
            found.append(f"fresh draws contradict the {' and the '.join(self.fresh.contradictions)}")
        if self.before:
            found.append(f"the particles that draws were refined from were not to be trusted ({self.before})")
        return (*found, *(self.modes.reasons if self.modes is not None else ()))

    def refined(self, draws: "SamplingCheck", pareto_shape: float, log_evidence: float) -> "SamplingCheck":
        """Of weighted draws in place of the particles that this one is about: `draws` compares parts of them.

        What was found out about the particles stays: draws are fitted to them and miss what they miss.  A Laplace
        approximation stays one.
        """
        effective = min(draws.ess.values())
        laplace = self.laplace and replace(
            self.laplace,
            draws=draws.particles,
            pareto_shape=pareto_shape,
            effective=effective,
            weighted_evidence=log_evidence,
            refined=True,
        )
        reasons = () if self.laplace is not None else replace(self, modes=None, before="").reasons
        before = "; ".join([self.before] * bool(self.before) + [*reasons])
        return replace(draws, modes=self.modes, laplace=laplace, before=before, course=self.course)

    @property
    def verdict(self) -> str:
        """One sentence."""
        tried = f" {self.course[:1].upper()}{self.course[1:]}." if self.course else ""
        if self.laplace is not None:
            return self.laplace.verdict + tried
        if self.reasons:
            return f"the sampling is not to be trusted: {'; '.join(self.reasons)}.{tried} {self._advice}"
        return self._agreement + tried

    @property
    def _advice(self) -> str:
        return "Run again with more particles" + (", or a larger budget." if self.course else ".")

    @property
    def _agreement(self) -> str:
        modes = "" if self.modes is None else f"; {self.modes.sentence}"
        fewest = min(self.ess.values())
        size = f"at least {fewest:.0f} effective particles of {self.particles}"
        if all(np.isnan(value) for value in self.r_hat.values()):
            return f"sampling: {size}; with one population, agreement could not be checked{modes}."
        agreement = f"populations agree (R-hat at most {max(self.r_hat.values()):.3f})"
        if self.fresh is None:
            return f"sampling: {agreement}, {size}{modes}."
        return f"sampling: {agreement}, {size}; fresh draws confirm means, spreads and evidence{modes}."

    def to_record(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "SamplingCheck":
        """From the plain data of `to_record`."""
        fresh, modes, laplace = (record.get(name) for name in ("fresh", "modes", "laplace"))
        parts = {
            "fresh": None if fresh is None else FreshDraws(**fresh),
            "modes": None if modes is None else ModeCheck.from_record(modes),
            "laplace": None if laplace is None else LaplaceCheck(**laplace),
        }
        return cls(**{**record, **parts})


def _or_zero(value: float) -> float:
    return 0.0 if np.isnan(value) else value


def check_populations(
    values: Values,
    log_weights: Float[np.ndarray, "population member"],
    evidence: Float[np.ndarray, " population"],
    shared_error: float = 0.0,
) -> SamplingCheck:
    """Compare the populations of a run; `values` are the scalar quantities, `log_weights` those within populations.

    Populations that were pooled have an error of the evidence in common: it counts as if they still differed by it.
    """
    weights = normalise(log_weights)
    names = list(values)
    found = [_agreement(values[name], weights, log_weights) for name in names]
    return SamplingCheck(
        particles=log_weights.size,
        r_hat={name: pair[0] for name, pair in zip(names, found, strict=True)},
        ess={name: pair[1] for name, pair in zip(names, found, strict=True)},
        evidence_spread=float(np.hypot(np.std(evidence, ddof=1), shared_error * np.sqrt(len(evidence))))
        if len(evidence) > 1
        else float("nan"),
        evidence_error=evidence_error(evidence, shared_error),
    )


def _agreement(
    values: Float[np.ndarray, "population member"], weights: np.ndarray, log_weights: np.ndarray
) -> tuple[float, float]:
    """R-hat of one quantity, bulk or tail, whichever is larger, and its effective number of particles."""
    by_weights = float(effective_sample_size(log_weights).sum())
    if len(values) < 2:
        return float("nan"), by_weights
    scheme, random = Systematic(), np.random.default_rng(0)
    draws = np.stack([row[scheme(random, w, len(row))] for row, w in zip(values, weights, strict=True)])
    bulk, folded = _rank_normal(draws), _rank_normal(np.abs(draws - np.median(draws)))
    within, between = _variances(bulk)
    r_hat = max(np.sqrt(1 + b / w) if w > 0 else np.inf for w, b in (_variances(bulk), _variances(folded)))
    effective = len(draws) * (within + between) / between if between > 0 else np.inf
    return float(r_hat), float(min(effective, by_weights))


def _rank_normal(draws: Float[np.ndarray, "population member"]) -> Float[np.ndarray, "population member"]:
    """Normal scores of the ranks over all populations (Blom 1958); copies of a particle share their mean rank."""
    _, inverse, counts = np.unique(draws, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return ndtri((ranks[inverse.reshape(draws.shape)] - 0.375) / (draws.size + 0.25))


def _variances(scores: Float[np.ndarray, "population member"]) -> tuple[float, float]:
    """Mean variance within populations, and variance of their means."""
    return float(np.mean(np.var(scores, axis=1, ddof=1))), float(np.var(np.mean(scores, axis=1), ddof=1))


def compare_fresh(
    log_ratios: Float[np.ndarray, " draw"],
    draws: Float[np.ndarray, "dimension draw"],
    theta: Float[np.ndarray, "dimension particle"],
    weights: Float[np.ndarray, " particle"],
    populations: SamplingCheck,
    log_evidence: float,
) -> FreshDraws:
    """Hold weighted draws, with their log ratios of target and density, against the particles.

    In coordinates in which the particles are uncorrelated with unit variance, differences of means and of log standard
    deviations add up to chi-square statistics.  The particles' effective number is the median over quantities: that of
    one quantity is known to a factor of two only.
    """
    alive = np.isfinite(log_ratios)
    if not alive.any():
        return NO_DRAWS
    logs = np.where(alive, log_ratios, -np.inf)
    _, shape = psis.smoothed(log_ratios[alive])
    own, size = normalise(logs)[alive], float(effective_sample_size(logs))
    if size < FEWEST_DRAWS:
        return NO_DRAWS
    relative = 1 / size + 1 / float(np.median(list(populations.ess.values())))
    mean, covariance = moments(theta, weights)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # one particle may have all the weight
        white = np.linalg.solve(cholesky(covariance), draws[:, alive] - mean[:, None])
        shift = white @ own
        centred = white - shift[:, None]
        variance = centred**2 @ own
        kurtosis = (centred**4 @ own) / variance**2
        spread = 0.5 * np.log(variance) / np.sqrt(np.maximum(kurtosis - 1, 1.0) / 4)
    if not (np.isfinite(shift).all() and np.isfinite(spread).all()):
        return NO_DRAWS
    error = np.hypot(np.sqrt(max(1 / size - 1 / len(logs), 0.0)), populations.evidence_error)
    difference = float(log_mean_exp(logs)) - log_evidence
    return FreshDraws(
        float(shape),
        float(chdtrc(len(theta), np.sum(shift**2) / relative)),
        float(chdtrc(len(theta), np.sum(spread**2) / relative)),
        float(chdtrc(1, (difference / error) ** 2)) if error > 0 else 1.0,
    )
