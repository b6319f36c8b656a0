"""The usual likelihood: Runge-Kutta steps that count as exact.

It takes the place of an ODE filter where integration error does not matter yet: in the search for modes, and wherever
many particles are looked at of which few remain.  One step costs an eighth of a filter's, and less the larger the state
is.  Classical Runge-Kutta of order four; inputs follow their intersample behaviour.  With process noise a motion is not
all that a particle predicts: `continuous_discrete.py` carries a covariance along with the same steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from probsysid._internal.array_types import Index, Numbers, Scalar
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.model.noise import NoiseValues
from probsysid.model.particle import Particle
from probsysid.odefilter.filter_inputs import measured, step_lengths
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.noise_likelihood import transformed
from probsysid.odefilter.unrolled.gaussian import Entry, Innovation, Row, add, multiply, weigh

Physical = list[Float[Array, ""]]
"""The physical components of one particle."""


@dataclass(frozen=True)
class RungeKuttaFilter:
    """A model's motion as a filter without uncertainty: the state is the list of physical components."""

    model: Model

    unrolled = True

    def start(self, particle: Particle, sample: IntervalData) -> Physical:
        """The initial state."""
        return [jnp.asarray(value, dtype=float) for value in particle.initial_mean]

    def interval(self, state: Physical, particle: Particle, sample: IntervalData) -> Physical:
        """From the previous sample to this one.  `sample.grid` holds the inputs at the middle and the end of each
        step."""

        def rates(at: Physical, inputs: list[Scalar]) -> Physical:
            return first_order(self.model, at, self.model.highest_derivatives(at, inputs, particle.parameters))

        def step(j: Index, state: Physical) -> Physical:
            return advance(rates, state, sample.step, step_inputs(sample, j))

        if self.model.operations > MOST_WRITTEN_OUT:
            advance, done = stages_in_loop, 0
        else:  # XLA compiles the first step better outside of the loop, together with what comes after it
            advance, done = stages_written_out, 1
            state = step(0, state)
        return lax.fori_loop(done, jnp.asarray(sample.count, int), step, state)

    def observe(
        self, state: Physical, particle: Particle, sample: IntervalData, scores: bool = True
    ) -> tuple[Physical, Scalar, list[Innovation]]:
        """The unchanged state, the energy and each output's innovation; a missing output (NaN) counts nothing."""
        inputs = [values[0] for values in sample.inputs]
        highest = self.model.highest_derivatives(state, inputs, particle.parameters)
        outputs = self.model.measured(state, highest, inputs, particle.parameters)
        predictions = transformed(particle.noise, outputs, list(sample.outputs))
        energy: Scalar = 0.0
        innovations = []
        for observed, predicted, sd in zip(sample.outputs, predictions, particle.noise, strict=True):
            if isinstance(sd, NoiseValues):
                update = weigh(sd, observed, predicted, None, scores)
                energy = energy + update.energy
                innovations.append(update.innovation)
                continue
            present = ~jnp.isnan(observed)
            white = jnp.where(present, observed - predicted, 0.0) / sd
            energy = energy + jnp.where(present, 0.5 * white**2 + jnp.log(jnp.sqrt(2 * jnp.pi) * sd), 0.0)
            innovations.append(Innovation(jnp.where(present, observed - predicted, jnp.nan), sd**2, white))
        return state, energy, innovations

    def physical_moments(self, state: Physical, sample: IntervalData) -> tuple[Array, Array]:
        """Means and standard deviations of the physical components: without process noise, a motion is known."""
        return jnp.stack(state), jnp.zeros(len(state))

    # The state for loops and storage

    def structure(
        self, first: Callable[..., Physical], step: Callable[..., Physical], particle: Particle, sample: IntervalData
    ) -> tuple[None, PyTree]:
        """No pattern, and the shapes of a state."""
        return None, jax.eval_shape(first, particle, sample)

    def fill(self, state: Physical, pattern: None) -> Physical:
        return [jnp.asarray(value, dtype=float) for value in state]

    def pack(self, state: list[Array], template: PyTree) -> Array:
        return jnp.stack(state)

    def unpack(self, packed: Numbers, template: PyTree) -> list[Array]:
        return list(packed)


