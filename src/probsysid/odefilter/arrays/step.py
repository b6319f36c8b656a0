"""The filter for one particle in array form: for states of many components.

`step.py` unrolls its algebra number by number, so its program grows with the cube of the state's size: unbeatable for
a few components, hopeless for a hundred.  Here the same steps are taken with the matrices of `arrays.py`, and the
program is as long as the model's own functions.

Rows of a factor come in the order of `UnrolledFilter.free`; means, as everywhere, in the order of the layout.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from probsysid.model.particle import Particle
from probsysid.model.sparsity import SparsityPattern, sparsity_pattern
from probsysid.odefilter.arrays.batched import Batched, fits_batched
from probsysid.odefilter.arrays.lapack import Lapack
from probsysid.odefilter.arrays.sqrt_algebra import SparseRows, SquareRootAlgebra
from probsysid.odefilter.diffusion import BEYOND, FLOOR, UnitVariance, first_guess
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.linearise import jacobian_matrix
from probsysid.odefilter.taylor_init import taylor_derivatives
from probsysid.odefilter.unrolled.gaussian import Innovation
from probsysid.odefilter.unrolled.step import FilterState, IntervalData, UnrolledFilter


def as_array_filter(ode_filter: UnrolledFilter) -> "ArrayFilter":
    """The same system in array form: where a few particles are filtered once, compiling is what takes time."""
    return ArrayFilter(**{field.name: getattr(ode_filter, field.name) for field in fields(ode_filter)})


class ArrayFilter(UnrolledFilter):
    """A filter whose state holds arrays: mean (D,), factor (free, free), jacobian (coordinate, physical), a diffusion
    memory of arrays by coordinate, and variance (coordinate,)."""

    unrolled = False

    # Indices

    @cached_property
    def _physical(self) -> np.ndarray:
        return np.array(self.layout.physical)

    @cached_property
    def _highest(self) -> np.ndarray:
        return np.array(self.layout.highest)

    @cached_property
    def _free(self) -> np.ndarray:
        return np.array(self.free)

    @cached_property
    def _kept(self) -> np.ndarray:
        """Components in the order of `_kept_rows`: the free ones, then those that the ODE gives."""
        return self._free if self.ode_noise else np.concatenate([self._free, self._highest])

    @cached_property
    def _place(self) -> np.ndarray:
        """Where each component of the layout is among the kept ones."""
        return np.argsort(self._kept)

    @cached_property
    def _wanted(self) -> np.ndarray:
        """Components whose predictions a step needs: highest ones for the residuals, then the free ones."""
        return np.concatenate([self._highest, self._free])

    @cached_property
    def _place_wanted(self) -> np.ndarray:
        """Where each component is among the wanted ones; a highest one that is free, too, is there twice."""
        return np.unique(self._wanted, return_index=True)[1]

    @cached_property
    def _transition(self) -> SparseRows:
        """From kept to wanted components: at most q + 1 entries a row, since a coordinate sees no other."""
        return SparseRows.of(self.layout.transition[np.ix_(self._wanted, self._kept)])

    @cached_property
    def _algebra(self) -> SquareRootAlgebra:
        """How matrices are worked on: decided by the largest."""
        noise = len(self._highest) if self.ode_noise else 0
        return Batched() if fits_batched(len(self._wanted), len(self._free) + self.layout.size + noise) else Lapack()

    # Start

    def start(self, particle: Particle, sample: IntervalData) -> FilterState:
        """The Gaussian at the first sample, before its data."""
        physical = self._physical
        sd = jnp.stack(particle.initial_sd) / sample.scales[physical]
        rows = jnp.pad(jnp.diag(sd), ((0, 0), (0, len(self._free) - len(physical))))
        mean, factor, slopes = self._arrays_from_physical(
            particle, sample, sample.inputs, jnp.stack(particle.initial_mean), rows
        )
        guesses = self._guesses(particle, sample)
        memory = [jnp.broadcast_to(jnp.asarray(m), guesses.shape) for m in self.diffusion.start(guesses)]
        return FilterState(mean, factor, slopes, memory, jnp.zeros_like(guesses))

    def _guesses(self, particle: Particle, sample: IntervalData) -> Float[Array, "coordinate"]:
        """A squared diffusion for each coordinate, from the initial state alone."""
        further = Layout(self.layout.orders, tuple(q + BEYOND for q in self.layout.smoothness))
        derivatives = self._completion(particle, further, sample.inputs)(jnp.stack(particle.initial_mean))
        ends = np.array(further.offsets) + np.array(further.smoothness)
        return jnp.asarray(first_guess((derivatives[ends - 1], derivatives[ends]), sample.step))

    def restart(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """New higher derivatives from the ODE where the interval begins, given the physical components."""
        physical = self._physical
        rows = state.factor[: len(physical)]
        values = (state.mean * sample.scales)[physical]
        mean, factor, slopes = self._arrays_from_physical(particle, sample, sample.departure, values, rows)
        return state._replace(mean=mean, factor=factor, jacobian=slopes)

    def _arrays_from_physical(
        self, particle: Particle, sample: IntervalData, derivatives: Any, physical: Any, rows: Any
    ) -> tuple[Any, Any, Any]:
        """All components from the physical ones: Taylor coefficients for the mean, their Jacobian for the rows."""
        scales = sample.scales
        complete = self._completion(particle, self.layout, derivatives)
        values, slopes = self.linearisation.matrix(complete, physical, self._completed_dependence)
        slopes = slopes * scales[self._physical] / scales[:, None]
        others = self._free[len(self._physical) :]
        factor = jnp.concatenate([rows, self._algebra.product(slopes[others], rows)])
        return values / scales, factor, slopes[self._highest]

    def _completion(self, particle: Particle, layout: Layout, derivatives: Any) -> Callable[[Any], Any]:
        """Physical components to all of a layout, in physical units."""
        inputs = [list(values) for values in derivatives]

        def complete(physical: Any) -> Any:
            return jnp.stack(
                taylor_derivatives(
                    lambda x, u: self.model.highest_derivatives(x, u, particle.parameters),
                    layout,
                    list(physical),
                    inputs,
                )
            )

        return complete

    @cached_property
    def _completed_dependence(self) -> SparsityPattern:
        """Which physical component each component of the state can depend on at a restart."""
        model, layout = self.model, self.layout
        derivatives = max(q - n for n, q in zip(layout.orders, layout.smoothness, strict=True)) + 1
        number = jax.ShapeDtypeStruct((), float)
        inputs = [[number] * derivatives for _ in model.input_names]
        parameters = {p: jax.ShapeDtypeStruct(model.shapes.get(p, ()), float) for p in model.parameter_names}

        def complete(inputs: Any, parameters: Any, *physical: Any) -> list[Any]:
            return taylor_derivatives(
                lambda x, u: model.highest_derivatives(x, u, parameters), layout, list(physical), inputs
            )

        return sparsity_pattern(complete, inputs, parameters, count=len(layout.physical))

    # One interval

    def _steps(
        self, state: FilterState, sample: IntervalData, step: Callable[[Any, FilterState], FilterState]
    ) -> FilterState:
        """The steps of an interval as a loop, which is as short a program for many as for two."""
        if sample.count is None and sample.grid.shape[0] == 1:
            return step(0, state)
        count = sample.grid.shape[0] if sample.count is None else jnp.asarray(sample.count, dtype=int)
        return lax.fori_loop(0, count, step, state)

    def rescale(self, state: FilterState, rescale: Any) -> FilterState:
        """Change of units where the step length changes."""
        slopes = state.jacobian * rescale[self._highest][:, None] / rescale[self._physical]
        factor = state.factor * rescale[self._free][:, None]
        return state._replace(mean=state.mean * rescale, factor=factor, jacobian=slopes)

    def _kept_rows(self, state: FilterState) -> Float[Array, "D free"]:
        """The row of every component, in the order of `_kept`."""
        if self.ode_noise:
            return state.factor
        given = self._algebra.product(state.jacobian, state.factor[: len(self._physical)])
        return jnp.concatenate([state.factor, given])

    def component_rows(self, state: FilterState) -> Any:
        """The row of every component."""
        return self._kept_rows(state)[self._place]

    def advance(
        self, state: FilterState, particle: Particle, sample: IntervalData, inputs: Any, unit: Any
    ) -> FilterState:
        """One step: predict, estimate the diffusion, condition on the ODE."""
        scales = sample.scales
        mean = self._algebra.times(self._transition, state.mean[self._kept])[self._place_wanted]
        values, slopes = self._dynamics(particle, mean, inputs, scales)
        memory, variance = self._diffusions(state, particle, mean[self._highest] - values, slopes, unit)
        rows = self._predicted(state, variance)
        factor, new_mean = self._given_ode(rows, mean, values, slopes, scales)
        again = self.linearisation.iterations
        for k in range(again):
            values, slopes = self._dynamics_from(particle, mean, new_mean, inputs, scales)
            if k == again - 1:
                memory, variance = self._diffusions(state, particle, mean[self._highest] - values, slopes, unit)
                rows = self._predicted(state, variance)
            factor, new_mean = self._given_ode(rows, mean, values, slopes, scales)
        return FilterState(new_mean, factor, slopes, memory, variance)

    def _dynamics(self, particle: Particle, mean: Any, inputs: Any, scales: Any) -> tuple[Any, Any]:
        """The dynamics and their Jacobian at a state."""
        point = (mean * scales)[self._physical]

        def function(physical: Any) -> Any:
            return jnp.stack(self.model.highest_derivatives(list(physical), list(inputs), particle.parameters))

        values, slopes = self.linearisation.matrix(function, point, self.model.dynamics_sparsity)
        units = scales[self._highest]
        return values / units, slopes * scales[self._physical] / units[:, None]

    def _dynamics_from(
        self, particle: Particle, mean: Any, corrected: Any, inputs: Any, scales: Any
    ) -> tuple[Any, Any]:
        """The dynamics linearised at the corrected state: what they say at the predicted one, and their Jacobian."""
        values, slopes = self._dynamics(particle, corrected, inputs, scales)
        return values + self._algebra.product(slopes, (mean - corrected)[self._physical]), slopes

    def _diffusions(
        self, state: FilterState, particle: Particle, residuals: Any, slopes: Any, unit: Any
    ) -> tuple[list[Any], Any]:
        n, q = np.array(self.layout.orders), np.array(self.layout.smoothness)
        units = UnitVariance(unit, jnp.asarray(1 / (2 * q + 1 - 2 * n)))
        if self.linearisation.iterations:
            stretch = self._stretches(slopes)
            units = UnitVariance(units.running * stretch, units.local * stretch)
        memory, variance = jax.vmap(self.diffusion.update)(state.diffusion, residuals, units, np.arange(len(n)))
        if particle.model_error is not None:
            variance = variance + jnp.stack(particle.model_error) ** 2
        return memory, jnp.maximum(variance, FLOOR)

    def _stretches(self, slopes: Any) -> Float[Array, "coordinate"]:
        """`UnrolledFilter._stretch` of all coordinates."""
        noise, coordinate = self.layout.process_factor, np.array(self.layout.coordinate)
        own = coordinate[:, None] == np.arange(len(self._highest))  # a coordinate's noise is in columns of its own
        highest = noise[self._highest]
        rows = highest - self._algebra.product(slopes, noise[self._physical])
        return jnp.sum(jnp.where(own.T, rows**2, 0.0), axis=1) / np.sum(highest**2, axis=1)

    def _predicted(self, state: FilterState, variance: Any) -> Float[Array, "wanted column"]:
        """[A L, sigma sqrt(Q)] of the wanted components."""
        sigma = jnp.sqrt(variance)[np.array(self.layout.coordinate)[self._wanted]]
        given = state.jacobian[:0] if self.ode_noise else state.jacobian
        noise = self.layout.process_factor[self._wanted]
        return self._algebra.predict(self._transition, noise, state.factor, given, sigma)

    def _given_ode(self, rows: Any, mean: Any, values: Any, slopes: Any, scales: Any) -> tuple[Any, Any]:
        """Factor of the free components and the whole mean, given that the linearised ODE holds."""
        highest = self._highest
        spread = jnp.diag(self.ode_noise / scales[highest]) if self.ode_noise else jnp.zeros((len(highest), 0))
        residuals = mean[highest] - values
        factor, free_mean = self._algebra.condition_on_rate(rows, slopes, spread, residuals, mean[self._free])
        return factor, self._completed(free_mean, mean, values, slopes)

    def _completed(self, free_mean: Any, predicted: Any, values: Any, slopes: Any) -> Any:
        """All components: where the ODE is exact, highest derivatives follow from the linearised dynamics."""
        if self.ode_noise:
            return free_mean[self._place]
        change = free_mean[: len(self._physical)] - predicted[self._physical]
        return jnp.concatenate([free_mean, values + self._algebra.product(slopes, change)])[self._place]

    # Data

    def observe(
        self, state: FilterState, particle: Particle, sample: IntervalData
    ) -> tuple[FilterState, Any, list[Innovation]]:
        """Condition on the sample's outputs.  Returns the energy and each output's innovation."""
        scales = sample.scales
        if self.restarts:
            state = self._follow_jump(state, particle, sample)
        seen, split = np.concatenate([self._physical, self._highest]), len(self._physical)
        inputs = [values[0] for values in sample.inputs]

        def function(x: Any) -> Any:
            return jnp.stack(self.model.measured(list(x[:split]), list(x[split:]), inputs, particle.parameters))

        predictions, slopes = jacobian_matrix(function, (state.mean * scales)[seen], self.model.outputs_sparsity)
        slopes = slopes * scales[seen]
        if not self.ode_noise:  # highest derivatives are functions of the physical components
            slopes = slopes[:, :split] + self._algebra.product(slopes[:, split:], state.jacobian)
        energy, innovations, factor, free_mean = self._algebra.observe(
            self._algebra.product(slopes, state.factor[: slopes.shape[1]]),
            predictions,
            sample.outputs,
            jnp.stack(particle.noise),
            state.factor,
            state.mean[self._free],
        )
        if self.joint:
            mean = self._completed(free_mean, state.mean, state.mean[self._highest], state.jacobian)
            state = state._replace(mean=mean, factor=factor)
        return state, energy, [Innovation(*parts) for parts in zip(*innovations, strict=True)]

    def _follow_jump(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """The highest derivatives after the inputs have jumped to the sample's values: what an accelerometer feels."""
        if self.ode_noise:
            return state
        inputs = [values[0] for values in sample.inputs]
        values, slopes = self._dynamics(particle, state.mean, inputs, sample.scales)
        mean = jnp.concatenate([state.mean[self._free], values])[self._place]
        return state._replace(mean=mean, jacobian=slopes)

    def before_jump(self, observed: FilterState, arrived: FilterState) -> FilterState:
        """The state after the data, with the highest derivatives as they were before the inputs jumped."""
        highest = arrived.mean[self._highest]
        mean = self._completed(observed.mean[self._free], arrived.mean, highest, arrived.jacobian)
        return observed._replace(mean=mean, jacobian=arrived.jacobian)

    # The state for loops and storage

    def structure(self, first: Any, step: Any, particle: Particle, sample: IntervalData) -> tuple[Any, Any]:
        """Arrays have no zeros by structure, and their shapes are known without tracing anything."""
        coordinates, free = len(self._highest), len(self._free)
        memory = self.diffusion.start(np.zeros(coordinates))

        def numbers(*shape: int) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(shape, float)

        return None, FilterState(
            mean=numbers(self.layout.size),
            factor=numbers(free, free),
            jacobian=numbers(coordinates, len(self._physical)),
            diffusion=[numbers(coordinates) for _ in memory],
            variance=numbers(coordinates),
        )

    def fill(self, state: FilterState, pattern: Any) -> FilterState:
        """Every number a double."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), state)

    def moments(self, state: FilterState, sample: IntervalData) -> tuple[Any, Any]:
        """Mean and square factor of all components in physical units."""
        rows = self.component_rows(state)
        rows = jnp.pad(rows, ((0, 0), (0, rows.shape[0] - rows.shape[1])))
        return state.mean * sample.scales, rows * sample.scales[:, None]

    def pack(self, state: FilterState, template: FilterState) -> Any:
        """One vector for each particle; the particle axis, if there is one, is last."""
        pairs = zip(jax.tree.leaves(state), jax.tree.leaves(template), strict=True)
        return jnp.concatenate([leaf.reshape(-1, *leaf.shape[len(one.shape) :]) for leaf, one in pairs])

    def unpack(self, packed: Any, template: FilterState) -> FilterState:
        """The state from its vector."""
        leaves, tree = jax.tree.flatten(template)
        ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
        parts = zip(jnp.split(packed, ends), leaves, strict=True)
        return jax.tree.unflatten(tree, [part.reshape(*leaf.shape, *packed.shape[1:]) for part, leaf in parts])
