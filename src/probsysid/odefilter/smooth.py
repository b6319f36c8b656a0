"""Looking back: smoothed states and sample paths.

The filter knows at each step only what came before.  The Rauch-Tung-Striebel recursion runs backwards and gives each
step what came after, by the conditional law of a state given the next one:

    x_k | x_(k+1)  ~  N(m_k + G (x_(k+1) - A m_k), B B'),     G = P_k A' (A P_k A' + Q)^(-1)

G and B come from one triangularisation of the stacked factor [[A L, sqrt(Q)], [L, 0]].  Smoothing pushes the Gaussian
through that law; sampling draws from it.  The laws of a stretch of points are found all at once.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from probsysid.odefilter.arrays import Law
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.points import Gaussian, Points
from probsysid.odefilter.stretches import Written, piece, stretch
from probsysid.odefilter.trajectory import Trajectory, scales


class Seen(NamedTuple):
    """A stretch of points, looked back at."""

    first: int
    """Index of its first point; below zero where the stretch begins before the trajectory."""
    states: Gaussian
    sd: Float[Array, "point D particle"]
    paths: Float[Array, "point D draw particle"]


def smooth(trajectory: Trajectory, layout: Layout) -> Gaussian:
    """The state at every point given everything."""
    states = Written(len(trajectory.time))
    for seen in look_back(trajectory, layout):
        states.put(seen.first, seen.states)
    return states.arrays


def sample_paths(
    key: Any, trajectory: Trajectory, layout: Layout, draws: int
) -> Float[np.ndarray, "draw point D particle"]:
    """Joint draws of the whole path from the smoothing distribution."""
    paths = Written(len(trajectory.time))
    for seen in look_back(trajectory, layout, key, draws):
        paths.put(seen.first, seen.paths)
    return np.moveaxis(paths.arrays, 2, 0)


def look_back(trajectory: Trajectory, layout: Layout, key: Any = None, draws: int = 0) -> Iterator[Seen]:
    """Smoothed states and so many sample paths, stretch by stretch from the end."""
    end = len(trajectory.time) - 1
    last = jax.tree.map(lambda leaf: leaf[-1], trajectory.filtered)
    length = stretch(layout.size, last.mean.shape[-1], draws)
    finish, go_back = _programs(layout, length, draws)
    key = jax.random.key(0) if key is None else key
    later, seen = finish(last, jax.random.fold_in(key, 0))
    yield Seen(end, *seen)
    known = trajectory.filtered, trajectory.departing, trajectory.restarted
    steps = trajectory.variance[1:], scales(layout, np.diff(trajectory.time))
    for number, first in enumerate(range(end - length, -length, -length), start=1):
        later, seen = go_back(later, *piece((*known, *steps), first, end, length), jax.random.fold_in(key, number))
        yield Seen(first, *seen)


@lru_cache(maxsize=32)
def _programs(layout: Layout, length: int, draws: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """One for the last point, and one for a stretch of others."""
    points = Points(layout)
    push, draw = (points.algebra.side_by_side(operation) for operation in (points.algebra.pushed, points.algebra.drawn))

    def normals(key: Any, count: int, particles: int) -> Any:
        return jax.random.normal(key, (count, layout.size, draws, particles))

    def seen(states: Gaussian, paths: Any) -> Any:
        return states, jnp.sqrt(jnp.sum(states.factor**2, axis=2)), paths

    def finish(last: Gaussian, key: Any) -> Any:
        (normal,) = normals(key, 1, last.mean.shape[-1])
        paths = last.mean[:, None] + jnp.einsum("icn,cdn->idn", last.factor, normal)
        return (last, paths), seen(*jax.tree.map(lambda leaf: leaf[None], (last, paths)))

    def go_back(later: Any, *stretch_and_key: Any) -> Any:
        *stretch, key = stretch_and_key

        def back(later: Any, item: tuple[Law, Any]) -> tuple[Any, Any]:
            law, normal = item
            state, paths = later
            earlier = Gaussian(*push(law, *state)), draw(law, paths, normal)
            return earlier, earlier

        items = points.laws(*stretch), normals(key, length, later[0].mean.shape[-1])
        later, everything = lax.scan(back, later, items, reverse=True)
        return later, seen(*everything)

    return jax.jit(finish), jax.jit(go_back)
