"""Systematic resampling of points."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from probsysid._internal.array_types import Scalar


def ancestors(uniform: Scalar, weights: Float[Array, " point"]) -> Int[Array, " point"]:
    """The point that each new one is a copy of; `weights` sum to one.

    Point i has its place between the sums of the weights before and after it; new points are at (u + j) / n.
    """
    count = weights.shape[0]
    passed = jnp.ceil(count * jnp.cumsum(weights) - uniform).astype(jnp.int32)
    passed = jnp.clip(passed, 0, count).at[-1].set(count)
    # passed[i] new points come before the end of point i: new point j is of the first i with passed[i] > j
    return jnp.cumsum(jnp.zeros(count + 1, dtype=jnp.int32).at[passed].add(1))[:count]
