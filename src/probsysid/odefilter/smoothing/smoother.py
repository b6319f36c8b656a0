"""Looking back: smoothed states and sample paths.

The filter knows at each step only what came before.  The Rauch-Tung-Striebel recursion runs backwards and gives each
step what came after, by the conditional law of a state given the next one:

    x_k | x_(k+1)  ~  N(m_k + G (x_(k+1) - A m_k), B B'),     G = P_k A' (A P_k A' + Q)^(-1)

G and B come from one triangularisation of the stacked factor [[A L, sqrt(Q)], [L, 0]].  Smoothing pushes the Gaussian
through that law; sampling draws from it.  The laws of a stretch of points are found all at once.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float

from probsysid.model.particle import Particle
from probsysid.odefilter.arrays.sqrt_algebra import GaussianConditional
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.smoothing.backward_kernels import GaussianPath, Numbers, StateSpaceOps
from probsysid.odefilter.smoothing.chunking import ChunkBuffer, chunk_length, padded_slice
from probsysid.odefilter.smoothing.trajectory import ChunkStart, Trajectory, again, forward, step_times


class SmootherChunk(NamedTuple):
    """Points, and the steps that lead on from them."""

    filtered: GaussianPath
    departing: GaussianPath | None
    """Where the steps leave from after restarts; None without."""
    restarted: Bool[Numbers, " point"] | None
    """Where there is a restart; None where every so many points."""
    variance: Float[Numbers, "point coordinate particle"]
    """Squared diffusion of each step."""
    units: Float[Numbers, "point D"]
    """In which a step is like any other: `Layout.scales`."""
    there: Bool[Numbers, " point"]
    """Whether a point belongs to the record."""


class SmoothedChunk(NamedTuple):
    """Points looked back at."""

    states: GaussianPath
    sd: Float[Numbers, "point D particle"]
    paths: Float[Numbers, "point D draw particle"]


# A trajectory


def smooth(trajectory: Trajectory, layout: Layout) -> GaussianPath:
    """The state at every point given everything."""
    states = ChunkBuffer(len(trajectory.time))
    for first, seen in _along(trajectory, layout):
        states.put(first, seen.states)
    return states.arrays


def sample_paths(
    key: Any, trajectory: Trajectory, layout: Layout, draws: int
) -> Float[np.ndarray, "draw point D particle"]:
    """Joint draws of the whole path from the smoothing distribution."""
    paths = ChunkBuffer(len(trajectory.time))
    for first, seen in _along(trajectory, layout, key, draws):
        paths.put(first, seen.paths)
    return np.moveaxis(paths.arrays, 2, 0)


def _along(
    trajectory: Trajectory, layout: Layout, key: Any = None, draws: int = 0
) -> Iterator[tuple[int, SmoothedChunk]]:
    """Stretches from the end, with the index of their first point; the last of them may begin before the trajectory."""
    end = len(trajectory.time) - 1
    last = _row(trajectory.filtered, -1)
    length = chunk_length(layout.size, last.mean.shape[-1], draws)
    units = layout.scales(np.diff(trajectory.time))
    filtered, departing, restarted = trajectory.filtered, trajectory.departing, trajectory.restarted
    whole = SmootherChunk(filtered, departing, restarted, trajectory.variance[1:], units, np.ones(end, dtype=bool))
    back = BackwardSmoother(layout, last, jax.random.key(0) if key is None else key, draws)
    yield end, back.seen
    for first in range(end - length, -length, -length):
        yield first, back.over(padded_slice(whole, first, end, length))


# A record


class Smoothed(NamedTuple):
    """At the samples: the state given everything, a joint draw of its path, and one-step prediction errors."""

    mean: Float[np.ndarray, "sample D particle"]
    sd: Float[np.ndarray, "sample D particle"]
    path: Float[np.ndarray, "sample D particle"]
    innovation: Float[np.ndarray, "sample output particle"]
    innovation_variance: Float[np.ndarray, "sample output particle"]


def smooth_record(
    key: Any, ode_filter: ODEFilter, particles: Particle, samples: IntervalData, time: np.ndarray
) -> Smoothed:
    """Filter a record and look back, without keeping every step: on the way back each stretch is filtered again."""
    count, substeps = samples.grid.shape[:2]
    marks: list[tuple[ChunkStart, GaussianPath]] = []
    innovations, found = ChunkBuffer(count), ChunkBuffer(count)
    for mark, passed in forward(ode_filter, particles, samples):
        end = min(mark.samples * substeps, len(passed.variance)) - 1
        marks.append((mark, _row(passed.points, end)))
        innovations.put(mark.first, passed.innovation)
    units = ode_filter.layout.scales(np.diff(step_times(time, substeps)))
    back = BackwardSmoother(ode_filter.layout, marks[-1][1], key, 1, every=substeps)
    found.put(count - 1, _at_samples(back.seen, 1, substeps))
    for (_, before), (mark, _) in reversed(list(pairwise(marks))):
        first = (mark.first - 1) * substeps
        passed = again(mark, ode_filter, particles, samples)
        length = len(passed.variance)
        there = np.arange(first, first + length) < len(units)
        steps = padded_slice(units, first, len(units), length)
        filtered = _moved_on(before, passed.points)
        seen = back.over(SmootherChunk(filtered, passed.departing, None, passed.variance, steps, there))
        found.put(mark.first - 1, _at_samples(seen, mark.samples, substeps))
    mean, sd, path = found.arrays
    return Smoothed(mean, sd, path, innovations.arrays[:, :, 0], innovations.arrays[:, :, 1])


def _row(states: GaussianPath, place: int) -> GaussianPath:
    return GaussianPath(states.mean[place], states.factor[place])


@jax.jit
def _moved_on(before: GaussianPath, states: GaussianPath) -> GaussianPath:
    """The points that steps leave from: the one before, and all but the last."""
    return jax.tree.map(lambda one, many: jnp.concatenate([one[None], many[:-1]]), before, states)


def _at_samples(seen: SmoothedChunk, count: int, substeps: int) -> tuple[np.ndarray, ...]:
    """Mean, sd and path at so many samples."""
    arrays = seen.states.mean, seen.sd, seen.paths[:, :, 0]
    return tuple(np.asarray(leaf)[::substeps][:count] for leaf in arrays)


# Stretch by stretch


class BackwardSmoother:
    """What is known of the states from some point on, beginning with the last."""

    def __init__(self, layout: Layout, last: GaussianPath, key: Any, draws: int, every: int | None = None):
        """`every`: how many points there are from one restart to the next, from the first point of a stretch on; None
        where a stretch says it."""
        self._finish, self._go_back = _programs(layout, draws, every)
        self._key, self._number = key, 0
        self._later, self.seen = self._finish(last, self._next_key())

    def over(self, chunk: SmootherChunk) -> SmoothedChunk:
        """Look back over the stretch before."""
        self._later, self.seen = self._go_back(self._later, chunk, self._next_key())
        return self.seen

    def _next_key(self) -> Any:
        self._number += 1
        return jax.random.fold_in(self._key, self._number)


@lru_cache(maxsize=32)
def _programs(layout: Layout, draws: int, every: int | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """One for the last point, and one for a stretch of others."""
    points = StateSpaceOps(layout)
    push, draw = (
        points.algebra.side_by_side(operation) for operation in (points.algebra.marginalise, points.algebra.drawn)
    )

    def normals(key: Any, count: int, particles: int) -> Any:
        return jax.random.normal(key, (count, layout.size, draws, particles))

    def seen(states: GaussianPath, paths: Any) -> SmoothedChunk:
        return SmoothedChunk(states, states.sd, paths)

    def finish(last: GaussianPath, key: Any) -> Any:
        (normal,) = normals(key, 1, last.mean.shape[-1])
        paths = last.mean[:, None] + jnp.einsum("icn,cdn->idn", last.factor, normal)
        return (last, paths), seen(*jax.tree.map(lambda leaf: leaf[None], (last, paths)))

    def go_back(later: Any, chunk: SmootherChunk, key: Any) -> Any:
        def back(later: Any, item: tuple[GaussianConditional, Any, Any]) -> tuple[Any, Any]:
            law, normal, there = item
            state, paths = later
            earlier = GaussianPath(*push(law, *state)), draw(law, paths, normal)
            earlier = jax.tree.map(lambda new, old: jnp.where(there, new, old), earlier, later)
            return earlier, earlier

        count, _, particles = chunk.filtered.mean.shape
        items = _laws(points, chunk, every), normals(key, count, particles), chunk.there
        later, everything = lax.scan(back, later, items, reverse=True)
        return later, seen(*everything)

    return jax.jit(finish), jax.jit(go_back)


def _laws(points: StateSpaceOps, chunk: SmootherChunk, every: int | None) -> GaussianConditional:
    """Of each filtered state given the next one."""
    if chunk.departing is None:
        return points.revert(chunk.filtered, chunk.variance, chunk.units)
    laws = points.revert(chunk.departing, chunk.variance, chunk.units)
    part = slice(None, None, every)
    before = points.before_restart(*jax.tree.map(lambda leaf: leaf[part], (chunk.filtered, laws)))
    if chunk.restarted is None:
        return jax.tree.map(lambda law, through: law.at[part].set(through), laws, before)
    restarted = chunk.restarted

    def where_restarted(through: Any, direct: Any) -> Any:
        return jnp.where(restarted.reshape(-1, *[1] * (direct.ndim - 1)), through, direct)

    return jax.tree.map(where_restarted, before, laws)
