"""Importance sampling from a posterior that has been found: many fresh draws for one sweep over the data each.

Once a run has found the posterior, a distribution fitted to the particles is so close to it that most draws have nearly
equal weights.  Some pilot draws are spent on a better fit and discarded.  Given that fit, the weights of the draws are
exact, so that chance errors of the particles do not matter, and their mean is an unbiased estimate of the evidence.

Draws are quasi-random (`qmc.py`): their means are far less uncertain than their effective sample size says, which comes
from the weights alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from probsysid._internal.errors import InputError, SamplingError
from probsysid._internal.statistics import effective_sample_size, ess_of_weights, log_mean_exp, log_sum_exp
from probsysid._internal.validation import check_seed, is_whole
from probsysid.parallel.executor import Executor
from probsysid.posterior.diagnostics.sampling_check import SamplingCheck, check_populations
from probsysid.posterior.diagnostics.solver_check import UNRELIABLE, smoothed
from probsysid.posterior.draws import scalars
from probsysid.posterior.qmc import quasi_random
from probsysid.smc import weights as w
from probsysid.smc.proposals import DegenerateParticles, Density, MomentMatchedT, Proposal, StudentTMixture
from probsysid.smc.target import Target
from probsysid.smc.transport import BestFit, Curved
from probsysid.targets.batch_target import BatchTarget

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

PARTS = 8
"""Independently scrambled parts of the draws, whose spread gives the error of the evidence."""

FIRST = (MomentMatchedT(), BestFit())
"""Families fitted to the particles first: with wide tails, because the particles may be few."""

FAMILIES = (
    MomentMatchedT(degrees=None, defensive=0.05),
    MomentMatchedT(degrees=30.0, defensive=0.05),
    MomentMatchedT(degrees=10.0, defensive=0.05),
    MomentMatchedT(degrees=5.0),
    StudentTMixture(degrees=10.0),
    StudentTMixture(),
    Curved(MomentMatchedT()),
    Curved(StudentTMixture()),
)
"""Families to choose from when the posterior is known better.  On a nearly Gaussian one with seven quantities the
efficiency of the first is 0.91, of a Student-t with 10 degrees of freedom 0.83, and 0.67 before the second fit."""

WIDE = (MomentMatchedT(degrees=5.0), StudentTMixture(), Curved(MomentMatchedT(degrees=5.0)))
"""Those of them with the widest tails."""

ROUNDS, GOOD = 4, 0.3
"""Pilot draws from the best fit are repeated until they reach this efficiency, at most this many times."""

TRIALS = 8
"""Draws per pilot draw; there are at least as many pilot draws as the run has particles."""

HEAVY = 0.5
"""Pareto shape up to which the variance of weights is finite.  Above it, all draws are repeated from a distribution
with wide tails; where that does not suffice, the tail of the weights is smoothed."""

EVEN = 3.0
"""Weights that are all below this multiple of their mean have no tail to judge: the fitted shape would be noise."""

FEWEST = 64


def refine(
    posterior: "Posterior",
    draws: int,
    seed: int,
    executor: Executor,
    *,
    first_fit: "FirstFit | None" = None,
    second_fit: "SecondFit | None" = None,
) -> "Posterior":
    """The same posterior with fresh weighted draws in place of its particles.

    Draws come from `first_fit` (`close_proposal` by default) and, where their weights have a heavy tail, again from
    `second_fit` (`wide_proposal`).
    """
    first_fit, second_fit = first_fit or close_proposal, second_fit or wide_proposal
    if not is_whole(draws) or draws < FEWEST:
        raise InputError(f"draws is {draws!r}; it must be a whole number, {FEWEST} or more.")
    check_seed(seed)
    if not posterior.records:
        raise InputError("this posterior has no records, which more draws need; load it with records=...")
    target = LogTarget.of(posterior, executor)
    random = np.random.default_rng([seed, 6])
    count = -(-draws // PARTS) * PARTS
    fresh = ImportanceSample.of([first_fit(posterior, target, random, draws // TRIALS)], target, random, count, PARTS)
    weights, shape = _weights(fresh.ratios)
    if shape >= HEAVY:
        fresh = ImportanceSample.of([second_fit(posterior, fresh, random)], target, random, count, PARTS)
        weights, shape = _weights(fresh.ratios)
    if shape >= UNRELIABLE:
        raise SamplingError(
            "no distribution was found that is close enough to the posterior for fresh draws (Pareto shape "
            f"{shape:.2g}, at most {UNRELIABLE} will do); run again with more particles."
        )
    return _with_draws(posterior, fresh, weights, shape, target.work)


def _with_draws(
    posterior: "Posterior", fresh: "ImportanceSample", weights: np.ndarray, shape: float, work: int
) -> "Posterior":
    """The posterior with weighted draws in place of its particles; `work` is the number of sweeps they took."""
    count, settings, space = len(weights), posterior.settings, posterior.setup.problem.space
    # draws without weight may be so far out that their values overflow; nobody should have to look at them
    theta = np.where(weights > 0, fresh.theta, fresh.theta[:, [np.argmax(weights)]])
    values = {name: np.asarray(value) for name, value in space.values(theta).items()}
    by_part = {name: value.reshape(PARTS, -1) for name, value in scalars(values).items()}
    logs = fresh.ratios.reshape(PARTS, -1)
    evidence = log_mean_exp(logs)
    return replace(
        posterior,
        values=values,
        theta=theta,
        weights=weights,
        evidence_by_population=evidence,
        shared_error=0.0,
        sampling=_judged(posterior, check_populations(by_part, logs, evidence), shape, float(log_mean_exp(evidence))),
        settings=replace(
            settings,
            particles=count,
            refined_from=settings.run_particles,
            pareto_shape=shape,
            sweeps=(settings.sweeps * len(posterior.weights) + work) / count,
        ),
    )


def _judged(posterior: "Posterior", draws: SamplingCheck, shape: float, log_evidence: float) -> SamplingCheck:
    """The verdict on refined draws: theirs, and that on the particles that they were fitted to."""
    if posterior.sampling is None:
        return replace(draws, before="they were not checked")
    return posterior.sampling.refined(draws, shape, log_evidence)


def _weights(ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights that sum to one, smoothed where their tail is heavy, and the tail's Pareto shape."""
    exact = w.normalise(ratios)
    if np.max(exact) * len(exact) < EVEN:
        return exact, 0.0
    tamed, shape = smoothed(ratios)
    return tamed if shape >= HEAVY else exact, shape


