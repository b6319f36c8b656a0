"""The initial state of a record from its first samples, for every particle: penalised least squares.

The unknowns are the initial state and, with process noise, the kicks of the force over each interval, all with standard
normal priors after scaling.  Levenberg-Marquardt finds the optimum from the best of several states; the initial state
is drawn from the Gaussian with the curvature there.  For linear models this is exact.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from probsysid._internal.array_types import Numbers, Scalar
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.model.noise import NoiseValues, OutputNoise
from probsysid.odefilter.filter import map_blocks
from probsysid.odefilter.filter_inputs import measured
from probsysid.odefilter.noise_likelihood import interval_ends, transformed
from probsysid.posterior.simulate import Forces, IntervalInputs, kicked, outputs_at, over_interval, simulate

ITERATIONS = 40
BLOCK = 64
MOST_STEPS = 16
FIRST_DAMPING = 1e-3


class InitialPrior(NamedTuple):
    """What is known of the initial state before the samples: a Gaussian, and states to set out from."""

    mean: Float[np.ndarray, " component"]
    sd: Float[np.ndarray, " component"]
    candidates: Float[np.ndarray, "component candidate"]


class Given(NamedTuple):
    """One particle, and random numbers for its draw."""

    parameters: Mapping[str, Scalar]
    noise: Sequence[OutputNoise]
    levels: dict[int, np.ndarray]
    """Process noise by the number of its coordinate."""
    normals: Numbers


class Measured(NamedTuple):
    """Outputs, NaN where missing, and for each value the one measured before it: its index, and the time since then,
    infinite for the first."""

    outputs: Numbers
    before: Numbers
    gap: Numbers


def estimate_states(
    model: Model,
    parameters: Mapping[str, Float[np.ndarray, "*_shape particle"]],
    noise: Mapping[str, OutputNoise],
    process_noise: Mapping[str, Float[np.ndarray, " particle"]],
    record: Record,
    prior: InitialPrior,
    seed: int,
) -> Float[np.ndarray, "component particle"]:
    """A draw of each particle's initial state given all samples of the record; parameters stay as they are."""
    count = next(iter(parameters.values())).shape[-1] if parameters else len(jax.tree.leaves(noise)[0])
    first = {name: np.repeat(value[..., :1], prior.candidates.shape[1], axis=-1) for name, value in parameters.items()}
    steps = min(simulate(model, first, prior.candidates, record)[1], MOST_STEPS)
    levels = {list(model.coordinates).index(name): np.asarray(level) for name, level in process_noise.items()}
    levels = dict(sorted(levels.items()))
    unknowns = len(prior.mean) + (record.samples - 1) * sum(model.orders[c] for c in levels)
    normals = np.random.default_rng([seed, 6]).standard_normal((unknowns, count))
    given = Given(dict(parameters), [noise[name] for name in model.output_names], levels, normals)
    program = _program(model, steps)
    scaled = (prior.candidates - prior.mean[:, None]) / prior.sd[:, None]
    inputs = IntervalInputs.of(model, record, steps)
    outputs = measured(record, model)
    data = Measured(outputs, *_previous(outputs, record.time))
    drawn = program(given, inputs, data, np.asarray(prior.mean), np.asarray(prior.sd), scaled)
    return np.asarray(drawn)


@lru_cache(maxsize=16)
def _program(model: Model, steps: int) -> Callable[..., PyTree]:
    """The compiled estimator of a model."""

    def one(
        given: Given, inputs: IntervalInputs, data: Measured, mean: Numbers, sd: Numbers, candidates: Numbers
    ) -> PyTree:
        size = len(mean)

        def residuals(unknown: Array) -> Array:
            simulated = _simulate(model, steps, given, mean + sd * unknown[:size], unknown[size:], inputs)
            pairs = zip(given.noise, zip(*(part.T for part in data), strict=True), simulated.T, strict=True)
            white = jnp.stack([_whitened(noise, Measured(*of_one), out) for noise, of_one, out in pairs], axis=1)
            return jnp.concatenate([jnp.where(jnp.isnan(data.outputs), 0.0, white).ravel(), unknown])

        def padded(candidate: Numbers) -> Array:
            return jnp.concatenate([candidate, jnp.zeros(len(given.normals) - size)])

        starts = jax.vmap(padded, in_axes=1)(candidates)
        costs = lax.map(lambda start: _cost(residuals(start)), starts)
        optimum = _levenberg_marquardt(residuals, starts[jnp.argmin(costs)])
        jacobian = jax.jacfwd(residuals)(optimum)
        factor = jnp.linalg.qr(jnp.where(jnp.isfinite(jacobian), jacobian, 0.0), mode="r")
        drawn = optimum + jax.scipy.linalg.solve_triangular(factor, given.normals)
        return mean + sd * drawn[:size]

    def run(given: Given, *rest: PyTree) -> PyTree:
        batched = jax.vmap(lambda particle: one(particle, *rest), in_axes=-1, out_axes=-1)
        return map_blocks(batched, given, BLOCK)

    return jax.jit(run)


