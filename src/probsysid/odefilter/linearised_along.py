"""An interval of the filter with the ODE linearised along another motion, and the density of the ODE's residuals.

What `data_given_ode.py` needs of `ODEFilter` beyond its own likelihood.
"""

import jax.numpy as jnp
import numpy as np

from probsysid._internal.array_types import Index, Scalar
from probsysid.model.particle import Particle
from probsysid.odefilter.coloured_noise import coloured
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.ode_filter import LinearisedODE, ODEFilter
from probsysid.odefilter.unrolled.gaussian import add, combine_values


def step_with_energy(
    ode_filter: ODEFilter,
    state: FilterState,
    particle: Particle,
    sample: IntervalData,
    step: Index,
    along: LinearisedODE | None = None,
) -> tuple[FilterState, LinearisedODE, Scalar]:
    """An integration step without process noise, the linearised ODE, and minus the log density of its residual."""
    state, ode, rows = ode_filter._integrate(state, particle, sample, sample.grid[step], sample.unit[step], along)
    return state, ode, ode_filter._residual_energy(rows, ode, sample.scales)


def depart_along(
    ode_filter: ODEFilter, state: FilterState, other: FilterState, particle: Particle, sample: IntervalData
) -> FilterState:
    """As `ODEFilter.depart` where inputs may jump, with the ODE linearised at another state: the difference of the two
    means is carried like a further column of the factor."""
    if sample.rescale is not None:
        state, other = (ode_filter._rescale(each, sample.rescale) for each in (state, other))
    restart = _restart_rows if isinstance(state.mean, list) else _restart_arrays
    state = restart(ode_filter, state, other, particle, sample)
    return ode_filter._age_noise(state, particle, sample) if coloured(particle.noise) else state


def _restart_rows(
    ode_filter: ODEFilter, state: FilterState, other: FilterState, particle: Particle, sample: IntervalData
) -> FilterState:
    """Of the unrolled form."""
    layout = ode_filter.layout
    change = [state.mean[i] - other.mean[i] for i in layout.physical]
    column = [*change, *[None] * (len(state.factor) - len(change))]
    factor = [[*row, entry] for row, entry in zip(state.factor, column, strict=True)]
    mean = [*other.mean[: layout.size], *state.mean[layout.size :]]
    found = ode_filter._restart(state._replace(mean=mean, factor=factor), particle, sample)
    mean = list(found.mean)
    for i, row in zip(ode_filter.free, found.factor, strict=False):
        mean[i] = add(mean[i], row[-1])
    if not ode_filter.ode_noise:
        for i, slopes in zip(layout.highest, found.jacobian, strict=True):
            mean[i] = add(mean[i], combine_values(slopes, change))
    return found._replace(mean=mean, factor=[row[:-1] for row in found.factor])


def _restart_arrays(
    ode_filter: ODEFilter, state: FilterState, other: FilterState, particle: Particle, sample: IntervalData
) -> FilterState:
    """Of the array form."""
    layout, free = ode_filter.layout, np.array(ode_filter.free)
    change = (state.mean - other.mean)[np.array(layout.physical)]
    column = jnp.zeros((len(state.factor), 1)).at[: len(change), 0].set(change)
    factor = jnp.concatenate([state.factor, column], axis=1)
    mean = jnp.concatenate([other.mean[: layout.size], state.mean[layout.size :]])
    found = ode_filter._restart(state._replace(mean=mean, factor=factor), particle, sample)
    mean = found.mean.at[free].add(found.factor[: len(free), -1])
    if not ode_filter.ode_noise:
        mean = mean.at[np.array(layout.highest)].add(jnp.sum(found.jacobian * change, axis=1))
    return found._replace(mean=mean, factor=found.factor[:, :-1])
