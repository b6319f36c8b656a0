"""Rejuvenation: resample particles in proportion to their weights, then move them.

The distribution to be left as it is, in the middle of bringing in a sample with energy E, is

    prior * likelihood of the samples before * exp(-share * E).

A proposal fitted to the particles that it is to replace knows them too well: its density at them is too high, they
leave too easily, and mass in narrow places is lost.  So an island has two halves that share no ancestors, and what
moves a half was fitted to other ones (docs/decisions.md).  A half, or an island that stays whole, is a *population*;
populations moved by the same proposal are a *group*.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from probsysid._internal.errors import SamplingError
from probsysid.smc import weights as w
from probsysid.smc.evidence import ProposalEvidence
from probsysid.smc.fits import FittedMoves
from probsysid.smc.moves import Move
from probsysid.smc.options import Sampler
from probsysid.smc.proposals import DegenerateParticles
from probsysid.smc.target import Target, sweep

GROUPS = 4
"""Each of so many groups is moved by a proposal fitted to the others: the more, the better it fits, and the longer
fitting takes."""


class ParticleBatch(NamedTuple):
    """Particles in the middle of a sample."""

    theta: Float[np.ndarray, "dimension population member"]
    likelihood: Float[np.ndarray, "population member"]
    """Log likelihood of all samples before."""
    energy: Float[np.ndarray, "population member"]
    """Energy of the sample."""
    state: Any
    """The filters' states after the sample."""
    prior: Any = None
    """Log prior, (population, member), once it has been asked for."""
    proposal: Any = None
    """Log density of the current proposals, (population, member), once it has been asked for."""


class Rejuvenation(NamedTuple):
    """What happened when particles were resampled and moved."""

    sample: int
    share: float
    """How much of that sample's likelihood had been brought in; 1 unless bridged."""
    ess: float
    """Effective number of particles before."""
    moves: int
    acceptance: float
    """Mean share of accepted proposals."""
    moved: float
    """Share of particles that moved at least once."""
    unique: int
    work: float
    """Particle-samples of filtering that it took."""
    kind: str
    """The last kind of move used."""
    correction: float = 0.0
    """By how much the log evidence was corrected when proposals told it anew, noted with the last one of a sample."""


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
) -> tuple[ParticleBatch, Rejuvenation, ProposalEvidence]:
    """Equally weighted particles with the same distribution as the weighted ones, how it went, and what the proposals
    tell of the evidence."""
    weights = w.normalise(log_weights)
    ancestors = _ancestors(sampler, weights, seeds)
    moving = _Moving(batch.theta, weights, target, sampler, sample, share, seeds)
    chosen = _copies(moving.with_prior(batch), ancestors)
    moved, stats = moving.waste_free(chosen) if sampler.chain > 1 else moving.until_moved(chosen)
    info = Rejuvenation(
        sample=sample,
        share=share,
        ess=float(w.effective_size(log_weights).sum()),
        moves=len(stats.rates),
        acceptance=float(np.mean(stats.rates)),
        moved=stats.moved,
        unique=len(np.unique(moved.theta[0])),
        work=float(stats.proposals * target.cost(sample + 1)),
        kind=stats.kind,
    )
    return moved, info, stats.proposal_evidence


