"""Looking back: smoothed states, states between the steps, and sample paths.

The filter knows at each step only what came before.  The Rauch-Tung-Striebel recursion runs backwards and gives each
step what came after, by the conditional law of a state given the next one:

    x_k | x_(k+1)  ~  N(m_k + G (x_(k+1) - A m_k), B B'),     G = P_k A' (A P_k A' + Q)^(-1)

G and B come from one triangularisation of the stacked factor [[A L, sqrt(Q)], [L, 0]].  Smoothing pushes the Gaussian
through that law; sampling draws from it.  Quantities are in physical units here: triangularisation commutes with a
scaling of the rows, so nothing is lost.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from probsysid.odefilter.lapack import PANEL_ENTRIES, triangularise
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.step import Particle, Sample, State, System


class Gaussian(NamedTuple):
    """Mean and factor of all components, at every point and for every particle."""

    mean: Float[Array, "point D particle"]
    factor: Float[Array, "point D D particle"]

    @property
    def sd(self) -> Float[Array, "point D particle"]:
        return jnp.sqrt(jnp.sum(self.factor**2, axis=2))


class Trajectory(NamedTuple):
    """All that the filter went through.  Where inputs jump, states are those just before."""

    time: Float[np.ndarray, " point"]
    filtered: Gaussian
    departing: Gaussian | None
    """The same after a restart, where one follows; None without restarts."""
    restarted: Bool[np.ndarray, " point"]
    """Where a restart follows: at samples, not at the steps and points between them."""
    variance: Float[Array, "point coordinate particle"]
    """Squared diffusion of the step that leads to the point."""
    energy: Float[Array, "sample particle"]
    innovation: Float[Array, "sample output particle"]
    innovation_variance: Float[Array, "sample output particle"]


class Conditional(NamedTuple):
    """The law of a state given the next one: mean = offset + gain @ next, factor = factor."""

    gain: Any
    offset: Any
    factor: Any


# Forward


def trace(system: System, particles: Particle, samples: Sample, time: np.ndarray) -> Trajectory:
    """Run the filter and keep every step."""
    substeps = samples.grid.shape[1]
    filtered, departing, variance, energy, innovation = _tracer(system, substeps)(particles, samples)
    points = _points(time, substeps)
    restarted = system.restarts & (np.arange(len(points)) % substeps == 0)
    return Trajectory(
        points, filtered, departing, restarted, variance, energy, innovation[:, :, 0], innovation[:, :, 1]
    )


def _points(time: np.ndarray, substeps: int) -> np.ndarray:
    """Times of all steps."""
    fractions = np.arange(1, substeps + 1) / substeps
    inner = time[:-1, None] + np.diff(time)[:, None] * fractions
    inner[:, -1] = time[1:]
    return np.concatenate([time[:1], inner.ravel()])


@lru_cache(maxsize=32)
def _tracer(system: System, substeps: int) -> Callable[[Particle, Sample], Any]:
    """Compiled once for a system; not by `compiled_whole`, whose fusions copy all that was kept so far at every step."""
    return jax.jit(jax.vmap(_trace_one(system, substeps), in_axes=(-1, None), out_axes=-1))


def _trace_one(system: System, substeps: int) -> Callable[[Particle, Sample], Any]:
    def observed(state: State, particle: Particle, sample: Sample) -> tuple[State, Any, Any]:
        state, energy, innovations = system.observe(state, particle, sample)
        return state, energy, jnp.stack([jnp.stack([i.value, i.variance]) for i in innovations])

    def run(particle: Particle, samples: Sample) -> Any:
        first = jax.tree.map(lambda leaf: leaf[0], samples)
        rest = jax.tree.map(lambda leaf: leaf[1:], samples)
        start = system.start(particle, first)
        state, energy, innovation = observed(start, particle, first)
        moments = _moments(system, state, first)

        def step(state: State, sample: Sample) -> tuple[State, Any]:
            if sample.rescale is not None:
                state = system.rescale(state, sample.rescale)
            if system.restarts:
                state = system.restart(state, particle, sample)

            def advance(state: State, item: tuple[Any, Any]) -> tuple[State, tuple[Any, Any, Any]]:
                arrived = system.advance(state, particle, sample, *item)
                kept = _moments(system, arrived, sample), _moments(system, state, sample), jnp.stack(arrived.variance)
                return arrived, kept

            scan = _unrolled_scan if system.unrolled else lax.scan
            arrived, (points, departures, variances) = scan(advance, state, (sample.grid, sample.unit))
            state, energy, innovation = observed(arrived, particle, sample)
            last = _moments(system, system.before_jump(state, arrived), sample)
            points = jax.tree.map(lambda many, end: jnp.concatenate([many[:-1], end[None]]), points, last)
            return system.fill(state, full), (points, departures, variances, energy, innovation)

        full = [[True] * len(system.free)] * len(system.free)
        _, (points, departures, variances, energies, innovations) = lax.scan(step, system.fill(state, full), rest)

        def join(head: Any, tail: Any) -> Any:
            return jnp.concatenate([head[None], tail.reshape(-1, *tail.shape[2:])])

        def leave(many: Any, filtered: Any) -> Any:
            return jnp.concatenate([many.reshape(-1, *many.shape[2:]), filtered[-1:]])

        filtered = jax.tree.map(join, moments, points)
        departing = jax.tree.map(leave, departures, filtered) if system.restarts else None
        variance = join(jnp.stack(state.variance), variances)
        energies = jnp.concatenate([jnp.asarray(energy)[None], energies])
        return filtered, departing, variance, energies, jnp.concatenate([innovation[None], innovations])

    return run


def _moments(system: System, state: State, sample: Sample) -> Gaussian:
    """Of all components, in physical units."""
    return Gaussian(*system.moments(state, sample))


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
        transitions, noises = zip(*(_prior(layout, new[i] - known[b]) for i, b in enumerate(base)), strict=True)
        departing = trajectory.filtered if trajectory.departing is None else trajectory.departing
        leaving = jax.tree.map(lambda leaf: leaf[base], departing)
        predicted = _predict_all(layout, leaving, variance, jnp.asarray(transitions), jnp.asarray(noises))
        order = np.argsort(np.concatenate([known, new]), kind="stable")

        def merge(old: Any, added: Any) -> Any:
            return jnp.concatenate([old, added])[order]

        restarting = trajectory.departing
        trajectory = trajectory._replace(
            time=np.concatenate([known, new])[order],
            filtered=jax.tree.map(merge, trajectory.filtered, predicted),
            departing=None if restarting is None else jax.tree.map(merge, restarting, predicted),
            restarted=np.concatenate([trajectory.restarted, np.zeros(len(new), dtype=bool)])[order],
            variance=merge(trajectory.variance, variance),
        )
    return trajectory, np.searchsorted(trajectory.time, times)


def _prior(layout: Layout, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Transition and factor of its noise for unit diffusion, in physical units."""
    scales = layout.scales(step)
    return layout.transition * scales[:, None] / scales, layout.process_factor * scales[:, None]


