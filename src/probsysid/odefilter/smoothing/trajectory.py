"""All that the filter goes through: its Gaussian at every step, and at points between the steps.

Samples are taken a stretch at a time, so that records of all lengths share their programs.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float

from probsysid.model.particle import Particle
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.smoothing.backward_kernels import GaussianPath, StateSpaceOps
from probsysid.odefilter.smoothing.chunking import ChunkBuffer, chunk_length, padded_slice


class Trajectory(NamedTuple):
    """All that the filter went through.  Where inputs jump, states are those just before."""

    time: Float[np.ndarray, " point"]
    filtered: GaussianPath
    departing: GaussianPath | None
    """The same after a restart, where one follows; None without restarts."""
    restarted: Bool[np.ndarray, " point"]
    """Where a restart follows: at samples, not at the steps and points between them."""
    variance: Float[np.ndarray, "point coordinate particle"]
    """Squared diffusion of the step that leads to the point."""
    energy: Float[np.ndarray, "sample particle"]
    innovation: Float[np.ndarray, "sample output particle"]
    innovation_variance: Float[np.ndarray, "sample output particle"]


# Forward


class ChunkStart(NamedTuple):
    """Where a stretch of samples begins; the first sample is one alone."""

    first: int
    """Index of its first sample."""
    samples: int
    """How many samples it has."""
    before: Any
    """The filter's state before it; None before the first sample."""


class FilteredChunk(NamedTuple):
    """A stretch that the filter has gone over.  Rows beyond its samples are to be left out."""

    points: GaussianPath
    variance: Any
    departing: GaussianPath | None
    """Where its steps leave from, if there are restarts."""
    energy: Any
    innovation: Any


def forward(
    ode_filter: ODEFilter, particles: Particle, samples: IntervalData
) -> Iterator[tuple[ChunkStart, FilteredChunk]]:
    """Run the filter over all samples."""
    count, substeps = samples.grid.shape[:2]
    begin, go_on = _tracer(ode_filter)
    state, kept = begin(particles, padded_slice(samples, 0, count, 1))
    yield ChunkStart(0, 1, None), FilteredChunk(*kept)
    length = samples_at_once(ode_filter, particles, substeps)
    for first in range(1, count, length):
        before = state
        state, kept = go_on(before, particles, padded_slice(samples, first, count, length))
        yield ChunkStart(first, min(length, count - first), before), FilteredChunk(*kept)


def again(mark: ChunkStart, ode_filter: ODEFilter, particles: Particle, samples: IntervalData) -> FilteredChunk:
    """Go over a stretch once more, which is not the first."""
    count, substeps = samples.grid.shape[:2]
    _, go_on = _tracer(ode_filter)
    length = samples_at_once(ode_filter, particles, substeps)
    return FilteredChunk(*go_on(mark.before, particles, padded_slice(samples, mark.first, count, length))[1])


