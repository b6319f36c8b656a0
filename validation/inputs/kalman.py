"""An augmented Kalman filter: position, velocity and force as a state, the force a random walk.

What is commonly done where a force is not measured (Lourens et al., 2012): constants are given, the rate of the random
walk and the measurement noise are tuned.  Here it gets the best tuning there is, the one with the least error of the
force, which needs the true force.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import scipy.linalg

Acceleration = Callable[[float, float, float], float]

STEPS = 4
"""Runge-Kutta steps per sample."""


def smoothed(
    acceleration: Acceleration, positions: np.ndarray, dt: float, rate: float, noise: float, scales: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the force by the extended Rauch-Tung-Striebel smoother.

    `scales` are typical sizes of position, velocity and force; velocity and force start at zero with these.
    """
    count = len(positions)
    mean, covariance = np.array([positions[0], 0.0, 0.0]), np.diag(np.square([noise, *scales[1:]]))
    filtered, predicted, gains = [], [], []
    for k, y in enumerate(positions):
        if k:
            transition = _transition(acceleration, mean, dt, scales)
            spread = _process_noise(acceleration, mean, dt, rate, scales)
            ahead = _moved(acceleration, mean, dt)
            new = transition @ covariance @ transition.T + spread
            gains.append(np.linalg.solve(new, transition @ covariance).T)
            predicted.append((ahead, new))
            mean, covariance = ahead, new
        total = covariance[0, 0] + noise**2
        gain = covariance[:, 0] / total
        mean, covariance = mean + gain * (y - mean[0]), covariance - np.outer(gain, covariance[0])
        filtered.append((mean, covariance))
    means, sds = np.empty(count), np.empty(count)
    mean, covariance = filtered[-1]
    for k in range(count - 1, -1, -1):
        if k < count - 1:
            ahead, new = predicted[k]
            before, spread = filtered[k]
            mean, covariance = before + gains[k] @ (mean - ahead), spread + gains[k] @ (covariance - new) @ gains[k].T
        means[k], sds[k] = mean[2], np.sqrt(max(covariance[2, 2], 0.0))
    return means, sds


def best(
    acceleration: Acceleration,
    positions: np.ndarray,
    force: np.ndarray,
    dt: float,
    scales: tuple[float, ...],
    rates: np.ndarray,
    noises: np.ndarray,
) -> dict[str, Any]:
    """The tuning with the least error of the force, its error and coverage in percent."""
    found: dict[str, Any] = {"nmse": np.inf}
    for rate, noise in product(rates, noises):
        mean, sd = smoothed(acceleration, positions, dt, float(rate), float(noise), scales)
        error = float(100 * np.mean((mean - force) ** 2) / np.var(force))
        if error < found["nmse"]:
            inside = np.abs(mean - force) <= 1.6448536 * sd
            found = {
                "nmse": error,
                "coverage": float(100 * np.mean(inside)),
                "rate": float(rate),
                "noise": float(noise),
            }
    return found


def _moved(acceleration: Acceleration, state: np.ndarray, dt: float) -> np.ndarray:
    x, v, f = (float(value) for value in state)
    h = dt / STEPS
    for _ in range(STEPS):
        a1 = acceleration(x, v, f)
        a2 = acceleration(x + h / 2 * v, v + h / 2 * a1, f)
        a3 = acceleration(x + h / 2 * (v + h / 2 * a1), v + h / 2 * a2, f)
        a4 = acceleration(x + h * (v + h / 2 * a2), v + h * a3, f)
        x, v = x + h * v + h**2 / 6 * (a1 + a2 + a3), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return np.array([x, v, f])


def _jacobian(acceleration: Acceleration, state: np.ndarray, scales: tuple[float, ...]) -> np.ndarray:
    found = np.zeros((3, 3))
    found[0, 1] = 1.0
    for j, scale in enumerate(scales):
        step = np.zeros(3)
        step[j] = 1e-4 * scale
        up, down = acceleration(*(state + step)), acceleration(*(state - step))
        found[1, j] = (up - down) / (2e-4 * scale)
    return found


def _transition(acceleration: Acceleration, state: np.ndarray, dt: float, scales: tuple[float, ...]) -> np.ndarray:
    found = np.empty((3, 3))
    for j, scale in enumerate(scales):
        step = np.zeros(3)
        step[j] = 1e-4 * scale
        difference = _moved(acceleration, state + step, dt) - _moved(acceleration, state - step, dt)
        found[:, j] = difference / (2e-4 * scale)
    return found


def _process_noise(
    acceleration: Acceleration, state: np.ndarray, dt: float, rate: float, scales: tuple[float, ...]
) -> np.ndarray:
    """Of the linearised equation, by Van Loan's method in units of the scales."""
    units = np.asarray(scales)
    a = _jacobian(acceleration, state, scales) * units / units[:, None]
    noise = np.diag([0.0, 0.0, (rate / units[2]) ** 2])
    block = scipy.linalg.expm(np.block([[-a, noise], [np.zeros((3, 3)), a.T]]) * dt)
    return (block[3:, 3:].T @ block[:3, 3:]) * np.outer(units, units)
