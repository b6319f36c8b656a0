"""Rauch-Tung-Striebel smoothing: smoothed states and sample paths.

A filtered state is given the data up to it.  The backward recursion adds what comes after, by the conditional
distribution of a state given the next one (the backward kernel):

    x_k | x_(k+1)  ~  N(m_k + G (x_(k+1) - A m_k), B B'),     G = P_k A' (A P_k A' + Q)^(-1)

G and B come from one triangularisation of the stacked factor [[A L, sqrt(Q)], [L, 0]].  Smoothing marginalises over the
next state; sampling draws from the kernel.  The kernels of a chunk of points are computed all at once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from probsysid._internal.array_types import Numbers
from probsysid.model.particle import Particle
from probsysid.odefilter.arrays.sqrt_algebra import GaussianConditional
from probsysid.odefilter.coloured_noise import Ageing
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.smoothing.backward_kernels import Disturbance, GaussianPath, StateSpaceOps
from probsysid.odefilter.smoothing.chunking import LONGEST_CHUNK, ChunkBuffer, chunk_length, padded_slice
from probsysid.odefilter.smoothing.trajectory import (
    ChunkStart,
    Trajectory,
    filter_chunks,
    kept_components,
    refilter,
    step_times,
)


class SmootherChunk(NamedTuple):
    """Points, and the steps that depart from them."""

    filtered: GaussianPath
    departing: GaussianPath | None
    """Where the steps depart from; None if that is always the point itself: without restarts and coloured noise."""
    departed: Bool[Numbers, " point"] | None
    """Where it is not: at the samples; None if those are equally spaced."""
    ageing: Ageing | None
    """Of coloured noise over the interval that begins there; None without any."""
    variance: Float[Numbers, "point coordinate particle"]
    """Squared diffusion of each step."""
    units: Float[Numbers, "point component"]
    """Nordsieck scales of each step: `Layout.scales`."""
    disturbed: Disturbance | None
    """None without process noise."""
    valid: Bool[Numbers, " point"]
    """Whether a point belongs to the record; the others are padding."""


class SmoothedChunk(NamedTuple):
    """Smoothed points: marginals, and joint draws of the path."""

    states: GaussianPath
    sd: Float[Numbers, "point D particle"]
    paths: Float[Numbers, "point D draw particle"]


# A trajectory


def smooth(trajectory: Trajectory, layout: Layout, longest_chunk: int = LONGEST_CHUNK) -> GaussianPath:
    """The smoothing distribution at every point."""
    states = ChunkBuffer(len(trajectory.time))
    for first, smoothed in _backward_chunks(trajectory, layout, longest_chunk):
        states.put(first, smoothed.states)
    return states.arrays


def sample_paths(
    key: jax.Array, trajectory: Trajectory, layout: Layout, draws: int, longest_chunk: int = LONGEST_CHUNK
) -> Float[np.ndarray, "draw point D particle"]:
    """Joint draws of the whole path from the smoothing distribution."""
    paths = ChunkBuffer(len(trajectory.time))
    for first, smoothed in _backward_chunks(trajectory, layout, longest_chunk, key, draws):
        paths.put(first, smoothed.paths)
    return np.moveaxis(paths.arrays, 2, 0)


def _backward_chunks(
    trajectory: Trajectory, layout: Layout, longest: int, key: jax.Array | None = None, draws: int = 0
) -> Iterator[tuple[int, SmoothedChunk]]:
    """Smoothed chunks from the end, each with the index of its first point, which for the last one may be negative."""
    end = len(trajectory.time) - 1
    last = _point(trajectory.filtered, -1)
    length = chunk_length(layout.size, last.mean.shape[-1], draws, longest)
    units = layout.scales(np.diff(trajectory.time))
    apart = trajectory.departing, trajectory.departed, trajectory.ageing
    disturbed = jax.tree.map(lambda leaf: leaf[1:], trajectory.disturbed)
    valid = np.ones(end, dtype=bool)
    whole = SmootherChunk(trajectory.filtered, *apart, trajectory.variance[1:], units, disturbed, valid)
    key = jax.random.key(0) if key is None else key
    smoother = BackwardSmoother(layout, trajectory.free, trajectory.kept, key, draws)
    later, smoothed = smoother.start(last)
    yield end, smoothed
    for first in range(end - length, -length, -length):
        later, smoothed = smoother.step(later, padded_slice(whole, first, end, length))
        yield first, smoothed


# A record


class Smoothed(NamedTuple):
    """At the samples: smoothed marginals of all components and of coloured noise, one joint draw of their path per
    particle, and one-step prediction errors."""

    mean: Float[np.ndarray, "sample D particle"]
    sd: Float[np.ndarray, "sample D particle"]
    path: Float[np.ndarray, "sample D particle"]
    innovation: Float[np.ndarray, "sample output particle"]
    innovation_variance: Float[np.ndarray, "sample output particle"]


def smooth_record(
    key: jax.Array,
    ode_filter: ODEFilter,
    particles: Particle,
    samples: IntervalData,
    time: np.ndarray,
    longest_chunk: int = LONGEST_CHUNK,
) -> Smoothed:
    """Filter and smooth a record without storing every step: on the way back each chunk is filtered again."""
    count, substeps = samples.grid.shape[:2]
    chunks: list[tuple[ChunkStart, GaussianPath]] = []
    innovations, smoothed = ChunkBuffer(count), ChunkBuffer(count)
    for chunk, results in filter_chunks(ode_filter, particles, samples, longest_chunk):
        end = min(chunk.samples * substeps, len(results.variance)) - 1
        chunks.append((chunk, _point(results.points, end)))
        innovations.put(chunk.first, results.innovation)
    units = ode_filter.layout.scales(np.diff(step_times(time, substeps)))
    kept = kept_components(ode_filter)
    smoother = BackwardSmoother(ode_filter.layout, ode_filter.free, kept, key, 1, sample_spacing=substeps)
    later, points = smoother.start(chunks[-1][1])
    smoothed.put(count - 1, _at_samples(points, 1, substeps))
    for (_, before), (chunk, _) in reversed(list(pairwise(chunks))):
        first = (chunk.first - 1) * substeps
        results = refilter(chunk, ode_filter, particles, samples, longest_chunk)
        length = len(results.variance)
        valid = np.arange(first, first + length) < len(units)
        steps = padded_slice(units, first, len(units), length)
        filtered = _departure_points(before, results.points)
        apart = results.departing, None, results.ageing
        later, points = smoother.step(
            later, SmootherChunk(filtered, *apart, results.variance, steps, results.disturbed, valid)
        )
        smoothed.put(chunk.first - 1, _at_samples(points, chunk.samples, substeps))
    mean, sd, path = smoothed.arrays
    return Smoothed(mean, sd, path, innovations.arrays[:, :, 0], innovations.arrays[:, :, 1])


def _point(states: GaussianPath, index: int) -> GaussianPath:
    return GaussianPath(states.mean[index], states.factor[index])


@jax.jit
def _departure_points(before: GaussianPath, states: GaussianPath) -> GaussianPath:
    """The points that a chunk's steps depart from: the one before the chunk, and all of the chunk but the last."""
    return jax.tree.map(lambda one, many: jnp.concatenate([one[None], many[:-1]]), before, states)


