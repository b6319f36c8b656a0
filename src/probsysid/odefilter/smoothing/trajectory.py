"""The filtering distributions along a record: at every step, and at points between the steps.

Samples are filtered in chunks, so that records of all lengths share their programs.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from probsysid._internal.array_types import Numbers
from probsysid.model.particle import Particle
from probsysid.odefilter.coloured_noise import Ageing
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.smoothing.backward_kernels import Disturbance, GaussianPath, StateSpaceOps
from probsysid.odefilter.smoothing.chunking import LONGEST_CHUNK, ChunkBuffer, chunk_length, padded_slice


class Trajectory(NamedTuple):
    """The filter's Gaussians and energies.  Where inputs jump, states are those just before the jump."""

    time: Float[np.ndarray, " point"]
    filtered: GaussianPath
    departing: GaussianPath | None
    """The same at the start of the step that follows, where that is another state: None without restarts and coloured
    noise."""
    departed: Bool[np.ndarray, " point"]
    """Where it is: at samples, not at the steps and points between them."""
    ageing: Ageing | None
    """Of coloured noise over the interval that follows; None if there is none."""
    variance: Float[np.ndarray, "point coordinate particle"]
    """Squared diffusion of the step that leads to the point."""
    disturbed: Disturbance | None
    """Process noise at the end of that step; None if there is none."""
    free: tuple[int, ...]
    """Components that determine the others: `ODEFilter.free`."""
    kept: tuple[int, ...]
    """Components that are the same at the start of an interval as at the end of the one before: `kept_components`."""
    energy: Float[np.ndarray, "sample particle"]
    innovation: Float[np.ndarray, "sample output particle"]
    innovation_variance: Float[np.ndarray, "sample output particle"]


# Forward


class ChunkStart(NamedTuple):
    """Where a chunk of samples begins, and the state to filter it from.  The first sample is a chunk of its own."""

    first: int
    """Index of its first sample."""
    samples: int
    """Number of samples."""
    before: FilterState | None
    """The filter's state before it; None before the first sample."""


class FilteredChunk(NamedTuple):
    """The filter's results over a chunk.  Rows beyond the chunk's samples are padding."""

    points: GaussianPath
    variance: Float[Numbers, "point coordinate particle"]
    departing: GaussianPath | None
    """Where its steps depart from; None without restarts and coloured noise."""
    ageing: Ageing | None
    """Of coloured noise over the interval of each step."""
    disturbed: Disturbance | None
    energy: Float[Numbers, "sample particle"]
    innovation: Float[Numbers, "sample output moment particle"]
    """Values and variances."""


def filter_chunks(
    ode_filter: ODEFilter, particles: Particle, samples: IntervalData, longest: int = LONGEST_CHUNK
) -> Iterator[tuple[ChunkStart, FilteredChunk]]:
    """Run the filter over all samples, chunk by chunk."""
    count, substeps = samples.grid.shape[:2]
    start, advance = filter_programs(ode_filter)
    state, results = start(particles, padded_slice(samples, 0, count, 1))
    yield ChunkStart(0, 1, None), FilteredChunk(*results)
    length = samples_per_chunk(ode_filter, particles, substeps, longest)
    for first in range(1, count, length):
        before = state
        state, results = advance(before, particles, padded_slice(samples, first, count, length))
        yield ChunkStart(first, min(length, count - first), before), FilteredChunk(*results)


def refilter(
    chunk: ChunkStart,
    ode_filter: ODEFilter,
    particles: Particle,
    samples: IntervalData,
    longest: int = LONGEST_CHUNK,
) -> FilteredChunk:
    """Filter a chunk, other than the first, once more."""
    count, substeps = samples.grid.shape[:2]
    _, advance = filter_programs(ode_filter)
    length = samples_per_chunk(ode_filter, particles, substeps, longest)
    return FilteredChunk(*advance(chunk.before, particles, padded_slice(samples, chunk.first, count, length))[1])


