"""The filter with its algebra written out number by number: for small states.

Everything is written for plain numbers of one particle and unrolled while JAX traces it; `filter.py` maps it over
particles.  Structural zeros of the prior, of the model's Jacobian and of the factor cost nothing.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import ClassVar, final

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from probsysid._internal.array_types import Numbers, Scalar, Vector
from probsysid.model.particle import Particle
from probsysid.odefilter.coloured_noise import apart_from_state, coloured, units_of_all
from probsysid.odefilter.diffusion import EXTRA_DERIVATIVES, FLOOR, UnitVariance, initial_diffusion, without_data
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.ode_filter import (
    FoldStep,
    LinearisedODE,
    NextState,
    ODEFilter,
    Prediction,
    ScanStep,
    StepItems,
)
from probsysid.odefilter.taylor_init import taylor_derivatives
from probsysid.odefilter.unrolled import gaussian
from probsysid.odefilter.unrolled.coloured import aged, diagonal, noise_alone, with_coloured
from probsysid.odefilter.unrolled.gaussian import Innovation, Row
from probsysid.odefilter.unrolled.outputs import predicted_outputs
from probsysid.odefilter.unrolled.residuals import (
    apply,
    dense,
    diffusion_from_others,
    disturbance_rows,
    embed,
    off_solutions,
    others_along_ode,
    rate_residuals,
    residual_energy,
    residual_rows,
    residual_variance_ratio,
    residuals_at,
    rows_along_ode,
    sparse,
)
from probsysid.odefilter.unrolled.structural_zeros import FactorPattern, fill, reachable_pattern


@final
class UnrolledFilter(ODEFilter):
    """A filter whose state holds lists of numbers, with `None` for structural zeros of the factor."""

    unrolled: ClassVar[bool] = True

    # Initialisation

    def start(self, particle: Particle, sample: IntervalData) -> FilterState:
        noise = [r.level for r in coloured(particle.noise).values()]
        size = len(self.free) + len(noise)
        scaled = zip(self.layout.physical, particle.initial_sd, strict=True)
        rows = diagonal([sd / sample.scales[i] for i, sd in scaled], size, 0)
        mean, factor, jacobian = self._from_physical(particle, sample, sample.inputs, particle.initial_mean, rows)
        mean, factor = [*mean, *(jnp.zeros(()) for _ in noise)], [*factor, *diagonal(noise, size, len(self.free))]
        guesses = self._initial_diffusions(particle, sample)
        memory = [self.diffusion.start(guess) for guess in guesses]
        nothing = [jnp.zeros(()) for _ in self._others] if self._tracks_data else []
        return FilterState(mean, factor, jacobian, memory, [jnp.zeros(()) for _ in guesses], nothing)

    def _initial_diffusions(self, particle: Particle, sample: IntervalData) -> list[Scalar]:
        """Squared diffusion of each coordinate, given or from the initial state alone."""
        if particle.diffusion is not None:
            return [scale * scale for scale in particle.diffusion]
        extended = self.layout.further(EXTRA_DERIVATIVES)
        derivatives = taylor_derivatives(
            lambda x, u: self.model.highest_derivatives(x, u, particle.parameters),
            extended,
            particle.initial_mean,
            [list(values) for values in sample.inputs],
        )
        ends = [offset + q for offset, q in zip(extended.offsets, extended.smoothness, strict=True)]
        return [initial_diffusion(derivatives[end - 1 : end + 1], sample.step) for end in ends]

    def _restart(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        layout = self.layout
        physical = [state.mean[i] * sample.scales[i] for i in layout.physical]
        rows = state.factor[: len(layout.physical)]
        mean, factor, jacobian = self._from_physical(particle, sample, sample.departure, physical, rows)
        mean, factor = [*mean, *state.mean[layout.size :]], [*factor, *state.factor[len(self.free) :]]
        return state._replace(mean=mean, factor=factor, jacobian=jacobian)

    def _from_physical(
        self, particle: Particle, sample: IntervalData, derivatives: Numbers, physical: list[Scalar], rows: list[Row]
    ) -> tuple[list[Scalar], list[Row], list[Row]]:
        """Mean, factor and Jacobian from the physical components' mean and rows: Taylor coefficients, linearised."""
        layout, scales = self.layout, sample.scales
        inputs = [list(values) for values in derivatives]

        def complete(point: Sequence[Scalar]) -> list[Scalar]:
            return taylor_derivatives(
                lambda x, u: self.model.highest_derivatives(x, u, particle.parameters), layout, point, inputs
            )

        values = complete(physical)
        mean = [value / scale for value, scale in zip(values, scales, strict=True)]
        if self.linearisation.blocks:  # the Taylor coefficients' own Jacobian would take too long to compile
            _, highest = self._linearise(particle, mean, [u[0] for u in inputs], scales)
            return mean, [*rows, *others_along_ode(layout, self._others, highest, scales, rows)], highest
        full = ((True,) * len(physical),) * layout.size
        jacobian = [
            gaussian.in_units(row, layout.physical, scales, i)
            for i, row in enumerate(self.linearisation(complete, physical, full))
        ]
        highest = [
            [entry if used else None for entry, used in zip(jacobian[i], row, strict=True)]
            for i, row in zip(layout.highest, self.model.dynamics_sparsity, strict=True)
        ]
        if particle.process_noise is None:
            others = [gaussian.combine(jacobian[i], rows) for i in self._others]
        else:
            others = others_along_ode(layout, self._others, highest, scales, rows)
        return mean, [*rows, *others], highest

    # One interval

    def _fold_steps(self, state: FilterState, sample: IntervalData, step: FoldStep) -> FilterState:
        """Written out, unless the number of steps is known only when the program runs."""
        if sample.count is None:
            return reduce(lambda state, j: step(j, state), range(sample.grid.shape[0]), state)
        count = jnp.asarray(sample.count, dtype=int)
        pattern = reachable_pattern(partial(step, 0), state)
        return lax.fori_loop(0, count, lambda j, s: fill(step(j, s), pattern), fill(state, pattern))

    def scan_steps(self, step: ScanStep, state: FilterState, items: StepItems) -> tuple[FilterState, PyTree]:
        """Written out: the state's structural zeros may change from step to step."""
        results = []
        for j in range(len(jax.tree.leaves(items)[0])):
            state, result = step(state, jax.tree.map(lambda leaf: leaf[j], items))  # noqa: B023
            results.append(result)
        return state, jax.tree.map(lambda *leaves: jnp.stack(leaves), *results)

    def _rescale(self, state: FilterState, rescale: Numbers) -> FilterState:
        layout = self.layout
        size, free = layout.size, len(self.free)
        mean = [*(value * rescale[i] for i, value in enumerate(state.mean[:size])), *state.mean[size:]]
        scaled = zip(self.free, state.factor[:free], strict=True)
        factor = [[gaussian.multiply(entry, rescale[i]) for entry in row] for i, row in scaled] + state.factor[free:]
        jacobian = [
            [None if s is None else s * (rescale[i] / rescale[j]) for s, j in zip(row, layout.physical, strict=True)]
            for i, row in zip(layout.highest, state.jacobian, strict=True)
        ]
        data_part = [value * rescale[i] for i, value in zip(self._others, state.data_part, strict=False)]
        return state._replace(mean=mean, factor=factor, jacobian=jacobian, data_part=data_part)

    # One integration step

    def _predict_mean(self, state: FilterState) -> list[Scalar]:
        size = self.layout.size
        return [*apply(self.layout.transition, state.mean[:size]), *state.mean[size:]]

    def _predict_data_part(self, state: FilterState) -> list[Scalar] | None:
        if not self._tracks_data:
            return None
        return apply(self.layout.transition, embed(self.layout, self._others, state.data_part))

    def _predict_rows(self, state: FilterState, variance: list[Scalar]) -> list[Row]:
        layout = self.layout
        sigma = [jnp.sqrt(v) for v in variance]
        rows = self._component_rows(state)
        transition, process = sparse(layout.transition), sparse(layout.process_factor)
        predicted = [
            [
                *gaussian.combine(transition[i], rows),
                *(gaussian.multiply(entry, sigma[layout.coordinate[i]]) for entry in process[i]),
            ]
            for i in range(layout.size)
        ]
        return predicted + [[*row, *[None] * layout.size] for row in state.factor[len(self.free) :]]

    def _predict_rows_along_ode(
        self, state: FilterState, variance: list[Scalar], jacobian: list[Row], scales: Numbers, step: Scalar
    ) -> list[Row]:
        free = len(self.free)
        components = state._replace(factor=state.factor[:free])
        carried = rows_along_ode(self.layout, self._others, components, jacobian, scales, step) + state.factor[free:]
        noise = [row[len(state.factor) :] for row in self._predict_rows(state, variance)]
        return [[*row, *more] for row, more in zip(carried, noise, strict=True)]

    def _carried(self, mean: list[Scalar]) -> tuple[int, ...]:
        """The free components and coloured noise: what has rows in the factor."""
        return (*self.free, *range(self.layout.size, len(mean)))

    def _component_rows(self, state: FilterState) -> list[Row]:
        """The row of every component, in the order of the layout."""
        rows: list[Row] = [[] for _ in range(self.layout.size)]
        for i, row in zip(self.free, state.factor, strict=False):
            rows[i] = row
        if not self.ode_noise:
            physical = [rows[i] for i in self.layout.physical]
            for i, jacobian in zip(self.layout.highest, state.jacobian, strict=True):
                rows[i] = gaussian.combine(jacobian, physical)
        return rows

    def _linearise(
        self, particle: Particle, mean: list[Scalar], inputs: Vector, scales: Numbers
    ) -> tuple[list[Scalar], list[Row]]:
        layout = self.layout
        point = [mean[i] * scales[i] for i in layout.physical]

        def function(physical: Sequence[Scalar]) -> Sequence[Scalar]:
            return self.model.highest_derivatives(physical, list(inputs), particle.parameters)

        values = [value / scales[i] for i, value in zip(layout.highest, function(point), strict=True)]
        jacobian = [
            gaussian.in_units(row, layout.physical, scales, i)
            for i, row in zip(layout.highest, self.linearisation(function, point, self._slopes_used), strict=True)
        ]
        return values, jacobian

    def _relinearise(
        self, particle: Particle, mean: list[Scalar], corrected: list[Scalar], inputs: Vector, scales: Numbers
    ) -> tuple[list[Scalar], list[Row]]:
        values, jacobian = self._linearise(particle, corrected, inputs, scales)
        return self._values_along(LinearisedODE(corrected, values, jacobian), mean), jacobian

    def _values_along(self, along: LinearisedODE, mean: list[Scalar]) -> list[Scalar]:
        change = [mean[i] - along.mean[i] for i in self.layout.physical]
        pairs = zip(along.values, along.jacobian, strict=True)
        return [gaussian.add(value, gaussian.combine_values(row, change)) for value, row in pairs]

    def _residual_energy(self, rows: list[Row], ode: LinearisedODE, scales: Numbers) -> Scalar:
        return residual_energy(self.layout, rows, *ode, [self.ode_noise / scales[i] for i in self.layout.highest])

    def _calibrate(
        self,
        state: FilterState,
        sample: IntervalData,
        predicted: Prediction,
        values: list[Scalar],
        jacobian: list[Row],
        unit: Numbers,
    ) -> tuple[list[list[Scalar]], list[Scalar]]:
        memories: list[list[Scalar]] = []
        variances: list[Scalar] = []
        residuals = residuals_at(self.layout, predicted.mean, values)
        if predicted.data_part is not None:
            from_data = rate_residuals(self.layout, predicted.data_part, jacobian)
            residuals = [without_data(z, part) for z, part in zip(residuals, from_data, strict=True)]
        for c, residual in enumerate(residuals):
            n, q = self.layout.orders[c], self.layout.smoothness[c]
            units = UnitVariance(unit[c], 1 / (2 * q + 1 - 2 * n), sample.share)
            if self.linearisation.iterations:
                ratio = residual_variance_ratio(self.layout, jacobian[c], c)
                units = UnitVariance(units.running * ratio, units.local * ratio, sample.share)
            memory, variance = self.diffusion.update(state.diffusion[c], residual, units, c)
            memories.append(memory)
            variances.append(jnp.maximum(variance, FLOOR))
        if self.diffusion.coupled:
            reach = [diffusion_from_others(self.layout, row, c, variances) for c, row in enumerate(jacobian)]
            variances = [v if r is None else jnp.maximum(v, r) for v, r in zip(variances, reach, strict=True)]
        return memories, variances

    def _condition_on_ode(
        self, rows: list[Row], predicted: Prediction, values: list[Scalar], jacobian: list[Row], scales: Numbers
    ) -> tuple[list[Row], list[Scalar], list[Scalar]]:
        mean, data_part = predicted
        directions = residual_rows(self.layout, rows, jacobian, self.ode_noise / scales if self.ode_noise else None)
        if self.ode_noise:
            rows = [[*row, *[None] * len(directions)] for row in rows]
        carried = self._carried(mean)
        vectors = [(residuals_at(self.layout, mean, values), [mean[i] for i in carried])]
        if data_part is not None:
            data_part = [*data_part, *[None] * (len(mean) - len(data_part))]
            vectors.append((rate_residuals(self.layout, data_part, jacobian), [data_part[i] for i in carried]))
        free_rows, (free_mean, *parts) = gaussian.condition(directions, [rows[i] for i in carried], vectors)
        mean = self._complete_mean(free_mean, mean, values, jacobian)
        off = [off_solutions(self.layout, self._others, part[: len(self.free)], jacobian, scales) for part in parts]
        return free_rows, mean, [entry for part in off for entry in part]

    def _complete_mean(
        self, free_mean: list[Scalar], predicted: list[Scalar], values: list[Scalar], jacobian: list[Row]
    ) -> list[Scalar]:
        """All components: where the ODE is exact, highest derivatives follow from the linearised vector field."""
        mean = list(predicted)
        for i, value in zip(self._carried(mean), free_mean, strict=True):
            mean[i] = value
        if not self.ode_noise:
            change = [mean[i] - predicted[i] for i in self.layout.physical]
            for i, value, slopes in zip(self.layout.highest, values, jacobian, strict=True):
                mean[i] = gaussian.add(value, gaussian.combine_values(slopes, change))
        return mean

    def _updated(
        self, factor: list[Row], mean: Row, jacobian: list[Row], memory: list[Row], variance: Row, data_part: Row
    ) -> FilterState:
        return FilterState(mean, gaussian.triangularise(factor), jacobian, memory, variance, data_part)

    # Process noise

    def _predicted(self, state: FilterState, arrived: FilterState, sample: IntervalData) -> tuple[Array, Array]:
        rows = self._predict_rows_along_ode(state, arrived.variance, arrived.jacobian, sample.scales, sample.step)
        columns, gap = len(state.factor), [None] * (self.layout.size - len(self.free))
        units = units_of_all(sample, state.mean)
        mean = jnp.stack(self._predict_mean(state)) * units
        return mean, dense([[*row[:columns], *gap, *row[columns:]] for row in rows]) * units[:, None]

    def _disturb(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        added = self._disturbance_rows(state, particle, sample)
        added += [[None] * len(added[0])] * (len(state.factor) - len(added))
        return state._replace(
            factor=gaussian.triangularise([[*a, *b] for a, b in zip(state.factor, added, strict=True)])
        )

    def _disturbance(self, state: FilterState, particle: Particle, sample: IntervalData) -> Array:
        added = self._disturbance_rows(state, particle, sample)
        rows = dense(self._component_rows(state._replace(factor=added))) * sample.scales[:, None]
        return jnp.pad(rows, ((0, len(state.mean) - len(rows)), (0, 0)))

    def _disturbance_rows(self, state: FilterState, particle: Particle, sample: IntervalData) -> list[Row]:
        levels = particle.process_noise or []
        return disturbance_rows(self.layout, state.jacobian, sample.scales, sample.step, levels, self.free)

    # Data

    def _age_noise(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        return aged(state, len(self.free), particle.noise, sample)

    def observe(
        self, state: FilterState, particle: Particle, sample: IntervalData, scores: bool = True
    ) -> tuple[FilterState, Scalar, list[Innovation]]:
        layout = self.layout
        if self.restarts:
            state = self._follow_jump(state, particle, sample)
        output_rows, predictions = predicted_outputs(
            self.model, layout, particle, sample, state.mean, self._component_rows(state)
        )
        free, noise = len(self.free), apart_from_state(particle.noise)
        output_rows, predictions = with_coloured(output_rows, predictions, state, free, particle.noise)
        free_mean = [state.mean[i] for i in self._carried(state.mean)]
        energy, innovations, factor, free_mean = gaussian.observe(
            output_rows, predictions, list(sample.outputs), noise, state.factor, free_mean, scores
        )
        if not self.joint:
            state = noise_alone(state, factor, free_mean, free)
        else:
            values = [state.mean[i] for i in layout.highest]
            mean = self._complete_mean(free_mean, state.mean, values, state.jacobian)
            data_part = state.data_part
            if self._tracks_data:
                change = [new - state.mean[i] for i, new in zip(self.free, free_mean, strict=False)]
                off = off_solutions(self.layout, self._others, change, state.jacobian, sample.scales)
                data_part = [gaussian.add(*pair) for pair in zip(data_part, off, strict=True)]
            state = state._replace(mean=mean, factor=factor, data_part=data_part)
        return state, energy, innovations

    def _follow_jump(self, state: FilterState, particle: Particle, sample: IntervalData) -> FilterState:
        """The highest derivatives after the inputs have jumped to the sample's values, as an accelerometer measures."""
        if self.ode_noise:
            return state
        inputs = [values[0] for values in sample.inputs]
        values, jacobian = self._linearise(particle, state.mean, inputs, sample.scales)
        mean = list(state.mean)
        for i, value in zip(self.layout.highest, values, strict=True):
            mean[i] = value
        return state._replace(mean=mean, jacobian=jacobian)

    def before_jump(self, observed: FilterState, arrived: FilterState) -> FilterState:
        free_mean = [observed.mean[i] for i in self._carried(observed.mean)]
        highest = [arrived.mean[i] for i in self.layout.highest]
        mean = self._complete_mean(free_mean, arrived.mean, highest, arrived.jacobian)
        return observed._replace(mean=mean, jacobian=arrived.jacobian)

    # The state for loops and storage

    def structure(
        self, first: NextState, step: NextState, particle: Particle, sample: IntervalData
    ) -> tuple[FactorPattern, FilterState]:
        """Found by tracing `first` and `step`, the latter several times."""
        state = jax.eval_shape(first, particle, sample)
        pattern = reachable_pattern(step, state, particle, sample)
        return pattern, jax.eval_shape(lambda s: fill(s, pattern), state)

    def fill(self, state: FilterState, pattern: FactorPattern) -> FilterState:
        return fill(state, pattern)

    def moments(self, state: FilterState, sample: IntervalData) -> tuple[Array, Array]:
        gap, units = [None] * (self.layout.size - len(self.free)), units_of_all(sample, state.mean)
        rows = [[*row, *gap] for row in [*self._component_rows(state), *state.factor[len(self.free) :]]]
        return jnp.stack(state.mean) * units, dense(rows) * units[:, None]

    def pack(self, state: FilterState, template: FilterState) -> Array:
        return jnp.stack(jax.tree.leaves(state))

    def unpack(self, packed: Numbers, template: FilterState) -> FilterState:
        return jax.tree.unflatten(jax.tree.structure(template), list(packed))
