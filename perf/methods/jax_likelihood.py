"""Log prior and log likelihood with Runge-Kutta in JAX, for one point of the unconstrained space."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from duffing import POSITIVE, PRIOR_MEAN, PRIOR_SD, stepper
from jax import lax


def log_likelihood(z: Any, force: Any, position: Any, steps: int) -> Any:
    """Gaussian noise on the position at every sample, the first one included.  Non-finite values count as impossible:
    a prior may include values for which a step is too long."""
    u = PRIOR_MEAN + PRIOR_SD * z
    m, c, k, k3, noise = (jnp.exp(u[i]) for i in range(POSITIVE))
    interval = stepper(steps)

    def step(state: tuple[Any, Any, Any], sample: tuple[Any, Any, Any]) -> tuple[Any, None]:
        x, v, squares = state
        left, right, measured = sample
        x, v = interval(x, v, left, right, m, c, k, k3)
        return (x, v, squares + (measured - x) ** 2), None

    start = (u[5], u[6], (position[0] - u[5]) ** 2)
    (_, _, squares), _ = lax.scan(step, start, (force[:-1], force[1:], position[1:]))
    count = position.shape[0]
    value = -0.5 * squares / noise**2 - count * (jnp.log(noise) + 0.5 * np.log(2 * np.pi))
    return jnp.where(jnp.isfinite(value), value, -1e30)


def log_prior(z: Any) -> Any:
    return jnp.sum(-0.5 * z**2 - 0.5 * np.log(2 * np.pi), axis=-1)
