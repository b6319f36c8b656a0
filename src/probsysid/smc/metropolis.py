"""The Metropolis-Hastings step, for all particles at once, and the tempered target it leaves invariant.

While a sample with energy E is being tempered in, the invariant density is

    prior * likelihood of the samples before * exp(-exponent * E).

The acceptance ratio is complete: target ratio times q(old) / q(new).  Leaving out the proposal ratio, as the paper's
eq. acc_rej does, samples from the wrong distribution while everything looks healthy.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from probsysid.parallel import columns
from probsysid.smc import weights as w
from probsysid.smc.moves import FittedMoves
from probsysid.smc.target import Target

Members = Float[np.ndarray, "population member"]


class ParticleBatch(NamedTuple):
    """Particles with everything that is known at them while a sample is being tempered in."""

    theta: Float[np.ndarray, "dimension population member"]
    likelihood: Members
    """Log likelihood of all samples before."""
    energy: Members
    """Energy of the sample."""
    state: PyTree
    """The filters' states after the sample: a tree of arrays with the particle axis last."""
    log_prior: Members | None = None
    log_proposal: Members | None = None
    """Log density of the current proposal distribution."""

    def copies(self, ancestors: Int[np.ndarray, "population count"]) -> "ParticleBatch":
        """Copies of the chosen members of each population."""
        populations, members = self.energy.shape
        positions = (ancestors + members * np.arange(populations)[:, None]).ravel()
        assert self.log_prior is not None
        return ParticleBatch(
            np.take_along_axis(self.theta, ancestors[None], axis=2),
            np.take_along_axis(self.likelihood, ancestors, axis=1),
            np.take_along_axis(self.energy, ancestors, axis=1),
            jax.tree.map(lambda leaf: columns.take(leaf, positions), self.state),
            np.take_along_axis(self.log_prior, ancestors, axis=1),
        )

    def copies_across(self, positions: Int[np.ndarray, " particle"]) -> "ParticleBatch":
        """Copies of the chosen particles of all populations, filled into the populations one after the other."""

        def chosen(values: np.ndarray) -> np.ndarray:
            return values.reshape(*values.shape[:-2], -1)[..., positions].reshape(values.shape)

        return ParticleBatch(
            chosen(self.theta),
            chosen(self.likelihood),
            chosen(self.energy),
            jax.tree.map(lambda leaf: columns.take(leaf, positions), self.state),
            None if self.log_prior is None else chosen(self.log_prior),
        )

    def moved(self, accepted: Bool[np.ndarray, "population member"], proposed: "ParticleBatch") -> "ParticleBatch":
        """The proposed particles where they were accepted, these elsewhere."""
        flat = accepted.ravel()
        assert proposed.log_prior is not None and self.log_prior is not None
        assert proposed.log_proposal is not None and self.log_proposal is not None
        return ParticleBatch(
            np.where(accepted, proposed.theta, self.theta),
            np.where(accepted, proposed.likelihood, self.likelihood),
            np.where(accepted, proposed.energy, self.energy),
            jax.tree.map(lambda new, old: columns.select(flat, new, old), proposed.state, self.state),
            np.where(accepted, proposed.log_prior, self.log_prior),
            np.where(accepted, proposed.log_proposal, self.log_proposal),
        )


def concatenate(batches: list[ParticleBatch]) -> ParticleBatch:
    """Batches of equal size side by side within each population."""
    populations = batches[0].energy.shape[0]
    return ParticleBatch(
        np.concatenate([batch.theta for batch in batches], axis=-1),
        np.concatenate([batch.likelihood for batch in batches], axis=-1),
        np.concatenate([batch.energy for batch in batches], axis=-1),
        jax.tree.map(lambda *leaves: columns.interleave(leaves, populations), *(batch.state for batch in batches)),
    )


@dataclass(frozen=True)
class TemperedTarget:
    """The posterior given all samples before one, and a tempered share of that one."""

    target: Target
    sample: int
    exponent: float

    def evaluate(self, theta: Float[np.ndarray, "dimension population member"]) -> ParticleBatch:
        """Filter particles over all samples up to and including this one."""
        shape, flat = theta.shape[1:], theta.reshape(theta.shape[0], -1)
        state, likelihood, energy = self.target.sweep(flat, self.sample + 1)
        log_prior = np.asarray(self.target.log_prior(flat)).reshape(shape)
        return ParticleBatch(theta, likelihood.reshape(shape), energy.reshape(shape), state, log_prior)

    def with_log_prior(self, batch: ParticleBatch) -> ParticleBatch:
        """The batch with its log prior, which earlier moves may have left with it."""
        if batch.log_prior is not None:
            return batch
        flat = batch.theta.reshape(len(batch.theta), -1)
        return batch._replace(log_prior=np.asarray(self.target.log_prior(flat)).reshape(batch.energy.shape))

    def log_density(self, batch: ParticleBatch) -> Members:
        """Log of the unnormalised invariant density."""
        return batch.log_prior + batch.likelihood - w.tempered(batch.energy, self.exponent)


class MetropolisStep(NamedTuple):
    """Particles after a Metropolis-Hastings step, and what it found on the way."""

    batch: ParticleBatch
    accepted: Bool[np.ndarray, "population member"]
    ratio: Members
    """Log of target over proposal density at the particles before the step."""
    proposed_ratio: Members
    """The same at the proposals."""


def metropolis_step(
    tempered: TemperedTarget, batch: ParticleBatch, fits: FittedMoves, random: np.random.Generator
) -> MetropolisStep:
    """One Metropolis-Hastings step for every particle."""
    theta = fits.propose(random, batch.theta)
    proposed = tempered.evaluate(theta)._replace(log_proposal=fits.log_density(theta))
    with np.errstate(invalid="ignore"):  # proposals outside the prior, or lost on the way, are rejected below
        ratio, proposed_ratio = (tempered.log_density(each) - each.log_proposal for each in (batch, proposed))
        log_ratio = proposed_ratio - ratio
    accepted = np.log(random.random(log_ratio.shape)) < np.where(np.isnan(log_ratio), -np.inf, log_ratio)
    return MetropolisStep(batch.moved(accepted, proposed), accepted, ratio, proposed_ratio)
