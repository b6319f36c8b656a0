"""The Gaussian that touches a posterior at its mode, by finite differences: a good start for chains."""

from collections.abc import Callable

import numpy as np

STEP = 1e-3
"""Of finite differences, in prior standard deviations: small against a posterior of about 0.01, large against noise."""


SHARES = 0.5 ** np.arange(8)
"""Of a Newton step, tried in parallel."""


def laplace(log_density: Callable[[np.ndarray], np.ndarray], start: np.ndarray, rounds: int = 10) -> tuple:
    """Mode and covariance by Newton's method, with the best of several step lengths: full steps overshoot where a
    record is short.  `log_density` takes (point, dimension); `start` must be close."""
    size = len(start)
    mode = np.array(start)
    for _ in range(rounds):
        gradient, hessian = _derivatives(log_density, mode)
        step = np.linalg.solve(hessian, gradient)
        if np.max(np.abs(step)) < 0.1 * STEP:
            break
        tried = mode - SHARES[:, None] * step
        mode = tried[np.nanargmax(log_density(tried))]
    return mode, np.linalg.inv(-_derivatives(log_density, mode)[1]).reshape(size, size)


def _derivatives(log_density: Callable[[np.ndarray], np.ndarray], point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size, unit = len(point), STEP * np.eye(len(point))
    pairs = [s * a + t * b for s, t in ((1, 1), (1, -1), (-1, 1), (-1, -1)) for a in unit for b in unit]
    values = np.asarray(log_density(point + np.array([*unit, *-unit, *pairs])))
    gradient = (values[:size] - values[size : 2 * size]) / (2 * STEP)
    up, down, left, right = values[2 * size :].reshape(4, size, size)
    return gradient, (up - down - left + right) / (4 * STEP**2)
