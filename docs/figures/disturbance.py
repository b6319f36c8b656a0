"""The figure of docs/bad-fit.md: `python docs/figures/disturbance.py` writes it beside itself (a second).

An oscillator with measurement noise, and the same oscillator with a random force, against free runs with the true
constants.  Exact simulations: the equation is linear, and the force is white.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm

OMEGA, DAMPING, STEP, COUNT = 2.0, 0.1, 0.05, 600
MATRIX = np.array([[0.0, 1.0], [-(OMEGA**2), -2 * DAMPING * OMEGA]])


def transition(level: float) -> tuple[np.ndarray, np.ndarray]:
    """Matrix and noise covariance of a step with a white force, by Van Loan's formula."""
    block = np.zeros((4, 4))
    block[:2, :2], block[2:, 2:], block[1, 3] = -MATRIX, MATRIX.T, level**2
    power = expm(block * STEP)
    step = power[2:, 2:].T
    return step, step @ power[:2, 2:]


def motion(level: float, random: np.random.Generator) -> np.ndarray:
    """Positions from x = 1 at rest."""
    step, covariance = transition(level)
    factor = np.linalg.cholesky(covariance) if level else np.zeros((2, 2))
    state, path = np.array([1.0, 0.0]), []
    for _ in range(COUNT):
        path.append(state[0])
        state = step @ state + factor @ random.standard_normal(2)
    return np.array(path)


def correlation(error: np.ndarray, lags: int) -> np.ndarray:
    """Of a signal with itself, lag by lag."""
    centred = error - error.mean()
    return np.array([centred[: len(centred) - k] @ centred[k:] for k in range(lags)]) / (centred @ centred)


def main() -> None:
    """Draw both cases side by side."""
    random, time = np.random.default_rng(0), STEP * np.arange(COUNT)
    free = motion(0.0, random)
    cases = {
        "measurement noise: output error is right": free + 0.1 * random.standard_normal(COUNT),
        "a random force: process noise is needed": motion(0.35, random) + 0.01 * random.standard_normal(COUNT),
    }
    figure, axes = plt.subplots(3, 2, figsize=(9.5, 6), layout="constrained", sharex="row", sharey="row")
    for column, (title, measured) in zip(axes.T, cases.items(), strict=True):
        top, middle, bottom = column
        top.plot(time, measured, ".", ms=2, color="0.3", label="measured")
        top.plot(time, free, color="C0", lw=1.2, label="free run, true constants")
        top.set_title(title, fontsize="medium")
        middle.plot(time, measured - free, color="C3", lw=0.8)
        lags = STEP * np.arange(120)
        bottom.stem(lags, correlation(measured - free, len(lags)), linefmt="C3-", markerfmt=" ", basefmt="0.6")
        bottom.set_xlabel("lag [s]")
        middle.set_xlabel("time [s]")
    axes[0, 0].legend(frameon=False, fontsize="small", ncols=2, loc="upper right")
    for axis, label in zip(axes[:, 0], ("position", "error of the free run", "its correlation"), strict=True):
        axis.set_ylabel(label)
    figure.savefig(Path(__file__).with_name("disturbance.png"), dpi=130)


if __name__ == "__main__":
    main()
