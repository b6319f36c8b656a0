"""The filter for one particle: from one sample to the next.

Everything here is written for plain numbers; `filter.py` maps it over particles.  One sampling interval is

    restart    where an input may have jumped at the sample before: new higher derivatives from the ODE
    advance    a number of steps, each: predict with the prior, condition on the ODE
    observe    condition on the data, giving the energy

A restart comes when the interval is known, not at the sample before it: that way the slope of a linearly
interpolated input is at hand, and a stream can do exactly what a batch does.

All quantities are in the scaled coordinates of `iwp.py` unless a name says otherwise.  Where the ODE is imposed
exactly, the highest derivatives are functions of the physical components and need no rows of their own: the
*free* components are the others, and exact conditioning lowers the rank instead of leaving a zero to be guarded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from probsysid.model.model import Model
from probsysid.model.particle import Particle
from probsysid.odefilter.diffusion import BEYOND, FLOOR, Diffusion, UnitVariance, first_guess
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.linearise import Linearisation, jacobian
from probsysid.odefilter.taylor_init import taylor_derivatives
from probsysid.odefilter.unrolled import gaussian
from probsysid.odefilter.unrolled.gaussian import Innovation, Row


class IntervalData(NamedTuple):
    """What is known at one sample and on the interval that leads to it; the same for all particles."""

    grid: Any
    """Inputs at the end of each step of the interval, approached from the left: (substeps, input)."""
    inputs: Any
    """Inputs and their time derivatives at the sample, from the right: (input, derivative).  The derivatives serve
    the start alone."""
    departure: Any
    """The same at the sample before, where the interval begins."""
    outputs: Any
    """Measured outputs, NaN where missing."""
    unit: Any
    """Variance of the ODE residual for unit diffusion: (substeps, coordinate)."""
    scales: Any
    """Physical value of one scaled unit of each component on this interval."""
    step: Any
    """Length of one integration step on this interval."""
    rescale: Any = None
    """Previous interval's scales over this one's; None where all intervals are equal."""
    count: Any = None
    """Steps of the interval, where `grid` and `unit` have room for more; None where they are exactly filled."""


class FilterState(NamedTuple):
    """The filter's Gaussian, and what it needs to go on: lists of numbers here, arrays in `array_step.py`."""

    mean: Any
    factor: Any
    """Rows of the free components."""
    jacobian: Any
    """The highest derivatives as functions of the physical components; empty rows where the ODE is not exact."""
    diffusion: list[Any]
    """Memory of each coordinate's diffusion estimator."""
    variance: Any
    """Squared diffusion of the newest step, by coordinate."""


