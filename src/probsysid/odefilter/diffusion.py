"""How uncertain the integration is: the diffusion of each coordinate's Wiener process.

The filter's own evidence is how far the predicted derivative misses the ODE: the residual z.  For unit diffusion
its variance would be s; so z^2 / s is one observation of the squared diffusion (paper, section Calibration).  The
variance s belongs to a zeroth-order filter without data, for which it depends on the step alone: the same number
for every particle, computed once (`unit_variances`).  A linearisation that is renewed at the corrected state has a
residual of its own, with a variance that follows from its slopes (`residual_variance_ratio`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probsysid._internal.errors import InputError
from probsysid._internal.validation import is_real
from probsysid.odefilter import iwp

FLOOR = 1e-200
"""Smallest squared diffusion.  It keeps covariances positive where a coordinate is exactly at rest."""


class UnitVariance(NamedTuple):
    """Variance of the scaled ODE residual for unit diffusion."""

    running: Any
    """Of a solver that has been running since the last restart."""
    local: Any
    """Of the newest step's noise alone."""


class Diffusion(Protocol):
    """An estimator of one coordinate's squared diffusion, fed with its ODE residuals."""

    def start(self, guess: Any) -> list[Any]:
        """Memory before any step; `guess` is a squared diffusion from the first derivatives beyond the prior's."""
        ...

    def update(self, memory: list[Any], residual: Any, unit: UnitVariance, coordinate: Any) -> tuple[list[Any], Any]:
        """New memory and the squared diffusion; the coordinate is a number, or stands for each of several."""
        ...


@dataclass(frozen=True)
class QuasiMLE:
    """The running mean of z^2 / s over all steps so far: the paper's estimate, sample by sample.

    The newest residual is counted before the step is taken, and a guess from the initial state counts as one more.  The
    first residual alone would not do: now and then it is close to zero, and a filter that is sure of a wrong first step
    loses the truth for good.
    """

    def start(self, guess: Any) -> list[Any]:
        return [guess, jnp.ones(())]

    def update(self, memory: list[Any], residual: Any, unit: UnitVariance, coordinate: Any) -> tuple[list[Any], Any]:
        total, count = memory
        total, count = total + residual * residual / unit.running, count + 1
        return [total, count], total / count


@dataclass(frozen=True)
class Dynamic:
    """A local mean of z^2 / s: follows kinks and bursts, forgets them again.

    Args:
        memory: steps after which an observation has lost all but 1/e of its weight; 0 uses the newest alone.
        shrinkage: observations that the mean over all steps counts for.  Without it, a residual that happens to be near
            zero looks like certainty.
    """

    memory: float = 0.0
    shrinkage: float = 0.0

    def __post_init__(self) -> None:
        for name in ("memory", "shrinkage"):
            value = getattr(self, name)
            if not (is_real(value) and 0 <= value < float("inf")):
                raise InputError(f"Dynamic: {name} is {value!r}; it must be a finite number, 0 or more.")

    def start(self, guess: Any) -> list[Any]:
        local = [guess, jnp.ones(())] if self.memory > 0 else []
        return [guess, jnp.ones(()), *local] if self.shrinkage > 0 else local

    def update(self, memory: list[Any], residual: Any, unit: UnitVariance, coordinate: Any) -> tuple[list[Any], Any]:
        square = residual * residual
        if not self.shrinkage:
            kept, total, weight = self._local(memory, square, unit)
            return kept, total / weight
        everything, mean = QuasiMLE().update(memory[:2], residual, unit, coordinate)
        kept, total, weight = self._local(memory[2:], square, unit)
        return [*everything, *kept], (total + self.shrinkage * mean) / (weight + self.shrinkage)

    def _local(self, memory: list[Any], square: Any, unit: UnitVariance) -> tuple[list[Any], Any, Any]:
        """New memory, and the sum and number of the observations that are remembered."""
        if not memory:
            return memory, square / unit.local, 1.0
        keep = float(np.exp(-1 / self.memory))
        total, weight = memory
        total, weight = keep * total + square / unit.running, keep * weight + 1
        return [total, weight], total, weight


@dataclass(frozen=True)
class Fixed:
    """A known diffusion.

    Args:
        scale: square root of the diffusion, the same for every coordinate or one a coordinate.
    """

    scale: float | tuple[float, ...] = 1.0

    def start(self, guess: Any) -> list[Any]:
        return []

    def update(self, memory: list[Any], residual: Any, unit: UnitVariance, coordinate: Any) -> tuple[list[Any], Any]:
        scale: Any = self.scale
        if isinstance(scale, tuple):
            scale = scale[coordinate] if isinstance(coordinate, int) else jnp.asarray(scale)[coordinate]
        return memory, scale**2


EXTRA_DERIVATIVES = 2
"""Derivatives beyond the prior's that the first guess of a diffusion looks at."""


def initial_diffusion(beyond: Sequence[Any], step: Any) -> Any:
    """A squared diffusion from the two derivatives that follow the prior's highest one.

    A process whose next derivative is d has increments d h of its highest one over a step, against sigma sqrt(h) for
    the Wiener process: sigma^2 = d^2 h.  Of an oscillation the next derivative may just be zero; the one after it,
    times h, is then at its largest.  Half of both is the mean over the phase.
    """
    first, second = beyond
    return 0.5 * step * (first**2 + (step * second) ** 2)


def unit_variances(
    smoothness: int, order: int, steps: Float[np.ndarray, " intervals"], substeps: int, restarts: bool
) -> Float[np.ndarray, "intervals substeps"]:
    """Variance of the scaled ODE residual at every step, for unit diffusion, zeroth order and no data.

    Only the derivatives from the order of the ODE upwards matter.  They are known exactly at the start, and again
    after every restart.
    """
    a = iwp.transition(smoothness)[order:, order:]
    q = iwp.process(smoothness)[order:, order:]
    powers = smoothness + 0.5 - np.arange(order, smoothness + 1)
    covariance = np.zeros_like(a)
    result = np.empty((len(steps), substeps))
    for k, step in enumerate(steps):
        before = covariance
        if k and step != steps[k - 1]:
            rescale = (steps[k - 1] / step) ** powers
            covariance = covariance * rescale[:, None] * rescale[None, :]
        if restarts:
            covariance = np.zeros_like(a)
        for j in range(substeps):
            covariance = a @ covariance @ a.T + q
            result[k, j] = covariance[0, 0]
            covariance = covariance - np.outer(covariance[:, 0], covariance[0, :]) / covariance[0, 0]
        settled = np.allclose(covariance, before, rtol=1e-14, atol=0) or restarts
        if k and settled and np.all(steps[k:] == step):
            result[k:] = result[k]
            break
    return result
