"""The log density of all models of a menu, with its gradient and information, by Runge-Kutta steps that count as exact.

Errors e of a free run are independent Gaussian with the noise levels sigma, so that with sensitivities J of the outputs
the gradient is J' e / sigma^2 and the expected information J' J / sigma^2; a noise level adds 2 n (d log sigma)^2.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from probsysid._internal.array_types import Numbers
from probsysid.data.record import Record
from probsysid.model.parameter_space import ParameterSpace
from probsysid.model.problem import Problem
from probsysid.posterior.simulate import Forces, IntervalInputs, outputs_at, over_interval
from probsysid.selection.extension import SWITCHES

BLOCK, ALONE = 16, 64
"""Points that are evaluated at once, with derivatives and without."""

WIDTH = 8
"""Numbers of coordinates are rounded up to multiples of this, so that few programs are compiled."""


class Lanes(NamedTuple):
    """Points at which models are evaluated, one for each row; in compiled functions a single one."""

    theta: Float[Numbers, "*lane coordinate"]
    switches: Float[Numbers, "*lane term"]
    sites: Float[Numbers, "*lane prior"]
    """Which priors the model has."""

    def part(self, which: np.ndarray) -> "Lanes":
        return Lanes(*(each[which] for each in self))


class Normal(NamedTuple):
    """Log density, gradient and information of points; those of coordinates beyond a point's own are 0 and 1."""

    value: np.ndarray
    gradient: np.ndarray
    information: np.ndarray