def _ancestors(sampler: Sampler, weights: np.ndarray, seeds: tuple[int, ...]) -> np.ndarray:
    """Indices of the chosen members, (population, count)."""
    random = np.random.default_rng([*seeds, 0])
    scheme: Any = sampler.resampling
    return np.stack([scheme(random, population, sampler.population_size // sampler.chain) for population in weights])


def _copies(batch: ParticleBatch, ancestors: np.ndarray) -> ParticleBatch:
    """Copies of the chosen members of each population."""
    populations, members = batch.energy.shape
    positions = (ancestors + members * np.arange(populations)[:, None]).ravel()
    return ParticleBatch(
        np.take_along_axis(batch.theta, ancestors[None], axis=2),
        np.take_along_axis(batch.likelihood, ancestors, axis=1),
        np.take_along_axis(batch.energy, ancestors, axis=1),
        _copied(batch.state, positions),
        np.take_along_axis(batch.prior, ancestors, axis=1),
    )


@dataclass(frozen=True)
class _Moving:
    """The moves of one rejuvenation.  Theta and weights are those before resampling: proposals are fitted to them."""

    theta: np.ndarray
    weights: np.ndarray
    target: Target
    sampler: Sampler
    sample: int
    share: float
    seeds: tuple[int, ...]

    def until_moved(self, batch: ParticleBatch) -> tuple[ParticleBatch, MoveStats]:
        """Repeat moves until nearly every particle has moved."""
        batch, fits = self._begin(self.sampler.move, batch)
        moved = np.zeros(batch.energy.shape, dtype=bool)
        rates: list[float] = []
        proposal_evidence = ProposalEvidence()
        while True:
            batch, accepted, *ratios = self._once(len(rates), batch, fits)
            moved |= accepted
            rates.append(float(accepted.mean()))
            proposal_evidence = proposal_evidence.with_more(fits.move, *ratios)
            share = float(moved.mean())
            if share >= self.sampler.moved or len(rates) == self.sampler.max_moves:
                return batch, MoveStats(rates, share, len(rates) * moved.size, fits.move.name, proposal_evidence)
            batch, fits = self._follow(batch, fits, rates[-1])

    def waste_free(self, batch: ParticleBatch) -> tuple[ParticleBatch, MoveStats]:
        """Waste-free (Dau and Chopin 2022): chains from fewer particles, all of whose states are kept."""
        batch, fits = self._begin(self.sampler.move, batch)
        links = [batch]
        rates: list[float] = []
        proposal_evidence = ProposalEvidence()
        moved = np.zeros(batch.energy.shape, dtype=bool)
        for k in range(self.sampler.chain - 1):
            if k:
                batch, fits = self._follow(batch, fits, rates[-1])
            batch, accepted, *ratios = self._once(k, batch, fits)
            links.append(batch)
            moved |= accepted
            rates.append(float(accepted.mean()))
            proposal_evidence = proposal_evidence.with_more(fits.move, *ratios)
        share = float(moved.mean())
        return _side_by_side(links), MoveStats(rates, share, len(rates) * moved.size, fits.move.name, proposal_evidence)

    def _follow(self, batch: ParticleBatch, fits: FittedMoves, acceptance: float) -> tuple[ParticleBatch, FittedMoves]:
        """The move to go on with, fitted anew if it is another one."""
        following = fits.move.fallback(acceptance)
        return (batch, fits) if following == fits.move else self._begin(following, batch)

    def _begin(self, move: Any, batch: ParticleBatch) -> tuple[ParticleBatch, FittedMoves]:
        """Fit a kind of move: the cloud with the density of its proposals, and the fits."""
        fits = self._fit(move)
        return batch._replace(proposal=fits.log_density(batch.theta)), fits

    @property
    def _group_of_population(self) -> Int[np.ndarray, " population"]:
        """Parts of one group share a proposal: every fourth of them, or every whole island by itself."""
        populations = np.arange(len(self.weights))
        return populations if self.sampler.halves == 1 else populations % GROUPS

    def _fit(self, move: Move) -> FittedMoves:
        """One proposal a group."""
        random = np.random.default_rng([*self.seeds, 1])
        try:
            of_groups = [move.fit(random, *source) for source in self._sources()]
        except DegenerateParticles as error:
            raise SamplingError(
                f"the particles have collapsed at {self.target.describe(self.sample)}: {error}. Likely causes: too "
                "few particles, a prior with hardly any mass where the data are, or a noise level fixed far too low.",
                self.sample,
            ) from None
        return FittedMoves(move, [of_groups[group] for group in self._group_of_population])

    def _sources(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The particles and weights that each group's proposal is fitted to: those of all other groups, or of all where
        too few are left of those; of a whole island its own."""
        group_of_population = self._group_of_population
        groups = range(group_of_population.max() + 1)
        if self.sampler.halves == 1:
            sources = [self._pooled(group_of_population == group) for group in groups]
            for source in sources:
                _check_span(*source)
            return sources
        others = [self._pooled(group_of_population != group) for group in groups]
        if all(_different(*other) > len(self.theta) for other in others):
            return others
        everything = self._pooled(np.ones_like(group_of_population, dtype=bool))
        _check_span(*everything)
        return [other if _different(*other) > len(self.theta) else everything for other in others]

    def _pooled(self, populations: Bool[np.ndarray, " population"]) -> tuple[np.ndarray, np.ndarray]:
        """Particles of some populations and their weights, every one counting as much as another."""
        weights = self.weights[populations]
        return self.theta[:, populations].reshape(len(self.theta), -1), weights.ravel() / len(weights)

    def with_prior(self, batch: ParticleBatch) -> ParticleBatch:
        """The cloud with its log prior, which earlier moves may have left with it."""
        if batch.prior is not None:
            return batch
        flat = batch.theta.reshape(len(batch.theta), -1)
        return batch._replace(prior=np.asarray(self.target.log_prior(flat)).reshape(batch.energy.shape))

    def _once(
        self, k: int, batch: ParticleBatch, fits: FittedMoves
    ) -> tuple[ParticleBatch, Bool[np.ndarray, "population member"], np.ndarray, np.ndarray]:
        """One Metropolis-Hastings step for every particle, with the full ratio: the particles after it, which of them
        moved, and log of target over proposal density, before at the particles and at the proposals."""
        random = np.random.default_rng([*self.seeds, 2, k])
        theta = fits.propose(random, batch.theta)
        proposed = self._evaluate(theta)._replace(proposal=fits.log_density(theta))
        with np.errstate(invalid="ignore"):  # a proposal outside the prior or lost on the way: refused below
            ratio, proposed_ratio = (self._log_target(c) - c.proposal for c in (batch, proposed))
            log_ratio = proposed_ratio - ratio
        accepted = np.log(random.random(log_ratio.shape)) < np.where(np.isnan(log_ratio), -np.inf, log_ratio)
        chosen = ParticleBatch(
            np.where(accepted, proposed.theta, batch.theta),
            np.where(accepted, proposed.likelihood, batch.likelihood),
            np.where(accepted, proposed.energy, batch.energy),
            _chosen(accepted.ravel(), proposed.state, batch.state),
            np.where(accepted, proposed.prior, batch.prior),
            np.where(accepted, proposed.proposal, batch.proposal),
        )
        return chosen, accepted, ratio, proposed_ratio

    def _evaluate(self, theta: np.ndarray) -> ParticleBatch:
        """The filter over all samples so far."""
        shape, flat = theta.shape[1:], theta.reshape(theta.shape[0], -1)
        state, likelihood, energy = sweep(self.target, flat, self.sample + 1)
        prior = np.asarray(self.target.log_prior(flat)).reshape(shape)
        return ParticleBatch(theta, likelihood.reshape(shape), energy.reshape(shape), state, prior)

    def _log_target(self, batch: ParticleBatch) -> np.ndarray:
        return batch.prior + batch.likelihood - w.tempered(batch.energy, self.share)


def _different(theta: np.ndarray, weights: np.ndarray) -> int:
    """How many different particles are left."""
    return len(np.unique(theta[0, weights > 0]))


def _check_span(theta: np.ndarray, weights: np.ndarray) -> None:
    """Raise where so few different particles are left that their covariance is singular for certain."""
    different = _different(theta, weights)
    if different <= len(theta):
        raise DegenerateParticles(
            f"{different} different ones are left for {len(theta)} quantities, their covariance is singular"
        )


def _side_by_side(links: list[ParticleBatch]) -> ParticleBatch:
    """Chains laid side by side within each population."""
    populations, count = links[0].energy.shape
    return ParticleBatch(
        np.concatenate([link.theta for link in links], axis=-1),
        np.concatenate([link.likelihood for link in links], axis=-1),
        np.concatenate([link.energy for link in links], axis=-1),
        _concatenated([link.state for link in links], populations, count),
    )


# The filters' states: trees of arrays with the particle axis last, handled on the host


def _copied(state: Any, positions: Int[np.ndarray, " copy"]) -> Any:
    """States of copies.  Through the host: a state may lie on several devices."""
    return jax.tree.map(lambda leaf: np.take(np.asarray(leaf), positions, axis=-1), state)


def _chosen(flags: Bool[np.ndarray, " particle"], new: Any, old: Any) -> Any:
    """The new states where the flags say so, the old ones elsewhere.  On the host, which has looked at the new ones
    anyway: asking several devices for it takes longer."""
    return jax.tree.map(lambda a, b: np.where(flags, np.asarray(a), np.asarray(b)), new, old)


def _concatenated(states: list[Any], populations: int, count: int) -> Any:
    """States of several links of chains, laid side by side within each population."""

    def joined(*leaves: Any) -> Any:
        split = [leaf.reshape(*leaf.shape[:-1], populations, count) for leaf in leaves]
        together = jnp.concatenate(split, axis=-1)
        return together.reshape(*together.shape[:-2], -1)

    return jax.tree.map(joined, *states)
