"""Signals whose values are known everywhere, and the times inside sampling intervals."""

from collections.abc import Callable

import numpy as np


def multisine(lines: int, highest: float, seed: int) -> Callable[..., np.ndarray]:
    """A sum of `lines` sines up to `highest` cycles per unit of time, with rms 1, and its derivatives."""
    frequency = 2 * np.pi * np.linspace(0.001, highest, lines)
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi, lines)

    def signal(times: np.ndarray, derivative: int = 0) -> np.ndarray:
        angle = np.multiply.outer(np.asarray(times), frequency) + phase + derivative * np.pi / 2
        return np.sqrt(2 / lines) * np.cos(angle) @ frequency**derivative

    return signal


def inside(time: np.ndarray, substeps: int) -> np.ndarray:
    """The times of rows 1.. of a grid."""
    return time[:-1, None] + np.diff(time)[:, None] * np.arange(1, substeps + 1) / substeps
