"""The filter in array form: for states of many components.

The program of `UnrolledFilter` grows with the cube of the state's size.  Here the same steps are done with the matrices
of `sqrt_algebra.py`, and the program is as long as the model's own functions.

Rows of a factor are in the order of `ODEFilter.free`; means, as everywhere, in the order of the layout.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from probsysid._internal.array_types import Numbers, Scalar, Vector
from probsysid.model.particle import Particle
from probsysid.model.sparsity import SparsityPattern
from probsysid.odefilter.arrays.coloured import aged, joined, noise_alone, own_rows, with_coloured, with_noise_of
from probsysid.odefilter.arrays.indices import IndexedFilter
from probsysid.odefilter.arrays.residuals import (
    diffusions_from_others,
    disturbance_rows,
    embed,
    off_solutions,
    others_along_ode,
    residual_energy,
    residual_variance_ratios,
    rows_along_ode,
)
from probsysid.odefilter.coloured_noise import apart_from_state, coloured, units_of_all
from probsysid.odefilter.diffusion import EXTRA_DERIVATIVES, FLOOR, UnitVariance, initial_diffusion, without_data
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.linearise import jacobian_matrix
from probsysid.odefilter.noise_likelihood import transformed
from probsysid.odefilter.ode_filter import (
    FoldStep,
    LinearisedODE,
    NextState,
    ODEFilter,
    Prediction,
    ScanStep,
    StepItems,
)
from probsysid.odefilter.taylor_init import completion_sparsity, taylor_derivatives
from probsysid.odefilter.unrolled.gaussian import Innovation


def as_array_filter(ode_filter: ODEFilter) -> "ArrayFilter":
    """The same filter in array form: for few particles filtered once, compilation takes most of the time."""
    return ArrayFilter(**{field.name: getattr(ode_filter, field.name) for field in fields(ode_filter)})


@final
@dataclass(frozen=True)
class ArrayFilter(IndexedFilter):
    """A filter whose state holds arrays: mean (D,), factor (free, free), jacobian (coordinate, physical), a diffusion
    memory of arrays by coordinate, and variance (coordinate,)."""

    # Initialisation

    def start(self, particle: Particle, sample: IntervalData) -> FilterState:
        physical = self._physical
        sd = jnp.stack(particle.initial_sd) / sample.scales[physical]
        noise = [r.level for r in coloured(particle.noise).values()]
        rows = jnp.pad(jnp.diag(sd), ((0, 0), (0, len(self._free) + len(noise) - len(physical))))
        mean, factor, jacobian = self._from_physical(
            particle, sample, sample.inputs, jnp.stack(particle.initial_mean), rows
        )
        mean, factor = joined(mean, jnp.zeros(len(noise))), joined(factor, own_rows(noise, len(self._free)))
        guesses = self._initial_diffusions(particle, sample)
        memory = [jnp.broadcast_to(jnp.asarray(m), guesses.shape) for m in self.diffusion.start(guesses)]
        return FilterState(mean, factor, jacobian, memory, jnp.zeros_like(guesses), jnp.zeros(self._tracked))

    def _initial_diffusions(self, particle: Particle, sample: IntervalData) -> Float[Array, "coordinate"]:
        """Squared diffusion of each coordinate, given or from the initial state alone."""
        if particle.diffusion is not None:
            return jnp.stack(particle.diffusion) ** 2
        extended = self.layout.further(EXTRA_DERIVATIVES)
        derivatives = self._completion(particle, extended, sample.inputs)(jnp.stack(particle.initial_mean))
        ends = np.array(extended.offsets) + np.array(extended.smoothness)
        return jnp.asarray(initial_diffusion((derivatives[ends - 1], derivatives[ends]), sample.step))

    def _restart(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        rows = state.factor[: len(self._physical)]
        values = state.mean[self._physical] * sample.scales[self._physical]
        mean, factor, jacobian = self._from_physical(particle, sample, sample.departure, values, rows)
        return with_noise_of(state, state._replace(mean=mean, factor=factor, jacobian=jacobian))

    def _from_physical(
        self, particle: Particle, sample: IntervalData, derivatives: Numbers, physical: Array, rows: Array
    ) -> tuple[Array, Array, Array]:
        """Mean, factor and Jacobian from the physical components' mean and rows: Taylor coefficients, linearised."""
        scales = sample.scales
        complete = self._completion(particle, self.layout, derivatives)
        if self.linearisation.blocks:
            values = complete(physical)
            _, highest = self._linearise(particle, values / scales, derivatives[:, 0], scales)
        else:
            values, jacobian = self.linearisation.matrix(complete, physical, self._completion_sparsity)
            jacobian = jacobian * scales[self._physical] / scales[:, None]
            highest = jacobian[self._highest]
        if self.linearisation.blocks or particle.process_noise is not None:
            others = others_along_ode(self.layout, self._others, highest, scales, rows, self._algebra)
        else:
            others = jnp.asarray(self._algebra.product(jacobian[np.array(self._others, dtype=int)], rows))
        return values / scales, jnp.concatenate([rows, others]), highest

    def _completion(self, particle: Particle, layout: Layout, derivatives: Numbers) -> Callable[[Array], Array]:
        """The map from physical components to all of a layout, in physical units."""
        inputs = [list(values) for values in derivatives]

        def highest(x: Sequence[Scalar], u: Sequence[Scalar]) -> list[Numbers]:
            return self.model.highest_derivatives(x, u, particle.parameters)

        def complete(physical: Array) -> Array:
            return jnp.stack(taylor_derivatives(highest, layout, list(physical), inputs))

        return complete

    @cached_property
    def _completion_sparsity(self) -> SparsityPattern:
        return completion_sparsity(self.model, self.layout)

    # One interval

    def _rescale(self, state: FilterState, rescale: Numbers) -> FilterState:
        jacobian = state.jacobian * rescale[self._highest][:, None] / rescale[self._physical]
        mean, factor = state.mean[: self.layout.size] * rescale, self._rows_of(state) * rescale[self._free][:, None]
        data_part = state.data_part * rescale[np.array(self._others, dtype=int)[: self._tracked]]
        new = state._replace(mean=mean, factor=factor, jacobian=jacobian, data_part=data_part)
        return with_noise_of(state, new)

    def _rows_of(self, state: FilterState) -> Array:
        """Rows of the free components, without those of coloured noise."""
        return state.factor[: len(self._free)]

    def _fold_steps(self, state: FilterState, sample: IntervalData, step: FoldStep) -> FilterState:
        """As a loop, whose program is as short for many steps as for two."""
        if sample.count is None and sample.grid.shape[0] == 1:
            return step(0, state)
        count = sample.grid.shape[0] if sample.count is None else jnp.asarray(sample.count, dtype=int)
        return lax.fori_loop(0, count, step, state)

    def scan_steps(self, step: ScanStep, state: FilterState, items: StepItems) -> tuple[FilterState, PyTree]:
        return lax.scan(step, state, items)

    # One integration step

    def _predict_mean(self, state: FilterState) -> Float[Array, "D"]:
        return joined(self._predict(state.mean), state.mean[self.layout.size :])

    def _predict(self, components: Array) -> Float[Array, "D"]:
        return self._algebra.times(self._transition, components[self._factor_order])[self._prediction_to_layout]

    def _predict_data_part(self, state: FilterState) -> Float[Array, "D"] | None:
        if not self._tracks_data:
            return None
        return self._predict(embed(self.layout, self._others, state.data_part))

    def _predict_rows(self, state: FilterState, variance: Array) -> Float[Array, "predicted column"]:
        """Of the components in `_prediction_order`."""
        sigma = jnp.sqrt(variance)[np.array(self.layout.coordinate)[self._prediction_order]]
        jacobian = state.jacobian[:0] if self.ode_noise else state.jacobian
        noise = self.layout.process_factor[self._prediction_order]
        rows = self._algebra.predict(self._transition, noise, self._rows_of(state), jacobian, sigma)
        return joined(rows, jnp.pad(state.factor[len(self._free) :], ((0, 0), (0, self.layout.size))))

    def _predict_rows_along_ode(
        self, state: FilterState, variance: Array, jacobian: Array, scales: Numbers, step: Scalar
    ) -> Array:
        own = state._replace(factor=self._rows_of(state))
        rows = rows_along_ode(self.layout, self._others, own, jacobian, scales, step, self._algebra)
        rows = joined(rows[self._prediction_order], state.factor[len(self._free) :])
        return jnp.concatenate([rows, self._predict_rows(state, variance)[:, state.factor.shape[1] :]], axis=1)

    def _linearise(self, particle: Particle, mean: Array, inputs: Vector, scales: Numbers) -> tuple[Array, Array]:
        point = mean[self._physical] * scales[self._physical]

        def function(physical: Array) -> Array:
            return jnp.stack(self.model.highest_derivatives(list(physical), list(inputs), particle.parameters))

        values, jacobian = self.linearisation.matrix(function, point, self.model.dynamics_sparsity)
        if self.linearisation.blocks:
            jacobian = jnp.where(np.array(self._slopes_used), jacobian, 0.0)
        return values / scales[self._highest], jacobian * scales[self._physical] / scales[self._highest][:, None]

    def _relinearise(
        self, particle: Particle, mean: Array, corrected: Array, inputs: Vector, scales: Numbers
    ) -> tuple[Array, Array]:
        values, jacobian = self._linearise(particle, corrected, inputs, scales)
        return self._values_along(LinearisedODE(corrected, values, jacobian), mean), jacobian

    def _values_along(self, along: LinearisedODE, mean: Array) -> Array:
        return along.values + self._algebra.product(along.jacobian, (mean - along.mean)[self._physical])

    def _residual_energy(self, rows: Array, ode: LinearisedODE, scales: Numbers) -> Scalar:
        spread = self.ode_noise / scales[self._highest]
        return residual_energy(rows, ode.jacobian, spread, ode.mean[self._highest] - ode.values, self._algebra)

    def _calibrate(
        self,
        state: FilterState,
        sample: IntervalData,
        predicted: Prediction,
        values: Array,
        jacobian: Array,
        unit: Numbers,
    ) -> tuple[list[Scalar], Array]:
        residuals = predicted.mean[self._highest] - values
        if predicted.data_part is not None:
            residuals = without_data(residuals, self._rate_residuals(predicted.data_part, jacobian))
        n, q = np.array(self.layout.orders), np.array(self.layout.smoothness)
        share = jnp.full(len(n), sample.share)
        units = UnitVariance(unit, jnp.asarray(1 / (2 * q + 1 - 2 * n)), share)
        if self.linearisation.iterations:
            ratio = residual_variance_ratios(self.layout, jacobian, self._algebra)
            units = UnitVariance(units.running * ratio, units.local * ratio, share)
        memory, variance = jax.vmap(self.diffusion.update)(state.diffusion, residuals, units, np.arange(len(n)))
        variance = jnp.maximum(variance, FLOOR)
        if self.diffusion.coupled:
            variance = jnp.maximum(variance, diffusions_from_others(self.layout, jacobian, variance, self._algebra))
        return memory, variance

    def _condition_on_ode(
        self, rows: Array, predicted: Prediction, values: Array, jacobian: Array, scales: Numbers
    ) -> tuple[Array, Array, Array]:
        highest, (mean, data_part) = self._highest, predicted
        spread = jnp.diag(self.ode_noise / scales[highest]) if self.ode_noise else jnp.zeros((len(highest), 0))
        noise = mean[self.layout.size :]
        residuals, means = [mean[highest] - values], [joined(mean[self._free], noise)]
        if data_part is not None:
            residuals.append(self._rate_residuals(data_part, jacobian))
            means.append(joined(data_part[self._free], jnp.zeros_like(noise)))
        factor, updated = self._algebra.condition_on_rate(
            rows, jacobian, spread, jnp.stack(residuals, axis=1), jnp.stack(means, axis=1)
        )
        part = jnp.zeros(0)
        if data_part is not None:
            change = updated[: len(self._free), 1]
            part = off_solutions(self.layout, self._others, change, jacobian, scales, self._algebra)
        return factor, self._complete_mean(updated[:, 0], mean, values, jacobian), part

    def _rate_residuals(self, components: Array, jacobian: Array) -> Array:
        """Highest derivatives minus Jacobian times physical components."""
        return components[self._highest] - self._algebra.product(jacobian, components[self._physical])

    def _complete_mean(self, free_mean: Array, predicted: Array, values: Array, jacobian: Array) -> Array:
        """All components: where the ODE is exact, highest derivatives follow from the linearised vector field."""
        free, noise = free_mean[: len(self._free)], free_mean[len(self._free) :]
        if self.ode_noise:
            return joined(free[self._to_layout], noise)
        highest = values + self._algebra.product(jacobian, free[: len(self._physical)] - predicted[self._physical])
        return joined(jnp.concatenate([free, highest])[self._to_layout], noise)

    def _updated(
        self, factor: Array, mean: Array, jacobian: Array, memory: list[Scalar], variance: Array, data_part: Array
    ) -> FilterState:
        return FilterState(mean, factor, jacobian, memory, variance, data_part)

    # Process noise

    def _predicted(self, state: FilterState, arrived: FilterState, sample: IntervalData) -> tuple[Array, Array]:
        rows = self._predict_rows_along_ode(state, arrived.variance, arrived.jacobian, sample.scales, sample.step)
        columns, gap = len(state.factor), self.layout.size - len(self._free)
        noise, units = len(state.mean) - self.layout.size, units_of_all(sample, state.mean)
        rows = jnp.insert(rows, np.full(gap, columns), 0.0, axis=1)
        order = np.concatenate([self._prediction_to_layout, len(rows) - noise + np.arange(noise)])
        return self._predict_mean(state) * units, rows[order] * units[:, None]

    def _disturb(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        added = self._disturbance_rows(state, particle, sample)
        added = jnp.pad(added, ((0, len(state.factor) - len(added)), (0, 0)))
        return state._replace(factor=self._algebra.lower(jnp.concatenate([state.factor, added], axis=1)))

    def _disturbance(self, state: FilterState, particle: Particle, sample: IntervalData) -> Array:
        added = state._replace(factor=self._disturbance_rows(state, particle, sample))
        rows = self._all_rows(added)[self._to_layout] * sample.scales[:, None]
        return jnp.pad(rows, ((0, len(state.mean) - len(rows)), (0, 0)))

    def _disturbance_rows(self, state: FilterState, particle: Particle, sample: IntervalData) -> Array:
        given = sample.scales, sample.step, particle.process_noise or []
        return disturbance_rows(self.layout, state.jacobian, *given, self._algebra)[self._free]

    # Data

    def _age_noise(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        return aged(state, len(self._free), particle.noise, sample, self._algebra)

    def observe(
        self, state: FilterState, particle: Particle, sample: IntervalData, scores: bool = True
    ) -> tuple[FilterState, Array, list[Innovation]]:
        scales = sample.scales
        if self.restarts:
            state = self._follow_jump(state, particle, sample)
        observable, split = np.concatenate([self._physical, self._highest]), len(self._physical)
        inputs = [values[0] for values in sample.inputs]

        def function(x: Array) -> Array:
            outputs = self.model.measured(list(x[:split]), list(x[split:]), inputs, particle.parameters)
            return jnp.stack(transformed(particle.noise, outputs, list(sample.outputs)))

        point = state.mean[observable] * scales[observable]
        predictions, jacobian = jacobian_matrix(function, point, self.model.outputs_sparsity)
        jacobian = jacobian * scales[observable]
        if not self.ode_noise:  # highest derivatives are functions of the physical components
            jacobian = jacobian[:, :split] + self._algebra.product(jacobian[:, split:], state.jacobian)
        rows = self._algebra.product(jacobian, state.factor[: jacobian.shape[1]])
        free, size = len(self._free), self.layout.size
        rows, predictions = with_coloured(rows, predictions, state, free, particle.noise)
        energy, innovations, factor, free_mean = self._algebra.observe(
            rows,
            predictions,
            sample.outputs,
            apart_from_state(particle.noise),
            state.factor,
            joined(state.mean[self._free], state.mean[size:]),
            scores,
        )
        if len(state.mean) > size and not self.joint:
            state = noise_alone(state, factor, free_mean, free)
        if self.joint:
            mean = self._complete_mean(free_mean, state.mean, state.mean[self._highest], state.jacobian)
            data_part = state.data_part
            if self._tracks_data:
                change = free_mean[:free] - state.mean[self._free]
                data_part += off_solutions(self.layout, self._others, change, state.jacobian, scales, self._algebra)
            state = state._replace(mean=mean, factor=factor, data_part=data_part)
        return state, energy, innovations

    def _follow_jump(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """The highest derivatives after the inputs have jumped to the sample's values, as an accelerometer measures."""
        if self.ode_noise:
            return state
        inputs = [values[0] for values in sample.inputs]
        values, jacobian = self._linearise(particle, state.mean, inputs, sample.scales)
        mean = jnp.concatenate([state.mean[self._free], values])[self._to_layout]
        return state._replace(mean=joined(mean, state.mean[self.layout.size :]), jacobian=jacobian)

    def before_jump(self, observed: FilterState, arrived: FilterState) -> FilterState:
        highest = arrived.mean[self._highest]
        free_mean = joined(observed.mean[self._free], observed.mean[self.layout.size :])
        mean = self._complete_mean(free_mean, arrived.mean, highest, arrived.jacobian)
        return observed._replace(mean=mean, jacobian=arrived.jacobian)

    # The state for loops and storage

    def structure(
        self, first: NextState, step: NextState, particle: Particle, sample: IntervalData
    ) -> tuple[None, FilterState]:
        """Arrays have no structural zeros, and their shapes are known without tracing."""
        noise = len(coloured(particle.noise))
        coordinates, free = len(self._highest), len(self._free) + noise
        memory = self.diffusion.start(np.zeros(coordinates))

        def numbers(*shape: int) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(shape, float)

        return None, FilterState(
            mean=numbers(self.layout.size + noise),
            factor=numbers(free, free),
            jacobian=numbers(coordinates, len(self._physical)),
            diffusion=[numbers(coordinates) for _ in memory],
            variance=numbers(coordinates),
            data_part=numbers(self._tracked),
        )

    def fill(self, state: FilterState, pattern: None) -> FilterState:
        """Every number a double."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), state)

    def moments(self, state: FilterState, sample: IntervalData) -> tuple[Array, Array]:
        units = units_of_all(sample, state.mean)
        rows = joined(self._all_rows(state)[self._to_layout], state.factor[len(self._free) :])
        rows = jnp.pad(rows, ((0, 0), (0, rows.shape[0] - rows.shape[1])))
        return state.mean * units, rows * units[:, None]

    def _all_rows(self, state: FilterState) -> Float[Array, "D free"]:
        """The row of every component, in `_factor_order`."""
        if self.ode_noise:
            return self._rows_of(state)
        determined = self._algebra.product(state.jacobian, state.factor[: len(self._physical)])
        return jnp.concatenate([self._rows_of(state), determined])

    def pack(self, state: FilterState, template: FilterState) -> Array:
        pairs = zip(jax.tree.leaves(state), jax.tree.leaves(template), strict=True)
        return jnp.concatenate([leaf.reshape(-1, *leaf.shape[len(one.shape) :]) for leaf, one in pairs])

    def unpack(self, packed: Numbers, template: FilterState) -> FilterState:
        leaves, tree = jax.tree.flatten(template)
        ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
        parts = zip(jnp.split(packed, ends), leaves, strict=True)
        return jax.tree.unflatten(tree, [part.reshape(*leaf.shape, *packed.shape[1:]) for part, leaf in parts])
