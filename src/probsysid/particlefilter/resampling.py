"""Systematic resampling of points."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from probsysid._internal.array_types import Scalar


def ancestors(uniform: Scalar, weights: Float[Array, " point"]) -> Int[Array, " point"]:
    """The point that each new one is a copy of; `weights` sum to one.

    Point i has its place between the sums of the weights before and after it; new points are at (u + j) / n.
    """
    count = weights.shape[0]
    passed = jnp.cumsum(weights)
    places = (uniform + jnp.arange(count)) / count
    return jnp.minimum(jnp.searchsorted(passed, places * passed[-1], side="right", method="scan"), count - 1)
