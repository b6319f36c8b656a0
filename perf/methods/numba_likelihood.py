"""Log likelihood with Runge-Kutta in numba: particles as SIMD lanes, blocks of them on all cores."""

from typing import Any

import numba
import numpy as np
from duffing import STEPS, stepper

LANES = 64
"""Particles per block: their states stay in the first-level cache."""

interval = numba.njit(stepper(STEPS), fastmath=True, inline="always")


@numba.njit(fastmath=True, parallel=True)
def advance(theta: Any, state: Any, energies: Any, force: Any, position: Any, first: int) -> None:
    """Energies of samples `first`, ... in rows, and the state after them.  `theta` holds natural quantities; a range
    that begins with sample 0 begins with the initial state."""
    count = theta.shape[1]
    for block in numba.prange((count + LANES - 1) // LANES):
        low, high = block * LANES, min((block + 1) * LANES, count)
        for row in range(energies.shape[0]):
            k = first + row
            for i in range(low, high):
                if k == 0:
                    x, v = theta[5, i], theta[6, i]
                else:
                    x, v = interval(
                        state[0, i], state[1, i], force[k - 1], force[k],
                        theta[0, i], theta[1, i], theta[2, i], theta[3, i],
                    )  # fmt: skip
                state[0, i], state[1, i] = x, v
                miss = (position[k] - x) / theta[4, i]
                energies[row, i] = 0.5 * miss * miss + np.log(theta[4, i]) + 0.9189385332046727


@numba.njit(fastmath=True, parallel=True)
def log_likelihoods(theta: Any, force: Any, position: Any, stop: int) -> Any:
    """Of the first `stop` samples, for many particles."""
    count = theta.shape[1]
    result = np.empty(count)
    for block in numba.prange((count + LANES - 1) // LANES):
        low, high = block * LANES, min((block + 1) * LANES, count)
        size = high - low
        x, v, squares = theta[5, low:high].copy(), theta[6, low:high].copy(), np.zeros(size)
        m, c = theta[0, low:high].copy(), theta[1, low:high].copy()
        k, k3 = theta[2, low:high].copy(), theta[3, low:high].copy()
        for t in range(stop):
            if t > 0:
                left, right = force[t - 1], force[t]
                for i in range(size):
                    x[i], v[i] = interval(x[i], v[i], left, right, m[i], c[i], k[i], k3[i])
            for i in range(size):
                squares[i] += (position[t] - x[i]) ** 2
        for i in range(size):
            noise = theta[4, low + i]
            result[low + i] = -0.5 * squares[i] / noise**2 - stop * (np.log(noise) + 0.9189385332046727)
    return np.where(np.isfinite(result), result, -1e30)


@numba.njit(fastmath=True)
def log_likelihood(theta: Any, force: Any, position: Any) -> float:
    """For one particle."""
    x, v = theta[5], theta[6]
    squares = (position[0] - x) ** 2
    for t in range(1, len(position)):
        x, v = interval(x, v, force[t - 1], force[t], theta[0], theta[1], theta[2], theta[3])
        squares += (position[t] - x) ** 2
    value = -0.5 * squares / theta[4] ** 2 - len(position) * (np.log(theta[4]) + 0.9189385332046727)
    return value if np.isfinite(value) else -1e30