Data = tuple[IntervalInputs, Numbers]
"""Inputs, and what was measured (NaN where nothing was), record by record, each as long as the longest."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """Evaluation of a switchable problem on records, with so many Runge-Kutta steps per sample.

    The numbers of the priors are arguments of the compiled functions, so that searches with other data share them.
    """

    problem: Problem
    data: Data
    steps: int

    @classmethod
    def of(cls, problem: Problem, records: Sequence[Record], steps: int) -> "Statistics":
        """With the measured outputs of records."""
        model = problem.model
        data = []
        for record in records:
            nothing = np.full(record.samples, np.nan)
            measured = [np.asarray(record.outputs.get(name, nothing), float) for name in model.output_names]
            inputs = IntervalInputs.of(model, record, steps)
            data.append((IntervalInputs(*(np.asarray(part) for part in inputs)), np.stack(measured, axis=1)))
        longest = max(record.samples for record in records)
        together = zip(*(inputs for inputs, _ in data), strict=True)
        inputs = IntervalInputs(*(np.stack([_held(part, longest) for part in parts]) for parts in together))
        measured = [np.pad(m, ((0, longest - len(m)), (0, 0)), constant_values=np.nan) for _, m in data]
        return cls(problem, (inputs, np.stack(measured)), steps)

    def values(self, lanes: Lanes) -> Float[np.ndarray, " lane"]:
        """Log densities."""
        program = self.problem.space.program(_values, self.problem, self.steps)
        blocks = _at_once(lambda part, _: (program(part, self.data),), _blocks(lanes, ALONE))
        return np.concatenate([block for (block,) in blocks])[: len(lanes.theta)]

    def statistics(self, lanes: Lanes, free: Sequence[np.ndarray]) -> Normal:
        """With derivatives to the free coordinates of each point, in their order."""
        width = -(-max(len(each) for each in free) // WIDTH) * WIDTH
        directions, live = np.zeros((len(free), width), int), np.zeros((len(free), width))
        for row, each in enumerate(free):
            directions[row, : len(each)], live[row, : len(each)] = each, 1.0
        program = self.problem.space.program(_normals, self.problem, self.steps)
        blocks = _at_once(
            lambda part, rows: program(part, directions[rows], live[rows], self.data), _blocks(lanes, BLOCK)
        )
        count = len(lanes.theta)
        return Normal(*(np.concatenate(parts)[:count] for parts in zip(*blocks, strict=True)))


def _held(values: np.ndarray, length: int) -> np.ndarray:
    """As long as that, with the last value repeated."""
    return values[np.minimum(np.arange(length), len(values) - 1)]


def _values(problem: Problem, steps: int, space: ParameterSpace, lanes: Lanes, data: Data) -> Array:
    return jax.vmap(partial(_value, problem, steps, space, data=data))(lanes)


def _normals(
    problem: Problem, steps: int, space: ParameterSpace, lanes: Lanes, directions: Array, live: Array, data: Data
) -> tuple[Array, Array, Array]:
    return jax.vmap(partial(_normal, problem, steps, space, data=data))(lanes, directions, live)


# For one point


def _runs(
    problem: Problem, steps: int, space: ParameterSpace, switches: Numbers, data: Data, theta: Numbers
) -> tuple[Float[Array, "record sample output"], Float[Array, "record output"]]:
    """Outputs and noise levels of all records, which have the parameters in common."""
    values = space.values_of_one(theta)
    particles = [problem.particle(values, r) for r in range(len(data[1]))]
    parameters = {**particles[0].parameters, SWITCHES: switches}
    starts = jnp.stack([_stacked(particle.initial_mean) for particle in particles])
    levels = jnp.stack([_stacked(particle.noise) for particle in particles])
    run = jax.vmap(lambda start, inputs: _free_run(problem, steps, start, parameters, inputs))(starts, data[0])
    return run, levels


def _stacked(numbers: Sequence[Any]) -> Array:
    return jnp.stack([jnp.asarray(number, float) for number in numbers])


def _log_prior(space: ParameterSpace, sites: Numbers, theta: Numbers) -> Array:
    return sum((sites[i] * site.log_density(theta) for i, site in enumerate(space.sites)), start=jnp.zeros(()))


def _value(problem: Problem, steps: int, space: ParameterSpace, lane: Lanes, data: Data) -> Array:
    run, levels = _runs(problem, steps, space, lane.switches, data, lane.theta)
    return _log_prior(space, lane.sites, lane.theta) + _log_likelihood(run, levels, data[1])


def _normal(
    problem: Problem, steps: int, space: ParameterSpace, lane: Lanes, directions: Array, live: Array, data: Data
) -> tuple[Array, Array, Array]:
    basis = jax.nn.one_hot(directions, len(lane.theta)) * live[:, None]
    simulated = partial(_runs, problem, steps, space, lane.switches, data)

    def along(direction: Array) -> tuple[Any, Any]:
        return jax.jvp(simulated, (lane.theta,), (direction,))

    (run, levels), (slope, change) = jax.vmap(along, out_axes=(None, 0))(basis)
    prior = partial(_log_prior, space, lane.sites)
    measured = data[1]
    known = jnp.isfinite(measured)
    errors = jnp.where(known, measured - run, 0.0) / levels[:, None]
    slope, change = jnp.where(known, slope, 0.0) / levels[:, None], change / levels
    count = known.sum(axis=1)
    value = prior(lane.theta) + _log_likelihood(run, levels, measured)
    gradient = basis @ jax.grad(prior)(lane.theta) + jnp.einsum("krto,rto->k", slope, errors)
    gradient += jnp.einsum("kro,ro->k", change, jnp.sum(errors**2, axis=1) - count)
    information = -basis @ jax.hessian(prior)(lane.theta) @ basis.T + jnp.diag(1 - live)
    information += jnp.einsum("krto,lrto->kl", slope, slope) + 2 * jnp.einsum("kro,lro,ro->kl", change, change, count)
    return value, gradient, information


def _log_likelihood(
    run: Float[Array, "record sample output"],
    levels: Float[Array, "record output"],
    measured: Float[Numbers, "record sample output"],
) -> Array:
    known = jnp.isfinite(measured)
    errors = jnp.where(known, measured - run, 0.0) / levels[:, None]
    constant = jnp.where(known, jnp.log(levels[:, None]) + 0.5 * jnp.log(2 * jnp.pi), 0.0)
    return -jnp.sum(0.5 * errors**2 + constant)


def _free_run(problem: Problem, steps: int, start: Array, parameters: Any, inputs: IntervalInputs) -> Array:
    model = problem.model

    def sample(state: Array, here: IntervalInputs) -> tuple[Array, Array]:
        state = over_interval(model, steps, state, parameters, here, Forces(None, {}), 0)
        return state, outputs_at(model, state, here.now, parameters)

    later = IntervalInputs(*(part[1:] for part in inputs))
    _, rest = lax.scan(sample, start, later)
    return jnp.concatenate([outputs_at(model, start, inputs.now[0], parameters)[None], rest])


def _at_once(
    evaluate: Callable[[Lanes, np.ndarray], tuple[Array, ...]], blocks: Sequence[tuple[Lanes, np.ndarray]]
) -> list[list[np.ndarray]]:
    """The results for all blocks, on all cores: a program of one block occupies one."""
    with ThreadPoolExecutor(jax.local_device_count()) as pool:
        return list(pool.map(lambda block: [np.asarray(part) for part in evaluate(*block)], blocks))


def _blocks(lanes: Lanes, size: int) -> list[tuple[Lanes, np.ndarray]]:
    """Of equal size; the last one is filled up with the last point."""
    count = len(lanes.theta)
    chosen = [np.minimum(np.arange(first, first + size), count - 1) for first in range(0, count, size)]
    return [(lanes.part(rows), rows) for rows in chosen]
