"""What particles of a posterior give the model: parameters, noise levels and process noise, fixed ones included."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from probsysid.model.noise import OutputNoise, level_of, names_of, quantities

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

Chosen = Int[np.ndarray, " draw"]


def parameters_of(posterior: "Posterior", chosen: Chosen) -> dict[str, Float[np.ndarray, "*_shape draw"]]:
    """The model's parameters."""
    problem = posterior.setup.problem
    return {
        name: posterior.values[name][..., chosen]
        if name in posterior.values
        else np.repeat(np.asarray(problem.priors[name], dtype=float)[..., None], len(chosen), axis=-1)
        for name in problem.model.parameter_names
    }


def process_noise_of(posterior: "Posterior", chosen: Chosen) -> dict[str, Float[np.ndarray, " draw"]]:
    """White-noise forces by coordinate."""
    given = posterior.setup.problem.process_noise
    return {name: _scalar(posterior, f"process_noise.{name}", value, chosen) for name, value in given.items()}


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
