"""The interface between sampler and problem: a prior, and energies of particles over ranges of samples."""

from typing import Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float, PyTree

from probsysid._internal.array_types import Numbers
from probsysid.smc.weights import finite_or_lost

Energies = Float[Numbers, "row particle"]


@runtime_checkable
class Target(Protocol):
    """A posterior that grows with every sample.

    A state is any tree of arrays with the particle axis last; the sampler only copies and selects along that axis.
    """

    @property
    def samples(self) -> int:
        """How many samples there are so far."""
        ...

    def sample_prior(self, key: jax.Array, count: int) -> Numbers: ...

    def log_prior(self, theta: Numbers) -> Float[Numbers, " particle"]: ...

    def limit(self, first: int) -> int:
        """The end of the longest range from `first` that `advance` takes at once."""
        ...

    def advance(self, state: PyTree, theta: Numbers, first: int, last: int) -> tuple[PyTree, Energies]:
        """State after samples first..last-1, and their energies in the first rows.  At sample 0 the state is None."""
        ...

    def sweep(self, theta: Numbers, stop: int) -> tuple[PyTree, np.ndarray, np.ndarray]:
        """Particles over samples 0..stop-1: the state after them, the log likelihood of all but the last, and the
        energy of the last."""
        ...

    def describe(self, sample: int) -> str:
        """How messages name a sample."""
        ...

    def cost(self, stop: int) -> int:
        """Samples over which a particle is filtered to reach `stop`."""
        ...


def sweep_by_advance(target: Target, theta: Numbers, stop: int) -> tuple[PyTree, np.ndarray, np.ndarray]:
    """`Target.sweep` in terms of `advance`, for targets that have no faster way."""
    state, first = None, 0
    total = np.zeros(theta.shape[-1])
    with np.errstate(invalid="ignore", over="ignore"):  # lost particles
        while True:
            last = min(target.limit(first), stop)
            state, rows = target.advance(state, theta, first, last)
            energies = np.asarray(rows)[: last - first]
            total += (energies[:-1] if last == stop else energies).sum(axis=0)
            if last == stop:
                return state, -finite_or_lost(total), finite_or_lost(energies[-1])
            first = last
