"""Rejuvenation: resample particles in proportion to their weights, then move them.

The distribution to be left as it is, in the middle of bringing in a sample with energy E, is

    prior * likelihood of the samples before * exp(-share * E).

A proposal fitted to the particles that it is to replace knows them too well: its density at them is too high, they
leave too easily, and mass in narrow places is lost.  So an island has two halves that share no ancestors, and what
moves a half was fitted to other ones (docs/decisions.md).  A half, or an island that stays whole, is a *part*; parts
moved by the same proposal are a *group*.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from probsysid._internal.errors import SamplingError
from probsysid.hosts import agreed
from probsysid.smc import shares
from probsysid.smc import weights as w
from probsysid.smc.evidence import Fresh
from probsysid.smc.fits import Fits
from probsysid.smc.moves import Move
from probsysid.smc.options import Sampler
from probsysid.smc.proposals import Collapsed
from probsysid.smc.target import Target, browse

GROUPS = 4
"""Each of so many groups is moved by a proposal fitted to the others: the more, the better it fits, and the longer
fitting takes."""


class Cloud(NamedTuple):
    """Particles in the middle of a sample."""

    theta: Float[np.ndarray, "dimension part member"]
    likelihood: Float[np.ndarray, "part member"]
    """Log likelihood of all samples before."""
    energy: Float[np.ndarray, "part member"]
    """Energy of the sample."""
    state: Any
    """The filters' states after the sample."""
    prior: Any = None
    """Log prior, (part, member), once it has been asked for."""
    proposal: Any = None
    """Log density of the current proposals, (part, member), once it has been asked for."""


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


class Stats(NamedTuple):
    """How the moves went."""

    rates: list[float]
    moved: float
    proposals: int
    kind: str
    fresh: Fresh


def rejuvenate(
    cloud: Cloud,
    log_weights: Float[np.ndarray, "part member"],
    target: Target,
    sampler: Sampler,
    sample: int,
    share: float,
    seeds: tuple[int, ...],
) -> tuple[Cloud, Rejuvenation, Fresh]:
    """Equally weighted particles with the same distribution as the weighted ones, how it went, and what the proposals
    tell of the evidence."""
    weights = w.normalise(log_weights)
    ancestors = agreed(_ancestors(sampler, weights, seeds), "ancestors")
    moving = _Moving(cloud.theta, weights, target, sampler, sample, share, seeds)
    chosen = _copies(moving.with_prior(cloud), ancestors)
    moved, stats = moving.chains(chosen) if sampler.chain > 1 else moving.until_moved(chosen)
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
    return moved, info, stats.fresh


