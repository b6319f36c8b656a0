"""What a posterior predicts on a record: free-run simulations, and bands of predicted measurements."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from probsysid._internal.statistics import weighted_quantile
from probsysid._internal.validation import check_count, check_kind, check_level, check_mapping, check_seed
from probsysid.data.record import Record
from probsysid.model.initial_state import initial_moments
from probsysid.model.priors import Prior
from probsysid.posterior.draws import draw_indices
from probsysid.posterior.simulate import Simulation, simulate

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior


def simulate_posterior(
    posterior: "Posterior",
    record: Record,
    initial: Mapping[str, Prior] | None,
    particles: int | None,
    skip: int,
    steps: int | None,
    seed: int,
) -> Simulation:
    """Every particle in free run on a record; the arguments are those of `Posterior.simulate`."""
    check_kind("record", record, Record, "make one with probsysid.Record(...)")
    check_seed(seed)
    check_count("skip", skip, 0)
    if particles is not None:
        check_count("particles", particles)
    if steps is not None:
        check_count("steps", steps)
    if initial is not None:
        check_mapping("initial", initial, "{'x': 1.0}")
    model = posterior.setup.problem.model
    weights = posterior.weights
    chosen = np.arange(len(weights)) if particles is None else draw_indices(weights, particles)
    weights = weights if particles is None else np.full(len(chosen), 1 / len(chosen))
    random = np.random.default_rng([seed, 5])
    moments = initial_moments(model, initial or {})
    start = np.array([mean + sd * random.standard_normal(len(chosen)) for mean, sd in moments])
    outputs, taken, error = simulate(
        model, _parameters(posterior, chosen), start, record, steps, _process_noise(posterior, chosen), seed
    )
    return Simulation(record, outputs, weights, taken, error, skip)


def predict(
    posterior: "Posterior", record: Record, level: float, initial: Mapping[str, Prior] | None, seed: int
) -> xr.Dataset:
    """Mean and band of predicted measurements; the arguments are those of `Posterior.predict`."""
    check_level("level", level)
    simulation = posterior.simulate(record, initial=initial, seed=seed)
    random = np.random.default_rng([seed, 4])
    variables: dict[str, Any] = {}
    for name, values in simulation.outputs.items():
        noisy = values + _noise(posterior, name)[:, None] * random.standard_normal(values.shape)
        low, high = weighted_quantile(noisy, simulation.weights, [(1 - level) / 2, (1 + level) / 2])
        variables |= {name: ("time", simulation.mean(name)), f"{name}_low": ("time", low)}
        variables[f"{name}_high"] = ("time", high)
    return xr.Dataset(variables, coords={"time": record.time}, attrs={"level": level})


def _parameters(posterior: "Posterior", chosen: np.ndarray) -> dict[str, Float[np.ndarray, "*_shape draw"]]:
    """The model's parameters for some particles, fixed ones included."""
    problem = posterior.setup.problem
    return {
        name: posterior.values[name][..., chosen]
        if name in posterior.values
        else np.repeat(np.asarray(problem.priors[name], dtype=float)[..., None], len(chosen), axis=-1)
        for name in problem.model.parameter_names
    }


def _process_noise(posterior: "Posterior", chosen: np.ndarray) -> dict[str, Float[np.ndarray, " draw"]]:
    """White-noise forces by coordinate for some particles."""
    return {
        name: posterior.values[f"process_noise.{name}"][chosen]
        if f"process_noise.{name}" in posterior.values
        else np.full(len(chosen), float(given))
        for name, given in posterior.setup.problem.process_noise.items()
    }


def _noise(posterior: "Posterior", output: str) -> Float[np.ndarray, " particle"]:
    key = f"noise.{output}"
    if key in posterior.values:
        return posterior.values[key]
    return np.full(len(posterior.weights), float(posterior.setup.problem.noise[output]))
