"""A change detector with a stated rate of false alarms, on whitened residuals.

While the model holds, whitened residuals z are independent standard normals.  Any other density q that is fixed before
z is seen gives a likelihood ratio L = q(z) / phi(z) with mean one, so that the Shiryaev-Roberts sum

    R <- (1 + R) L

grows by one per residual on average: R - n is a martingale.  The same holds for a weighted mean of such sums over
several q (an e-detector).  By optional stopping, R reaches A no sooner than after A residuals on average: **the mean
time between false alarms is at least A residuals**, whatever the q.  They only decide how soon a change is seen:
residuals that are wider, and residuals that can be predicted from those before them.
"""

from dataclasses import dataclass, field

import numpy as np

WIDER = (1.25, 1.6, 2.5, 5.0)
"""Standard deviations of the alternatives that differ in size alone."""

ORDER = 4
"""Earlier residuals that the predictable alternatives use: an oscillation takes two, two of them four."""

MEMORIES = (50.0, 200.0)
"""Residuals over which these alternatives are fitted."""

SPREADS = (1.0, 1.5, 3.0)
"""Standard deviations of a predictable alternative's residuals."""


_WIDER, _SPREADS = np.array(WIDER), np.array(SPREADS)
_LOGS = np.log(np.concatenate([_WIDER, np.tile(_SPREADS, len(MEMORIES))]))


class Predictable:
    """Recursive least-squares fits of a residual on those before it, with exponential forgetting."""

    def __init__(self, memories: tuple[float, ...] = MEMORIES):
        self._keep = 1 - 1 / np.array(memories)
        self._prior = np.eye(ORDER) / 5
        self._gram = self._prior * np.array(memories)[:, None, None]
        self._cross = np.zeros((len(memories), ORDER))
        self._past = np.zeros(ORDER)

    def predict(self) -> np.ndarray:
        """The next residual by each memory, shrunk towards zero where the fit knows little."""
        found = np.linalg.solve(self._gram, self._cross[:, :, None])[:, :, 0] @ self._past
        return np.clip(found, -5.0, 5.0)

    def learn(self, value: float) -> None:
        self._gram = self._keep[:, None, None] * self._gram + (np.outer(self._past, self._past) + self._prior)
        self._cross = self._keep[:, None] * self._cross + self._past * value
        self._past = np.concatenate([[value], self._past[:-1]])


@dataclass
class Detector:
    """Watches the whitened residuals of several outputs.

    Args:
        outputs: how many.
        interval: residuals between false alarms, on average at least.
    """

    outputs: int
    interval: float
    level: float = field(default=0.0, init=False)
    """Log of the mean sum over that of the threshold: an alarm at zero."""
    onset: int = field(default=0, init=False)
    """Index of the sample since which the strongest alternative has been better."""

    def __post_init__(self) -> None:
        self.reset(0)

    def reset(self, sample: int) -> None:
        """Begin anew, after an alarm or a restart."""
        self._fits = [Predictable() for _ in range(self.outputs)]
        count = len(WIDER) + len(MEMORIES) * len(SPREADS)
        self._sums = np.full((self.outputs, count), -np.inf)
        self._cusum = np.zeros((self.outputs, count))
        self._since = np.full((self.outputs, count), sample)
        self.level = -np.log(self.interval)
        self.onset = sample

    def add(self, sample: int, output: int, white: float) -> bool:
        """A residual; whether it is time for an alarm.  NaN, nothing measured, tells nothing."""
        if not np.isfinite(white):
            return False
        ratios = self._ratios(output, white)
        sums = np.logaddexp(0.0, self._sums[output]) + ratios
        self._sums[output] = sums
        cusum = self._cusum[output] + ratios
        self._since[output] = np.where(cusum <= 0, sample + 1, self._since[output])
        self._cusum[output] = np.maximum(cusum, 0.0)
        self._fits[output].learn(white)
        top = self._sums.max()
        mean = top + np.log(np.mean(np.exp(self._sums - top))) if np.isfinite(top) else -np.inf
        self.level = float(mean) - float(np.log(self.interval))
        self.onset = int(self._since.ravel()[np.argmax(self._cusum)])
        return self.level >= 0

    def _ratios(self, output: int, white: float) -> np.ndarray:
        """Log likelihood ratios of all alternatives."""
        errors = white - self._fits[output].predict()
        scaled = np.concatenate([white / _WIDER, (errors[:, None] / _SPREADS).ravel()])
        return 0.5 * (white**2 - scaled**2) - _LOGS
