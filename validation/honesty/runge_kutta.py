"""The usual likelihood: Runge-Kutta steps that are treated as exact, and Gaussian noise.

It is a `Target` of the same sampler.  One compiled program serves all data sets and all numbers of steps.
"""

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import probsysid as ps
from probsysid._internal.jax_setup import jit_fused
from probsysid.odefilter.filter import map_blocks
from probsysid.smc.target import sweep_by_advance
from validation.honesty.problems import HonestyProblem

CHUNK = 256
"""Samples per call of the compiled program."""

BLOCK = 64
"""Particles per vectorised block."""


class SampledData(NamedTuple):
    """Data shared by all particles, sample axis first.  Row k belongs to the interval that ends at sample k."""

    inputs: Any
    """At the start, middle and end of each step: (sample, 2 room + 1, input)."""
    outputs: Any


class Likelihood:
    """Energies of a problem's particles by fourth-order Runge-Kutta."""

    def __init__(self, problem: HonestyProblem):
        self.problem = problem
        self.space = problem.space

    @cached_property
    def start(self) -> Any:
        """theta, data of one sample -> states and energies at the start."""

        def one(theta: Any, data: SampledData) -> Any:
            state = [jnp.asarray(value) for value in self.problem.start]
            return jnp.stack(state), self._energy(state, self.space.values_of_one(theta), data, data.inputs[0])

        return jit_fused(jax.vmap(one, in_axes=(-1, None), out_axes=-1))

    @cached_property
    def advance(self) -> Any:
        """States, theta, a chunk of data, steps, first and last row -> states after them, and energies."""
        return jit_fused(self._advance)

    def _advance(
        self, states: Any, theta: Any, data: SampledData, steps: Any, first: Any, last: Any
    ) -> tuple[Any, Any]:
        batched = jax.vmap(self._interval, in_axes=(-1, -1, None, None), out_axes=-1)

        def block(arguments: Any) -> Any:
            states, theta = arguments
            values = jax.vmap(self.space.values_of_one, in_axes=-1, out_axes=-1)(theta)

            def body(k: Any, carry: Any) -> Any:
                states, energies = carry
                states, energy = batched(states, values, jax.tree.map(lambda leaf: leaf[k], data), steps)
                return states, lax.dynamic_update_index_in_dim(energies, energy, k, 0)

            energies = jnp.zeros((len(data.outputs), states.shape[-1]))
            return lax.fori_loop(first, last, body, (states, energies))

        return map_blocks(block, (states, theta), BLOCK)

    def _interval(self, state: Any, values: Any, data: SampledData, steps: Any) -> tuple[Any, Any]:
        """One particle over one sampling interval."""
        length = self.problem.dt / steps

        def step(j: Any, state: Any) -> Any:
            left, middle, right = (data.inputs[2 * j + i] for i in range(3))
            k1 = self._rates(state, left, values)
            k2 = self._rates(_moved(state, 0.5 * length, k1), middle, values)
            k3 = self._rates(_moved(state, 0.5 * length, k2), middle, values)
            k4 = self._rates(_moved(state, length, k3), right, values)
            mean = [(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
            return _moved(state, length, mean)

        after = lax.fori_loop(0, steps, step, list(state))
        return jnp.stack(after), self._energy(after, values, data, data.inputs[2 * steps])

    def _rates(self, state: list[Any], inputs: Any, values: Any) -> list[Any]:
        model = self.problem.model
        highest = model.highest_derivatives(state, list(inputs), values)
        rates, offset = [], 0
        for order, top in zip(model.orders, highest, strict=True):
            rates += [*state[offset + 1 : offset + order], top]
            offset += order
        return rates

    def _energy(self, state: list[Any], values: Any, data: SampledData, inputs: Any) -> Any:
        """Minus the log density of one sample."""
        model = self.problem.model
        highest = model.highest_derivatives(state, list(inputs), values)
        predicted = model.measured(state, highest, list(inputs), values)
        noise = [self.problem.noise[name] for name in model.output_names]
        return sum(
            0.5 * ((data.outputs[i] - y) / sd) ** 2 + float(np.log(sd) + 0.5 * np.log(2 * np.pi))
            for i, (y, sd) in enumerate(zip(predicted, noise, strict=True))
        )


def _moved(state: list[Any], length: Any, rates: list[Any]) -> list[Any]:
    return [x + length * rate for x, rate in zip(state, rates, strict=True)]


@lru_cache
def likelihood_of(problem: HonestyProblem) -> Likelihood:
    """The same object for the same problem, so that its programs compile once per process."""
    return Likelihood(problem)


class RungeKuttaTarget:
    """A record as a target of the sampler."""

    adaptive = False
    estimated = False
    most_levels = 0
    pilot = None

    def __init__(self, problem: HonestyProblem, record: ps.Record, steps: int):
        self.likelihood = likelihood_of(problem)
        self.steps = steps
        self.samples = record.samples
        self.data = _padded(_data(problem, record, steps, room=problem.fine))

    def at(self, level: int) -> "RungeKuttaTarget":
        """There is only one level."""
        return self

    def sample_prior(self, key: Any, count: int) -> Any:
        return self.likelihood.space.sample(key, count)

    def log_prior(self, theta: Any) -> Any:
        return self.likelihood.space.log_prior(theta)

    def limit(self, first: int) -> int:
        return 1 if first == 0 else min(_chunk_start(first) + CHUNK, self.samples)

    def advance(self, state: Any, theta: Any, first: int, last: int) -> tuple[Any, Any]:
        theta = jnp.asarray(theta)
        if first == 0:
            states, energy = self.likelihood.start(theta, jax.tree.map(lambda leaf: leaf[0], self.data))
            return states, energy[None]
        begin = _chunk_start(first)
        chunk = jax.tree.map(lambda leaf: leaf[begin : begin + CHUNK], self.data)
        row = first - begin
        states, energies = self.likelihood.advance(state, theta, chunk, self.steps, row, row + last - first)
        return states, energies if row == 0 else _from_row(energies, row)

    def sweep(self, theta: Any, stop: int) -> tuple[Any, np.ndarray, np.ndarray]:
        return sweep_by_advance(self, theta, stop)

    def describe(self, sample: int) -> str:
        return f"sample {sample}"

    def cost(self, stop: int) -> int:
        return stop


@jax.jit
def _from_row(energies: Any, first: Any) -> Any:
    """The same rows, moved up so that row `first` is row 0."""
    return jnp.roll(energies, -first, axis=0)


def _chunk_start(sample: int) -> int:
    """First sample of a sample's chunk; chunks start at fixed samples, and sample 0 is in none of them."""
    return 1 + (sample - 1) // CHUNK * CHUNK


def _data(problem: HonestyProblem, record: ps.Record, steps: int, room: int) -> SampledData:
    """Inputs at the ends and midpoints of steps, padded to the size for `room` steps."""
    used = [record.input_names.index(name) for name in problem.model.input_names]
    inside = record.input_grid(2 * steps)[:, :, used]
    now = record.input_derivatives(0)[:, used, 0]
    before = now[np.maximum(np.arange(record.samples) - 1, 0)]
    inputs = np.concatenate([before[:, None], inside], axis=1)
    inputs = np.concatenate([inputs, np.repeat(inputs[:, -1:], 2 * (room - steps), axis=1)], axis=1)
    return SampledData(inputs, np.stack([record.outputs[name] for name in problem.model.output_names], axis=-1))


def _padded(data: SampledData) -> SampledData:
    """Repeat the last sample until those after the first fill whole chunks."""
    missing = -(len(data.outputs) - 1) % CHUNK
    return jax.tree.map(lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], missing, axis=0)]), data)