FirstFit = Callable[["Posterior", "LogTarget", np.random.Generator, int], Density]
SecondFit = Callable[["Posterior", "ImportanceSample", np.random.Generator], Density]


LogDensity = Callable[[np.ndarray], np.ndarray]
"""Log of an unnormalised density, of points as columns."""


class LogTarget:
    """Log of prior times likelihood for any number of particles, in portions of the run's size, whose programs are
    compiled already."""

    def __init__(self, target: Target, portion: int):
        self.target = target
        self.portion = portion
        self.work = 0

    @classmethod
    def of(cls, posterior: "Posterior", executor: Executor) -> "LogTarget":
        """The target that a posterior was sampled from."""
        problem, solver = posterior.setup.problem, posterior.setup.solver
        portion = posterior.settings.run_particles
        if not posterior.settings.steps_chosen:
            return cls(BatchTarget(problem, solver, posterior.records, portion, executor), portion)
        automatic = replace(solver, substeps="auto")
        target = BatchTarget(problem, automatic, posterior.records, portion, executor)
        return cls(target.at(solver.steps.bit_length() - 1), portion)

    def __call__(self, theta: Float[np.ndarray, "dimension particle"]) -> Float[np.ndarray, " particle"]:
        self.work += theta.shape[1]
        return np.concatenate(
            [self._one(theta[:, i : i + self.portion]) for i in range(0, theta.shape[1], self.portion)]
        )

    def _one(self, theta: np.ndarray) -> np.ndarray:
        count = theta.shape[1]
        filled = np.pad(theta, ((0, 0), (0, self.portion - count)), mode="edge")
        _, likelihood, energy = self.target.sweep(filled, self.target.samples)
        total = np.asarray(self.target.log_prior(filled)) + likelihood - energy
        return np.where(np.isnan(total), -np.inf, total)[:count]

    def terms(self, theta: Float[np.ndarray, "dimension point"]) -> Float[np.ndarray, "term point"]:
        """The same, sample by sample, with the log prior as the last row."""
        found = [self._terms_of(theta[:, k : k + self.portion]) for k in range(0, theta.shape[1], self.portion)]
        return np.hstack(found)

    def _terms_of(self, theta: np.ndarray) -> np.ndarray:
        count = theta.shape[1]
        filled = np.pad(theta, ((0, 0), (0, self.portion - count)), mode="edge")
        state, first, rows = None, 0, []
        while first < self.target.samples:
            last = self.target.limit(first)
            state, energies = self.target.advance(state, filled, first, last)
            rows.append(-np.asarray(energies)[: last - first])
            first = last
        self.work += self.portion
        return np.concatenate([*rows, np.asarray(self.target.log_prior(filled))[None]])[:, :count]


