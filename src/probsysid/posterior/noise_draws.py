"""Measurements drawn around outputs without noise."""

import numpy as np
from jaxtyping import Float

from probsysid.model.noise import NoiseValues, OutputNoise


def noisy_outputs(
    noise: OutputNoise, outputs: Float[np.ndarray, "particle sample"], random: np.random.Generator
) -> Float[np.ndarray, "particle sample"]:
    """Each value with a draw of its noise.

    A clipped output stays within its bounds.  What a quantiser adds is uniform over its step, as the place of its steps
    is not known.  Coloured noise has the same distribution at each sample as white noise; draws are not correlated.
    """
    if not isinstance(noise, NoiseValues):
        return outputs + np.asarray(noise)[:, None] * random.standard_normal(outputs.shape)
    normals = random.standard_normal(outputs.shape)
    if noise.degrees is not None:
        degrees = noise.degrees[:, None]
        normals = normals / np.sqrt(random.chisquare(np.broadcast_to(degrees, outputs.shape)) / degrees)
    errors, form = noise.level[:, None] * normals, noise.form
    with np.errstate(over="ignore"):
        noisy = outputs * np.exp(errors) if form.log else outputs + errors
    if form.step is not None:
        noisy = noisy + form.step * random.uniform(-0.5, 0.5, outputs.shape)
    if form.lower is None and form.upper is None:
        return noisy
    return np.clip(noisy, form.lower, form.upper)
