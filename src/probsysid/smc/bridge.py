"""A posterior reached from any distribution, instead of from the prior: in one sample that is tempered.

The path is q^(1 - share) posterior^share, where q is the distribution that the particles start from.  The closer q is,
the fewer steps there are.  The evidence comes out as from the prior.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from probsysid._internal.array_types import Numbers
from probsysid.smc import ibis
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import Sampler
from probsysid.smc.proposals import Density
from probsysid.smc.target import Target, sweep_by_advance
from probsysid.smc.weights import finite_or_lost


@dataclass(frozen=True)
class BridgeTarget:
    """A target whose particles start from `origin`, and whose one sample holds all the data and the prior."""

    target: Target
    origin: Density

    samples = 1

    def sample_prior(self, key: jax.Array, count: int) -> Numbers:
        seeds = np.asarray(jax.random.key_data(key)).ravel()
        return self.origin.sample(np.random.default_rng(seeds), count)

    def log_prior(self, theta: Numbers) -> np.ndarray:
        return self.origin.log_density(np.asarray(theta))

    def limit(self, first: int) -> int:
        return 1

    def advance(self, state: PyTree, theta: Numbers, first: int, last: int) -> tuple[PyTree, Numbers]:
        state, likelihood, energy = self.target.sweep(theta, self.target.samples)
        with np.errstate(invalid="ignore"):
            rest = self.log_prior(theta) - np.asarray(self.target.log_prior(theta)) - likelihood + energy
        return state, jnp.asarray(finite_or_lost(rest))[None]

    def sweep(self, theta: Numbers, stop: int) -> tuple[PyTree, np.ndarray, np.ndarray]:
        return sweep_by_advance(self, theta, stop)

    def describe(self, sample: int) -> str:
        return "the whole record"

    def cost(self, stop: int) -> int:
        return self.target.cost(self.target.samples)


def temper_from(
    target: Target, origin: Density, sampler: Sampler, seed: int, level: int = 0
) -> tuple[IBISState, StepInfo]:
    """A run over all samples of the target, whose particles started from `origin`."""
    bridge = BridgeTarget(target, origin)
    run, info = ibis.temper_all(ibis.start(bridge, sampler, seed, level), bridge, sampler)
    flat = run.flat_theta
    difference: Float[np.ndarray, " particle"] = bridge.log_prior(flat) - np.asarray(target.log_prior(flat))
    likelihood = run.log_likelihood + difference.reshape(run.log_likelihood.shape)
    return replace(run, samples=target.samples, log_likelihood=likelihood), info
