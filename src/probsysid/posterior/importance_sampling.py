"""More draws from a posterior that has been found: importance sampling.

A run has to find the posterior; once it has, a distribution fitted to the particles is so close to it that most fresh
draws are worth one each, for a single sweep over the data instead of tens.  Some trials are spent on a better fit; they
are not kept.  Given that fit, the weights of the draws are exact, so what the particles got wrong by chance does not
matter, and their mean is an unbiased estimate of the evidence.

Draws fill the posterior evenly (`balanced.py`): their means are far less uncertain than their effective number says,
which comes from the weights alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from probsysid._internal.errors import InputError, SamplingError
from probsysid._internal.validation import is_whole
from probsysid.posterior.diagnostics.solver_check import UNRELIABLE, smoothed
from probsysid.posterior.qmc import balanced
from probsysid.smc import weights as w
from probsysid.smc.proposals import DegenerateParticles, MixtureDensity, MomentMatchedT, Proposal, StudentTMixture
from probsysid.smc.target import sweep
from probsysid.targets.batch_target import BatchTarget

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

PARTS = 8
"""Independent parts of the draws, whose spread gives the error of the evidence."""

FIRST = (MomentMatchedT(), StudentTMixture())
"""Distributions fitted to the particles: wide tails, because the particles may be few."""

FAMILIES = (
    MomentMatchedT(degrees=None, defensive=0.05),
    MomentMatchedT(degrees=30.0, defensive=0.05),
    MomentMatchedT(degrees=10.0, defensive=0.05),
    MomentMatchedT(degrees=5.0),
    StudentTMixture(degrees=10.0),
    StudentTMixture(),
)
"""Distributions to choose from when the posterior is known better.  On a nearly Gaussian one with seven quantities a
draw from the first is worth 0.91, from a Student-t with 10 degrees of freedom 0.83, and 0.67 before the second fit."""

WIDE = (MomentMatchedT(degrees=5.0), StudentTMixture())
"""Those of them with the widest tails."""

ROUNDS, GOOD = 4, 0.3
"""Trials are drawn from the best fit again until a draw is worth this much, so many times at most."""

TRIALS = 8
"""One trial for so many draws; at least as many as the run has particles."""

HEAVY = 0.5
"""Pareto shape up to which the variance of weights is finite.  Above it, all is drawn once more from a distribution
with wide tails; where that does not help enough, the weights' tail is smoothed."""

EVEN = 3.0
"""Where no weight is over so many times the mean there is no tail to judge: the shape of nearly equal ones is noise."""

FEWEST = 64


