"""Damped Gauss-Newton steps (Levenberg and Marquardt) to the modes of many densities at once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from probsysid.selection.likelihood import Normal
from probsysid.selection.terms import Names

ITERATIONS = 20
DAMPING, EASED, RAISED, HOPELESS = 1e-2, 0.1, 8.0, 1e8
"""Of the first step, its factors after a step that helps and one that does not, and where a search gives up."""

LONGEST = 2.0
"""A coordinate moves by at most so many widths of its prior in a step."""

CONVERGED = 1e-3
"""Gain in log density, as predicted, below which a search ends: model probabilities change by a thousandth."""

MARGIN, TRUSTED = 20.0, 2.0
"""A search that is one of several is given up if log evidence falls short of the best by more than the margin, and what
is expected of further steps, taken so many times, does not make up for it."""

FLOOR = 1e-10
"""Smallest eigenvalue of the information, relative to the largest."""


class Start(NamedTuple):
    """Where a search begins."""

    names: Names
    theta: Float[np.ndarray, " coordinate"]


@dataclass
class Peak:
    """Where a search is."""

    theta: Float[np.ndarray, " coordinate"]
    free: np.ndarray
    value: float = -math.inf
    gradient: np.ndarray | None = None
    information: np.ndarray | None = None
    damping: float = DAMPING
    converged: bool = False
    over: bool = False

    @property
    def log_evidence(self) -> float:
        """Laplace's approximation, with the expected information as curvature."""
        if self.information is None or not math.isfinite(self.value):
            return -math.inf
        sizes = np.maximum(np.linalg.eigvalsh(self.information), FLOOR)
        return self.value + 0.5 * len(self.free) * math.log(2 * math.pi) - 0.5 * float(np.sum(np.log(sizes)))

    @property
    def promise(self) -> float:
        """Log evidence that the quadratic model promises."""
        return self.log_evidence + self.gain if math.isfinite(self.value) else -math.inf

    def expected(self, samples: int) -> float:
        """Log evidence to expect of further steps: the quadratic model, with noise levels that follow the misfit.

        Errors that fall from S to S - 2 sigma^2 gain, with S = n sigma^2, raise the log density by
        -n/2 log(1 - 2 gain / n) once sigma has followed.
        """
        left = 1.0 - 2.0 * self.gain / samples
        return self.log_evidence + (TRUSTED * -0.5 * samples * math.log(left) if left > 0 else math.inf)

    def accept(self, value: float, gradient: np.ndarray, information: np.ndarray) -> None:
        """Be at a point with these derivatives."""
        count = len(self.free)
        self.value, self.gradient, self.information = value, gradient[:count], information[:count, :count]

    def step(self, widths: np.ndarray) -> np.ndarray:
        """To the maximum of the damped quadratic model, within the longest that is allowed."""
        assert self.gradient is not None and self.information is not None
        sizes, axes = _spectrum(self.information)
        damped = (axes * sizes) @ axes.T + self.damping * np.diag(np.maximum(np.diag(self.information), FLOOR))
        move = np.linalg.solve(damped, self.gradient)
        own = LONGEST * widths[self.free]
        return move / max(1.0, float(np.max(np.abs(move) / own, initial=0.0)))

    @property
    def gain(self) -> float:
        """What the quadratic model promises."""
        assert self.gradient is not None and self.information is not None
        sizes, axes = _spectrum(self.information)
        return 0.5 * float(np.sum((axes.T @ self.gradient) ** 2 / sizes))


def climbed(
    evaluate: Callable[[Sequence[Start]], Normal],
    starts: Sequence[Start],
    free: Sequence[np.ndarray],
    widths: Float[np.ndarray, " coordinate"],
    samples: int | None = None,
) -> list[Peak]:
    """The modes that are reached from the starts; each moves in its free coordinates alone.

    With the number of samples, searches that fall behind the best one are given up.
    """
    peaks = [Peak(start.theta.copy(), own) for start, own in zip(starts, free, strict=True)]
    if not peaks:
        return []
    for peak, *found in zip(peaks, *evaluate(starts), strict=True):
        _settle(peak, *found)
    for _ in range(ITERATIONS):
        going = [i for i, peak in enumerate(peaks) if not peak.over]
        if not going:
            break
        trials = []
        for i in going:
            theta = peaks[i].theta.copy()
            theta[peaks[i].free] += peaks[i].step(widths)
            trials.append(Start(starts[i].names, theta))
        for i, trial, *found in zip(going, trials, *evaluate(trials), strict=True):
            _judge(peaks[i], trial.theta, *found)
        if samples is not None:
            _give_up(peaks, samples)
    return peaks


def _give_up(peaks: Sequence[Peak], samples: int) -> None:
    """End searches that will not come near the best."""
    best = max(peak.log_evidence for peak in peaks)
    for peak in peaks:
        if not peak.over and peak.expected(samples) < best - MARGIN:
            peak.over = True


def _settle(peak: Peak, value: float, gradient: np.ndarray, information: np.ndarray) -> None:
    if math.isfinite(value) and np.isfinite(gradient).all() and np.isfinite(information).all():
        peak.accept(float(value), gradient, information)
        peak.converged = peak.over = peak.gain < CONVERGED
    else:
        peak.over = True


def _judge(peak: Peak, theta: np.ndarray, value: float, gradient: np.ndarray, information: np.ndarray) -> None:
    """Go to a trial point if it is better, else try a shorter step next."""
    finite = math.isfinite(value) and np.isfinite(gradient).all() and np.isfinite(information).all()
    if finite and value > peak.value:
        peak.theta, peak.damping = theta, max(EASED * peak.damping, FLOOR)
        peak.accept(float(value), gradient, information)
    else:
        peak.damping = RAISED * max(peak.damping, 1e-4)
    peak.converged = peak.gain < CONVERGED
    peak.over = peak.converged or peak.damping > HOPELESS


def _spectrum(information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, made positive, and eigenvectors."""
    sizes, axes = np.linalg.eigh(information)
    return np.maximum(np.abs(sizes), FLOOR * np.max(np.abs(sizes), initial=1e-300)), axes
