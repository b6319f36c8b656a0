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

from probsysid.odefilter.layout import Layout
from probsysid.odefilter.smoothing.backward_kernels import Gaussian, Points
from probsysid.odefilter.smoothing.chunking import Written, piece, stretch_length
from probsysid.odefilter.unrolled.step import Particle, Sample, State, System


class Trajectory(NamedTuple):
    """All that the filter went through.  Where inputs jump, states are those just before."""

    time: Float[np.ndarray, " point"]
    filtered: Gaussian
    departing: Gaussian | None
    """The same after a restart, where one follows; None without restarts."""
    restarted: Bool[np.ndarray, " point"]
    """Where a restart follows: at samples, not at the steps and points between them."""
    variance: Float[np.ndarray, "point coordinate particle"]
    """Squared diffusion of the step that leads to the point."""
    energy: Float[np.ndarray, "sample particle"]
    innovation: Float[np.ndarray, "sample output particle"]
    innovation_variance: Float[np.ndarray, "sample output particle"]


# Forward


class Mark(NamedTuple):
    """Where a stretch of samples begins; the first sample is one alone."""

    first: int
    """Index of its first sample."""
    samples: int
    """How many samples it has."""
    before: Any
    """The filter's state before it; None before the first sample."""


class Passed(NamedTuple):
    """A stretch that the filter has gone over.  Rows beyond its samples are to be left out."""

    points: Gaussian
    variance: Any
    departing: Gaussian | None
    """Where its steps leave from, if there are restarts."""
    energy: Any
    innovation: Any


def forward(system: System, particles: Particle, samples: Sample) -> Iterator[tuple[Mark, Passed]]:
    """Run the filter over all samples."""
    count, substeps = samples.grid.shape[:2]
    begin, go_on = _tracer(system)
    state, kept = begin(particles, piece(samples, 0, count, 1))
    yield Mark(0, 1, None), Passed(*kept)
    length = samples_at_once(system, particles, substeps)
    for first in range(1, count, length):
        before = state
        state, kept = go_on(before, particles, piece(samples, first, count, length))
        yield Mark(first, min(length, count - first), before), Passed(*kept)


def again(mark: Mark, system: System, particles: Particle, samples: Sample) -> Passed:
    """Go over a stretch once more, which is not the first."""
    count, substeps = samples.grid.shape[:2]
    _, go_on = _tracer(system)
    length = samples_at_once(system, particles, substeps)
    return Passed(*go_on(mark.before, particles, piece(samples, mark.first, count, length))[1])


def samples_at_once(system: System, particles: Particle, substeps: int) -> int:
    """Samples of a stretch."""
    return max(1, stretch_length(system.layout.size, jax.tree.leaves(particles)[0].shape[-1]) // substeps)


def trace(system: System, particles: Particle, samples: Sample, time: np.ndarray) -> Trajectory:
    """Run the filter and keep every step."""
    count, substeps = samples.grid.shape[:2]
    points = (count - 1) * substeps + 1
    steps, departures, seen = Written(points), Written(points), Written(count)
    for mark, passed in forward(system, particles, samples):
        place = max((mark.first - 1) * substeps + 1, 0)
        steps.put(place, (passed.points, passed.variance))
        seen.put(mark.first, (passed.energy, passed.innovation))
        if passed.departing is not None:
            departures.put(place - 1, passed.departing)
    filtered, variance = steps.arrays
    energy, innovation = seen.arrays
    if system.restarts:
        departures.put(points - 1, jax.tree.map(lambda leaf: leaf[-1:], filtered))
    restarted = system.restarts & (np.arange(points) % substeps == 0)
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
def _tracer(system: System) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Programs that begin and go on.  Not by `compiled_whole`: its fusions of several outputs would copy all that was
    kept of a stretch at every step."""
    begin = jax.vmap(_begin(system), in_axes=(-1, None), out_axes=-1)
    go_on = jax.vmap(_go_on(system), in_axes=(-1, -1, None), out_axes=-1)
    return jax.jit(begin), jax.jit(go_on)


def _begin(system: System) -> Callable[[Particle, Sample], Any]:
    def begin(particle: Particle, samples: Sample) -> Any:
        sample = jax.tree.map(lambda leaf: leaf[0], samples)
        state, *found = _observed(system, system.start(particle, sample), particle, sample)
        kept = Gaussian(*system.moments(state, sample)), jnp.stack(state.variance), None, *found
        return _carried(system, state), jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], kept)

    return begin


def _go_on(system: System) -> Callable[[State, Particle, Sample], Any]:
    def go_on(state: State, particle: Particle, samples: Sample) -> Any:
        def interval(state: State, sample: Sample) -> tuple[State, Any]:
            if sample.rescale is not None:
                state = system.rescale(state, sample.rescale)
            if system.restarts:
                state = system.restart(state, particle, sample)

            def advance(state: State, item: tuple[Any, Any]) -> tuple[State, Any]:
                arrived = system.advance(state, particle, sample, *item)
                moments = [Gaussian(*system.moments(s, sample)) for s in (arrived, state)]
                return arrived, (*moments, jnp.stack(arrived.variance))

            scan = _unrolled_scan if system.unrolled else lax.scan
            arrived, (points, departed, variances) = scan(advance, state, (sample.grid, sample.unit))
            state, *found = _observed(system, arrived, particle, sample)
            last = Gaussian(*system.moments(system.before_jump(state, arrived), sample))
            points = jax.tree.map(lambda many, end: jnp.concatenate([many[:-1], end[None]]), points, last)
            return _carried(system, state), ((points, variances, departed if system.restarts else None), found)

        state, (steps, found) = lax.scan(interval, state, samples)
        return state, (*jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), steps), *found)

    return go_on


def _observed(system: System, state: State, particle: Particle, sample: Sample) -> tuple[State, Any, Any]:
    """The state given a sample, the energy, and each output's innovation with its variance."""
    state, energy, innovations = system.observe(state, particle, sample)
    return state, energy, jnp.stack([jnp.stack([i.value, i.variance]) for i in innovations])


def _carried(system: System, state: State) -> State:
    """In the form that a loop carries: no entry is zero by structure."""
    return system.fill(state, [[True] * len(system.free)] * len(system.free))


def _unrolled_scan(step: Callable[[Any, Any], tuple[Any, Any]], carry: Any, items: Any) -> tuple[Any, Any]:
    """`lax.scan` written out: the state's structural zeros may change from step to step."""
    kept = []
    for j in range(len(jax.tree.leaves(items)[0])):
        carry, result = step(carry, jax.tree.map(lambda leaf: leaf[j], items))  # noqa: B023
        kept.append(result)
    return carry, jax.tree.map(lambda *leaves: jnp.stack(leaves), *kept)


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


def _predicted(layout: Layout, leaving: Gaussian, variance: np.ndarray, units: np.ndarray) -> Gaussian:
    """States after some steps, from those before and the squared diffusion; units are the components' for each."""
    count, _, particles = leaving.mean.shape
    length = stretch_length(layout.size, particles)
    result = Written(count)
    for first in range(0, count, length):
        result.put(first, _predictor(layout)(*piece((leaving, variance, units), first, count, length)))
    return result.arrays


@lru_cache(maxsize=32)
def _predictor(layout: Layout) -> Callable[[Gaussian, Any, Any], Gaussian]:
    return jax.jit(Points(layout).predicted)
