"""A probabilistic ODE solver on its own: the solution with error bars from the numerical integration.

solution = solve(model, {"m": 1.0, "c": 0.1}, record, initial={"x": 1.0})
solution.mean["x"], solution.sd["x"]      # at the record's samples
solution.at(times)                        # anywhere between them
solution.samples(100)["x"]                # joint draws of the whole path
solution.plot("solution.png")

An uncertain initial value stays out of the filter, which would condition it on the ODE (docs/decisions.md).  The ODE is
solved from the mean and from one standard deviation to either side instead; half the difference of two such solutions
shows how the deviation grows or decays, and is a further, independent column of the factor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from probsysid._internal.array_types import Numbers
from probsysid._internal.errors import InputError
from probsysid._internal.jax_setup import check_not_traced
from probsysid._internal.notebook import Card, Cell, Signal, html
from probsysid._internal.validation import check_count, check_kind, check_mapping, check_seed, is_finite
from probsysid.data.record import Record
from probsysid.model.initial_state import initial_moments
from probsysid.model.model import Model
from probsysid.model.particle import Particle
from probsysid.model.priors import Prior
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.smoothing.smoother import sample_paths, smooth
from probsysid.odefilter.smoothing.trajectory import Trajectory, refine, trace
from probsysid.odefilter.solver import Solver

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def solve(
    model: Model,
    parameters: Mapping[str, float],
    record: Record | Any,
    *,
    initial: Mapping[str, Prior] | None = None,
    solver: Solver = Solver(),
) -> "Solution":
    """Integrate a model for given parameters; measured outputs, if there are any, are ignored.

    Args:
        model: the ODE.
        parameters: a value for each of its parameters.
        record: inputs and sample times; for a model without inputs an increasing array of times will do.
        initial: value, or `dist.Normal`, of each physical component (`x`, `dx`); those not named are exactly zero.
            A Gaussian is carried along by linearisation around the solution from its mean.
        solver: settings of the integration.
    """
    check_not_traced()
    check_kind("model", model, Model, "make one with probsysid.Model(...)")
    if model.diffusion is not None:
        raise InputError(f"the {model.name} has a diffusion: its solution is random, and solve integrates ODEs only.")
    check_mapping("parameters", parameters, "{'m': 1.0}")
    check_kind("solver", solver, Solver, "make one with probsysid.Solver(...)")
    if initial is not None:
        check_mapping("initial", initial, "{'x': 1.0}")
    record = record if isinstance(record, Record) else Record(time=record)
    if record.samples < 2:
        raise InputError(f"the record has {record.samples} sample; a solution needs at least 2.")
    model.check_parameters(parameters, where="parameters")
    ode_filter = as_array_filter(solver.ode_filter(model, record.jump_order))
    particle = _particles(model, parameters, initial or {})
    samples = prepare(record, ode_filter, solver.steps)
    samples = samples._replace(outputs=np.full_like(samples.outputs, np.nan))
    trajectory = trace(ode_filter, particle, samples, record.time)
    return Solution(ode_filter, particle, record, trajectory, record.time)


def _particles(model: Model, parameters: Mapping[str, float], initial: Mapping[str, Prior]) -> Particle:
    """The mean start, then all starts one standard deviation above it, then those below."""
    moments = initial_moments(model, initial)
    aside = [[sd if i == j else 0.0 for i in range(len(moments))] for j, (_, sd) in enumerate(moments) if sd > 0]
    offsets = np.array([[0.0] * len(moments), *aside, *(np.negative(a) for a in aside)])
    starts = np.array([mean for mean, _ in moments]) + offsets
    values = {}
    for name, value in parameters.items():
        try:
            values[name] = jnp.repeat(jnp.asarray(value, dtype=float)[..., None], len(starts), axis=-1)
        except (TypeError, ValueError):
            raise InputError(f"parameter {name!r} is {value!r}; it must be a number.") from None
        if not is_finite(value) or np.asarray(value).dtype.kind in "SU":
            raise InputError(f"parameter {name!r} is {value!r}; it must be finite.")
        expected = model.shapes.get(name, ())
        if values[name].shape[:-1] != expected:
            raise InputError(f"parameter {name!r} has shape {values[name].shape[:-1]}; the model expects {expected}.")
    return Particle(
        parameters=values,
        noise=[jnp.ones(len(starts)) for _ in model.output_names],
        initial_mean=[jnp.asarray(column) for column in starts.T],
        initial_sd=[jnp.zeros(len(starts)) for _ in moments],
    )


class SolutionMoments(NamedTuple):
    """The Gaussian around the solution from the mean start."""

    mean: Float[Numbers, "time D"]
    factor: Float[Array, "time D column"]
    """A column for each component of the filter, then one for each uncertain initial value."""


@dataclass(frozen=True, eq=False)
class Solution:
    """Mean, standard deviation and draws of the solution of an ODE, at chosen times."""

    ode_filter: ODEFilter
    particle: Particle
    record: Record
    trajectory: Trajectory
    time: Float[np.ndarray, " time"]

    @property
    def layout(self) -> Layout:
        return self.ode_filter.layout

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Physical components, highest derivatives and outputs (an output named like a component is that output)."""
        model = self.ode_filter.model
        return tuple(dict.fromkeys((*model.physical_names, *model.highest_names, *model.output_names)))

    @property
    def mean(self) -> dict[str, np.ndarray]:
        """Mean of each component and output."""
        return dict(zip(self.names, self._moments[0].T, strict=True))

    @property
    def sd(self) -> dict[str, np.ndarray]:
        """Standard deviation of each component and output, how far the integration may be off."""
        return dict(zip(self.names, self._moments[1].T, strict=True))

    @cached_property
    def diffusion(self) -> dict[str, np.ndarray]:
        """Square root of the diffusion of each coordinate, at the end of the record."""
        final = np.sqrt(np.asarray(self.trajectory.variance[-1, :, 0]))
        return dict(zip(self.ode_filter.model.coordinates, final, strict=True))

    def at(self, times: ArrayLike) -> "Solution":
        """The same solution at other times within the record."""
        times = np.atleast_1d(np.asarray(times, dtype=float))
        first, last = self.record.time[0], self.record.time[-1]
        if times.size == 0 or not np.all((times >= first) & (times <= last)):
            outside = times[(times < first) | (times > last) | np.isnan(times)]
            found = f"{outside[0]:g}" if outside.size else "none"
            raise InputError(f"times must lie within the record, from {first:g} to {last:g}; found {found}.")
        return replace(self, time=times)

    def samples(self, draws: int = 100, seed: int = 0) -> dict[str, Float[np.ndarray, "draw time"]]:
        """Joint draws of the whole path, by component and output."""
        check_count("draws", draws)
        check_seed(seed)
        trajectory, where = self._refined
        key, start = jax.random.split(jax.random.key(seed))
        paths = sample_paths(key, trajectory, self.layout, draws)[..., 0][:, where]
        slopes = self._states.factor[..., self.layout.size :]
        normals = jax.random.normal(start, (draws, slopes.shape[-1]))
        paths = paths + jnp.einsum("tdc,nc->ntd", slopes, normals)
        over_time = jax.vmap(self._quantities, in_axes=(0, 0))
        values = jax.vmap(over_time, in_axes=(0, None))(paths[..., np.array(self.layout.physical)], self._inputs)
        return {name: np.asarray(values[..., j]) for j, name in enumerate(self.names)}

    def to_xarray(self) -> xr.Dataset:
        """Mean and sd as an xarray data set over time."""
        variables = {f"{name}": ("time", value) for name, value in self.mean.items()}
        variables |= {f"{name}_sd": ("time", value) for name, value in self.sd.items()}
        return xr.Dataset(variables, coords={"time": self.time})

    def plot(self, path: str | Path | None = None, names: Sequence[str] | None = None) -> "Figure":
        """Mean with a band of two standard deviations, and the standard deviation below it."""
        from probsysid.report.figures.solution import plot_solution

        return plot_solution(self, path, names)

    def _repr_html_(self) -> str:
        model, sd = self.ode_filter.model, self.sd
        rows: list[list[Cell]] = []
        for name, mean in self.mean.items():
            label = f"{name} [{model.units[name]}]" if name in model.units else name
            rows.append([label, f"{float(np.max(sd[name])):.2g}", Signal.of(self.time, mean)])
        columns = ("quantity", "largest sd", "mean")
        return html(Card(f"Solution of {model.name}", [f"{len(self.time)} times"], columns=columns, rows=rows))

    def __repr__(self) -> str:
        names, count = ", ".join(self.names), len(self.time)
        return f"Solution: {names} at {count} times from {self.time[0]:g} to {self.time[-1]:g} s"

    @cached_property
    def _refined(self) -> tuple[Trajectory, np.ndarray]:
        return refine(self.trajectory, self.layout, self.time)

    @cached_property
    def _states(self) -> "SolutionMoments":
        trajectory, where = self._refined
        smoothed = smooth(trajectory, self.layout)
        mean, factor = smoothed.mean[where], smoothed.factor[where]
        above, below = jnp.split(mean[..., 1:], 2, axis=-1)
        return SolutionMoments(mean[..., 0], jnp.concatenate([factor[..., 0], (above - below) / 2], axis=-1))

    @cached_property
    def _inputs(self) -> np.ndarray:
        model = self.ode_filter.model
        used = [self.record.input_names.index(name) for name in model.input_names]
        return self.record.input_at(self.time)[:, used]

    @property
    def _parameters(self) -> dict[str, jax.Array]:
        return {name: jnp.asarray(value)[..., 0] for name, value in self.particle.parameters.items()}

    def _quantities(self, physical: Numbers, inputs: Numbers) -> Array:
        """Everything that is reported, as a function of the physical components; the ODE gives the highest derivatives.

        Where an input jumps this is the value just after.
        """
        model, parameters = self.ode_filter.model, self._parameters
        state, given = list(physical), list(inputs)
        highest = model.highest_derivatives(state, given, parameters)
        values = dict(zip((*model.physical_names, *model.highest_names), (*state, *highest), strict=True))
        values |= dict(zip(model.output_names, model.measured(state, highest, given, parameters), strict=True))
        return jnp.stack([values[name] for name in self.names])

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of everything that is reported, by linearisation around the mean."""
        physical = np.array(self.layout.physical)

        def moments(mean: Array, factor: Array, inputs: Array) -> tuple[Array, Array]:
            values, along = jax.linearize(lambda x: self._quantities(x, inputs), mean[physical])
            return values, jnp.linalg.norm(jax.vmap(along, in_axes=1, out_axes=1)(factor[physical]), axis=1)

        states = self._states
        values, sds = jax.jit(jax.vmap(moments))(states.mean, states.factor, self._inputs)
        return np.asarray(values), np.asarray(sds)
