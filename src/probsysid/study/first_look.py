"""A first look at data before any model: does a signal look like an input, and does the response oscillate?

Least squares with linear models of first and second order on grids of their time constants: no search, no failure, and
enough to choose the equation that a new study begins with.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.signal import lfilter

REPEATED = 0.3
"""Share of samples that repeat the one before, from which on a signal is held: rounding seldom repeats so many."""

LEAST = 8
MOST = 1500
"""Samples that are looked at."""

OSCILLATES = 0.6
"""Share of the first-order error that a second-order model must leave less than."""

CLEAR = 0.5
"""Share of the variance that a cause has to explain, and the factor by which the reverse has to be worse."""

Signal = Float[np.ndarray, " sample"]


@dataclass(frozen=True)
class FirstLook:
    """What the response looks like."""

    oscillates: bool
    time: float
    """Seconds: time constant, or seconds per radian if it oscillates."""
    gain: float
    """Of a first-order lag: response per input; NaN without an input."""
    left: float
    """Share of the response's variance that the chosen model leaves."""


def is_held(values: Signal) -> bool:
    """Whether a signal stays constant between jumps, as the output of a converter does."""
    changes = np.diff(values)
    return len(values) >= LEAST and bool(np.mean(changes == 0) > REPEATED and np.any(changes != 0))


def follows(first: Signal, second: Signal) -> bool:
    """Whether the first signal is the response to the second, and not the reverse."""
    time = np.arange(float(len(first)))
    forth, back = look(time, second, first), look(time, first, second)
    return forth is not None and back is not None and forth.left < min(CLEAR, CLEAR * back.left)


def look(time: Signal, drive: Signal | None, response: Signal) -> FirstLook | None:
    """Fit a first-order lag and a resonance; None where there is too little to see."""
    known = np.isfinite(response) & (np.ones(len(time), bool) if drive is None else np.isfinite(drive))
    if known.sum() < LEAST or not np.ptp(response[known]) > 0:
        return None
    grid = np.linspace(time[known][0], time[known][-1], min(MOST, max(200, int(known.sum()))))
    steps = np.diff(time[known])
    if known.sum() > MOST:  # a part that keeps the step
        grid = time[known][0] + np.median(steps) * np.arange(MOST)
    y = np.interp(grid, time[known], response[known])
    u = None if drive is None else np.interp(grid, time[known], drive[known])
    step, duration = float(grid[1] - grid[0]), float(grid[-1] - grid[0])
    slow, gain, left_by_lag = _best_lag(u, y, step, duration)
    fast, left_by_resonance = _best_resonance(u, y, step, duration)
    if left_by_resonance < OSCILLATES * left_by_lag:
        return FirstLook(True, fast, np.nan, left_by_resonance)
    return FirstLook(False, slow, gain, left_by_lag)


def _best_lag(u: Signal | None, y: Signal, step: float, duration: float) -> tuple[float, float, float]:
    """Time constant, gain and share of the variance left."""
    best = (duration, np.nan, np.inf)
    for constant in np.geomspace(2 * step, 3 * duration, 60):
        pole = np.exp(-step / constant)
        columns = [np.ones(len(y)), pole ** np.arange(len(y))]
        columns += [] if u is None else [lfilter([0.0, 1 - pole], [1.0, -pole], u)]
        weights, left = _least_squares(columns, y)
        if left < best[2]:
            best = (float(constant), float(weights[2]) if u is not None else np.nan, left)
    return best


def _best_resonance(u: Signal | None, y: Signal, step: float, duration: float) -> tuple[float, float]:
    """Seconds per radian and share of the variance left, at least one period being in the record."""
    best = (duration, np.inf)
    samples = np.arange(len(y))
    for omega in np.geomspace(2 * np.pi / duration, 0.9 * np.pi / step, 90):
        for damping in (0.01, 0.05, 0.2, 0.5):
            pole = np.exp((-damping + 1j * np.sqrt(1 - damping**2)) * omega * step)
            free = pole**samples
            columns = [np.ones(len(y)), free.real, free.imag]
            if u is not None:
                denominator = [1.0, -2 * pole.real, abs(pole) ** 2]
                columns += [lfilter([0.0, 1.0], denominator, u), lfilter([0.0, 0.0, 1.0], denominator, u)]
            _, left = _least_squares(columns, y)
            if left < best[1]:
                best = (float(1 / omega), left)
    return best


def _least_squares(columns: list[Signal], y: Signal) -> tuple[Float[np.ndarray, " n"], float]:
    """Weights and the share of the variance left; by normal equations of scaled columns, which is fast."""
    matrix = np.stack(columns)
    scale = np.sqrt(np.sum(matrix**2, axis=1))
    scale[scale == 0] = 1.0
    matrix = matrix / scale[:, None]
    centred = y - y.mean()
    gram = matrix @ matrix.T + 1e-9 * np.eye(len(matrix))
    weights = np.linalg.solve(gram, matrix @ centred)
    left = float(np.sum((centred - weights @ matrix) ** 2) / np.sum(centred**2))
    return weights / scale, left
