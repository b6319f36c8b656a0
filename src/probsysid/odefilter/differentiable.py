"""The log likelihood of one particle as a function that can be differentiated, forwards and backwards.

Loops whose length is known only when the program runs cannot be differentiated backwards, and a filter that could be
would store every step.  A likelihood has few arguments: their derivatives are computed forwards, all at once, and
handed to whichever kind of differentiation asks.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from probsysid._internal.array_types import Index, Scalar
from probsysid.model.particle import Particle
from probsysid.odefilter.arrays.lapack import Lapack
from probsysid.odefilter.arrays.step import ArrayFilter
from probsysid.odefilter.data_given_ode import DataGivenODE
from probsysid.odefilter.filter import SampleFilter
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.packed_samples import PackedSamples


def log_likelihood(sample_filter: SampleFilter, particle: Particle, samples: PackedSamples) -> Scalar:
    """Of all samples, for one particle, whose leaves may be traced."""
    flat, restore = ravel_pytree(particle)
    program = _program(with_lapack(sample_filter))

    @jax.custom_jvp
    def value(flat: Array) -> Array:
        return program(restore(flat), samples)

    @value.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        def twice(flat: Array) -> tuple[Array, Array]:
            found = program(restore(flat), samples)
            return found, found

        slopes, found = jax.jacfwd(twice, has_aux=True)(*primals)
        return found, slopes @ tangents[0]

    return value(flat)


def with_lapack(sample_filter: SampleFilter) -> SampleFilter:
    """Filters in array form with an algebra that can be differentiated: loops over all particles cannot."""
    if isinstance(sample_filter, DataGivenODE):
        alone, joint = with_lapack(sample_filter.alone), with_lapack(sample_filter.joint)
        assert isinstance(alone, ODEFilter) and isinstance(joint, ODEFilter)
        return replace(sample_filter, alone=alone, joint=joint)
    return replace(sample_filter, algebra=Lapack()) if isinstance(sample_filter, ArrayFilter) else sample_filter


@lru_cache(maxsize=32)
def _program(sample_filter: SampleFilter) -> Callable[[Particle, PackedSamples], Float[Array, ""]]:
    def first(particle: Particle, sample: IntervalData) -> tuple[PyTree, Scalar]:
        state, energy, _ = sample_filter.observe(sample_filter.start(particle, sample), particle, sample, scores=False)
        return state, energy

    def step(state: PyTree, particle: Particle, sample: IntervalData) -> tuple[PyTree, Scalar]:
        arrived = sample_filter.interval(state, particle, sample)
        state, energy, _ = sample_filter.observe(arrived, particle, sample, scores=False)
        return state, energy

    def total(particle: Particle, samples: PackedSamples) -> Float[Array, ""]:
        pattern, _ = sample_filter.structure(
            lambda *given: first(*given)[0], lambda *given: step(*given)[0], particle, samples[0]
        )

        def body(k: Index, carry: tuple[PyTree, Scalar]) -> tuple[PyTree, Scalar]:
            state, energy = step(carry[0], particle, samples[k])
            return sample_filter.fill(state, pattern), carry[1] + energy

        state, energy = first(particle, samples[0])
        begun = sample_filter.fill(state, pattern), jnp.asarray(energy, dtype=float)
        return -jnp.asarray(lax.fori_loop(1, len(samples), body, begun)[1])

    return jax.jit(total)
