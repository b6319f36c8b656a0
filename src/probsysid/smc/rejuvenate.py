"""Rejuvenation: resample particles in proportion to their weights, then diversify them by MCMC moves."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from probsysid._internal.errors import SamplingError
from probsysid._internal.statistics import effective_sample_size
from probsysid.smc import weights as w
from probsysid.smc.evidence import ProposalEvidence
from probsysid.smc.islands import fit_sources, group_of_population
from probsysid.smc.metropolis import MetropolisStep, ParticleBatch, TemperedTarget, concatenate, metropolis_step
from probsysid.smc.mixing import correlation, walked_enough
from probsysid.smc.moves import FittedMoves, Move, RandomWalk
from probsysid.smc.options import Sampler
from probsysid.smc.proposals import DegenerateParticles
from probsysid.smc.target import Target


class Rejuvenation(NamedTuple):
    """What happened when particles were resampled and moved."""

    sample: int
    share: float
    """Tempering exponent of that sample's likelihood; 1 unless it was tempered."""
    ess: float
    """Effective number of particles before."""
    moves: int
    acceptance: float
    """Mean acceptance rate."""
    moved: float
    """Share of particles that moved at least once."""
    unique: int
    work: float
    """Particle-samples of filtering that it took."""
    kind: str
    """The last kind of move used."""
    correction: float = 0.0
    """Change of the log evidence when it was re-estimated from proposals, noted with the last one of a sample."""
    refilled: int = 0
    """Populations that had lost all their particles: all were pooled."""


class MoveStats(NamedTuple):
    """How the moves went."""

    rates: list[float]
    moved: float
    proposals: int
    kind: str
    proposal_evidence: ProposalEvidence


def rejuvenate(
    batch: ParticleBatch,
    log_weights: Float[np.ndarray, "population member"],
    target: Target,
    sampler: Sampler,
    sample: int,
    share: float,
    seeds: tuple[int, ...],
    everyone: Float[np.ndarray, "dimension population member"] | None = None,
) -> tuple[ParticleBatch, Rejuvenation, ProposalEvidence]:
    """Equally weighted particles with the same distribution as the weighted ones, how the moves went, and what the
    proposals say about the evidence.

    Where too few particles are left to fit a proposal to, they walk with the covariance of `everyone`.
    """
    weights = w.normalise(log_weights)
    tempered = TemperedTarget(target, sample, share)
    chosen = tempered.with_log_prior(batch).copies(_ancestors(sampler, weights, seeds))
    everyone = batch.theta if everyone is None else everyone
    moving = _Moving(batch.theta, weights, everyone, tempered, sampler, seeds)
    moved, stats = moving.waste_free(chosen) if sampler.chain > 1 else moving.until_moved(chosen)
    unique = len(np.unique(moved.theta[0]))
    if unique <= len(moved.theta):
        raise _collapsed(tempered, f"{unique} different ones are left for {len(moved.theta)} quantities")
    info = Rejuvenation(
        sample=sample,
        share=share,
        ess=float(effective_sample_size(log_weights).sum()),
        moves=len(stats.rates),
        acceptance=float(np.mean(stats.rates)),
        moved=stats.moved,
        unique=unique,
        work=float(stats.proposals * target.cost(sample + 1)),
        kind=stats.kind,
    )
    return moved, info, stats.proposal_evidence


def _collapsed(tempered: TemperedTarget, why: str) -> SamplingError:
    where = tempered.target.describe(tempered.sample)
    return SamplingError(
        f"the particles have collapsed at {where}: {why}. Likely causes: too few particles, a prior with hardly any "
        "mass where the data are, or a noise level fixed far too low.",
        tempered.sample,
    )


def _ancestors(sampler: Sampler, weights: np.ndarray, seeds: tuple[int, ...]) -> Int[np.ndarray, "population count"]:
    """Indices of the resampled members of each population."""
    random = np.random.default_rng([*seeds, 0])
    count = sampler.population_size // sampler.chain
    return np.stack([sampler.scheme(random, population, count) for population in weights])


