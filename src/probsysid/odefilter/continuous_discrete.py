"""The continuous-discrete extended Kalman filter on Runge-Kutta steps: the cheap likelihood with process noise.

Between samples, mean m and covariance P of d x^(n-1) = f dt + s dW follow

    m' = F(m),   P' = J P + P J' + G G',   J = dF/dm,

where F is the model as a system of first order and G has s in the rows of the x^(n-1).  At samples, both are
conditioned on the data.  Integration counts as exact, as in `runge_kutta.py`; the ODE filter with process noise tends
to the same likelihood as its steps get finer, since it linearises the same equation at the same mean.

P = L L' is never formed.  Each column v of L is a tangent of the motion, v' = J v.  White noise over a step of length h
is a series of Legendre polynomials phi_k with independent standard normal coefficients, and the response to each,

    v' = J v + s phi_k(t) b,   v(0) = 0,

is a further column.  Responses to phi_k are of the order h^(k + 1/2), so that those left out after two add h^5 to the
covariance of a step: the order of classical Runge-Kutta, which takes mean, tangents and responses together, with the
Jacobians at its stages.  With these two, integrals of white noise are exact for ODEs of first and second order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from probsysid._internal.array_types import Index, Numbers, Scalar
from probsysid.model.model import Model
from probsysid.model.particle import Particle
from probsysid.model.sparsity import SparsityPattern
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.linearise import jacobian
from probsysid.odefilter.noise_likelihood import transformed
from probsysid.odefilter.runge_kutta import (
    MOST_WRITTEN_OUT,
    first_order,
    stages_in_loop,
    stages_written_out,
    step_inputs,
)
from probsysid.odefilter.unrolled import gaussian
from probsysid.odefilter.unrolled.gaussian import Entry, Innovation, Row

LEGENDRE = ((1.0, 1.0, 1.0), (-sqrt(3), 0.0, sqrt(3)))
"""The first orthonormal polynomials on a step of length one, at its beginning, middle and end."""

LARGEST = 12
"""Physical components up to which the algebra is written out; there is no other form."""


class KalmanState(NamedTuple):
    """A Gaussian over the physical components, in physical units."""

    mean: Row
    factor: list[Row]
    """Lower triangular; row i has i + 1 numbers."""


@dataclass(frozen=True)
class ContinuousDiscreteEKF:
    """A model's motion with the uncertainty that process noise adds and data take away."""

    model: Model
    joint: bool = True
    """Whether the state is conditioned on the data."""

    unrolled = True

    def start(self, particle: Particle, sample: IntervalData) -> KalmanState:
        """The initial state."""
        mean = [jnp.asarray(value, dtype=float) for value in particle.initial_mean]
        factor = [[jnp.zeros(()) for _ in range(i)] + [jnp.asarray(s)] for i, s in enumerate(particle.initial_sd)]
        return KalmanState(mean, factor)

    def interval(self, state: KalmanState, particle: Particle, sample: IntervalData) -> KalmanState:
        """From the previous sample to this one, with samples as `runge_kutta.prepare` makes them."""
        root = jnp.sqrt(sample.step)
        forces = [[phi[node] / root for phi in LEGENDRE] for node in range(3)]

        def step(j: Index, state: KalmanState) -> KalmanState:
            inputs = [[*u, *phi] for u, phi in zip(step_inputs(sample, j), forces, strict=True)]
            return self._advance(state, particle, sample.step, inputs)

        return lax.fori_loop(0, jnp.asarray(sample.count, int), step, state)

    # One step

    def _advance(self, state: KalmanState, particle: Particle, length: Scalar, inputs: list[Row]) -> KalmanState:
        """One step; to the inputs at its beginning, middle and end the values of the polynomials are appended."""
        size = len(state.mean)
        kicks = [(c, k) for c, s in enumerate(particle.process_noise or []) if s is not None for k in range(2)]
        columns = [[None] * j + [state.factor[i][j] for i in range(j, size)] for j in range(size)]
        columns += [[None] * size for _ in kicks]

        def rates(numbers: Row, given: list[Scalar]) -> Row:
            at, tangents = numbers[:size], _parts(numbers[size:], size)
            return self._rates(at, tangents, particle, given, [None] * size + kicks)

        numbers: Row = [*state.mean, *(entry for column in columns for entry in column)]
        if self.model.operations > MOST_WRITTEN_OUT:
            after = stages_in_loop(rates, [jnp.zeros(()) if x is None else x for x in numbers], length, inputs)
        else:
            after = stages_written_out(rates, numbers, length, inputs)
        carried = _parts(after[size:], size)
        return KalmanState(after[:size], _triangular([[column[i] for column in carried] for i in range(size)]))

    def _rates(
        self,
        at: list[Scalar],
        tangents: list[Row],
        particle: Particle,
        given: list[Scalar],
        kicks: list[tuple[int, int] | None],
    ) -> list[Entry]:
        """Time derivatives of the mean and of all columns; kicks say which coordinate and polynomial force a column."""
        inputs, forces = given[: -len(LEGENDRE)], given[-len(LEGENDRE) :]
        levels = particle.process_noise or []

        def highest(physical: Sequence[Scalar]) -> Sequence[Scalar]:
            return self.model.highest_derivatives(physical, inputs, particle.parameters)

        slopes = jacobian(highest, at, self.model.dynamics_sparsity)
        rates: list[Entry] = first_order(self.model, at, highest(at))
        for column, kick in zip(tangents, kicks, strict=True):
            tops = [gaussian.combine_values(row, column) for row in slopes]
            if kick is not None:
                coordinate, k = kick
                tops[coordinate] = gaussian.add(tops[coordinate], gaussian.multiply(levels[coordinate], forces[k]))
            rates += first_order(self.model, column, tops)
        return rates

    # Data

    def observe(
        self, state: KalmanState, particle: Particle, sample: IntervalData, scores: bool = True
    ) -> tuple[KalmanState, Scalar, list[Innovation]]:
        """Condition on the sample's outputs, linearised at the mean.  Returns the state, the energy and each output's
        innovation, as `ODEFilter.observe` does."""
        inputs = [values[0] for values in sample.inputs]

        def function(physical: Sequence[Scalar]) -> Sequence[Scalar]:
            highest = self.model.highest_derivatives(physical, inputs, particle.parameters)
            outputs = self.model.measured(physical, highest, inputs, particle.parameters)
            return transformed(particle.noise, outputs, list(sample.outputs))

        rows = _square(state.factor)
        slopes = jacobian(function, state.mean, _outputs_sparsity(self.model))
        output_rows = [gaussian.combine(row, rows) for row in slopes]
        energy, innovations, rows, mean = gaussian.observe(
            output_rows, list(function(state.mean)), list(sample.outputs), particle.noise, rows, state.mean, scores
        )
        return (KalmanState(mean, _triangular(rows)) if self.joint else state), energy, innovations

    def physical_moments(self, state: KalmanState, sample: IntervalData) -> tuple[Array, Array]:
        """Means and standard deviations of the physical components."""
        return jnp.stack(state.mean), jnp.sqrt(jnp.stack([sum(x**2 for x in row) for row in state.factor]))

    # The state for loops and storage

    def structure(
        self,
        first: Callable[..., KalmanState],
        step: Callable[..., KalmanState],
        particle: Particle,
        sample: IntervalData,
    ) -> tuple[None, PyTree]:
        """No pattern, and the shapes of a state."""
        return None, jax.eval_shape(first, particle, sample)

    def fill(self, state: KalmanState, pattern: None) -> KalmanState:
        return jax.tree.map(lambda value: jnp.asarray(value, dtype=float), state)

    def pack(self, state: KalmanState, template: PyTree) -> Array:
        return jnp.stack(jax.tree.leaves(state))

    def unpack(self, packed: Numbers, template: PyTree) -> KalmanState:
        return jax.tree.unflatten(jax.tree.structure(template), list(packed))


def _outputs_sparsity(model: Model) -> SparsityPattern:
    """Which physical components each output can depend on, directly or by the highest derivatives."""
    size = len(model.physical_names)
    return tuple(
        tuple(
            row[i] or any(used and of[i] for used, of in zip(row[size:], model.dynamics_sparsity, strict=True))
            for i in range(size)
        )
        for row in model.outputs_sparsity
    )


def _parts(numbers: Row, size: int) -> list[Row]:
    return [numbers[i : i + size] for i in range(0, len(numbers), size)]


def _square(factor: list[Row]) -> list[Row]:
    """A triangular factor with structural zeros."""
    return [[*row, *[None] * (len(factor) - len(row))] for row in factor]


def _triangular(rows: list[Row]) -> list[Row]:
    """Rows of a factor of the same Gaussian that is lower triangular, without structural zeros."""
    factor = gaussian.triangularise(rows)
    return [[jnp.zeros(()) if x is None else x for x in row[: i + 1]] for i, row in enumerate(factor)]