@dataclass(frozen=True)
class UnrolledFilter:
    """A model together with every choice that shapes the filter's program."""

    model: Model
    layout: Layout
    linearisation: Linearisation
    diffusion: Diffusion
    ode_noise: float = 0.0
    """Standard deviation of the ODE residual in physical units; 0 imposes the ODE exactly."""
    joint: bool = True
    """Whether the state is conditioned on the data."""
    restarts: bool = False
    """Whether higher derivatives are renewed at the start of every interval because inputs jump at samples."""

    unrolled = True
    """Whether the algebra is written out number by number."""

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Components with rows of their own, physical ones first."""
        layout = self.layout
        return layout.physical + (layout.highest if self.ode_noise else ()) + layout.higher

    # Start

    def start(self, particle: Particle, sample: IntervalData) -> FilterState:
        """The Gaussian at the first sample, before its data."""
        blank: Row = [None] * len(self.free)
        rows = [
            [sd / sample.scales[i] if k == j else None for k, _ in enumerate(blank)]
            for j, (i, sd) in enumerate(zip(self.layout.physical, particle.initial_sd, strict=True))
        ]
        mean, factor, slopes = self._from_physical(particle, sample, sample.inputs, particle.initial_mean, rows)
        guesses = self._first_guesses(particle, sample)
        memory = [self.diffusion.start(guess) for guess in guesses]
        return FilterState(mean, factor, slopes, memory, [jnp.zeros(()) for _ in guesses])

    def _first_guesses(self, particle: Particle, sample: IntervalData) -> list[Any]:
        """A squared diffusion for each coordinate, from the initial state alone."""
        further = Layout(self.layout.orders, tuple(q + BEYOND for q in self.layout.smoothness))
        derivatives = taylor_derivatives(
            lambda x, u: self.model.highest_derivatives(x, u, particle.parameters),
            further,
            particle.initial_mean,
            [list(values) for values in sample.inputs],
        )
        ends = [offset + q for offset, q in zip(further.offsets, further.smoothness, strict=True)]
        return [first_guess(derivatives[end - 1 : end + 1], sample.step) for end in ends]

    def restart(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """New higher derivatives from the ODE where the interval begins, given the physical components."""
        layout = self.layout
        physical = [state.mean[i] * sample.scales[i] for i in layout.physical]
        rows = state.factor[: len(layout.physical)]
        mean, factor, slopes = self._from_physical(particle, sample, sample.departure, physical, rows)
        return state._replace(mean=mean, factor=factor, jacobian=slopes)

    def _from_physical(
        self, particle: Particle, sample: IntervalData, derivatives: Any, physical: list[Any], rows: list[Row]
    ) -> tuple[list[Any], list[Row], list[Row]]:
        """All components from the physical ones: Taylor coefficients for the mean, their Jacobian for the rows."""
        layout, scales = self.layout, sample.scales
        inputs = [list(values) for values in derivatives]

        def complete(point: Any) -> list[Any]:
            return taylor_derivatives(
                lambda x, u: self.model.highest_derivatives(x, u, particle.parameters), layout, point, inputs
            )

        values = complete(physical)
        full = ((True,) * len(physical),) * layout.size
        slopes = self.linearisation(complete, physical, full)
        slopes = [
            [gaussian.multiply(s, scales[j] / scales[i]) for s, j in zip(row, layout.physical, strict=True)]
            for i, row in enumerate(slopes)
        ]
        factor = [
            *rows,
            *(gaussian.combine(slopes[i], rows) for i in self.free if i not in layout.physical),
        ]
        pattern = self.model.dynamics_sparsity
        highest = [
            [slope if used else None for slope, used in zip(slopes[i], row, strict=True)]
            for i, row in zip(layout.highest, pattern, strict=True)
        ]
        return [value / scale for value, scale in zip(values, scales, strict=True)], factor, self._exact(highest)

    def _exact(self, slopes: list[Row]) -> list[Row]:
        """Slopes are kept only where the ODE is imposed exactly: otherwise the highest derivatives have rows."""
        return [[None] * len(row) for row in slopes] if self.ode_noise else slopes

    # One interval

    def interval(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """From just after the previous sample's data to just before this one's."""
        if sample.rescale is not None:
            state = self.rescale(state, sample.rescale)
        if self.restarts:
            state = self.restart(state, particle, sample)

        def step(j: Any, state: FilterState) -> FilterState:
            return self.advance(state, particle, sample, sample.grid[j], sample.unit[j])

        return self._steps(state, sample, step)

    def _steps(
        self, state: FilterState, sample: IntervalData, step: Callable[[Any, FilterState], FilterState]
    ) -> FilterState:
        """All steps of the interval."""
        if sample.count is None:
            for j in range(sample.grid.shape[0]):
                state = step(j, state)
            return state
        count = jnp.asarray(sample.count, dtype=int)
        pattern = settled(partial(step, 0), state)
        return lax.fori_loop(0, count, lambda j, s: fill(step(j, s), pattern), fill(state, pattern))

    def rescale(self, state: FilterState, rescale: Any) -> FilterState:
        """Change of units where the step length changes."""
        layout = self.layout
        mean = [value * rescale[i] for i, value in enumerate(state.mean)]
        factor = [
            [gaussian.multiply(entry, rescale[i]) for entry in row]
            for i, row in zip(self.free, state.factor, strict=True)
        ]
        slopes = [
            [gaussian.multiply(s, rescale[i] / rescale[j]) for s, j in zip(row, layout.physical, strict=True)]
            for i, row in zip(layout.highest, state.jacobian, strict=True)
        ]
        return state._replace(mean=mean, factor=factor, jacobian=slopes)

    def component_rows(self, state: FilterState) -> Any:
        """The row of every component."""
        rows: list[Row] = [[] for _ in range(self.layout.size)]
        for i, row in zip(self.free, state.factor, strict=True):
            rows[i] = row
        if not self.ode_noise:
            physical = [rows[i] for i in self.layout.physical]
            for i, slopes in zip(self.layout.highest, state.jacobian, strict=True):
                rows[i] = gaussian.combine(slopes, physical)
        return rows

    def advance(
        self, state: FilterState, particle: Particle, sample: IntervalData, inputs: Any, unit: Any
    ) -> FilterState:
        """One step: predict, estimate the diffusion, condition on the ODE."""
        layout, scales = self.layout, sample.scales
        mean = _apply(layout.transition, state.mean)
        values, slopes = self._linearised_dynamics(particle, mean, inputs, scales)
        memory, variance = self._diffusion(state, particle, mean, values, slopes, unit)
        rows = self._predicted_rows(state, variance)
        free_rows, new_mean = self._conditioned(rows, mean, values, slopes, scales)
        again = self.linearisation.iterations
        for k in range(again):
            values, slopes = self._relinearised(particle, mean, new_mean, inputs, scales)
            if k == again - 1:  # the residual at a prediction that is far off says little about the step
                memory, variance = self._diffusion(state, particle, mean, values, slopes, unit)
                rows = self._predicted_rows(state, variance)
            free_rows, new_mean = self._conditioned(rows, mean, values, slopes, scales)
        return FilterState(new_mean, gaussian.triangularise(free_rows), self._exact(slopes), memory, variance)

    def _conditioned(
        self, rows: list[Row], mean: list[Any], values: list[Any], slopes: list[Row], scales: Any
    ) -> tuple[list[Row], list[Any]]:
        """Rows of the free components and the whole mean, given that the linearised ODE holds."""
        residuals = [mean[i] - value for i, value in zip(self.layout.highest, values, strict=True)]
        residual_rows = self._residual_rows(rows, slopes, scales)
        if self.ode_noise:
            rows = [[*row, *[None] * len(residual_rows)] for row in rows]
        free_rows, free_mean = gaussian.condition(
            residual_rows, residuals, [rows[i] for i in self.free], [mean[i] for i in self.free]
        )
        return free_rows, self._complete_mean(free_mean, mean, values, slopes)

    def _relinearised(
        self, particle: Particle, mean: list[Any], corrected: list[Any], inputs: Any, scales: Any
    ) -> tuple[list[Any], list[Row]]:
        """The dynamics linearised at the corrected state: what they say at the predicted one, and their Jacobian.

        Where a step is long, the predicted state may be so far off that the Jacobian there has little to do with the
        motion.
        """
        values, slopes = self._linearised_dynamics(particle, corrected, inputs, scales)
        back = [mean[i] - corrected[i] for i in self.layout.physical]
        return [gaussian.add(v, gaussian.combine_values(s, back)) for v, s in zip(values, slopes, strict=True)], slopes

    def _linearised_dynamics(
        self, particle: Particle, mean: list[Any], inputs: Any, scales: Any
    ) -> tuple[list[Any], list[Row]]:
        """The dynamics and their Jacobian at the predicted mean."""
        layout = self.layout
        point = [mean[i] * scales[i] for i in layout.physical]

        def function(physical: Any) -> list[Any]:
            return self.model.highest_derivatives(physical, list(inputs), particle.parameters)

        values = [value / scales[i] for i, value in zip(layout.highest, function(point), strict=True)]
        slopes = [
            [gaussian.multiply(s, scales[j] / scales[i]) for s, j in zip(row, layout.physical, strict=True)]
            for i, row in zip(
                layout.highest, self.linearisation(function, point, self.model.dynamics_sparsity), strict=True
            )
        ]
        return values, slopes

    def _diffusion(
        self, state: FilterState, particle: Particle, mean: list[Any], values: list[Any], slopes: list[Row], unit: Any
    ) -> tuple[list[list[Any]], list[Any]]:
        memories, variances = [], []
        for c, (i, value) in enumerate(zip(self.layout.highest, values, strict=True)):
            n, q = self.layout.orders[c], self.layout.smoothness[c]
            units = UnitVariance(unit[c], 1 / (2 * q + 1 - 2 * n))
            if self.linearisation.iterations:
                stretch = self._stretch(slopes[c], c)
                units = UnitVariance(units.running * stretch, units.local * stretch)
            memory, variance = self.diffusion.update(state.diffusion[c], mean[i] - value, units, c)
            if particle.model_error is not None:
                variance = variance + particle.model_error[c] ** 2
            memories.append(memory)
            variances.append(jnp.maximum(variance, FLOOR))
        return memories, variances

    def _stretch(self, slope: Row, coordinate: int) -> Any:
        """Variance of the linearised residual from the newest step's noise, over that of the zeroth-order residual.

        Where the ODE is stiff, noise that moves the highest derivative moves what the ODE says of it as well, and the
        residual is the larger of the two for the same diffusion.
        """
        layout = self.layout
        own = [k for k, i in enumerate(layout.coordinate) if i == coordinate]
        noise = _sparse(layout.process_factor[:, own])
        highest = noise[layout.highest[coordinate]]
        along = gaussian.combine(slope, [noise[i] for i in layout.physical])
        row = [gaussian.subtract(x, y) for x, y in zip(highest, along, strict=True)]
        return gaussian.dot(row, row) / gaussian.dot(highest, highest)

    def _predicted_rows(self, state: FilterState, variance: list[Any]) -> list[Row]:
        """[A L, sigma sqrt(Q)], row by row."""
        layout = self.layout
        sigma = [jnp.sqrt(v) for v in variance]
        rows = self.component_rows(state)
        transition = _sparse(layout.transition)
        process = _sparse(layout.process_factor)
        return [
            [
                *gaussian.combine(transition[i], rows),
                *(gaussian.multiply(entry, sigma[layout.coordinate[i]]) for entry in process[i]),
            ]
            for i in range(layout.size)
        ]

    def _residual_rows(self, rows: list[Row], slopes: list[Row], scales: Any) -> list[Row]:
        """Rows of the ODE residuals: highest derivative minus Jacobian times state, and the ODE's own noise."""
        layout = self.layout
        physical = [rows[i] for i in layout.physical]
        result = []
        for c, (i, slope) in enumerate(zip(layout.highest, slopes, strict=True)):
            along = gaussian.combine(slope, physical)
            row = [gaussian.subtract(x, y) for x, y in zip(rows[i], along, strict=True)]
            if self.ode_noise:
                noise: Row = [None] * len(slopes)
                noise[c] = self.ode_noise / scales[i]
                row = [*row, *noise]
            result.append(row)
        return result

    def _complete_mean(
        self, free_mean: list[Any], predicted: list[Any], values: list[Any], slopes: list[Row]
    ) -> list[Any]:
        """All components: where the ODE is exact, highest derivatives follow from the linearised dynamics."""
        mean = list(predicted)
        for i, value in zip(self.free, free_mean, strict=True):
            mean[i] = value
        if not self.ode_noise:
            change = [mean[i] - predicted[i] for i in self.layout.physical]
            for i, value, slope in zip(self.layout.highest, values, slopes, strict=True):
                mean[i] = gaussian.add(value, gaussian.combine_values(slope, change))
        return mean

    # Data

    def observe(
        self, state: FilterState, particle: Particle, sample: IntervalData
    ) -> tuple[FilterState, Any, list[Innovation]]:
        """Condition on the sample's outputs.  Returns the energy and each output's innovation."""
        layout, scales = self.layout, sample.scales
        if self.restarts:
            state = self._follow_jump(state, particle, sample)
        seen = (*layout.physical, *layout.highest)
        point = [state.mean[i] * scales[i] for i in seen]
        split = len(layout.physical)
        inputs = [values[0] for values in sample.inputs]

        def function(x: Any) -> list[Any]:
            return self.model.measured(x[:split], x[split:], inputs, particle.parameters)

        slopes = jacobian(function, point, self.model.outputs_sparsity)
        rows = self.component_rows(state)
        output_rows = [
            gaussian.combine(
                [gaussian.multiply(s, scales[i]) for s, i in zip(slope, seen, strict=True)],
                [rows[i] for i in seen],
            )
            for slope in slopes
        ]
        free_mean = [state.mean[i] for i in self.free]
        energy, innovations, factor, free_mean = gaussian.observe(
            output_rows, function(point), list(sample.outputs), particle.noise, state.factor, free_mean
        )
        if self.joint:
            values = [state.mean[i] for i in layout.highest]
            mean = self._complete_mean(free_mean, state.mean, values, state.jacobian)
            state = state._replace(mean=mean, factor=factor)
        return state, energy, innovations

    def _follow_jump(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """The highest derivatives after the inputs have jumped to the sample's values: what an accelerometer feels."""
        if self.ode_noise:
            return state
        inputs = [values[0] for values in sample.inputs]
        values, slopes = self._linearised_dynamics(particle, state.mean, inputs, sample.scales)
        mean = list(state.mean)
        for i, value in zip(self.layout.highest, values, strict=True):
            mean[i] = value
        return state._replace(mean=mean, jacobian=slopes)

    def before_jump(self, observed: FilterState, arrived: FilterState) -> FilterState:
        """The state after the data, with the highest derivatives as they were before the inputs jumped.

        The step that led to the sample knows only these: looking back needs them.
        """
        free_mean = [observed.mean[i] for i in self.free]
        highest = [arrived.mean[i] for i in self.layout.highest]
        mean = self._complete_mean(free_mean, arrived.mean, highest, arrived.jacobian)
        return observed._replace(mean=mean, jacobian=arrived.jacobian)

    # The state for loops and storage

    def structure(
        self,
        first: Callable[..., FilterState],
        step: Callable[..., FilterState],
        particle: Particle,
        sample: IntervalData,
    ) -> tuple[Any, Any]:
        """What `fill` has to know, and the tree and shapes that a filled state has.

        `first` starts and `step` goes on.  Finding out which entries of the factor are zero by structure means tracing
        both, several times.
        """
        state = jax.eval_shape(first, particle, sample)
        pattern = settled(step, state, particle, sample)
        return pattern, jax.eval_shape(lambda s: fill(s, pattern), state)

    def fill(self, state: FilterState, pattern: Any) -> FilterState:
        """The state in the form that a loop carries."""
        return fill(state, pattern)

    def moments(self, state: FilterState, sample: IntervalData) -> tuple[Any, Any]:
        """Mean and square factor of all components in physical units."""
        size = self.layout.size
        rows = [[*row, *[None] * (size - len(row))] for row in self.component_rows(state)]
        factor = jnp.stack([jnp.stack([jnp.zeros(()) if e is None else jnp.asarray(e) for e in row]) for row in rows])
        return jnp.stack(state.mean) * sample.scales, factor * sample.scales[:, None]

    def pack(self, state: FilterState, template: FilterState) -> Any:
        """A filled state as one array that begins with the mean."""
        return jnp.stack(jax.tree.leaves(state))

    def unpack(self, packed: Any, template: FilterState) -> FilterState:
        """The state from that array; the template has its tree and shapes, without a particle axis."""
        return jax.tree.unflatten(jax.tree.structure(template), list(packed))


def settled(step: Callable[..., FilterState], state: FilterState, *arguments: Any) -> list[list[bool]]:
    """Which entries of the factor are not zero by structure after any number of steps."""
    pattern = filled(state)
    while True:
        following = jax.eval_shape(lambda s, *a: step(fill(s, pattern), *a), state, *arguments)  # noqa: B023
        both = zip(pattern, filled(following), strict=True)
        wider = [[a or b for a, b in zip(x, y, strict=True)] for x, y in both]
        if wider == pattern:
            return pattern
        pattern = wider


def filled(state: FilterState) -> list[list[bool]]:
    """Which entries of the factor are not zero by structure."""
    return [[entry is not None for entry in row] for row in state.factor]


def fill(state: FilterState, pattern: list[list[bool]]) -> FilterState:
    """Zeros where the pattern has an entry and the state has none; every number a double."""
    factor = [
        [jnp.zeros(()) if needed and entry is None else entry for entry, needed in zip(row, needs, strict=True)]
        for row, needs in zip(state.factor, pattern, strict=True)
    ]
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), state._replace(factor=factor))


def _sparse(matrix: np.ndarray) -> list[Row]:
    """A constant matrix as rows with structural zeros."""
    return [[float(entry) if entry else None for entry in row] for row in matrix]


def _apply(matrix: np.ndarray, values: list[Any]) -> list[Any]:
    return [gaussian.combine_values(row, values) for row in _sparse(matrix)]