MOST_WRITTEN_OUT = 60
"""Operations of a model up to which the stages of a step are written out.  A Duffing oscillator then takes 4.1 ns per
step instead of 9.5.  With 50 sines, 204 operations, a loop over the stages is faster, 2.2 us instead of 3.5, and
compiles in 2.3 s instead of 4.2.  The number in between was not measured."""

Rates = Callable[[Row, list[Scalar]], Row]
"""Time derivatives of numbers, given these and the inputs."""


def first_order(model: Model, state: Row, highest: Sequence[Entry]) -> Row:
    """Time derivatives of all components, given those of the highest order: the model as a system of first order."""
    rates, offset = [], 0
    for order, top in zip(model.orders, highest, strict=True):
        rates += [*state[offset + 1 : offset + order], top]
        offset += order
    return rates


def step_inputs(sample: IntervalData, step: Index) -> list[Row]:
    """Inputs at the beginning, the middle and the end of a step of the interval."""
    before = jnp.maximum(2 * step - 1, 0)
    left = [jnp.where(step == 0, u[0], v) for u, v in zip(sample.departure, sample.grid[before], strict=True)]
    return [left, list(sample.grid[2 * step]), list(sample.grid[2 * step + 1])]


def stages_written_out(rates: Rates, state: Row, length: Scalar, inputs: list[Row]) -> Row:
    """One step; `inputs` are those at its beginning, middle and end."""
    left, middle, right = inputs
    k1 = rates(state, left)
    k2 = rates(_moved(state, 0.5 * length, k1), middle)
    k3 = rates(_moved(state, 0.5 * length, k2), middle)
    k4 = rates(_moved(state, length, k3), right)
    total = [_weighted(*slopes) for slopes in zip(k1, k2, k3, k4, strict=True)]
    return _moved(state, length, total)


def stages_in_loop(rates: Rates, state: Row, length: Scalar, inputs: list[Row]) -> Row:
    """The same with a loop over the stages, without structural zeros."""
    nodes, weights = jnp.array([0.0, 0.5, 0.5, 1.0]), jnp.array([1.0, 2.0, 2.0, 1.0]) / 6
    table = jnp.stack([jnp.stack(each) for each in inputs]) if inputs[0] else jnp.empty((3, 0))

    def stage(i: Index, carry: tuple[Row, Row]) -> tuple[Row, Row]:
        latest, total = carry
        latest = rates(_moved(state, nodes[i] * length, latest), list(table[(i + 1) // 2]))
        return latest, _moved(total, weights[i], latest)

    nothing = [jnp.zeros_like(x) for x in state]
    return _moved(state, length, lax.fori_loop(0, 4, stage, (nothing, nothing))[1])


def _weighted(a: Entry, b: Entry, c: Entry, d: Entry) -> Entry:
    """The mean slope of a component."""
    total = add(add(add(a, multiply(2.0, b)), multiply(2.0, c)), d)
    return None if total is None else total / 6


def _moved(state: Row, length: Scalar, rates: Row) -> Row:
    return [add(x, multiply(length, rate)) for x, rate in zip(state, rates, strict=True)]


ROOM = 32
"""Steps per interval that the arrays are padded to, or a multiple of it: one program serves any number up to that."""


def prepare(record: Record, model: Model, substeps: int) -> IntervalData:
    """Everything that is the same for all particles, with the sample axis first, as in `filter_inputs.prepare`."""
    model.check_inputs(record.input_names)
    used = [record.input_names.index(name) for name in model.input_names]
    inputs = record.input_derivatives(0)[:, used, :]
    grid = record.input_grid(2 * substeps)[:, :, used]
    room = ROOM * -(-substeps // ROOM)
    return IntervalData(
        grid=np.concatenate([grid, np.repeat(grid[:, -1:], 2 * (room - substeps), axis=1)], axis=1),
        inputs=inputs,
        departure=inputs[np.maximum(np.arange(record.samples) - 1, 0)],
        outputs=measured(record, model),
        unit=np.empty((record.samples, 0)),
        scales=np.empty((record.samples, 0)),
        step=step_lengths(record) / substeps,
        count=np.full(record.samples, substeps),
    )
