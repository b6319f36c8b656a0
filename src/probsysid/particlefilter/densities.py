"""What the data say of a point: log densities of outputs, and the Gaussians that stand for them."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from probsysid._internal.array_types import Scalar
from probsysid.model import laws
from probsysid.model.model import Model
from probsysid.model.noise import NoiseValues
from probsysid.model.particle import Particle
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.noise_likelihood import transformed
from probsysid.odefilter.unrolled.gaussian import weigh


class Moments(NamedTuple):
    """Of the outputs at a point: mean and variance of what would be measured."""

    mean: Float[Array, " output"]
    variance: Float[Array, " output"]


def compared(noise: object, value: Scalar) -> Scalar:
    """A measured value as it is compared with the outputs: its logarithm where the noise is relative."""
    return jnp.log(value) if isinstance(noise, NoiseValues) and noise.form.log else value


def _outputs(
    model: Model, particle: Particle, sample: IntervalData, point: Float[Array, " component"]
) -> tuple[list[Scalar], dict[str, Any]]:
    """The outputs at a point, logarithms where the noise is relative, and those that are distributions."""
    inputs = [values[0] for values in sample.inputs]
    highest = model.highest_derivatives(list(point), inputs, particle.parameters)
    outputs = model.measured(list(point), highest, inputs, particle.parameters)
    laws_there = model.laws_at(list(point), highest, inputs, particle.parameters)
    return transformed(particle.noise, outputs, list(sample.outputs)), laws_there


def moments(model: Model, particle: Particle, sample: IntervalData, point: Float[Array, " component"]) -> Moments:
    """Mean and variance of each output at a point, logarithms where the noise is relative."""
    mean, found = _outputs(model, particle, sample, point)
    variance = []
    for name, noise in zip(model.output_names, particle.noise, strict=True):
        if name in found:
            variance.append(laws.variance_of(found[name]))
        else:
            level = noise.level if isinstance(noise, NoiseValues) else noise
            variance.append(jnp.asarray(level, dtype=float) ** 2)
    return Moments(jnp.stack(mean), jnp.stack(variance))


def log_density(model: Model, particle: Particle, sample: IntervalData, point: Float[Array, " component"]) -> Scalar:
    """Log density of the sample's outputs at a point; a missing one counts nothing."""
    predictions, found = _outputs(model, particle, sample, point)
    total: Scalar = jnp.zeros(())
    rows = zip(model.output_names, sample.outputs, predictions, particle.noise, strict=True)
    for name, observed, predicted, noise in rows:
        if name in found:
            total = total + laws.log_density(found[name], observed)
        else:
            total = total - weigh(noise, observed, predicted, None, scores=False).energy
    return jnp.where(jnp.isnan(total), -jnp.inf, total)
