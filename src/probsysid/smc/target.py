"""What the sampler needs to know of the problem: a prior, and energies of particles over ranges of samples."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probsysid.smc.space import Theta
from probsysid.smc.weights import finite_or_lost

Energies = Float[Array, "row particle"]


class Target(Protocol):
    """A posterior that grows with every sample.

    A state is any tree of arrays with the particle axis last; the sampler only copies and selects along that axis.
    """

    @property
    def samples(self) -> int:
        """How many samples there are so far."""
        ...

    def sample_prior(self, key: Any, count: int) -> Theta: ...

    def log_prior(self, theta: Any) -> Float[Array, " particle"]: ...

    def limit(self, first: int) -> int:
        """The end of the longest range from `first` that `advance` takes at once."""
        ...

    def advance(self, state: Any, theta: Any, first: int, last: int) -> tuple[Any, Energies]:
        """State after samples first..last-1, and their energies in the first rows.  At sample 0 the state is None."""
        ...

    def describe(self, sample: int) -> str:
        """How messages call a sample."""
        ...

    def cost(self, stop: int) -> int:
        """Samples that a particle is filtered over in order to reach `stop`."""
        ...


def browse(target: Target, theta: Any, stop: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Run particles over samples 0..stop-1: state after them, likelihood of all but the last, energy of the last."""
    state = None
    likelihood = jnp.zeros(theta.shape[-1])
    first = 0
    while True:
        last = min(target.limit(first), stop)
        state, energies = target.advance(state, theta, first, last)
        rows = last - first
        if last == stop:
            break
        likelihood = _subtract(likelihood, energies, rows)
        first = last
    likelihood = _subtract(likelihood, energies, rows - 1)
    return state, np.asarray(likelihood), finite_or_lost(np.asarray(energies)[rows - 1])


@jax.jit
def _subtract(likelihood: Any, energies: Any, count: Any) -> Any:
    """Subtract the first `count` rows one after the other; what is not finite loses the particle."""

    def subtract(k: Any, total: Any) -> Any:
        return total - jnp.where(jnp.isfinite(energies[k]), energies[k], jnp.inf)

    return jax.lax.fori_loop(0, count, subtract, likelihood)
