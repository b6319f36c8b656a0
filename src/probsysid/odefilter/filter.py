"""The ODE filter vectorised over particles and run over many samples: what a target of the sampler calls.

The particle axis is the last of every array.  Particles are processed in blocks that fit the processor's cache, with
the time loop inside the loop over blocks.  Samples come in chunks of fixed length, of which a range is processed, so
that records of any length use one compiled program.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from probsysid._internal.array_types import Index, Numbers, Scalar
from probsysid.model.model import Model
from probsysid.model.noise import NoiseValues
from probsysid.model.particle import Particle
from probsysid.odefilter.continuous_discrete import LEGENDRE, ContinuousDiscreteEKF
from probsysid.odefilter.data_given_ode import DataGivenODE
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.unrolled.gaussian import Innovation
from probsysid.parallel.cpu_cache import first_level_cache
from probsysid.parallel.executor import Executor
from probsysid.parallel.sharding import ShardedFunction
from probsysid.parallel.threads import Threads

CACHE_SHARE = 0.75
"""Of the first-level cache, for the predicted factors of one block: the rest needs room, too.  With 32 kB, of blocks of
8 to 128, those of 64 were the best for D = 4, of 32 for D = 7 and 8, of 16 for D = 9 and 12."""

SMALLEST_UNROLLED, SMALLEST_IN_ARRAYS = 16, 8
"""A loop over 8 numbers is not vectorised for 8 at a time.  On arrays, 8 was the best of 1, 2, 4, 8 and 16 for D = 80
and among the best for 40."""

LARGEST = 64

STAGES = 6
"""Numbers per component that a Runge-Kutta step works on: the state, four slopes and a sum."""

ENERGY = -1
"""Watch the energy instead of an output."""

Packed = Float[Numbers, "state particle"]
"""A filter state as one array, for storing and resampling.  Its last two rows are the sum of all energies so far but
the newest, and the newest energy: a sweep over all data needs nothing else."""


class SampleFilter(Protocol):
    """What is asked of a filter for one particle: `ODEFilter` or `RungeKuttaFilter`, say.  A state is any tree."""

    def __hash__(self) -> int: ...

    @property
    def model(self) -> Model: ...

    @property
    def unrolled(self) -> bool: ...

    def start(self, particle: Particle, sample: IntervalData) -> PyTree: ...

    def interval(self, state: PyTree, particle: Particle, sample: IntervalData) -> PyTree: ...

    def observe(
        self, state: PyTree, particle: Particle, sample: IntervalData, scores: bool = True
    ) -> tuple[PyTree, Scalar, list[Innovation]]: ...

    def physical_moments(self, state: PyTree, sample: IntervalData) -> tuple[Array, Array]:
        """Means and standard deviations of the physical components."""
        ...

    def structure(
        self, first: Callable[..., PyTree], step: Callable[..., PyTree], particle: Particle, sample: IntervalData
    ) -> tuple[PyTree, PyTree]: ...

    def fill(self, state: PyTree, pattern: PyTree) -> PyTree: ...

    def pack(self, state: PyTree, template: PyTree) -> Array: ...

    def unpack(self, packed: Numbers, template: PyTree) -> PyTree: ...


class OneStep(NamedTuple):
    """One-step predictions of particles at some samples, and the filtered states after each."""

    mean: Float[Numbers, "sample output particle"]
    """Predicted outputs; NaN where nothing was measured and the noise is not plainly Gaussian."""
    sd: Float[Numbers, "sample output particle"]
    """With the measurement noise."""
    white: Float[Numbers, "sample output particle"]
    """Errors over their standard deviations, each given the outputs before it; zero where nothing was measured."""
    energy: Float[Numbers, "sample particle"]
    state_mean: Float[Numbers, "sample component particle"]
    state_sd: Float[Numbers, "sample component particle"]


@dataclass(frozen=True)
class VectorisedFilter:
    """Energies of particles over samples.

    `particles` is a `Particle` whose leaves have the particle axis last.
    """

    ode_filter: SampleFilter
    executor: Executor = Threads(cores=1)
    """Names the devices over which particles are sharded."""
    rows: int | None = None
    """Samples whose energies `advance` returns at once; None for as many as it is given.  A call takes time for each
    row, used or not."""

    @property
    def block(self) -> int:
        """Particles per block: a power of two that keeps what a step works on in cache."""
        smallest = SMALLEST_UNROLLED if self.ode_filter.unrolled else SMALLEST_IN_ARRAYS
        return block_size(working_set(self.ode_filter), smallest, first_level_cache())

    # Public operations

    @cached_property
    def start(self) -> Callable[[Particle, PackedSamples], tuple[Packed, Float[Array, "1 particle"]]]:
        """State after the first sample of `samples`, and that sample's energies."""
        return ShardedFunction(self._start, self.executor)

    def advance(
        self,
        packed: Packed,
        particles: Particle,
        samples: PackedSamples,
        first: int,
        last: int,
        watched: int = ENERGY,
        active: int | None = None,
    ) -> tuple[Packed, Float[Array, "row particle"]]:
        """State after samples first..last-1 of the chunk, and their energies in the first rows.  The state is right for
        any range, the energies for ranges of up to `rows` samples.

        Watching an output returns its one-step prediction errors in place of the energies: in units of their standard
        deviation, zero where nothing was measured.  The sums of energies in the state are then meaningless.

        Only the first `active` particles are computed, or somewhat more; the results of the others are meaningless.
        """
        active = packed.shape[-1] if active is None else active
        return self._program((packed, particles), (samples, first, last, watched, active))

    @cached_property
    def _program(self) -> ShardedFunction:
        return ShardedFunction(lambda by_particle, shared: self._advance(*by_particle, *shared), self.executor)

    def one_step(self, packed: Packed, particles: Particle, samples: PackedSamples, first: int, last: int) -> OneStep:
        """One-step predictions at samples first..last-1 of the chunk, at most `rows`, for a few particles."""
        found = self._one_step_program(packed, particles, samples, first, last)
        return OneStep(*(np.asarray(part)[: last - first] for part in found))

    @cached_property
    def _one_step_program(self) -> Callable[..., OneStep]:
        return jax.jit(self._one_step)

    def physical(
        self, packed: Packed, particles: Particle, samples: PackedSamples, row: int
    ) -> tuple[Float[np.ndarray, "component particle"], Float[np.ndarray, "component particle"]]:
        """Means and standard deviations of the physical components in a state after one of the samples."""
        mean, sd = self._physical_program(packed, particles, samples, row)
        return np.asarray(mean), np.asarray(sd)

    @cached_property
    def _physical_program(self) -> Callable[..., tuple[Array, Array]]:
        def program(packed: Packed, particles: Particle, samples: PackedSamples, row: Index) -> tuple[Array, Array]:
            _, template = self._structure(particles, samples)
            state = self.ode_filter.unpack(packed[:-2], template)
            moments = jax.vmap(self.ode_filter.physical_moments, in_axes=(-1, None), out_axes=-1)
            return moments(state, samples[row])

        return jax.jit(program)

    @property
    def programs(self) -> int:
        """The number of programs to which `advance` has been compiled."""
        return self._program.programs

    # One particle

    def _first_step(self, particle: Particle, sample: IntervalData) -> tuple[PyTree, PyTree]:
        state = self.ode_filter.start(particle, sample)
        state, energy, _ = self.ode_filter.observe(state, particle, sample)
        return state, energy

    def _step(
        self, state: PyTree, particle: Particle, sample: IntervalData, watched: Index = ENERGY
    ) -> tuple[PyTree, PyTree]:
        """One interval and its data; returns the energy, or the whitened error of the watched output.  A second array
        of results would cost the loop its vectorisation."""
        state = self.ode_filter.interval(state, particle, sample)
        costly = getattr(self.ode_filter, "costly_scores", False)
        if costly or any(isinstance(noise, NoiseValues) for noise in particle.noise):
            return self._observe_alone(state, particle, sample, watched)
        state, result, innovations = self.ode_filter.observe(state, particle, sample)
        for output, innovation in enumerate(innovations):
            result = jnp.where(watched == output, innovation.white, result)
        return state, result

    def _observe_alone(
        self, arrived: PyTree, particle: Particle, sample: IntervalData, watched: Index
    ) -> tuple[PyTree, PyTree]:
        """The same for noise whose normal scores take long: computed only if an output is watched."""
        state, energy, _ = self.ode_filter.observe(arrived, particle, sample, scores=False)

        def score() -> Array:
            _, _, innovations = self.ode_filter.observe(arrived, particle, sample)
            result = jnp.zeros(())
            for output, innovation in enumerate(innovations):
                result = jnp.where(watched == output, innovation.white, result)
            return result

        return state, lax.cond(watched == ENERGY, lambda: jnp.asarray(energy, dtype=float), score)

    def _predicted(self, state: Any, particle: Particle, sample: IntervalData) -> tuple[Any, Any]:
        """One interval and its data, with everything that is shown of it.  Each output is predicted without the others
        of the same sample."""
        arrived = self.ode_filter.interval(state, particle, sample)
        plain = not any(isinstance(noise, NoiseValues) for noise in particle.noise)
        given = jnp.where(jnp.isnan(sample.outputs), 0.0, sample.outputs) if plain else sample.outputs
        mean, sd = [], []
        for output in range(len(self.ode_filter.model.output_names)):
            alone = jnp.where(jnp.arange(len(given)) == output, given, jnp.nan)
            _, _, innovations = self.ode_filter.observe(arrived, particle, sample._replace(outputs=alone))
            mean.append(given[output] - innovations[output].value)
            sd.append(jnp.sqrt(innovations[output].variance))
        state, energy, innovations = self.ode_filter.observe(arrived, particle, sample)
        white = [jnp.asarray(innovation.white, dtype=float) for innovation in innovations]
        outputs = jnp.stack(mean), jnp.stack(sd), jnp.stack(white)
        physical = self.ode_filter.physical_moments(state, sample)
        return state, OneStep(*outputs, jnp.asarray(energy, dtype=float), *physical)

    # Blocks of particles

    def _one_step(self, packed: Packed, particles: Particle, samples: PackedSamples, first: Any, last: Any) -> OneStep:
        pattern, template = self._structure(particles, samples)
        rows = self.rows or len(samples)

        def step(state: Any, particle: Particle, sample: IntervalData) -> tuple[Any, Any]:
            state, shown = self._predicted(state, particle, sample)
            return self.ode_filter.fill(state, pattern), shown

        batched = jax.vmap(step, in_axes=(-1, -1, None), out_axes=-1)
        state = self.ode_filter.unpack(packed[:-2], template)
        shapes = jax.eval_shape(lambda: batched(state, particles, samples[0])[1])

        def body(k: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            state, shown = batched(carry[0], particles, samples[k])
            put = partial(lax.dynamic_update_index_in_dim, index=k - first, axis=0)
            return state, jax.tree.map(put, carry[1], shown)

        empty = jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape)), shapes)
        return lax.fori_loop(first, last, body, (state, empty))[1]

    def _start(self, particles: Particle, samples: PackedSamples) -> tuple[Packed, Float[Array, "1 particle"]]:
        sample = samples[0]
        pattern, template = self._structure(particles, samples)

        def first(particle: Particle) -> tuple[PyTree, PyTree]:
            state, energy = self._first_step(particle, sample)
            energy = jnp.asarray(energy)[None]
            packed = self.ode_filter.pack(self.ode_filter.fill(state, pattern), template)
            return jnp.concatenate([packed, jnp.zeros_like(energy), energy]), energy

        return over_particles(first)(particles)

    def _advance(
        self,
        packed: Packed,
        particles: Particle,
        samples: PackedSamples,
        first: Index,
        last: Index,
        watched: Index,
        active: Index,
    ) -> tuple[Packed, Float[Array, "sample particle"]]:
        pattern, template = self._structure(particles, samples)
        rows = self.rows or len(samples)

        def step(state: PyTree, particle: Particle, sample: IntervalData) -> tuple[PyTree, PyTree]:
            state, result = self._step(state, particle, sample, watched)
            return self.ode_filter.fill(state, pattern), result

        batched = jax.vmap(step, in_axes=(-1, -1, None), out_axes=-1)

        def block(arguments: tuple[Packed, Particle]) -> tuple[Packed, Array]:
            packed, particles = arguments
            state = self.ode_filter.unpack(packed[:-2], template)

            def body(k: Index, carry: tuple[PyTree, Array, Array, Array]) -> tuple[PyTree, Array, Array, Array]:
                state, total, newest, energies = carry
                state, energy = batched(state, particles, samples[k])
                row = jnp.minimum(k - first, rows - 1)
                return state, total + newest, energy, lax.dynamic_update_index_in_dim(energies, energy, row, 0)

            begun = (state, packed[-2], packed[-1], jnp.zeros((rows, packed.shape[-1])))
            state, total, newest, energies = lax.fori_loop(first, last, body, begun)
            return jnp.concatenate([self.ode_filter.pack(state, template), total[None], newest[None]]), energies

        return map_blocks(block, (packed, particles), self.block, active)

    # The state's structure

    def _structure(self, particles: Particle, samples: PackedSamples) -> tuple[PyTree, PyTree]:
        """The state's structure (`ODEFilter.structure`), cached: finding it may trace the filter several times."""
        particle, sample = _one(particles, samples)
        leaves, tree = jax.tree.flatten((particle, sample))
        key = (tree, *(leaf.shape for leaf in leaves))
        if key not in self._structures:
            self._structures[key] = self.ode_filter.structure(
                lambda *given: self._first_step(*given)[0], lambda *given: self._step(*given)[0], particle, sample
            )
        return self._structures[key]

    @cached_property
    def _structures(self) -> dict[Hashable, tuple[PyTree, PyTree]]:
        return {}