@dataclass
class _Tally:
    """Counts over the moves of one rejuvenation."""

    start: Float[np.ndarray, "dimension population member"]
    moved: Bool[np.ndarray, "population member"]
    rates: list[float]
    correlations: list[float]
    """Between positions before all moves and after each of a walk."""
    evidence: ProposalEvidence

    @classmethod
    def of(cls, batch: ParticleBatch) -> "_Tally":
        return cls(batch.theta, np.zeros(batch.energy.shape, dtype=bool), [], [], ProposalEvidence())

    def add(self, step: MetropolisStep, move: Move) -> None:
        self.moved |= step.accepted
        self.rates.append(float(step.accepted.mean()))
        self.evidence = self.evidence.with_more(move, step.ratio, step.proposed_ratio)
        if not move.independent:
            self.correlations.append(correlation(self.start, step.batch.theta))

    def enough(self, move: Move, sampler: Sampler) -> bool:
        """Whether the particles have moved enough."""
        moved = self.share >= sampler.moved or len(self.rates) >= sampler.max_moves
        return moved and (move.independent or walked_enough(self.correlations, sampler.max_moves))

    @property
    def share(self) -> float:
        """Of particles that moved at least once."""
        return float(self.moved.mean())

    def stats(self, move: Move) -> MoveStats:
        return MoveStats(self.rates, self.share, len(self.rates) * self.moved.size, move.name, self.evidence)


@dataclass(frozen=True)
class _Moving:
    """The moves of one rejuvenation.  Proposals are fitted to theta and weights, those before resampling."""

    theta: Float[np.ndarray, "dimension population member"]
    weights: Float[np.ndarray, "population member"]
    everyone: Float[np.ndarray, "dimension population member"]
    """All particles, those without weight, too."""
    tempered: TemperedTarget
    sampler: Sampler
    seeds: tuple[int, ...]

    def until_moved(self, batch: ParticleBatch) -> tuple[ParticleBatch, MoveStats]:
        """Repeat moves until nearly every particle has moved, or walks have led far enough."""
        batch, fits = self._begin(self.sampler.kernel, batch)
        tally = _Tally.of(batch)
        while True:
            step = self._step(len(tally.rates), batch, fits)
            batch = step.batch
            tally.add(step, fits.move)
            if tally.enough(fits.move, self.sampler):
                return batch, tally.stats(fits.move)
            batch, fits = self._follow(batch, fits, tally.rates[-1])

    def waste_free(self, batch: ParticleBatch) -> tuple[ParticleBatch, MoveStats]:
        """Waste-free (Dau and Chopin 2022): chains from fewer particles, all of whose states are kept."""
        batch, fits = self._begin(self.sampler.kernel, batch)
        tally = _Tally.of(batch)
        links = [batch]
        for k in range(self.sampler.chain - 1):
            if k:
                batch, fits = self._follow(batch, fits, tally.rates[-1])
            step = self._step(k, batch, fits)
            batch = step.batch
            tally.add(step, fits.move)
            links.append(batch)
        return concatenate(links), tally.stats(fits.move)

    def _step(self, k: int, batch: ParticleBatch, fits: FittedMoves) -> MetropolisStep:
        return metropolis_step(self.tempered, batch, fits, np.random.default_rng([*self.seeds, 2, k]))

    def _follow(self, batch: ParticleBatch, fits: FittedMoves, acceptance: float) -> tuple[ParticleBatch, FittedMoves]:
        """The move to continue with, fitted if it is another one."""
        following = fits.move.fallback(acceptance)
        return (batch, fits) if following == fits.move else self._begin(following, batch)

    def _begin(self, move: Move, batch: ParticleBatch) -> tuple[ParticleBatch, FittedMoves]:
        """Fit a kind of move; the batch with the density of its proposals."""
        fits = self._fit(move)
        return batch._replace(log_proposal=fits.log_density(batch.theta)), fits

    def _fit(self, move: Move) -> FittedMoves:
        """One proposal per group; where the particles with weight are too few to fit one, a random walk with the
        covariance of all, which is shortened until it is accepted."""
        try:
            return self._fitted(move, self.theta, self.weights)
        except DegenerateParticles as error:
            even = np.full_like(self.weights, 1 / self.weights.shape[1])
            try:
                return self._fitted(RandomWalk() if move.independent else move, self.everyone, even)
            except DegenerateParticles:
                raise _collapsed(self.tempered, str(error)) from None

    def _fitted(self, move: Move, theta: np.ndarray, weights: np.ndarray) -> FittedMoves:
        random = np.random.default_rng([*self.seeds, 1])
        halves = self.sampler.halves
        of_groups = [move.fit(random, *source) for source in fit_sources(theta, weights, halves)]
        return FittedMoves(move, [of_groups[g] for g in group_of_population(len(weights), halves)])
