"""A filtering problem in neutral form, and its translation into the package's own objects.

The textbook filter and the brute-force Gaussian read the same `Case`, so that all three see the same numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

import probsysid  # noqa: F401  (double precision, before JAX computes anything)
from probsysid.model.model import Model
from probsysid.model.noise import NoiseForm, NoiseValues
from probsysid.model.particle import Particle
from probsysid.odefilter.diffusion import Diffusion, QuasiMLE, unit_variances
from probsysid.odefilter.filter import VectorisedFilter
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.linearise import EKF1, Linearisation
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.smoothing.chunking import LONGEST_CHUNK
from probsysid.odefilter.smoothing.trajectory import Trajectory, trace
from probsysid.odefilter.unrolled.step import UnrolledFilter


@dataclass(frozen=True, eq=False)
class Case:
    """A model, its data, particles (their axis is last) and every setting of the filter."""

    model: Model
    smoothness: tuple[int, ...]
    time: np.ndarray
    outputs: np.ndarray
    """(sample, output)"""
    noise: np.ndarray
    """(output, particle)"""
    initial_mean: np.ndarray
    """(physical component, particle)"""
    initial_sd: np.ndarray
    parameters: Mapping[str, np.ndarray] = field(default_factory=dict)
    grid: np.ndarray | None = None
    """Inputs at the end of each step, (sample, substep, input)."""
    inputs: np.ndarray | None = None
    """Inputs and their derivatives at each sample, from the right, (sample, input, derivative)."""
    substeps: int = 1
    process_noise: np.ndarray | None = None
    """(coordinate, particle)"""
    correlation_time: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Of coloured noise by output, (particle)."""
    linearisation: Linearisation = EKF1()
    diffusion: Diffusion = QuasiMLE()
    ode_noise: float = 0.0
    joint: bool = True
    restarts: bool = False
    uniform: bool = True

    def change(self, **changes: Any) -> "Case":
        return replace(self, **changes)

    @property
    def samples(self) -> int:
        return len(self.time)

    @property
    def particles(self) -> int:
        return self.initial_mean.shape[-1]

    @cached_property
    def steps(self) -> np.ndarray:
        """Length of each step of the interval that ends at a sample; the first sample repeats the first interval's."""
        lengths = np.diff(self.time)
        lengths = np.full(len(lengths), lengths[0]) if self.uniform else lengths
        return np.concatenate([lengths[:1], lengths]) / self.substeps

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.model.orders, self.smoothness)

    @cached_property
    def ode_filter(self) -> UnrolledFilter:
        return UnrolledFilter(
            self.model, self.layout, self.linearisation, self.diffusion, self.ode_noise, self.joint, self.restarts
        )

    @cached_property
    def particle(self) -> Particle:
        return Particle(
            {name: np.asarray(value, dtype=float) for name, value in self.parameters.items()},
            [
                NoiseValues(level, None, self.correlation_time[i], NoiseForm()) if i in self.correlation_time else level
                for i, level in enumerate(self.noise)
            ],
            list(self.initial_mean),
            list(self.initial_sd),
            None if self.process_noise is None else list(self.process_noise),
        )

    @cached_property
    def input_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Grid and derivatives, empty where the model has no input."""
        count = input_derivatives(self.model, self.smoothness) + 1
        grid = np.zeros((self.samples, self.substeps, 0)) if self.grid is None else self.grid
        inputs = np.zeros((self.samples, 0, count)) if self.inputs is None else self.inputs
        assert inputs.shape[-1] >= count
        return grid, inputs

    @cached_property
    def sample(self) -> IntervalData:
        grid, inputs = self.input_arrays
        unit = [
            unit_variances(q, n, self.steps[1:], self.substeps, self.restarts)
            for n, q in zip(self.layout.orders, self.smoothness, strict=True)
        ]
        unit = np.concatenate([np.ones((1, self.substeps, len(unit))), np.stack(unit, axis=-1)])
        scales = np.stack([self.layout.scales(step) for step in self.steps])
        before = np.maximum(np.arange(self.samples) - 1, 0)
        return IntervalData(
            grid=grid,
            inputs=inputs,
            departure=inputs[before],
            outputs=self.outputs,
            unit=unit,
            scales=scales,
            step=self.steps,
            rescale=None if self.uniform else scales[before] / scales,
        )

    @cached_property
    def rows(self) -> PackedSamples:
        return PackedSamples.of(self.sample)

    # What the package makes of it

    def energies(self, filter: VectorisedFilter | None = None) -> np.ndarray:
        """(sample, particle)"""
        return self.run(filter)[0]

    def run(self, filter: VectorisedFilter | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Energies and the packed state at the end."""
        filter = VectorisedFilter(self.ode_filter) if filter is None else filter
        packed, first = filter.start(self.particle, self.rows)
        packed, energies = filter.advance(packed, self.particle, self.rows, 1, self.samples)
        return np.concatenate([np.array(first), np.array(energies)[: self.samples - 1]]), np.array(packed)

    def trace(self, longest_chunk: int = LONGEST_CHUNK) -> Trajectory:
        return trace(self.ode_filter, self.particle, self.sample, self.time, longest_chunk)


def input_derivatives(model: Model, smoothness: Sequence[int]) -> int:
    """Highest derivative of the inputs that a filter asks for: the state's, and two more to guess a diffusion from."""
    return max(q - n for n, q in zip(model.orders, smoothness, strict=True)) + 2


def physical_mean(case: Case, packed: np.ndarray) -> np.ndarray:
    """Means of all components in physical units: a packed state begins with the scaled ones."""
    return packed[: case.layout.size] * case.layout.scales(case.steps[-1])[:, None]


class Blocks(VectorisedFilter):
    """A filter with blocks of a chosen size."""

    def __init__(self, ode_filter: UnrolledFilter, size: int):
        super().__init__(ode_filter)
        object.__setattr__(self, "_size", size)

    @property
    def block(self) -> int:
        return self._size
