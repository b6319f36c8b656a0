"""Smoothed hidden states, given the data, the model and the integration."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probsysid._internal.errors import InputError
from probsysid._internal.notebook import html
from probsysid._internal.validation import check_count, check_index, check_seed
from probsysid.data.record import Record
from probsysid.model.particle import Particle
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.smoothing.smoother import smooth_record
from probsysid.posterior.cards import states_card
from probsysid.posterior.draws import draw_indices
from probsysid.posterior.point_states import check_simulated, smoothed_points

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior


@dataclass(frozen=True, eq=False)
class States:
    """Smoothed states at the samples of a record."""

    time: Float[np.ndarray, " sample"]
    mean: dict[str, Float[np.ndarray, " sample"]]
    sd: dict[str, Float[np.ndarray, " sample"]]
    """Spread over parameters and, within each particle, over noise and integration error."""
    paths: dict[str, Float[np.ndarray, "draw sample"]]
    """One joint sample path per drawn particle."""
    innovations: dict[str, Float[np.ndarray, "draw sample"]]
    """Whitened one-step prediction errors of each output: standard normal where model and noise are right."""

    def band(self, name: str, width: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
        """Mean minus and plus some standard deviations."""
        return self.mean[name] - width * self.sd[name], self.mean[name] + width * self.sd[name]

    def _repr_html_(self) -> str:
        return html(states_card(self))

    def __repr__(self) -> str:
        draws = len(next(iter(self.paths.values())))
        return f"States {', '.join(self.mean)}: {len(self.time)} samples, {draws} sample paths"


def smoothed_states(
    ode_filter: ODEFilter, particles: Particle, samples: IntervalData, record: Record, seed: int
) -> States:
    """Smooth every particle and mix them with equal weights."""
    ode_filter = as_array_filter(ode_filter)
    found = smooth_record(jax.random.key(seed), ode_filter, particles, samples, record.time)
    whitened = found.innovation / np.sqrt(found.innovation_variance)
    model, layout = ode_filter.model, ode_filter.layout
    names = (*model.physical_names, *model.highest_names)
    index = (*layout.physical, *layout.highest)
    return States(
        time=record.time,
        mean={name: found.mean[:, i].mean(axis=-1) for name, i in zip(names, index, strict=True)},
        sd={name: _mixture_sd(found.mean[:, i], found.sd[:, i]) for name, i in zip(names, index, strict=True)},
        paths={name: found.path[:, i].T for name, i in zip(names, index, strict=True)},
        innovations={name: whitened[:, j].T for j, name in enumerate(model.output_names)},
    )


def _mixture_sd(means: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """Standard deviation of an equal mixture: spread within plus spread between."""
    return np.sqrt(np.mean(sds**2, axis=-1) + np.var(means, axis=-1))


class _Drawn(NamedTuple):
    """What draws of a posterior have on a training record."""

    ode_filter: ODEFilter
    values: dict[str, Any]
    particles: Particle
    samples: IntervalData
    record: Record


def _training_record(posterior: "Posterior", record: int, draws: int, seed: int) -> tuple[int, Record]:
    """The number of a training record and the record, after a check of all arguments."""
    if not posterior.records:
        raise InputError("this posterior has no records, which states need; load it with records=...")
    number = check_index("record", record, len(posterior.records)) % len(posterior.records)
    check_count("draws", draws)
    check_seed(seed)
    return number, posterior.records[number]


def _drawn(posterior: "Posterior", record: int, draws: int, seed: int) -> _Drawn:
    record, data = _training_record(posterior, record, draws, seed)
    problem, solver = posterior.setup.problem, posterior.setup.solver
    ode_filter = solver.ode_filter(problem.model, data.jump_order)
    theta = jnp.asarray(posterior.theta[:, draw_indices(posterior.weights, draws, seed)])
    values = jax.vmap(problem.space.values_of_one, in_axes=-1, out_axes=-1)(theta)
    particles = jax.vmap(lambda v: problem.particle(v, record), in_axes=-1, out_axes=-1)(values)
    fixed = {name: value for name, value in problem.fixed(record).items() if value.shape == ()}
    values = fixed | dict(values)
    named = {name: values[q] for name, q in problem.roles(record).parameters if q in values}
    return _Drawn(ode_filter, values | named, particles, prepare(data, ode_filter, solver.steps), data)


def posterior_states(posterior: "Posterior", record: int, draws: int, seed: int) -> States:
    """Smoothed states of a posterior on a training record; the arguments are those of `Posterior.states`."""
    if posterior.setup.known and posterior.setup.solver.particle_filter is not None:
        return _states_of_points(posterior, record, draws, seed)
    drawn = _drawn(posterior, record, draws, seed)
    return smoothed_states(drawn.ode_filter, drawn.particles, drawn.samples, drawn.record, seed)


def _states_of_points(posterior: "Posterior", record: int, draws: int, seed: int) -> States:
    """The same by particle filters; highest derivatives, which white noise does not have, are left out."""
    number, data = _training_record(posterior, record, draws, seed)
    setup, theta = posterior.setup, posterior.theta[:, draw_indices(posterior.weights, draws, seed)]
    found = smoothed_points(setup.problem, setup.solver, theta, data, number, seed)
    names = list(enumerate(setup.problem.model.physical_names))
    return States(
        time=data.time,
        mean={name: np.asarray(found.mean[:, i]).mean(axis=-1) for i, name in names},
        sd={name: _mixture_sd(np.asarray(found.mean[:, i]), np.asarray(found.sd[:, i])) for i, name in names},
        paths={name: np.asarray(found.path[:, i]).T for i, name in names},
        innovations={name: np.asarray(found.white[:, j]).T for j, name in enumerate(setup.problem.model.output_names)},
    )


class DrawnStates(NamedTuple):
    """Smoothed physical components of every draw: moments, and one joint path."""

    names: tuple[str, ...]
    values: dict[str, Any]
    """Quantities of the draws, and parameters by their names in the model."""
    mean: Float[np.ndarray, "sample component draw"]
    sd: Float[np.ndarray, "sample component draw"]
    path: Float[np.ndarray, "sample component draw"]
    record: Record


def drawn_states(posterior: "Posterior", record: int, draws: int, seed: int) -> DrawnStates:
    """The same draws as those of `posterior_states`, apart."""
    check_simulated(posterior, "the smoothed state of each draw")
    drawn = _drawn(posterior, record, draws, seed)
    ode_filter = as_array_filter(drawn.ode_filter)
    found = smooth_record(jax.random.key(seed), ode_filter, drawn.particles, drawn.samples, drawn.record.time)
    part = np.array(ode_filter.layout.physical)
    names = ode_filter.model.physical_names
    mean, sd, path = (np.asarray(values)[:, part] for values in (found.mean, found.sd, found.path))
    return DrawnStates(names, drawn.values, mean, sd, path, drawn.record)
