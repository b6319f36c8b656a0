"""Hidden states: what the data, the model and the integration say about them together."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from probsysid.odefilter.array_step import in_arrays
from probsysid.odefilter.smooth import look_back
from probsysid.odefilter.step import Particle, Sample, System
from probsysid.odefilter.stretches import Written
from probsysid.odefilter.trajectory import trace
from probsysid.record import Record

MEMORY = 1_000_000_000
"""Bytes that smoothing may take at a time."""

MATRICES = 3
"""Matrices of the state's size that are kept for each step: factors before and after a restart, and all the rest."""


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


def smoothed_states(system: System, particles: Particle, samples: Sample, record: Record, seed: int) -> States:
    """Smooth every particle and mix them with equal weights."""
    system = in_arrays(system)
    groups = _groups(jax.tree.leaves(particles)[0].shape[-1], samples, system.layout.size)
    count = sum(len(group) for group in groups)
    parts = []
    for number, group in enumerate(groups):
        # The last group repeats its last particle: groups of one size share their programs.
        padded = np.concatenate([group, np.repeat(group[-1:], len(groups[0]) - len(group))])
        chosen = jax.tree.map(lambda leaf: leaf[..., padded], particles)  # noqa: B023
        key = jax.random.key(seed) if number == 0 else jax.random.fold_in(jax.random.key(seed), number)
        parts.append(_smoothed_group(system, chosen, samples, record, key))
    means, sds, paths, whitened = (np.concatenate(part, axis=-1)[..., :count] for part in zip(*parts, strict=True))
    model, layout = system.model, system.layout
    names = (*model.physical_names, *model.highest_names)
    index = (*layout.physical, *layout.highest)
    return States(
        time=record.time,
        mean={name: means[:, i].mean(axis=-1) for name, i in zip(names, index, strict=True)},
        sd={name: _mixture_sd(means[:, i], sds[:, i]) for name, i in zip(names, index, strict=True)},
        paths={name: paths[:, i].T for name, i in zip(names, index, strict=True)},
        innovations={name: whitened[:, j].T for j, name in enumerate(model.output_names)},
    )


def _groups(particles: int, samples: Sample, size: int) -> list[np.ndarray]:
    """Particles whose matrices of all steps fit into memory together, in their order."""
    points = samples.grid.shape[0] * samples.grid.shape[1]
    fitting = max(1, MEMORY // (8 * MATRICES * size * size * points))
    return [np.arange(first, min(first + fitting, particles)) for first in range(0, particles, fitting)]


def _smoothed_group(
    system: System, particles: Particle, samples: Sample, record: Record, key: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, sd and a path of each component and the whitened innovations at the samples, particles last."""
    trajectory = trace(system, particles, samples, record.time)
    found = Written(len(trajectory.time))
    for seen in look_back(trajectory, system.layout, key, draws=1):
        found.put(seen.first, (seen.states.mean, seen.sd, seen.paths[:, :, 0]))
    at = np.searchsorted(trajectory.time, record.time)
    mean, sd, paths = (values[at] for values in found.arrays)
    return mean, sd, paths, trajectory.innovation / np.sqrt(trajectory.innovation_variance)


def _mixture_sd(means: Any, sds: Any) -> np.ndarray:
    """Standard deviation of an equal mixture: spread within plus spread between."""
    return np.sqrt(np.mean(sds**2, axis=-1) + np.var(means, axis=-1))
