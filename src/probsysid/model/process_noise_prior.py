"""A prior of process noise from the scale of the data, for `process_noise={"x": "auto"}`."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array

from probsysid._internal.errors import InputError
from probsysid.data.record import Record
from probsysid.model.model import Model

AUTO = "auto"

SHARE = 0.1
"""Of the motion, that the force builds up within a radian of the data's strongest frequency."""

SPREAD = 2.0
"""Standard deviation of the prior's logarithm: 90 % lie within a factor of 27."""


def with_default_priors(
    model: Model, priors: Mapping[Any, Any], records: Sequence[Record], process_noise: Mapping[str, Any]
) -> dict[str, Any]:
    """Process noise with `"auto"` replaced by a prior from the data."""
    return {
        name: default_prior(model, priors, records, name) if isinstance(value, str) and value == AUTO else value
        for name, value in process_noise.items()
    }


def default_prior(model: Model, priors: Mapping[Any, Any], records: Sequence[Record], name: str) -> dist.LogNormal:
    """LogNormal around a tenth of the spread of x^(n-1) per root of the data's typical time.

    The spread comes from the first output that depends on the coordinate: its standard deviation, divided by its slope
    with respect to the component that it measures, and by a power of the time per radian for every derivative between.
    """
    if name not in model.coordinates:
        raise InputError(f"process_noise names {name!r}; known are: {', '.join(model.coordinates)}.")
    order = model.coordinates[name]
    slopes = _output_slopes(model, priors, records)
    for output, found in slopes.items():
        for derivative in range(order + 1):
            slope = found["d" * derivative + name]
            spread, radian = _scales(records, output)
            if slope and spread > 0:
                velocity = spread / abs(slope) * radian ** (derivative - (order - 1))
                return dist.LogNormal(np.log(SHARE * velocity / np.sqrt(radian)), SPREAD)
    raise InputError(
        f"process_noise of {name!r} is 'auto', but no measured output depends on {name!r}; give a prior such as "
        "dist.LogNormal(log(0.1), 2), in units of its highest given derivative per root second."
    )


def _output_slopes(model: Model, priors: Mapping[Any, Any], records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Derivative of each output with respect to each component, at ones and the median of prior draws."""
    parameters: dict[str, Any] = {}
    for key, prior in priors.items():
        drawn = prior
        if isinstance(prior, dist.Distribution):
            drawn = np.median(np.asarray(prior.sample(jax.random.key(0), (64,))), axis=0)
        names = key if isinstance(key, tuple) else (key,)
        parameters |= dict(zip(names, drawn if isinstance(key, tuple) else (drawn,), strict=True))
    physical, split = list(model.physical_names), len(model.physical_names)
    components = [*physical, *model.highest_names]
    used = [records[0].input_names.index(name) for name in model.input_names]
    inputs = list(np.mean(records[0].input_derivatives(0)[:, used, 0], axis=0))

    def measured(x: Array) -> Array:
        return jnp.stack(model.measured(list(x[:split]), list(x[split:]), inputs, parameters))

    jacobian = np.asarray(jax.jacfwd(measured)(jnp.ones(len(components))))
    rows = zip(model.output_names, jacobian, strict=True)
    return {output: dict(zip(components, map(float, row), strict=True)) for output, row in rows}


def _scales(records: Sequence[Record], output: str) -> tuple[float, float]:
    """Standard deviation of an output, and the time per radian at the strongest frequency of its longest record."""
    measured = [(np.asarray(r.outputs[output]), r.time) for r in records if output in r.outputs]
    if not measured:
        return 0.0, 1.0
    values, time = max(measured, key=lambda pair: len(pair[0]))
    finite = np.isfinite(values)
    values, duration = values[finite], float(time[-1] - time[0])
    if len(values) < 2:
        return 0.0, 1.0
    index = np.arange(len(values))
    detrended = values - np.polyval(np.polyfit(index, values, 1), index)
    spectrum = np.abs(np.fft.rfft(detrended * np.hanning(len(values))))
    periods = float(np.argmax(spectrum[1:]) + 1) if len(spectrum) > 1 else 1.0
    return float(np.std(values)), duration / periods / (2 * np.pi)