def _at_samples(points: SmoothedChunk, count: int, substeps: int) -> tuple[np.ndarray, ...]:
    """Mean, sd and path at the first `count` samples of a chunk."""
    arrays = points.states.mean, points.sd, points.paths[:, :, 0]
    return tuple(np.asarray(leaf)[::substeps][:count] for leaf in arrays)


# Chunk by chunk


class BackwardState(NamedTuple):
    """The earliest point smoothed so far."""

    point: tuple[GaussianPath, PyTree]
    """Its marginal, and the draws of the path there."""
    chunks: int
    """Number of chunks smoothed so far; each has its own random key."""


@dataclass(frozen=True, eq=False)
class BackwardSmoother:
    """The backward recursion from the last point on, chunk by chunk."""

    layout: Layout
    free: tuple[int, ...]
    """Components that determine the others: `ODEFilter.free`."""
    kept: tuple[int, ...]
    """Components that the start of an interval leaves as they are: `kept_components`."""
    key: jax.Array
    draws: int
    sample_spacing: int | None = None
    """Number of points from one sample to the next, counted from the first point of a chunk; None if the chunk says
    where samples are."""

    @property
    def _programs(self) -> tuple[Callable[..., PyTree], Callable[..., PyTree]]:
        return smoother_programs(self.layout, self.free, self.kept, self.draws, self.sample_spacing)

    def start(self, last: GaussianPath) -> tuple[BackwardState, SmoothedChunk]:
        """At the last point, smoothing is filtering."""
        program, _ = self._programs
        point, smoothed = program(last, jax.random.fold_in(self.key, 1))
        return BackwardState(point, 1), smoothed

    def step(self, later: BackwardState, chunk: SmootherChunk) -> tuple[BackwardState, SmoothedChunk]:
        """Smooth the chunk before those smoothed so far."""
        _, program = self._programs
        chunks = later.chunks + 1
        point, smoothed = program(later.point, chunk, jax.random.fold_in(self.key, chunks))
        return BackwardState(point, chunks), smoothed