def _simulate(model: Model, steps: int, given: Given, start: Numbers, normals: Array, inputs: IntervalInputs) -> Array:
    """Outputs at all samples, with one kick of each force at the end of every interval."""
    width = sum(model.orders[c] for c in given.levels)
    later = IntervalInputs(*(part[1:] for part in inputs))
    kicks = normals.reshape(len(later.now), width)

    def sample(state: Numbers, item: tuple[IntervalInputs, PyTree]) -> tuple[Array, Array]:
        inputs, kick = item
        state = over_interval(model, steps, state, given.parameters, inputs, Forces(None, {}), 0)
        parts, offset = {}, 0
        for c in given.levels:
            parts[c] = kick[offset : offset + model.orders[c]]
            offset += model.orders[c]
        if parts:
            state = state + kicked(model, given.levels, parts, steps * inputs.length)
        return state, outputs_at(model, state, inputs.now, given.parameters)

    _, rest = lax.scan(sample, start, (later, kicks))
    return jnp.concatenate([outputs_at(model, start, inputs.now[0], given.parameters)[None], rest])


def _previous(outputs: Float[np.ndarray, "sample output"], time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index of the value measured before each, and the time since then."""
    rows = np.arange(len(outputs))[:, None]
    latest = np.maximum.accumulate(np.where(np.isnan(outputs), -1, rows), axis=0)
    before = np.concatenate([np.full((1, outputs.shape[1]), -1), latest[:-1]])
    gap = np.where(before < 0, np.inf, np.asarray(time)[:, None] - np.asarray(time)[before])
    return np.maximum(before, 0), gap


def _whitened(noise: OutputNoise, data: Measured, simulated: Array) -> Numbers:
    """Errors whose squares, summed, are twice the energy but for a constant.  A clipped or quantised value counts by
    its distance from the interval that it stands for."""
    if not isinstance(noise, NoiseValues):
        return (data.outputs - simulated) / noise
    (predicted,) = transformed([noise], [simulated], [data.outputs])
    low, high = interval_ends(noise.form, data.outputs)
    errors = jnp.clip(predicted, low, high) - predicted
    if noise.time is not None:
        memory = jnp.exp(-data.gap / noise.time)
        earlier = jnp.where(jnp.isnan(errors), 0.0, errors)[data.before]
        return (errors - memory * earlier) / (noise.level * jnp.sqrt(1 - memory**2))
    white = errors / noise.level
    if noise.degrees is None:
        return white
    square = jnp.maximum(white**2, 1e-300)
    return white * jnp.sqrt((noise.degrees + 1) * jnp.log1p(square / noise.degrees) / square)


def _cost(residuals: Array) -> Array:
    cost = jnp.sum(residuals**2)
    return jnp.where(jnp.isfinite(cost), cost, jnp.inf)


def _levenberg_marquardt(residuals: Callable[[Array], Array], start: Array) -> Array:
    """The optimum of a sum of squares, by damped Gauss-Newton steps that are kept where they help."""

    def iterate(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        unknown, cost, damping = carry
        values, jacobian = residuals(unknown), jax.jacfwd(residuals)(unknown)
        normal = jacobian.T @ jacobian
        damped = normal + damping * jnp.diag(jnp.diag(normal))
        trial = unknown - jax.scipy.linalg.solve(damped, jacobian.T @ values, assume_a="pos")
        better = _cost(residuals(trial))
        kept = better < cost
        unknown = jnp.where(kept, trial, unknown)
        return (unknown, jnp.where(kept, better, cost), jnp.where(kept, 0.2 * damping, 5.0 * damping)), None

    first = start, _cost(residuals(start)), jnp.asarray(FIRST_DAMPING)
    (unknown, _, _), _ = lax.scan(iterate, first, None, length=ITERATIONS)
    return unknown
