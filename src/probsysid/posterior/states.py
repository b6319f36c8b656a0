"""Hidden states: what the data, the model and the integration say about them together."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from probsysid.data.record import Record
from probsysid.model.particle import Particle
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.smoothing.smoother import smooth_record


@dataclass(frozen=True, eq=False)
class States:
    """Smoothed states at the samples of a record."""

    time: Float[np.ndarray, " sample"]
    mean: dict[str, Float[np.ndarray, " sample"]]
    sd: dict[str, Float[np.ndarray, " sample"]]
    """Spread over parameters and, within each particle, over noise and integration error."""
    paths: dict[str, Float[np.ndarray, "draw sample"]]
    """One joint sample path a drawn particle."""
    innovations: dict[str, Float[np.ndarray, "draw sample"]]
    """Whitened one-step prediction errors of each output: standard normal where model and noise are right."""

    def band(self, name: str, width: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
        """Mean minus and plus some standard deviations."""
        return self.mean[name] - width * self.sd[name], self.mean[name] + width * self.sd[name]


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


def _mixture_sd(means: Any, sds: Any) -> np.ndarray:
    """Standard deviation of an equal mixture: spread within plus spread between."""
    return np.sqrt(np.mean(sds**2, axis=-1) + np.var(means, axis=-1))