def samples_per_chunk(ode_filter: ODEFilter, particles: Particle, substeps: int, longest: int) -> int:
    """Number of samples of a chunk that has at most `longest` points."""
    count = jax.tree.leaves(particles)[0].shape[-1]
    return max(1, chunk_length(ode_filter.layout.size, count, longest=longest) // substeps)


def trace(
    ode_filter: ODEFilter,
    particles: Particle,
    samples: IntervalData,
    time: np.ndarray,
    longest_chunk: int = LONGEST_CHUNK,
) -> Trajectory:
    """Run the filter and store every step."""
    count, substeps = samples.grid.shape[:2]
    points = (count - 1) * substeps + 1
    steps, departures, at_samples = ChunkBuffer(points), ChunkBuffer(points), ChunkBuffer(count)
    disturbances = ChunkBuffer(points)
    for chunk, results in filter_chunks(ode_filter, particles, samples, longest_chunk):
        first_point = max((chunk.first - 1) * substeps + 1, 0)
        steps.put(first_point, (results.points, results.variance))
        at_samples.put(chunk.first, (results.energy, results.innovation))
        if results.departing is not None:
            departures.put(first_point - 1, (results.departing, results.ageing))
        if results.disturbed is not None:
            disturbances.put(first_point, results.disturbed)
    filtered, variance = steps.arrays
    energy, innovation = at_samples.arrays
    departing, ageing = departures.arrays or (None, None)
    if departing is not None:  # nothing departs from the last point
        departures.put(points - 1, jax.tree.map(lambda leaf: leaf[-1:], (filtered, ageing)))
    departed = (departing is not None) & (np.arange(points) % substeps == 0)
    return Trajectory(
        step_times(time, substeps),
        filtered,
        departing,
        departed,
        ageing,
        variance,
        disturbances.arrays,
        ode_filter.free,
        kept_components(ode_filter),
        energy,
        innovation[:, :, 0],
        innovation[:, :, 1],
    )


def kept_components(ode_filter: ODEFilter) -> tuple[int, ...]:
    """Components that the start of an interval leaves as they are, and which determine the others."""
    return ode_filter.layout.physical if ode_filter.restarts else ode_filter.free


def step_times(time: np.ndarray, substeps: int) -> np.ndarray:
    """Times of all steps."""
    fractions = np.arange(1, substeps + 1) / substeps
    inner = time[:-1, None] + np.diff(time)[:, None] * fractions
    inner[:, -1] = time[1:]
    return np.concatenate([time[:1], inner.ravel()])


@lru_cache(maxsize=32)
def filter_programs(ode_filter: ODEFilter) -> tuple[Callable[..., PyTree], Callable[..., PyTree]]:
    """Compiled for all particles: the first sample, and a chunk of further ones.

    Not by `jit_fused`: its fusions with several outputs would copy all stored results of a chunk at every step.
    """
    start = jax.vmap(_start_program(ode_filter), in_axes=(-1, None), out_axes=-1)
    advance = jax.vmap(_chunk_program(ode_filter), in_axes=(-1, -1, None), out_axes=-1)
    return jax.jit(start), jax.jit(advance)


def _start_program(ode_filter: ODEFilter) -> Callable[[Particle, IntervalData], PyTree]:
    def start(particle: Particle, samples: IntervalData) -> PyTree:
        sample = jax.tree.map(lambda leaf: leaf[0], samples)
        state, *observed = _observe(ode_filter, ode_filter.start(particle, sample), particle, sample)
        results = GaussianPath(*ode_filter.moments(state, sample)), jnp.stack(state.variance), *[None] * 3, *observed
        return _dense(ode_filter, state), jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], results)

    return start


