"""Measurements drawn around outputs without noise."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from probsysid.model.noise import NoiseValues, OutputNoise


class CarriedNoise(NamedTuple):
    """Coloured noise of one output, given what it was when a prediction began."""

    mean: Float[np.ndarray, "particle sample"]
    new: Float[np.ndarray, "particle sample"]
    """Standard deviation of the rest, relative to the level."""

    @classmethod
    def unknown(cls, particles: int, samples: int) -> "CarriedNoise":
        return cls(np.zeros((particles, samples)), np.ones((particles, samples)))

    def remember(
        self,
        places: slice,
        start: Float[np.ndarray, "particle #place"],
        elapsed: Float[np.ndarray, " place"],
        time: Float[np.ndarray, " particle"],
    ) -> None:
        """Write what is left at some samples of the noise at the start, after times that have elapsed."""
        rate = np.asarray(elapsed) / np.asarray(time)[:, None]
        self.mean[:, places] = np.exp(-rate) * start
        self.new[:, places] = np.sqrt(-np.expm1(-2 * rate))


def noisy_outputs(
    noise: OutputNoise,
    outputs: Float[np.ndarray, "particle sample"],
    random: np.random.Generator,
    carried: CarriedNoise | None = None,
) -> Float[np.ndarray, "particle sample"]:
    """Each value with a draw of its noise.

    A clipped output stays within its bounds.  What a quantiser adds is uniform over its step, as the place of its steps
    is not known.  Coloured noise goes on from what is `carried`; otherwise it has the same distribution at each sample
    as white noise.  Draws at different samples are not correlated.
    """
    if not isinstance(noise, NoiseValues):
        return outputs + np.asarray(noise)[:, None] * random.standard_normal(outputs.shape)
    normals = random.standard_normal(outputs.shape)
    if noise.degrees is not None:
        degrees = np.asarray(noise.degrees)[:, None]
        normals = normals / np.sqrt(random.chisquare(np.broadcast_to(degrees, outputs.shape)) / degrees)
    errors, form = np.asarray(noise.level)[:, None] * normals, noise.form
    if carried is not None:
        errors = carried.mean + carried.new * errors
    with np.errstate(over="ignore"):
        noisy = outputs * np.exp(errors) if form.log else outputs + errors
    if form.step is not None:
        noisy = noisy + form.step * random.uniform(-0.5, 0.5, outputs.shape)
    if form.lower is None and form.upper is None:
        return noisy
    return np.clip(noisy, form.lower, form.upper)