@lru_cache(maxsize=32)
def filter_for(ode_filter: SampleFilter, executor: Executor, rows: int | None = None) -> VectorisedFilter:
    """The vectorised form of a filter: one object for equal arguments, so that programs compile once per process."""
    return VectorisedFilter(ode_filter, executor, rows)


def working_set(ode_filter: SampleFilter) -> int:
    """Numbers per particle that a step works on: the predicted factor, or the state where there is none."""
    if isinstance(ode_filter, DataGivenODE):
        return working_set(ode_filter.alone) + working_set(ode_filter.joint)
    own = getattr(ode_filter, "working_set", None)
    if own is not None:
        return int(own)
    if isinstance(ode_filter, ODEFilter):
        return len(ode_filter.free) * (len(ode_filter.free) + ode_filter.layout.size)
    size = sum(ode_filter.model.orders)
    if isinstance(ode_filter, ContinuousDiscreteEKF):
        return STAGES * size * (1 + size + len(LEGENDRE) * len(ode_filter.model.orders))
    return STAGES * size


def block_size(working_set: int, smallest: int, cache: int) -> int:
    """Particles whose numbers, `working_set` each, fit into a cache of this many bytes."""
    fitting = int(CACHE_SHARE * cache) // (8 * working_set)
    return int(np.clip(2 ** (max(fitting, 1).bit_length() - 1), smallest, LARGEST))