@jax.jit
def _predict_all_jit(filtered: Gaussian, sigma: Any, transitions: Any, noises: Any) -> Gaussian:
    def predict(state: Gaussian, sigma: Any, a: Any, noise: Any) -> Gaussian:
        return Gaussian(a @ state.mean, _lower(jnp.concatenate([a @ state.factor, sigma[:, None] * noise], axis=1)))

    over_points = jax.vmap(predict)
    return jax.vmap(over_points, in_axes=(-1, -1, None, None), out_axes=-1)(filtered, sigma, transitions, noises)


def _predict_all(layout: Layout, filtered: Gaussian, variance: Any, transitions: Any, noises: Any) -> Gaussian:
    sigma = jnp.sqrt(variance)[:, np.array(layout.coordinate)]
    return _predict_all_jit(filtered, sigma, transitions, noises)


# Backward


def conditionals(trajectory: Trajectory, layout: Layout) -> Conditional:
    """The law of each point given the next one; one fewer than there are points, the particle axis last."""
    steps = np.diff(trajectory.time)
    lengths, which = np.unique(steps, return_inverse=True)
    priors = [_prior(layout, length) for length in lengths]
    transitions = jnp.asarray(np.stack([a for a, _ in priors]))
    noises = jnp.asarray(np.stack([noise for _, noise in priors]))
    sigma = jnp.sqrt(trajectory.variance[1:])[:, np.array(layout.coordinate)]
    filtered = jax.tree.map(lambda leaf: leaf[:-1], trajectory.filtered)
    if trajectory.departing is None:
        return _step_laws(filtered, sigma, which, transitions, noises)
    departing = jax.tree.map(lambda leaf: leaf[:-1], trajectory.departing)
    backward = _step_laws(departing, sigma, which, transitions, noises)
    restart = _restart_laws(filtered, jnp.asarray(np.eye(layout.size)[np.array(layout.physical)]))
    restarted = trajectory.restarted[:-1]

    def where_restarted(through: Any, direct: Any) -> Any:
        return jnp.where(restarted.reshape(-1, *[1] * (direct.ndim - 1)), through, direct)

    return jax.tree.map(where_restarted, _compose(restart, backward), backward)


@jax.jit
def _step_laws(now: Gaussian, sigma: Any, which: Any, transitions: Any, noises: Any) -> Conditional:
    def law(state: Gaussian, sigma: Any, which: Any) -> Conditional:
        a, noise = transitions[which], noises[which]
        forward = jnp.concatenate([a @ state.factor, sigma[:, None] * noise], axis=1)
        stay = jnp.concatenate([state.factor, jnp.zeros_like(noise)], axis=1)
        return _given(forward, stay, a @ state.mean, state.mean)

    over_points = _over_points(law, now)
    return jax.vmap(over_points, in_axes=(-1, -1, None), out_axes=-1)(now, sigma, which)


def _over_points(function: Callable[..., Any], states: Gaussian) -> Callable[..., Any]:
    """Map over points: all at once, or, where the matrices of one fill the cache, one after the other."""
    if states.factor.shape[1] * states.factor.shape[2] <= PANEL_ENTRIES // 4:
        return jax.vmap(function)
    return lambda *arguments: lax.map(lambda item: function(*item), arguments)


