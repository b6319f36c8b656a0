"""The particle filter of one particle: points with weights, in the place of the ODE filter's Gaussian.

`start`, `interval` and `observe` are what `VectorisedFilter` maps over particles; arrays then have the points before
the last axis, which is that of the particles.  The energy of a sample is minus the log of an unbiased estimate of its
likelihood given the samples before: points carry weights w that sum to one, and

    exp(-energy) = sum of w * (density of the noise / density it was drawn from) * (density of the data).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int, PyTree

from probsysid._internal.array_types import Numbers, Scalar
from probsysid.model.model import Model
from probsysid.model.particle import Particle
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.unrolled.gaussian import Innovation
from probsysid.particlefilter.densities import compared, log_density, moments
from probsysid.particlefilter.guide import guided
from probsysid.particlefilter.keys import key_of
from probsysid.particlefilter.motion import move, noises
from probsysid.particlefilter.resampling import ancestors


class Points(NamedTuple):
    """Points that stand for the state of a particle."""

    place: Float[Array, "component point *particle"]
    log_weights: Float[Array, "point *particle"]
    """They sum to one after a sample; before it they count how its noise was drawn."""


class Resampled(NamedTuple):
    """Points before they move, and the points that they are copies of."""

    points: Points
    ancestors: Int[Array, " point"]


@dataclass(frozen=True)
class InnerFilter:
    """A particle filter for one particle."""

    model: Model
    particles: int
    """Points."""
    substeps: int
    guided: bool
    """Whether the noise of an interval looks ahead to the sample at its end."""
    ess: float

    unrolled = True
    costly_scores = True
    """Innovations are computed only where they are asked for."""

    @property
    def working_set(self) -> int:
        """Numbers per particle that a step works on."""
        components = len(self.model.physical_names)
        return self.particles * (components + 2)

    def start(self, particle: Particle, sample: IntervalData) -> Points:
        """Points drawn from the initial state."""
        key = jax.random.fold_in(self._key(particle, sample), 0)
        mean = jnp.stack([jnp.asarray(value, dtype=float) for value in particle.initial_mean])
        sd = jnp.stack([jnp.asarray(value, dtype=float) for value in particle.initial_sd])
        normals = _normal(key, len(mean), self.particles)
        even = jnp.full(self.particles, -jnp.log(self.particles))
        return Points(mean[:, None] + sd[:, None] * normals, even)

    def interval(self, state: Points, particle: Particle, sample: IntervalData) -> Points:
        """Resample, where the weights are uneven, and move to the next sample."""
        # without barriers the compiler may compute each point once for every sum over points that it enters
        resampled = lax.optimization_barrier(self.resampled(state, particle, sample).points)
        return lax.optimization_barrier(self.moved(resampled, particle, sample))

    def resampled(self, state: Points, particle: Particle, sample: IntervalData) -> Resampled:
        """Copies of the points in proportion to their weights, where these are uneven."""
        key = jax.random.fold_in(self._key(particle, sample), 1)
        weights = jnp.exp(state.log_weights)
        uneven = 1 / jnp.sum(weights**2) < self.ess * self.particles
        own = jnp.arange(self.particles)
        chosen = jnp.where(uneven, ancestors(jax.random.uniform(key), weights), own)
        even = jnp.full(self.particles, -jnp.log(self.particles))
        return Resampled(Points(state.place[:, chosen], jnp.where(uneven, even, state.log_weights)), chosen)

    def moved(self, state: Points, particle: Particle, sample: IntervalData) -> Points:
        """Each point at the sample, with the weight of its noise."""
        count = noises(self.model, [level is not None for level in particle.process_noise or []])
        go = partial(move, self.model, particle, sample, self.substeps)
        if count == 0:
            return state._replace(place=_over_points(lambda at: go(at, jnp.zeros((self.substeps, 0))))(state.place))
        key = jax.random.fold_in(self._key(particle, sample), 2)
        numbers = self.substeps * count
        outputs = len(self.model.output_names)
        drawn = _normal(key, numbers + (outputs if self.guided else 0), self.particles)
        if not self.guided:
            place = _over_points(lambda at, noise: go(at, noise.reshape(self.substeps, count)))(state.place, drawn)
            return state._replace(place=place)
        uniform = jax.random.uniform(jax.random.fold_in(key, 0), (self.particles,))
        observed = jnp.stack(
            [compared(noise, value) for noise, value in zip(particle.noise, sample.outputs, strict=True)]
        )

        def guided_move(at: Array, normals: Array, errors: Array, uniform: Scalar) -> tuple[Array, Scalar]:
            def end(noise: Array) -> Array:
                return go(at, noise.reshape(self.substeps, count))

            found = partial(moments, self.model, particle, sample)
            noise, log_weight = guided(lambda given: found(end(given)), observed, normals, errors, uniform)
            return end(noise), log_weight

        place, more = _over_points(guided_move)(state.place, drawn[:numbers], drawn[numbers:], uniform)
        return Points(place, state.log_weights + more)

    def observe(
        self, state: Points, particle: Particle, sample: IntervalData, scores: bool = True
    ) -> tuple[Points, Scalar, list[Innovation]]:
        """Weigh the points by the sample's outputs: normalised weights, the energy and each output's innovation, by
        mean and variance of its prediction."""
        density = _over_points(partial(log_density, self.model, particle, sample))(state.place)
        whole = jnp.isfinite(state.place).all(axis=0)
        log_weights = jnp.where(whole, state.log_weights + density, -jnp.inf)
        log_weights = jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights)
        total = logsumexp(log_weights)
        lost = ~jnp.isfinite(total)
        even = jnp.full(self.particles, -jnp.log(self.particles))
        after = Points(state.place, jnp.where(lost, even, log_weights - jnp.where(lost, 0.0, total)))
        innovations = self._innovations(state, particle, sample) if scores else []
        return after, jnp.where(lost, jnp.inf, -total), innovations

    def _innovations(self, state: Points, particle: Particle, sample: IntervalData) -> list[Innovation]:
        found = _over_points(partial(moments, self.model, particle, sample))(state.place)
        weights = jax.nn.softmax(state.log_weights)
        innovations = []
        for i, (noise, given) in enumerate(zip(particle.noise, sample.outputs, strict=True)):
            mean = weights @ found.mean[i]
            variance = weights @ (found.variance[i] + (found.mean[i] - mean) ** 2)
            present = ~jnp.isnan(given)
            value = compared(noise, jnp.where(present, given, 1.0)) - mean
            white = jnp.where(present, value / jnp.sqrt(variance), 0.0)
            innovations.append(Innovation(jnp.where(present, value, jnp.nan), variance, white))
        return innovations

    def physical_moments(self, state: Points, sample: IntervalData) -> tuple[Array, Array]:
        """Means and standard deviations of the physical components."""
        weights = jnp.exp(state.log_weights)
        mean = state.place @ weights
        return mean, jnp.sqrt((state.place - mean[:, None]) ** 2 @ weights)

    def _key(self, particle: Particle, sample: IntervalData) -> jax.Array:
        assert particle.seed is not None, "points are drawn with the seed of their particle"
        return key_of(particle.seed, self.particles, sample.index)

    # The state for loops and storage

    def structure(
        self, first: Callable[..., Points], step: Callable[..., Points], particle: Particle, sample: IntervalData
    ) -> tuple[None, PyTree]:
        """No pattern, and the shapes of a state."""
        return None, jax.eval_shape(first, particle, sample)

    def fill(self, state: Points, pattern: None) -> Points:
        return state

    def pack(self, state: Points, template: PyTree) -> Array:
        rest = state.log_weights.shape[1:]
        return jnp.concatenate([state.place.reshape(-1, *rest), state.log_weights])

    def unpack(self, packed: Numbers, template: PyTree) -> Points:
        components, rest, packed = len(self.model.physical_names), packed.shape[1:], jnp.asarray(packed)
        split = components * self.particles
        return Points(packed[:split].reshape(components, self.particles, *rest), packed[split:])


def _normal(key: jax.Array, numbers: int, points: int) -> Float[Array, "number point"]:
    """Standard normal numbers, of single precision: twice as fast, and their steps of 1e-7 matter to nothing."""
    return jax.random.normal(key, (numbers, points), jnp.float32).astype(float)


def _over_points(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Map a function of one point over the last axis of its arguments."""
    return jax.vmap(function, in_axes=-1, out_axes=-1)