@lru_cache(maxsize=32)
def smoother_programs(
    layout: Layout, free: tuple[int, ...], kept: tuple[int, ...], draws: int, sample_spacing: int | None
) -> tuple[Callable[..., PyTree], Callable[..., PyTree]]:
    """Compiled for all particles: the last point, and a chunk of earlier ones."""

    def normals(key: jax.Array, count: int, states: PyTree) -> jax.Array:
        *_, size, particles = states.shape
        return jax.random.normal(key, (count, size, draws, particles))

    def smoothed(states: GaussianPath, paths: Array) -> SmoothedChunk:
        return SmoothedChunk(states, states.sd, paths)

    def start(last: GaussianPath, key: jax.Array) -> PyTree:
        (normal,) = normals(key, 1, last.mean)
        paths = last.mean[:, None] + jnp.einsum("icn,cdn->idn", last.factor, normal)
        return (last, paths), smoothed(*jax.tree.map(lambda leaf: leaf[None], (last, paths)))

    def step(later: PyTree, chunk: SmootherChunk, key: jax.Array) -> PyTree:
        ops = StateSpaceOps(layout, chunk.filtered.mean.shape[1] - layout.size)
        algebra = ops.algebra
        marginalise, draw = (algebra.for_all_particles(operation) for operation in (algebra.marginalise, algebra.draw))

        def back(later: PyTree, item: tuple[GaussianConditional, PyTree, PyTree]) -> tuple[PyTree, PyTree]:
            kernel, normal, valid = item
            state, paths = later
            earlier = GaussianPath(*marginalise(kernel, *state)), draw(kernel, paths, normal)
            earlier = jax.tree.map(lambda new, old: jnp.where(valid, new, old), earlier, later)
            return earlier, earlier

        kernels = backward_kernels(ops, free, kept, chunk, sample_spacing)
        items = kernels, normals(key, len(chunk.filtered.mean), chunk.filtered.mean), chunk.valid
        later, points = lax.scan(back, later, items, reverse=True)
        return later, smoothed(*points)

    return jax.jit(start), jax.jit(step)


def backward_kernels(
    ops: StateSpaceOps,
    free: tuple[int, ...],
    kept: tuple[int, ...],
    chunk: SmootherChunk,
    sample_spacing: int | None = None,
) -> GaussianConditional:
    """The conditional distribution of each filtered state given the next one."""
    departing = chunk.filtered if chunk.departing is None else chunk.departing
    if chunk.disturbed is None:
        kernels = ops.revert(departing, chunk.variance, chunk.units)
    else:
        kernels = ops.before_noise(departing, chunk.disturbed, chunk.units, free)
    if chunk.departing is None:
        return kernels
    part = slice(None, None, sample_spacing)
    filtered, after, ageing = jax.tree.map(lambda leaf: leaf[part], (chunk.filtered, kernels, chunk.ageing))
    before = ops.before_departure(filtered, after, kept, ageing)
    if chunk.departed is None:
        return jax.tree.map(lambda direct, through: direct.at[part].set(through), kernels, before)
    departed = chunk.departed

    def where_departed(through: Array, direct: Array) -> Array:
        return jnp.where(departed.reshape(-1, *[1] * (direct.ndim - 1)), through, direct)

    return jax.tree.map(where_departed, before, kernels)
