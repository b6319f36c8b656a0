"""What particles of a posterior give the model: parameters, noise levels and process noise, fixed ones included."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

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
    """Standard deviation of the measurement noise by output."""
    given = posterior.setup.problem.noise
    return {name: _scalar(posterior, f"noise.{name}", value, chosen) for name, value in given.items()}


def _scalar(posterior: "Posterior", name: str, given: object, chosen: Chosen) -> Float[np.ndarray, " draw"]:
    if name in posterior.values:
        return posterior.values[name][chosen]
    return np.full(len(chosen), float(np.asarray(given)))
