"""Calibration: estimators of the diffusion of each coordinate's Wiener process, the size of the integration error.

The filter's evidence is the ODE residual z: the predicted highest derivative minus the vector field.  For unit
diffusion its variance is s, so z^2 / s is one observation of the squared diffusion (paper, section Calibration).  The
variance s is that of a zeroth-order filter (EKF0) without data, for which it depends on the step alone: one number for
all particles, computed once (`unit_variances`).  An iterated linearisation has another residual, whose variance follows
from its Jacobian (`residual_variance_ratio`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probsysid._internal.array_types import Numbers, Scalar
from probsysid._internal.errors import InputError
from probsysid._internal.validation import is_real
from probsysid.odefilter import iwp

FLOOR = 1e-200
"""Smallest squared diffusion.  It keeps covariances positive where a coordinate is exactly at rest."""

Index = int | Numbers
"""Of a coordinate; traced where `ArrayFilter` maps over coordinates."""

Estimate = tuple[list[Scalar], Scalar]
"""Memory, and the squared diffusion."""


class UnitVariance(NamedTuple):
    """Variance of the scaled ODE residual for unit diffusion."""

    running: Scalar
    """Of a solver that has run since the last restart."""
    local: Scalar
    """From the newest step's process noise alone."""


@runtime_checkable
class Diffusion(Protocol):
    """An estimator of one coordinate's squared diffusion from its ODE residuals."""

    def start(self, guess: Scalar) -> list[Scalar]:
        """Memory before any step; `guess` is the squared diffusion of `initial_diffusion`."""
        ...

    def update(self, memory: list[Scalar], residual: Scalar, unit: UnitVariance, coordinate: Index) -> Estimate:
        """New memory and the squared diffusion.  The coordinate's index may be traced (`ArrayFilter` maps over it)."""
        ...


@dataclass(frozen=True)
class QuasiMLE:
    """The quasi-maximum-likelihood estimate: the running mean of z^2 / s over all steps so far, as in the paper.

    The newest residual is counted before its step is taken, and the guess from the initial state counts as one more
    observation.  The first residual alone is not enough: occasionally it is close to zero, and a filter that is certain
    of a wrong first step does not recover.
    """

    def start(self, guess: Scalar) -> list[Scalar]:
        return [guess, jnp.ones(())]

    def update(self, memory: list[Scalar], residual: Scalar, unit: UnitVariance, coordinate: Index) -> Estimate:
        total, count = memory
        total, count = total + residual * residual / unit.running, count + 1
        return [total, count], total / count


@dataclass(frozen=True)
class Dynamic:
    """A time-varying diffusion: an exponentially weighted mean of z^2 / s, which follows kinks and bursts.

    Args:
        memory: number of steps after which the weight of an observation has decayed to 1/e; 0 uses the newest alone.
        shrinkage: number of observations that the mean over all steps counts for.  Without it, a residual that happens
            to be near zero is taken for certainty.
    """

    memory: float = 0.0
    shrinkage: float = 0.0

    def __post_init__(self) -> None:
        for name in ("memory", "shrinkage"):
            value = getattr(self, name)
            if not (is_real(value) and 0 <= value < float("inf")):
                raise InputError(f"Dynamic: {name} is {value!r}; it must be a finite number, 0 or more.")

    def start(self, guess: Scalar) -> list[Scalar]:
        local = [guess, jnp.ones(())] if self.memory > 0 else []
        return [guess, jnp.ones(()), *local] if self.shrinkage > 0 else local

    def update(self, memory: list[Scalar], residual: Scalar, unit: UnitVariance, coordinate: Index) -> Estimate:
        square = residual * residual
        if not self.shrinkage:
            local, total, weight = self._local(memory, square, unit)
            return local, total / weight
        overall, mean = QuasiMLE().update(memory[:2], residual, unit, coordinate)
        local, total, weight = self._local(memory[2:], square, unit)
        return [*overall, *local], (total + self.shrinkage * mean) / (weight + self.shrinkage)

    def _local(self, memory: list[Scalar], square: Scalar, unit: UnitVariance) -> tuple[list[Scalar], Scalar, Scalar]:
        """New memory, and the weighted sum of the observations and the sum of their weights."""
        if not memory:
            return memory, square / unit.local, 1.0
        decay = float(np.exp(-1 / self.memory))
        total, weight = memory
        total, weight = decay * total + square / unit.running, decay * weight + 1
        return [total, weight], total, weight


@dataclass(frozen=True)
class Fixed:
    """A known diffusion.

    Args:
        scale: square root of the diffusion, the same for every coordinate or one per coordinate.
    """

    scale: float | tuple[float, ...] = 1.0

    def start(self, guess: Scalar) -> list[Scalar]:
        return []

    def update(self, memory: list[Scalar], residual: Scalar, unit: UnitVariance, coordinate: Index) -> Estimate:
        scale: float | tuple[float, ...] | Array = self.scale
        if isinstance(scale, tuple):
            scale = scale[coordinate] if isinstance(coordinate, int) else jnp.asarray(scale)[coordinate]
        return memory, scale**2


EXTRA_DERIVATIVES = 2
"""Derivatives beyond the prior's highest one that `initial_diffusion` uses."""


def initial_diffusion(next_derivatives: Sequence[Scalar], step: Scalar) -> Scalar:
    """A squared diffusion from the two derivatives that follow the prior's highest one.

    If the next derivative is d, the highest one changes by d h over a step, against sigma sqrt(h) for the Wiener
    process: sigma^2 = d^2 h.  The next derivative of an oscillation may momentarily be zero; the one after it, times h,
    is then at its largest.  Half of the sum of both is the mean over the phase.
    """
    first, second = next_derivatives
    return 0.5 * step * (first**2 + (step * second) ** 2)


def unit_variances(
    smoothness: int, order: int, steps: Float[np.ndarray, " intervals"], substeps: int, restarts: bool
) -> Float[np.ndarray, "intervals substeps"]:
    """Variance of the scaled ODE residual at every step, for unit diffusion, EKF0 and no data.

    Only the derivatives from the order of the ODE upwards matter.  They are known exactly at the start and after every
    restart.
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
        stationary = np.allclose(covariance, before, rtol=1e-14, atol=0) or restarts
        if k and stationary and np.all(steps[k:] == step):
            result[k:] = result[k]
            break
    return result
