"""The identification that every method is given: one Duffing record, its priors, and the motion between samples.

Nothing here needs more than NumPy, so that every environment can read it.  All quantities have a Gaussian prior, five
of them in the logarithm; methods that need an unconstrained space work on `z`, which is standard normal a priori.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

NAMES = ("m", "c", "k", "k3", "noise.position", "initial.x", "initial.dx")
POSITIVE = 5
"""Number of leading quantities with a log-normal prior; the others have a normal one."""
TRUTH = np.array([1.0, 0.2, 1.0, 0.5, 0.1, 0.5, -0.3])
PRIOR_MEAN = np.array([0.1, np.log(0.25), -0.1, np.log(0.4), np.log(0.12), 0.0, 0.0])
"""Of the logarithm, or of the initial value; not centred on the truth, which would favour every method."""
PRIOR_SD = np.array([0.3, 0.5, 0.3, 0.5, 0.5, 1.0, 1.0])

SAMPLES = 2000
DT = 0.25
"""About 20 samples per period of the resonance, which is near 1.3 rad/s for this motion."""
STEPS = 2
"""Runge-Kutta steps per sample in the likelihoods of the other methods.  Against 8, one step moves the noise level by
1.8 posterior standard deviations and the damping by 0.5; two steps move nothing by more than 0.04."""
FINE = 16
"""The same for the record."""


def stepper(steps: int) -> Callable[..., Any]:
    """Motion over one sampling interval, the force linear in between; for numbers, arrays, JAX and numba alike."""
    h = DT / steps

    def interval(x: Any, v: Any, left: Any, right: Any, m: Any, c: Any, k: Any, k3: Any) -> Any:
        slope = (right - left) / steps
        for j in range(steps):
            begin = left + slope * j
            middle, end = begin + slope * 0.5, begin + slope
            b1 = (begin - c * v - x * (k + k3 * x * x)) / m
            x2, a2 = x + 0.5 * h * v, v + 0.5 * h * b1
            b2 = (middle - c * a2 - x2 * (k + k3 * x2 * x2)) / m
            x3, a3 = x + 0.5 * h * a2, v + 0.5 * h * b2
            b3 = (middle - c * a3 - x3 * (k + k3 * x3 * x3)) / m
            x4, a4 = x + h * a3, v + h * b3
            b4 = (end - c * a4 - x4 * (k + k3 * x4 * x4)) / m
            x, v = x + h / 6 * (v + 2 * a2 + 2 * a3 + a4), v + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        return x, v

    return interval


def record(samples: int = SAMPLES, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Force and measured position."""
    rng = np.random.default_rng(seed)
    time, lines = DT * np.arange(samples), np.linspace(0.2, 2.5, 40)
    phase = rng.uniform(0, 2 * np.pi, len(lines))
    force = np.cos(time[:, None] * lines + phase).sum(axis=1) / np.sqrt(60)
    m, c, k, k3, noise, x, v = TRUTH
    interval, position = stepper(FINE), np.empty(samples)
    position[0] = x
    for i in range(1, samples):
        x, v = interval(x, v, force[i - 1], force[i], m, c, k, k3)
        position[i] = x
    return force, position + noise * rng.standard_normal(samples)


def natural(z: Any) -> np.ndarray:
    """Quantities, first axis, from the plain space."""
    shape = (-1,) + (1,) * (np.ndim(z) - 1)
    u = PRIOR_MEAN.reshape(shape) + PRIOR_SD.reshape(shape) * np.asarray(z)
    u[:POSITIVE] = np.exp(u[:POSITIVE])
    return u


def plain(quantities: np.ndarray) -> np.ndarray:
    """The inverse of `natural`, for one point."""
    return (np.concatenate([np.log(quantities[:POSITIVE]), quantities[POSITIVE:]]) - PRIOR_MEAN) / PRIOR_SD
