"""Smoothed states from a particle filter: each of the last points with the points that it comes from.

A path that is drawn by the weights of the last points, through their ancestors, is a draw of the state given all data,
up to an error that falls with the number of points.  Going back by the density of the motion instead would need one:
it has none where the noise reaches some components only, or takes several steps to the next sample.  Paths of one
particle soon have their ancestors in common; those of different particles do not.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from probsysid.model.particle import Particle
from probsysid.odefilter.interval_data import IntervalData
from probsysid.particlefilter.filter import InnerFilter, Points


class PointPaths(NamedTuple):
    """The smoothed state of one particle; of several, with the particle axis last."""

    mean: Float[Array, "sample component *particle"]
    sd: Float[Array, "sample component *particle"]
    path: Float[Array, "sample component *particle"]
    """One draw."""
    white: Float[Array, "sample output *particle"]
    """Whitened one-step prediction errors; zero where nothing was measured."""


def smooth(inner: InnerFilter, particles: Particle, samples: IntervalData, key: jax.Array) -> PointPaths:
    """Smooth every particle, one after the other; `samples` have the sample axis first."""

    def one(given: tuple[Particle, Array]) -> PointPaths:
        return smooth_one(inner, given[0], samples, given[1])

    count = jax.tree.leaves(particles)[0].shape[-1]
    first = jax.tree.map(lambda leaf: jnp.moveaxis(jnp.asarray(leaf), -1, 0), particles)
    found = lax.map(one, (first, jax.random.split(key, count)))
    return PointPaths(*(jnp.moveaxis(leaf, 0, -1) for leaf in found))


def smooth_one(inner: InnerFilter, particle: Particle, samples: IntervalData, key: jax.Array) -> PointPaths:
    """Filter one particle, and go back."""

    def observed(points: Points, sample: IntervalData) -> tuple[Points, Array]:
        after, _, innovations = inner.observe(points, particle, sample)
        return after, jnp.stack([jnp.asarray(each.white, dtype=float) for each in innovations])

    def forward(points: Points, sample: IntervalData) -> tuple[Points, tuple[Array, Array, Array]]:
        resampled = inner.resampled(points, particle, sample)
        after, white = observed(inner.moved(resampled.points, particle, sample), sample)
        return after, (after.place, resampled.ancestors, white)

    first = jax.tree.map(lambda leaf: leaf[0], samples)
    later = jax.tree.map(lambda leaf: leaf[1:], samples)
    begun, white = observed(inner.start(particle, first), first)
    last, (places, ancestors, more) = lax.scan(forward, begun, later)

    def back(index: Array, given: tuple[Array, Array]) -> tuple[Array, Array]:
        place, before = given
        return before[index], place[:, index]

    origin, traced = lax.scan(back, jnp.arange(inner.particles), (places, ancestors), reverse=True)
    paths = jnp.concatenate([begun.place[:, origin][None], traced])
    weights = jnp.exp(last.log_weights)
    mean = paths @ weights
    sd = jnp.sqrt((paths - mean[..., None]) ** 2 @ weights)
    chosen = jax.random.choice(key, inner.particles, p=weights)
    return PointPaths(mean, sd, paths[..., chosen], jnp.concatenate([white[None], more]))


smoother = jax.jit(smooth, static_argnums=0)
"""Compiled."""