@dataclass(frozen=True)
class ImportanceSample:
    """Draws from several distributions, the same number from each, with target and proposal densities."""

    theta: Float[np.ndarray, "dimension draw"]
    log_target: Float[np.ndarray, " draw"]
    log_density: Float[np.ndarray, " draw"]
    """Of the equal mixture of the distributions: the weight is right whichever one a draw came from."""

    @classmethod
    def of(
        cls,
        sources: Sequence[Density],
        target: LogDensity,
        random: np.random.Generator,
        count: int,
        parts: int = 1,
    ) -> "ImportanceSample":
        """About `count` draws; those of each source in `parts` independent parts."""
        each = count // (len(sources) * parts)
        theta = np.hstack([quasi_random(source, random, each) for source in sources for _ in range(parts)])
        densities = np.stack([source.log_density(theta) for source in sources], axis=-1)
        return cls(theta, target(theta), log_mean_exp(densities))

    @cached_property
    def ratios(self) -> Float[np.ndarray, " draw"]:
        """Log of target over density; minus infinity where either is not defined."""
        with np.errstate(invalid="ignore"):
            logs = self.log_target - self.log_density
        return np.where(np.isnan(logs), -np.inf, logs)

    @property
    def efficiency(self) -> float:
        """Effective over actual number of draws."""
        return float(effective_sample_size(self.ratios)) / len(self.ratios)

    @property
    def pareto_shape(self) -> float:
        """Of the tail of the weights; infinite where no draw has any."""
        return smoothed(self.ratios)[1]

    def half(self, which: int) -> "ImportanceSample":
        """Every second draw."""
        return ImportanceSample(self.theta[:, which::2], self.log_target[which::2], self.log_density[which::2])

    def efficiency_of(self, other: Density) -> float:
        """The efficiency that draws from another distribution would have: 1 / E[p / q] over the posterior p."""
        if not np.isfinite(self.ratios).any():
            return 0.0
        with np.errstate(invalid="ignore"):
            ratios = self.log_target - other.log_density(self.theta)
            excess = log_sum_exp(self.ratios + ratios) - log_sum_exp(self.ratios) - log_mean_exp(self.ratios)
        return 0.0 if np.isnan(excess) else float(np.exp(-excess))


def fitted_sample(
    theta: Float[np.ndarray, "dimension particle"],
    weights: Float[np.ndarray, " particle"],
    target: LogTarget,
    random: np.random.Generator,
    count: int,
) -> ImportanceSample | None:
    """Draws from distributions fitted to the particles; None where the particles are degenerate.

    Where the weights have too heavy a tail, the fit is repeated with the draws so far: they may have found what the
    particles miss.
    """
    particles = theta
    for _ in range(ROUNDS):
        try:
            sources = [family.fit(random, particles, weights) for family in FIRST]
        except DegenerateParticles:
            return None
        sample = ImportanceSample.of(sources, target, random, count)
        if sample.pareto_shape < UNRELIABLE:
            break
        particles, weights = _pooled(sample, particles, weights)
    return sample


def close_proposal(posterior: "Posterior", target: LogTarget, random: np.random.Generator, wanted: int) -> Density:
    """A distribution close to the posterior: fitted to the particles, tried, and refitted to the pilot draws."""
    count = -(-max(wanted, target.portion) // target.portion) * target.portion
    particles, weights = posterior.theta, posterior.weights
    sources = [_fitted(family, random, particles, weights) for family in FIRST]
    for _ in range(ROUNDS):
        trial = ImportanceSample.of(sources, target, random, count)
        best, efficiency = _best(FAMILIES, trial, random, particles, weights)
        particles, weights = _pooled(trial, particles, weights)
        sources = [_fitted(best, random, particles, weights)]
        if efficiency >= GOOD:
            break
    return sources[0]


def wide_proposal(posterior: "Posterior", draws: "ImportanceSample", random: np.random.Generator) -> Density:
    """A distribution with wide tails, fitted to the many draws that there are by now."""
    best, _ = _best(WIDE, draws, random, posterior.theta, posterior.weights)
    return _fitted(best, random, *_pooled(draws, posterior.theta, posterior.weights))


def _best(
    families: Sequence[Proposal],
    trial: ImportanceSample,
    random: np.random.Generator,
    particles: np.ndarray,
    weights: np.ndarray,
) -> tuple[Proposal, float]:
    """The family that fits best, and its efficiency."""
    efficiencies = [_efficiency(family, trial, random, particles, weights) for family in families]
    best = int(np.argmax(efficiencies))
    return families[best], efficiencies[best]


def _efficiency(
    family: Proposal, trial: ImportanceSample, random: np.random.Generator, particles: np.ndarray, weights: np.ndarray
) -> float:
    """Efficiency of a family fitted to one half of the pilot draws and the particles, judged by the other half: draws
    overestimate a distribution that was fitted to them."""
    found = []
    for which in (0, 1):
        try:
            fit = family.fit(random, *_pooled(trial.half(which), particles, weights))
        except DegenerateParticles:
            return 0.0
        found.append(trial.half(1 - which).efficiency_of(fit))
    return float(np.mean(found)) if np.all(np.isfinite(found)) else 0.0


def _pooled(trial: ImportanceSample, particles: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws and particles together, each weighted by its effective number."""
    if not np.isfinite(trial.ratios).any():
        return particles, weights
    sizes = np.array([trial.efficiency * len(trial.ratios), ess_of_weights(weights)])
    shares = sizes / sizes.sum()
    return np.hstack([trial.theta, particles]), np.append(shares[0] * w.normalise(trial.ratios), shares[1] * weights)


def _fitted(family: Proposal, random: np.random.Generator, theta: np.ndarray, weights: np.ndarray) -> Density:
    try:
        return family.fit(random, theta, weights)
    except DegenerateParticles as error:
        raise SamplingError(f"no distribution can be fitted to the particles: {error}.") from None
