"""Random numbers of a particle: from the digits of its parameters and the number of the sample, and nothing else.

A likelihood estimated with them is a function of the parameters, wherever and however often it is computed: a stream
and a batch, a run that was interrupted and one that was not, one thread and many find the same one.  Yet parameters
that differ in any digit have independent estimates, so that proposals do (docs/decisions.md).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from probsysid._internal.array_types import Numbers, Scalar

WORD = 2.0**32


def seeds_of(theta: Float[Numbers, "dimension particle"]) -> list[Scalar]:
    """Two whole numbers below 2**32 for each particle, mixed from all digits of its parameters."""
    words = lax.bitcast_convert_type(jnp.asarray(theta, dtype=jnp.float64) + 0.0, jnp.uint64)  # -0 is 0
    mixed = jnp.zeros(theta.shape[-1], dtype=jnp.uint64)
    for word in words:
        mixed = _mixed(mixed ^ word)
    return [(mixed >> 32).astype(float), (mixed & jnp.uint64(0xFFFFFFFF)).astype(float)]


def _mixed(word: Array) -> Array:
    """The step of SplitMix64 (Steele, Lea and Flood 2014), which changes half the digits when one does."""
    word = word + jnp.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> 30)) * jnp.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> 27)) * jnp.uint64(0x94D049BB133111EB)
    return word ^ (word >> 31)


def key_of(seed: Sequence[Scalar], points: int, index: Numbers) -> jax.Array:
    """The key of one particle, filtered with this many points, for the record and the sample that the index names."""
    words = jnp.stack([jnp.asarray(word).astype(jnp.uint32) for word in seed])
    key = jax.random.wrap_key_data(words, impl="threefry2x32")
    for number in (jnp.asarray(points), index[0], index[1]):
        key = jax.random.fold_in(key, number.astype(jnp.uint32))
    return key
