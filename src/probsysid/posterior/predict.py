"""What a posterior predicts on a record: free-run simulations, and bands of predicted measurements.

A prediction counts everything: parameters, where it starts, integration error (the steps are fine enough for it not to
matter), process noise and measurement noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from probsysid._internal.errors import InputError
from probsysid._internal.statistics import weighted_quantile
from probsysid._internal.validation import check_count, check_index, check_kind, check_level, check_seed
from probsysid.data.record import Record
from probsysid.model.noise import NoiseValues, forms
from probsysid.posterior.ahead import last_states, steps_ahead
from probsysid.posterior.draws import draw_indices
from probsysid.posterior.initial_states import Initial, InitialStates, initial_states, trained_from_the_same_start
from probsysid.posterior.noise_draws import noisy_outputs
from probsysid.posterior.particle_values import Parameters, output_noise, parameters_of, process_noise_of
from probsysid.posterior.point_states import check_simulated
from probsysid.posterior.simulate import Simulation, simulate

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

MOST_NUMBERS = 50_000_000
"""Predicted values kept in memory, particles times samples: of more, as many particles are drawn as fit."""


@dataclass(frozen=True, eq=False)
class Band:
    """Predicted measurements of one output: mean, standard deviation and an interval, at every sample."""

    mean: Float[np.ndarray, " sample"]
    sd: Float[np.ndarray, " sample"]
    low: Float[np.ndarray, " sample"]
    high: Float[np.ndarray, " sample"]

    def coverage(self, measured: Float[np.ndarray, " sample"], skip: int = 0) -> float:
        """Share of the measured samples that lie in the interval."""
        known = np.isfinite(measured[skip:])
        inside = (self.low <= measured) & (measured <= self.high)
        return float(np.mean(inside[skip:][known])) if known.any() else float("nan")

    def standardised_rms(self, measured: Float[np.ndarray, " sample"], skip: int = 0) -> float:
        """Root mean square of the errors in units of the predicted standard deviation: one where it is right."""
        known = np.isfinite(measured[skip:])
        errors = ((measured - self.mean) / self.sd)[skip:][known]
        return float(np.sqrt(np.mean(errors**2))) if known.any() else float("nan")


def simulate_posterior(
    posterior: "Posterior",
    record: Record,
    initial: Initial,
    initial_samples: int | None,
    experiment: int | None,
    process_noise: bool,
    particles: int | None,
    skip: int | None,
    steps: int | None,
    seed: int,
) -> Simulation:
    """Every particle in free run on a record; the arguments are those of `Posterior.simulate`."""
    check_simulated(posterior, "a free run")
    check_kind("record", record, Record, "make one with probsysid.Record(...)")
    check_seed(seed)
    if skip is not None:
        check_count("skip", skip, 0)
    if steps is not None:
        check_count("steps", steps)
    chosen, weights = _chosen(posterior, particles, len(posterior.weights))
    posterior.setup.problem.model.check_inputs(record.input_names)
    parameters = _parameters_on(posterior, record, experiment, chosen, seed)
    start = initial_states(posterior, record, initial, initial_samples, chosen, parameters, seed)
    return _free_run(posterior, record, start, chosen, parameters, weights, process_noise, skip, steps, seed)


def predict(
    posterior: "Posterior",
    record: Record,
    level: float,
    ahead: int | None,
    initial: Initial,
    initial_samples: int | None,
    experiment: int | None,
    particles: int | None,
    seed: int,
) -> xr.Dataset:
    """Mean and band of predicted measurements; the arguments are those of `Posterior.predict`."""
    check_simulated(posterior, "a prediction")
    check_level("level", level)
    check_kind("record", record, Record, "make one with probsysid.Record(...)")
    check_seed(seed)
    if ahead is not None:
        check_count("ahead", ahead)
    chosen, weights = _chosen(posterior, particles, max(MOST_NUMBERS // record.samples, 2))
    posterior.setup.problem.model.check_inputs(record.input_names)
    parameters = _parameters_on(posterior, record, experiment, chosen, seed)
    start = initial_states(posterior, record, initial, initial_samples, chosen, parameters, seed)
    simulation = _free_run(posterior, record, start, chosen, parameters, weights, True, None, None, seed)
    if ahead is not None:
        simulation = steps_ahead(posterior, simulation, start.values, parameters, ahead, seed)
    return _dataset(posterior, simulation, level, ahead, seed)


def forecast(posterior: "Posterior", record: Record, level: float, particles: int | None, seed: int) -> xr.Dataset:
    """Predicted measurements from the end of training on; the arguments are those of `Posterior.forecast`."""
    check_simulated(posterior, "a forecast")
    check_level("level", level)
    check_kind("record", record, Record, "make one with probsysid.Record(...)")
    check_seed(seed)
    index = _continued(posterior, record)
    chosen, weights = _chosen(posterior, particles, max(MOST_NUMBERS // record.samples, 2))
    posterior.setup.problem.model.check_inputs(record.input_names)
    parameters = parameters_of(posterior, chosen, index, seed)
    last, carried = last_states(posterior, index, chosen, parameters, record.time, seed)
    start = InitialStates(last, "the state at the end of training", 1)
    simulation = _free_run(posterior, record, start, chosen, parameters, weights, True, None, None, seed)
    simulation = replace(simulation, carried=carried)
    return _dataset(posterior, simulation, level, None, seed)


def bands(posterior: "Posterior", simulation: Simulation, level: float, seed: int = 0) -> Iterator[tuple[str, Band]]:
    """Simulated outputs with their measurement noise, as an interval at every sample."""
    random = np.random.default_rng([seed, 4])
    noise = output_noise(posterior, simulation.chosen)
    ends = [(1 - level) / 2, (1 + level) / 2]
    for name, values in simulation.outputs.items():
        given = noise[name]
        noisy = noisy_outputs(given, values, random, simulation.carried.get(name))
        low, high = weighted_quantile(noisy, simulation.weights, ends)
        mean = simulation.mean(name)
        if isinstance(given, NoiseValues):
            mean, variance = _drawn_moments(noisy, simulation.weights)
        else:
            variance = simulation.weights @ (values - mean) ** 2 + simulation.weights @ np.asarray(given) ** 2
        yield name, Band(mean, np.sqrt(variance), low, high)


def _drawn_moments(
    noisy: Float[np.ndarray, "particle sample"], weights: Float[np.ndarray, " particle"]
) -> tuple[Float[np.ndarray, " sample"], Float[np.ndarray, " sample"]]:
    """Mean and variance of draws of measurements, which a Student-t of few degrees need not have."""
    mean = weights @ noisy
    return mean, weights @ (noisy - mean) ** 2


def _parameters_on(
    posterior: "Posterior", record: Record, experiment: int | None, chosen: Int[np.ndarray, " particle"], seed: int
) -> Parameters:
    """The chosen particles' parameters on a record: those of the training record of the same experiment, or new ones
    where they vary between records."""
    if experiment is None:
        experiment = trained_from_the_same_start(posterior, record)
    else:
        count = len(posterior.setup.problem.initials)
        experiment = check_index("experiment", experiment, count) % count
    return parameters_of(posterior, chosen, experiment, seed)


def _free_run(
    posterior: "Posterior",
    record: Record,
    start: InitialStates,
    chosen: Int[np.ndarray, " particle"],
    parameters: Parameters,
    weights: Float[np.ndarray, " particle"],
    process_noise: bool,
    skip: int | None,
    steps: int | None,
    seed: int,
) -> Simulation:
    forces = process_noise_of(posterior, chosen) if process_noise else {}
    problem = posterior.setup.problem
    model = problem.model
    if problem.latent and not process_noise:
        start.values[len(problem.given_model.physical_names) :] = 0.0
    outputs, taken, error = simulate(model, parameters, start.values, record, steps, forces, seed)
    skip = start.used if skip is None else skip
    of_noise = forms(posterior.setup.problem.noise).items()
    bounds = {name: (form.lower, form.upper) for name, form in of_noise if (form.lower, form.upper) != (None, None)}
    return Simulation(record, outputs, weights, taken, error, skip, start.origin, chosen, bounds=bounds)


def _chosen(
    posterior: "Posterior", particles: int | None, most: int
) -> tuple[Int[np.ndarray, " particle"], Float[np.ndarray, " particle"]]:
    """Particles to use and their weights: all of them, or equally weighted draws."""
    weights = posterior.weights
    if particles is not None:
        check_count("particles", particles)
    elif len(weights) <= most:
        return np.arange(len(weights)), weights
    count = most if particles is None else particles
    return draw_indices(weights, count), np.full(count, 1 / count)


def _continued(posterior: "Posterior", record: Record) -> int:
    """The training record whose last sample is the first of this one."""
    if not posterior.records:
        raise InputError("this posterior has no records, which a forecast continues; load it with records=...")
    for index, trained in enumerate(posterior.records):
        step = (trained.time[-1] - trained.time[0]) / max(trained.samples - 1, 1)
        if abs(record.time[0] - trained.time[-1]) <= 1e-6 * step:
            return index
    ends = ", ".join(f"{trained.time[-1]:.6g}" for trained in posterior.records)
    raise InputError(
        f"the record begins at {record.time[0]:.6g}; a forecast begins with the last training sample (at {ends}), as "
        "record[n - 1:] does after training on record[:n]."
    )


def _dataset(posterior: "Posterior", simulation: Simulation, level: float, ahead: int | None, seed: int) -> xr.Dataset:
    variables: dict[str, Any] = {}
    attributes: dict[str, Any] = {"level": level, "start": simulation.start, "skip": simulation.skip}
    if ahead is not None:
        attributes["ahead"] = ahead
    for name, band in bands(posterior, simulation, level, seed):
        parts = {"": band.mean, "_sd": band.sd, "_low": band.low, "_high": band.high}
        variables |= {f"{name}{ending}": ("time", values) for ending, values in parts.items()}
        if name in simulation.scored:
            attributes[f"{name}_coverage"] = band.coverage(simulation.record.outputs[name], simulation.skip)
    return xr.Dataset(variables, coords={"time": simulation.record.time}, attrs=attributes)