@jax.jit
def _restart_laws(filtered: Gaussian, physical: Any) -> Conditional:
    """The state before a restart given the one after: they share the physical components and nothing else."""

    def law(state: Gaussian) -> Conditional:
        result = _given(physical @ state.factor, state.factor, physical @ state.mean, state.mean)
        return result._replace(gain=result.gain @ physical)

    return jax.vmap(_over_points(law, filtered), in_axes=-1, out_axes=-1)(filtered)


@jax.jit
def _compose(first: Conditional, second: Conditional) -> Conditional:
    """x given y, and y given z: the law of x given z."""

    def compose(x: Conditional, y: Conditional) -> Conditional:
        factor = _lower(jnp.concatenate([x.gain @ y.factor, x.factor], axis=1))
        return Conditional(x.gain @ y.gain, x.offset + x.gain @ y.offset, factor)

    over_points = _over_points(compose, Gaussian(first.offset, first.factor))
    return jax.vmap(over_points, in_axes=-1, out_axes=-1)(first, second)


def _given(seen: Any, sought: Any, seen_mean: Any, sought_mean: Any) -> Conditional:
    """The law of one Gaussian quantity given another, both as factors over the same columns."""
    count = seen.shape[0]
    lower = _lower(jnp.concatenate([seen, sought]))
    gain = _solve_right(lower[count:, :count], lower[:count, :count])
    rest = lower[count:, count:]
    square = jnp.zeros((sought.shape[0], sought.shape[0])).at[:, : rest.shape[1]].set(rest)
    return Conditional(gain, sought_mean - gain @ seen_mean, square)


def _lower(rows: Any) -> Any:
    """Lower triangular factor with at most as many columns as rows, padded with zeros to a square."""
    missing = rows.shape[0] - rows.shape[1]
    if missing <= 0 and rows.size > PANEL_ENTRIES:
        return triangularise(rows)
    lower = jnp.linalg.qr(rows.T, mode="r").T
    return jnp.pad(lower, ((0, 0), (0, missing))) if missing > 0 else lower


def _solve_right(numerator: Any, lower: Any) -> Any:
    """numerator @ inverse(lower); a quantity without variance gets no gain."""
    known = jnp.diag(lower) == 0
    safe = lower + jnp.diag(jnp.where(known, 1.0, 0.0))
    solved = jax.scipy.linalg.solve_triangular(safe, numerator.T, trans=1, lower=True).T
    return jnp.where(known[None, :], 0.0, solved)


def smooth(trajectory: Trajectory, layout: Layout, laws: Conditional | None = None) -> Gaussian:
    """The state at every point given everything; `laws` are the trajectory's conditionals, if they are known."""
    laws = conditionals(trajectory, layout) if laws is None else laws
    last = jax.tree.map(lambda leaf: leaf[-1], trajectory.filtered)
    return _smooth(laws, last)


@jax.jit
def _smooth(laws: Conditional, last: Gaussian) -> Gaussian:
    def one(laws: Conditional, last: Gaussian) -> Gaussian:
        def back(later: Gaussian, law: Conditional) -> tuple[Gaussian, Gaussian]:
            mean = law.offset + law.gain @ later.mean
            factor = _lower(jnp.concatenate([law.gain @ later.factor, law.factor], axis=1))
            earlier = Gaussian(mean, factor)
            return earlier, earlier

        last = last._replace(factor=_lower(last.factor))
        _, states = lax.scan(back, last, laws, reverse=True)
        return jax.tree.map(lambda many, end: jnp.concatenate([many, end[None]]), states, last)

    return jax.vmap(one, in_axes=-1, out_axes=-1)(laws, last)


def sample_paths(
    key: Any, trajectory: Trajectory, layout: Layout, draws: int, laws: Conditional | None = None
) -> Float[Array, "draw point D particle"]:
    """Joint draws of the whole path from the smoothing distribution."""
    laws = conditionals(trajectory, layout) if laws is None else laws
    last = jax.tree.map(lambda leaf: leaf[-1], trajectory.filtered)
    points, size, particles = trajectory.filtered.mean.shape
    normals = jax.random.normal(key, (draws, points, size, particles))
    return _sample(laws, last, normals)


@jax.jit
def _sample(laws: Conditional, last: Gaussian, normals: Any) -> Any:
    def one(laws: Conditional, last: Gaussian, normals: Any) -> Any:
        def back(later: Any, item: tuple[Conditional, Any]) -> tuple[Any, Any]:
            law, normal = item
            earlier = law.offset + law.gain @ later + law.factor @ normal
            return earlier, earlier

        end = last.mean + last.factor @ normals[-1]
        _, states = lax.scan(back, end, (laws, normals[:-1]), reverse=True)
        return jnp.concatenate([states, end[None]])

    per_draw = jax.vmap(one, in_axes=(None, None, 0))
    return jax.vmap(per_draw, in_axes=-1, out_axes=-1)(laws, last, normals)
