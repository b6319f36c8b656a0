"""What particles of a posterior give the model: parameters, noise levels and process noise, fixed ones included."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float, Int

from probsysid.model.noise import OutputNoise, level_of, names_of, quantities

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

Chosen = Int[np.ndarray, " draw"]

NEW_RECORD = 10
"""Number of the random stream from which values on new records are drawn."""


Parameters = dict[str, Float[np.ndarray, "*_shape draw"]]


def parameters_of(posterior: "Posterior", chosen: Chosen, record: int | None, seed: int) -> Parameters:
    """The model's parameters on a training record, or on a new one: then those that vary between records are drawn
    around each particle's common value with its spread."""
    problem = posterior.setup.problem
    fresh = {} if record is not None else _drawn_parameters(posterior, chosen, seed)
    found: Parameters = {}
    for name in problem.model.parameter_names:
        quantity = name if record is None else problem.parameter_name(record, name)
        if name in fresh:
            found[name] = fresh[name]
        elif quantity in posterior.values:
            found[name] = posterior.values[quantity][..., chosen]
        else:
            value = np.asarray(dict(problem.priors)[name], dtype=float)
            found[name] = np.repeat(value[..., None], len(chosen), axis=-1)
    return found


def _drawn_parameters(posterior: "Posterior", chosen: Chosen, seed: int) -> Parameters:
    """A value for each particle of every parameter that varies, as on one more record."""
    problem = posterior.setup.problem
    priors: dict[Any, Any] = dict(problem.priors)
    varying = {parameter.name: parameter for parameter in problem.space.varying}
    values = {name: value[..., chosen] for name, value in posterior.values.items()}
    found: Parameters = {}
    for number, name in enumerate(problem.varies):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), NEW_RECORD), number)
        if name in varying:
            found[name] = np.asarray(varying[name].value(values, jax.random.normal(key, (len(chosen),))))
        else:
            found[name] = np.asarray(priors[name].sample(key, (len(chosen),)), dtype=float)
    return found


def process_noise_of(posterior: "Posterior", chosen: Chosen) -> dict[str, Float[np.ndarray, " draw"]]:
    """White-noise forces by coordinate, those behind unknown inputs and drifts included."""
    given = posterior.setup.problem.process_noise
    found = {name: _scalar(posterior, f"process_noise.{name}", value, chosen) for name, value in given.items()}
    values = latent_values(posterior, chosen)
    for process in posterior.setup.problem.latent.processes:
        levels = zip(process.coordinates, process.levels(values), strict=True)
        found |= {name: np.broadcast_to(level, chosen.shape) for name, level in levels if level is not None}
    return found


def latent_values(posterior: "Posterior", chosen: Chosen) -> dict[str, Float[np.ndarray, " draw"]]:
    """Hyperparameters of unknown inputs and drifts."""
    given = posterior.setup.problem.latent.quantities
    return {name: _scalar(posterior, name, value, chosen) for name, value in given.items()}


def latent_start(posterior: "Posterior", chosen: Chosen) -> Float[np.ndarray, "component draw"]:
    """Standard deviations of the components of unknown inputs and drifts before any data, where their mean is zero."""
    values = latent_values(posterior, chosen)
    rows = [sd for process in posterior.setup.problem.latent.processes for sd in process.start(values)]
    return np.array([np.broadcast_to(row, chosen.shape) for row in rows]).reshape(-1, len(chosen))


def noise_levels(posterior: "Posterior", chosen: Chosen) -> dict[str, Float[np.ndarray, " draw"]]:
    """Level of the measurement noise by output: its standard deviation where it is Gaussian."""
    given = posterior.setup.problem.noise
    return {name: _scalar(posterior, f"noise.{name}", level_of(value), chosen) for name, value in given.items()}


def output_noise(posterior: "Posterior", chosen: Chosen) -> dict[str, OutputNoise]:
    """Measurement noise by output, with the particle axis last."""
    problem = posterior.setup.problem
    given = quantities(problem.noise)
    values = {name: _scalar(posterior, name, value, chosen) for name, value in given.items()}
    names = {output: names_of(output, noise) for output, noise in problem.noise.items()}
    return {output: values[n] if isinstance(n, str) else n.of(values) for output, n in names.items()}


def _scalar(posterior: "Posterior", name: str, given: object, chosen: Chosen) -> Float[np.ndarray, " draw"]:
    if name in posterior.values:
        return posterior.values[name][chosen]
    return np.full(len(chosen), float(np.asarray(given)))