def refine(posterior: "Posterior", draws: int, seed: int) -> "Posterior":
    """The same posterior with so many fresh weighted draws in place of its particles."""
    if not is_whole(draws) or draws < FEWEST:
        raise InputError(f"draws is {draws!r}; it must be a whole number, {FEWEST} or more.")
    if not posterior.records:
        raise InputError("this posterior was loaded without its records; more draws need them.")
    target = LogTarget(posterior)
    random = np.random.default_rng([seed, 6])
    count = -(-draws // PARTS) * PARTS
    fresh = ImportanceSample.of([_close_to(posterior, target, random, draws // TRIALS)], target, random, count, PARTS)
    weights, shape = _weights(fresh.ratios)
    if shape >= HEAVY:
        fresh = ImportanceSample.of([_wider(posterior, fresh, random)], target, random, count, PARTS)
        weights, shape = _weights(fresh.ratios)
    if shape >= UNRELIABLE:
        raise SamplingError(
            "no distribution was found that is close enough to the posterior for fresh draws (Pareto shape "
            f"{shape:.2g}, at most {UNRELIABLE} will do); run again with more particles."
        )
    settings = posterior.settings | {
        "particles": count,
        "refined_from": posterior.run_particles,
        "pareto_shape": shape,
        "sweeps": (posterior.settings["sweeps"] * len(posterior.weights) + target.work) / count,
    }
    space = posterior.problem.space
    return replace(
        posterior,
        values={name: np.asarray(value) for name, value in space.values(fresh.theta).items()},
        theta=fresh.theta,
        weights=weights,
        evidence_by_population=w.log_mean(fresh.ratios.reshape(PARTS, -1)),
        settings=settings,
    )


def _weights(ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights that sum to one, smoothed where their tail is heavy, and the tail's Pareto shape."""
    exact = w.normalise(ratios)
    if np.max(exact) * len(exact) < EVEN:
        return exact, 0.0
    tamed, shape = smoothed(ratios)
    return tamed if shape >= HEAVY else exact, shape


class LogTarget:
    """Log of prior times likelihood, for any number of particles: in portions as large as the run's population, so that
    its programs serve."""

    def __init__(self, posterior: "Posterior"):
        problem, self.portion = posterior.problem, posterior.run_particles
        level = None
        if posterior.settings.get("steps_chosen"):
            level = int(problem.solver.steps).bit_length() - 1
            problem = replace(problem, solver=replace(problem.solver, substeps="auto"))
        experiment = BatchTarget(problem, posterior.records, self.portion)
        self.target: Any = experiment if level is None else experiment.at(level)
        self.work = 0

    def __call__(self, theta: Float[np.ndarray, "dimension particle"]) -> Float[np.ndarray, " particle"]:
        self.work += theta.shape[1]
        return np.concatenate(
            [self._one(theta[:, i : i + self.portion]) for i in range(0, theta.shape[1], self.portion)]
        )

    def _one(self, theta: np.ndarray) -> np.ndarray:
        count = theta.shape[1]
        filled = np.pad(theta, ((0, 0), (0, self.portion - count)), mode="edge")
        _, likelihood, energy = sweep(self.target, filled, self.target.samples)
        total = np.asarray(self.target.log_prior(filled)) + likelihood - energy
        return np.where(np.isnan(total), -np.inf, total)[:count]


@dataclass(frozen=True)
class ImportanceSample:
    """Draws from some distributions, the same number from each, and what is known at them."""

    theta: Float[np.ndarray, "dimension draw"]
    log_target: Float[np.ndarray, " draw"]
    log_density: Float[np.ndarray, " draw"]
    """Of the distributions' even mixture: whichever a draw came from, its weight is right."""

    @classmethod
    def of(
        cls,
        sources: Sequence[MixtureDensity],
        target: LogTarget,
        random: np.random.Generator,
        count: int,
        parts: int = 1,
    ) -> "ImportanceSample":
        """About so many draws; those of each source in so many independent parts."""
        each = count // (len(sources) * parts)
        theta = np.hstack([balanced(source, random, each) for source in sources for _ in range(parts)])
        densities = np.stack([source.log_density(theta) for source in sources], axis=-1)
        return cls(theta, target(theta), w.log_mean(densities))

    @cached_property
    def ratios(self) -> Float[np.ndarray, " draw"]:
        return self.log_target - self.log_density

    @property
    def worth(self) -> float:
        """Of one draw: effective over actual number."""
        return float(w.effective_size(self.ratios[None])[0]) / len(self.ratios)

    def half(self, which: int) -> "ImportanceSample":
        """Every second draw."""
        return ImportanceSample(self.theta[:, which::2], self.log_target[which::2], self.log_density[which::2])

    def worth_of(self, other: MixtureDensity) -> float:
        """What a draw from another distribution would be worth: 1 / E[p / q] over the posterior p."""
        ratios = self.log_target - other.log_density(self.theta)
        excess = w.log_sum_exp(self.ratios + ratios) - w.log_sum_exp(self.ratios) - w.log_mean(self.ratios)
        return float(np.exp(-excess))


def _close_to(posterior: "Posterior", target: LogTarget, random: np.random.Generator, wanted: int) -> MixtureDensity:
    """A distribution close to the posterior: fitted to the particles, tried, and fitted again to the trials."""
    count = -(-max(wanted, target.portion) // target.portion) * target.portion
    particles, weights = posterior.theta, posterior.weights
    sources = [_fitted(family, random, particles, weights) for family in FIRST]
    for _ in range(ROUNDS):
        trial = ImportanceSample.of(sources, target, random, count)
        best, worth = _best(FAMILIES, trial, random, particles, weights)
        particles, weights = _pooled(trial, particles, weights)
        sources = [_fitted(best, random, particles, weights)]
        if worth >= GOOD:
            break
    return sources[0]


def _wider(posterior: "Posterior", draws: "ImportanceSample", random: np.random.Generator) -> MixtureDensity:
    """A distribution with wide tails, now that there are many draws to fit it to."""
    best, _ = _best(WIDE, draws, random, posterior.theta, posterior.weights)
    return _fitted(best, random, *_pooled(draws, posterior.theta, posterior.weights))


def _best(
    families: Sequence[Proposal],
    trial: ImportanceSample,
    random: np.random.Generator,
    particles: np.ndarray,
    weights: np.ndarray,
) -> tuple[Proposal, float]:
    """The family that fits best, and what a draw from it would be worth."""
    worths = [_worth(family, trial, random, particles, weights) for family in families]
    best = int(np.argmax(worths))
    return families[best], worths[best]


def _worth(
    family: Proposal, trial: ImportanceSample, random: np.random.Generator, particles: np.ndarray, weights: np.ndarray
) -> float:
    """Of a draw from what one half of the trial's draws and the particles make of a family, as the other half sees it:
    draws that a distribution was fitted to think too well of it."""
    found = []
    for which in (0, 1):
        try:
            fit = family.fit(random, *_pooled(trial.half(which), particles, weights))
        except DegenerateParticles:
            return 0.0
        found.append(trial.half(1 - which).worth_of(fit))
    return float(np.mean(found)) if np.all(np.isfinite(found)) else 0.0


def _pooled(trial: ImportanceSample, particles: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws and particles together, each kind by its effective number."""
    if not np.isfinite(trial.ratios).any():
        return particles, weights
    sizes = np.array([trial.worth * len(trial.ratios), 1 / np.sum(weights**2)])
    shares = sizes / sizes.sum()
    return np.hstack([trial.theta, particles]), np.append(shares[0] * w.normalise(trial.ratios), shares[1] * weights)


def _fitted(family: Proposal, random: np.random.Generator, theta: np.ndarray, weights: np.ndarray) -> MixtureDensity:
    try:
        return family.fit(random, theta, weights)
    except DegenerateParticles as error:
        raise SamplingError(f"no distribution can be fitted to the particles: {error}.") from None