def _ancestors(sampler: Sampler, weights: np.ndarray, seeds: tuple[int, ...]) -> np.ndarray:
    """Indices of the chosen members, (part, count)."""
    random = np.random.default_rng([*seeds, 0])
    scheme: Any = sampler.resampling
    return np.stack([scheme(random, part, sampler.part_members // sampler.chain) for part in weights])


def _copies(cloud: Cloud, ancestors: np.ndarray) -> Cloud:
    """Copies of the chosen members of each part."""
    parts, members = cloud.energy.shape
    positions = (ancestors + members * np.arange(parts)[:, None]).ravel()
    return Cloud(
        np.take_along_axis(cloud.theta, ancestors[None], axis=2),
        np.take_along_axis(cloud.likelihood, ancestors, axis=1),
        np.take_along_axis(cloud.energy, ancestors, axis=1),
        shares.copied(cloud.state, positions),
        np.take_along_axis(cloud.prior, ancestors, axis=1),
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

    def until_moved(self, cloud: Cloud) -> tuple[Cloud, Stats]:
        """Repeat moves until nearly every particle has moved."""
        cloud, fits = self._begin(self.sampler.move, cloud)
        moved = np.zeros(cloud.energy.shape, dtype=bool)
        rates: list[float] = []
        fresh = Fresh()
        while True:
            cloud, accepted, *ratios = self._once(len(rates), cloud, fits)
            moved |= accepted
            rates.append(float(accepted.mean()))
            fresh = fresh.with_more(fits.move, *ratios)
            share = float(moved.mean())
            if share >= self.sampler.moved or len(rates) == self.sampler.max_moves:
                return cloud, Stats(rates, share, len(rates) * moved.size, fits.move.name, fresh)
            cloud, fits = self._follow(cloud, fits, rates[-1])

    def chains(self, cloud: Cloud) -> tuple[Cloud, Stats]:
        """Waste-free (Dau and Chopin 2022): chains from fewer particles, all of whose states are kept."""
        cloud, fits = self._begin(self.sampler.move, cloud)
        links = [cloud]
        rates: list[float] = []
        fresh = Fresh()
        moved = np.zeros(cloud.energy.shape, dtype=bool)
        for k in range(self.sampler.chain - 1):
            if k:
                cloud, fits = self._follow(cloud, fits, rates[-1])
            cloud, accepted, *ratios = self._once(k, cloud, fits)
            links.append(cloud)
            moved |= accepted
            rates.append(float(accepted.mean()))
            fresh = fresh.with_more(fits.move, *ratios)
        share = float(moved.mean())
        return _side_by_side(links), Stats(rates, share, len(rates) * moved.size, fits.move.name, fresh)

    def _follow(self, cloud: Cloud, fits: Fits, acceptance: float) -> tuple[Cloud, Fits]:
        """The move to go on with, fitted anew if it is another one."""
        following = fits.move.fallback(acceptance)
        return (cloud, fits) if following == fits.move else self._begin(following, cloud)

    def _begin(self, move: Any, cloud: Cloud) -> tuple[Cloud, Fits]:
        """Fit a kind of move: the cloud with the density of its proposals, and the fits."""
        fits = self._fit(move)
        return cloud._replace(proposal=fits.log_density(cloud.theta)), fits

    @property
    def _group_of_part(self) -> Int[np.ndarray, " part"]:
        """Parts of one group share a proposal: every fourth of them, or every whole island by itself."""
        parts = np.arange(len(self.weights))
        return parts if self.sampler.halves == 1 else parts % GROUPS

    def _fit(self, move: Move) -> Fits:
        """One proposal a group."""
        random = np.random.default_rng([*self.seeds, 1])
        try:
            of_groups = [move.fit(random, *source) for source in self._sources()]
        except Collapsed as error:
            raise SamplingError(
                f"the particles have collapsed at {self.target.describe(self.sample)}: {error}. Likely causes: too "
                "few particles, a prior with hardly any mass where the data are, or a noise level fixed far too low.",
                self.sample,
            ) from None
        return Fits(move, [of_groups[group] for group in self._group_of_part])

    def _sources(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The particles and weights that each group's proposal is fitted to: those of all other groups, or of all where
        too few are left of those; of a whole island its own."""
        group_of_part = self._group_of_part
        groups = range(group_of_part.max() + 1)
        if self.sampler.halves == 1:
            sources = [self._pooled(group_of_part == group) for group in groups]
            for source in sources:
                _check_span(*source)
            return sources
        others = [self._pooled(group_of_part != group) for group in groups]
        if all(_different(*other) > len(self.theta) for other in others):
            return others
        everything = self._pooled(np.ones_like(group_of_part, dtype=bool))
        _check_span(*everything)
        return [other if _different(*other) > len(self.theta) else everything for other in others]

    def _pooled(self, parts: Bool[np.ndarray, " part"]) -> tuple[np.ndarray, np.ndarray]:
        """Particles of some parts and their weights, every part counting as much as another."""
        weights = self.weights[parts]
        return self.theta[:, parts].reshape(len(self.theta), -1), weights.ravel() / len(weights)

    def with_prior(self, cloud: Cloud) -> Cloud:
        """The cloud with its log prior, which earlier moves may have left with it."""
        if cloud.prior is not None:
            return cloud
        flat = cloud.theta.reshape(len(cloud.theta), -1)
        return cloud._replace(prior=np.asarray(self.target.log_prior(flat)).reshape(cloud.energy.shape))

    def _once(
        self, k: int, cloud: Cloud, fits: Fits
    ) -> tuple[Cloud, Bool[np.ndarray, "part member"], np.ndarray, np.ndarray]:
        """One Metropolis-Hastings step for every particle, with the full ratio: the particles after it, which of them
        moved, and log of target over proposal density, before at the particles and at the proposals."""
        random = np.random.default_rng([*self.seeds, 2, k])
        theta = agreed(fits.propose(random, cloud.theta), "proposals")
        proposed = self._evaluate(theta)._replace(proposal=fits.log_density(theta))
        with np.errstate(invalid="ignore"):  # a proposal outside the prior or lost on the way: refused below
            ratio, proposed_ratio = (self._log_target(c) - c.proposal for c in (cloud, proposed))
            log_ratio = proposed_ratio - ratio
        accepted = np.log(random.random(log_ratio.shape)) < np.where(np.isnan(log_ratio), -np.inf, log_ratio)
        accepted = agreed(accepted, "acceptance")
        chosen = Cloud(
            np.where(accepted, proposed.theta, cloud.theta),
            np.where(accepted, proposed.likelihood, cloud.likelihood),
            np.where(accepted, proposed.energy, cloud.energy),
            shares.chosen(accepted.ravel(), proposed.state, cloud.state),
            np.where(accepted, proposed.prior, cloud.prior),
            np.where(accepted, proposed.proposal, cloud.proposal),
        )
        return chosen, accepted, ratio, proposed_ratio

    def _evaluate(self, theta: np.ndarray) -> Cloud:
        """The filter over all samples so far."""
        shape, flat = theta.shape[1:], theta.reshape(theta.shape[0], -1)
        state, likelihood, energy = browse(self.target, flat, self.sample + 1)
        prior = np.asarray(self.target.log_prior(flat)).reshape(shape)
        return Cloud(theta, likelihood.reshape(shape), energy.reshape(shape), state, prior)

    def _log_target(self, cloud: Cloud) -> np.ndarray:
        return cloud.prior + cloud.likelihood - w.tempered(cloud.energy, self.share)


def _different(theta: np.ndarray, weights: np.ndarray) -> int:
    """How many different particles are left."""
    return len(np.unique(theta[0, weights > 0]))


def _check_span(theta: np.ndarray, weights: np.ndarray) -> None:
    """Raise where so few different particles are left that their covariance is singular for certain."""
    different = _different(theta, weights)
    if different <= len(theta):
        raise Collapsed(
            f"{different} different ones are left for {len(theta)} quantities, their covariance is singular"
        )


def _side_by_side(links: list[Cloud]) -> Cloud:
    """Chains laid side by side within each part."""
    parts, count = links[0].energy.shape
    return Cloud(
        np.concatenate([link.theta for link in links], axis=-1),
        np.concatenate([link.likelihood for link in links], axis=-1),
        np.concatenate([link.energy for link in links], axis=-1),
        shares.side_by_side([link.state for link in links], parts, count),
    )