def samples_at_once(ode_filter: ODEFilter, particles: Particle, substeps: int) -> int:
    """Samples of a stretch."""
    return max(1, chunk_length(ode_filter.layout.size, jax.tree.leaves(particles)[0].shape[-1]) // substeps)


def trace(ode_filter: ODEFilter, particles: Particle, samples: IntervalData, time: np.ndarray) -> Trajectory:
    """Run the filter and keep every step."""
    count, substeps = samples.grid.shape[:2]
    points = (count - 1) * substeps + 1
    steps, departures, seen = ChunkBuffer(points), ChunkBuffer(points), ChunkBuffer(count)
    for mark, passed in forward(ode_filter, particles, samples):
        place = max((mark.first - 1) * substeps + 1, 0)
        steps.put(place, (passed.points, passed.variance))
        seen.put(mark.first, (passed.energy, passed.innovation))
        if passed.departing is not None:
            departures.put(place - 1, passed.departing)
    filtered, variance = steps.arrays
    energy, innovation = seen.arrays
    if ode_filter.restarts:
        departures.put(points - 1, jax.tree.map(lambda leaf: leaf[-1:], filtered))
    restarted = ode_filter.restarts & (np.arange(points) % substeps == 0)
    return Trajectory(
        step_times(time, substeps),
        filtered,
        departures.arrays,
        restarted,
        variance,
        energy,
        innovation[:, :, 0],
        innovation[:, :, 1],
    )


def step_times(time: np.ndarray, substeps: int) -> np.ndarray:
    """Times of all steps."""
    fractions = np.arange(1, substeps + 1) / substeps
    inner = time[:-1, None] + np.diff(time)[:, None] * fractions
    inner[:, -1] = time[1:]
    return np.concatenate([time[:1], inner.ravel()])


@lru_cache(maxsize=32)
def _tracer(ode_filter: ODEFilter) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Programs that begin and go on.  Not by `jit_fused`: its fusions of several outputs would copy all that was
    kept of a stretch at every step."""
    begin = jax.vmap(_begin(ode_filter), in_axes=(-1, None), out_axes=-1)
    go_on = jax.vmap(_go_on(ode_filter), in_axes=(-1, -1, None), out_axes=-1)
    return jax.jit(begin), jax.jit(go_on)


def _begin(ode_filter: ODEFilter) -> Callable[[Particle, IntervalData], Any]:
    def begin(particle: Particle, samples: IntervalData) -> Any:
        sample = jax.tree.map(lambda leaf: leaf[0], samples)
        state, *found = _observed(ode_filter, ode_filter.start(particle, sample), particle, sample)
        kept = GaussianPath(*ode_filter.moments(state, sample)), jnp.stack(state.variance), None, *found
        return _carried(ode_filter, state), jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], kept)

    return begin


def _go_on(ode_filter: ODEFilter) -> Callable[[FilterState, Particle, IntervalData], Any]:
    def go_on(state: FilterState, particle: Particle, samples: IntervalData) -> Any:
        def interval(state: FilterState, sample: IntervalData) -> tuple[FilterState, Any]:
            state = ode_filter.depart(state, particle, sample)

            def advance(state: FilterState, item: tuple[Any, Any]) -> tuple[FilterState, Any]:
                arrived = ode_filter.advance(state, particle, sample, *item)
                moments = [GaussianPath(*ode_filter.moments(s, sample)) for s in (arrived, state)]
                return arrived, (*moments, jnp.stack(arrived.variance))

            items = sample.grid, sample.unit
            arrived, (points, departed, variances) = ode_filter.scan_steps(advance, state, items)
            state, *found = _observed(ode_filter, arrived, particle, sample)
            last = GaussianPath(*ode_filter.moments(ode_filter.before_jump(state, arrived), sample))
            points = jax.tree.map(lambda many, end: jnp.concatenate([many[:-1], end[None]]), points, last)
            return _carried(ode_filter, state), ((points, variances, departed if ode_filter.restarts else None), found)

        state, (steps, found) = lax.scan(interval, state, samples)
        return state, (*jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), steps), *found)

    return go_on


def _observed(
    ode_filter: ODEFilter, state: FilterState, particle: Particle, sample: IntervalData
) -> tuple[FilterState, Any, Any]:
    """The state given a sample, the energy, and each output's innovation with its variance."""
    state, energy, innovations = ode_filter.observe(state, particle, sample)
    return state, energy, jnp.stack([jnp.stack([i.value, i.variance]) for i in innovations])


def _carried(ode_filter: ODEFilter, state: FilterState) -> FilterState:
    """In the form that a loop carries: no entry is zero by structure."""
    return ode_filter.fill(state, [[True] * len(ode_filter.free)] * len(ode_filter.free))


# Between the steps


def refine(trajectory: Trajectory, layout: Layout, times: np.ndarray) -> tuple[Trajectory, np.ndarray]:
    """Add points at the given times, predicted from the step before; returns also where the times now are."""
    times = np.asarray(times, dtype=float)
    known = trajectory.time
    new = np.setdiff1d(times, known)
    if len(new):
        base = np.clip(np.searchsorted(known, new, side="right") - 1, 0, len(known) - 2)
        variance = trajectory.variance[base + 1]
        departing = trajectory.filtered if trajectory.departing is None else trajectory.departing
        leaving = jax.tree.map(lambda leaf: leaf[base], departing)
        predicted = _predicted(layout, leaving, variance, layout.scales(new - known[base]))
        order = np.argsort(np.concatenate([known, new]), kind="stable")

        def merge(old: Any, added: Any) -> Any:
            return np.concatenate([old, added])[order]

        restarting = trajectory.departing
        trajectory = trajectory._replace(
            time=np.concatenate([known, new])[order],
            filtered=jax.tree.map(merge, trajectory.filtered, predicted),
            departing=None if restarting is None else jax.tree.map(merge, restarting, predicted),
            restarted=np.concatenate([trajectory.restarted, np.zeros(len(new), dtype=bool)])[order],
            variance=merge(trajectory.variance, variance),
        )
    return trajectory, np.searchsorted(trajectory.time, times)


def _predicted(layout: Layout, leaving: GaussianPath, variance: np.ndarray, units: np.ndarray) -> GaussianPath:
    """States after some steps, from those before and the squared diffusion; units are the components' for each."""
    count, _, particles = leaving.mean.shape
    length = chunk_length(layout.size, particles)
    result = ChunkBuffer(count)
    for first in range(0, count, length):
        result.put(first, _predictor(layout)(*padded_slice((leaving, variance, units), first, count, length)))
    return result.arrays


@lru_cache(maxsize=32)
def _predictor(layout: Layout) -> Callable[[GaussianPath, Any, Any], GaussianPath]:
    return jax.jit(StateSpaceOps(layout).predicted)