def _chunk_program(ode_filter: ODEFilter) -> Callable[[FilterState, Particle, IntervalData], PyTree]:
    def advance_chunk(state: FilterState, particle: Particle, samples: IntervalData) -> PyTree:
        def interval(state: FilterState, sample: IntervalData) -> tuple[FilterState, PyTree]:
            def advance(state: FilterState, item: tuple[Numbers, Numbers]) -> tuple[FilterState, PyTree]:
                arrived, traced = ode_filter.advance_traced(state, particle, sample, *item)
                disturbed = None if traced is None else Disturbance(GaussianPath(*traced[0]), *traced[1:])
                moments = [GaussianPath(*ode_filter.moments(s, sample)) for s in (arrived, state)]
                return arrived, (*moments, jnp.stack(arrived.variance), disturbed)

            state = ode_filter.depart(state, particle, sample)
            items = sample.grid, sample.unit
            arrived, (points, departing, variances, disturbed) = ode_filter.scan_steps(advance, state, items)
            state, *observed = _observe(ode_filter, arrived, particle, sample)
            last = GaussianPath(*ode_filter.moments(ode_filter.before_jump(state, arrived), sample))
            points = jax.tree.map(lambda many, end: jnp.concatenate([many[:-1], end[None]]), points, last)
            ageing = Ageing.of(particle.noise, sample)
            apart = ode_filter.restarts or ageing is not None
            ageing = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(variances), *leaf.shape)), ageing)
            steps = points, variances, departing if apart else None, ageing, disturbed
            return _dense(ode_filter, state), (steps, observed)

        state, (steps, observed) = lax.scan(interval, state, samples)
        return state, (*jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), steps), *observed)

    return advance_chunk


def _observe(
    ode_filter: ODEFilter, state: FilterState, particle: Particle, sample: IntervalData
) -> tuple[FilterState, PyTree, PyTree]:
    """The state given a sample, the energy, and each output's innovation with its variance."""
    state, energy, innovations = ode_filter.observe(state, particle, sample)
    return state, energy, jnp.stack([jnp.stack([i.value, i.variance]) for i in innovations])


def _dense(ode_filter: ODEFilter, state: FilterState) -> FilterState:
    """The state as a loop carries it, without structural zeros."""
    return ode_filter.fill(state, [[True] * len(state.factor)] * len(state.factor))


# Between the steps


def refine(trajectory: Trajectory, layout: Layout, times: np.ndarray) -> tuple[Trajectory, np.ndarray]:
    """Dense output: add points at the given times, predicted from the step before.

    Returns the trajectory and the indices of the times in it.
    """
    times = np.asarray(times, dtype=float)
    known = trajectory.time
    new = np.setdiff1d(times, known)
    if len(new):
        base = np.clip(np.searchsorted(known, new, side="right") - 1, 0, len(known) - 2)
        variance = trajectory.variance[base + 1]
        departing = trajectory.filtered if trajectory.departing is None else trajectory.departing
        departing = jax.tree.map(lambda leaf: leaf[base], departing)
        predicted = _predict(layout, departing, variance, layout.scales(new - known[base]))
        order = np.argsort(np.concatenate([known, new]), kind="stable")

        def merge(old: np.ndarray, added: np.ndarray) -> np.ndarray:
            return np.concatenate([old, added])[order]

        apart, disturbed = (trajectory.departing, trajectory.ageing), trajectory.disturbed
        assert disturbed is None, "process noise enters at the ends of steps; there is no dense output with it"
        trajectory = trajectory._replace(
            time=np.concatenate([known, new])[order],
            filtered=jax.tree.map(merge, trajectory.filtered, predicted),
            departing=None if apart[0] is None else jax.tree.map(merge, apart[0], predicted),
            departed=np.concatenate([trajectory.departed, np.zeros(len(new), dtype=bool)])[order],
            ageing=jax.tree.map(lambda leaf: merge(leaf, leaf[base]), apart[1]),
            variance=merge(trajectory.variance, variance),
            disturbed=disturbed,
        )
    return trajectory, np.searchsorted(trajectory.time, times)


def _predict(layout: Layout, departing: GaussianPath, variance: np.ndarray, units: np.ndarray) -> GaussianPath:
    """States after one step each, chunk by chunk."""
    count, size, particles = departing.mean.shape
    program = _predictor(layout, size - layout.size)
    length = chunk_length(layout.size, particles)
    predicted = ChunkBuffer(count)
    for first in range(0, count, length):
        predicted.put(first, program(*padded_slice((departing, variance, units), first, count, length)))
    return predicted.arrays


@lru_cache(maxsize=32)
def _predictor(layout: Layout, noise: int) -> Callable[[GaussianPath, Array, Array], GaussianPath]:
    return jax.jit(StateSpaceOps(layout, noise).predict)