def over_particles(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Map a function of one particle over the last axis of its arguments."""
    return jax.vmap(function, in_axes=-1, out_axes=-1)


def map_blocks(
    function: Callable[[PyTree], PyTree], arguments: PyTree, block: int, active: Index | None = None
) -> PyTree:
    """Apply a function of (..., particle) arrays block by block and concatenate the results on the last axis.

    With `active`, only the blocks of that many first particles; the results of the others are zero.

    Results are written in place: `lax.map` would stack the blocks and transpose them afterwards.
    """
    count = jax.tree.leaves(arguments)[0].shape[-1]
    if count <= block:
        return function(arguments)
    blocks = -(-count // block)
    padding = blocks * block - count
    once = jax.jit(function, inline=True)  # traced once, although its shapes are evaluated first

    def padded(leaf: Array) -> Array:
        return jnp.concatenate([leaf, jnp.repeat(leaf[..., -1:], padding, axis=-1)], axis=-1) if padding else leaf

    def part(place: Index) -> PyTree:
        return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, place, block, axis=-1), filled)

    def body(k: Index, results: PyTree) -> PyTree:
        put = partial(lax.dynamic_update_slice_in_dim, start_index=k * block, axis=-1)
        return jax.tree.map(put, results, once(part(k * block)))

    filled = jax.tree.map(padded, arguments)
    shapes = jax.eval_shape(lambda: once(part(0)))
    empty = jax.tree.map(lambda leaf: jnp.zeros((*leaf.shape[:-1], blocks * block), leaf.dtype), shapes)
    if active is not None:
        blocks = jnp.minimum(blocks, (active + block - 1) // block)
    return jax.tree.map(lambda leaf: leaf[..., :count], lax.fori_loop(0, blocks, body, empty))


def totals(packed: Packed) -> Float[np.ndarray, "2 particle"]:
    """The sum of all energies but the newest, and the newest, from a packed state."""
    return np.asarray(packed)[-2:]


def _one(particles: Particle, samples: PackedSamples) -> tuple[PyTree, PyTree]:
    """The shapes of one particle and one sample."""
    particle = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[:-1], float), particles)
    shapes = [jax.ShapeDtypeStruct(shape, float) for shape in samples.form.shapes]
    return particle, jax.tree.unflatten(samples.form.tree, shapes)
