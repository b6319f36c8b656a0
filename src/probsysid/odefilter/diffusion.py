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
    share: Scalar = 1.0
    """The step's length in sampling intervals."""


@runtime_checkable
class Diffusion(Protocol):
    """An estimator of one coordinate's squared diffusion from its ODE residuals."""

    @property
    def coupled(self) -> bool:
        """Whether a coordinate is at least as uncertain over a step as the others' noise makes its right-hand side."""
        ...

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

    @property
    def coupled(self) -> bool:
        return False

    def start(self, guess: Scalar) -> list[Scalar]:
        return [guess, jnp.ones(())]

    def update(self, memory: list[Scalar], residual: Scalar, unit: UnitVariance, coordinate: Index) -> Estimate:
        total, count = memory
        total, count = total + residual * residual / unit.running, count + 1
        return [total, count], total / count


WINDOW = 16.0
"""Sampling intervals whose mean, and that of as many before, is the floor of a `Dynamic` diffusion."""


@dataclass(frozen=True)
class Dynamic:
    """A time-varying diffusion: an exponentially weighted mean of z^2 / s, which follows kinks and bursts.

    What a step is like does not depend on how badly an earlier one went: the mean forgets.  A mean over all steps does
    not, and a single step across a singularity then makes room for any misfit of the rest of the record.

    But a filter that has forgotten the last kink is too sure of its highest derivatives when the next one comes, takes
    the residual for an error of the lower ones, and corrects what was right.  So there is a floor: a fraction of the
    mean over a window of samples, which forgets altogether what lies before.

    A kink in the equation of one coordinate, the restoring force z of a hysteretic spring, does not show in the
    residual of another, the mass x that it acts on: at the step across the kink both are extrapolated smoothly.  If the
    diffusion of x has forgotten all else, the filter corrects z by what it holds for certain of x.  So the diffusion of
    x is also bounded by that of z: the process noise of its highest derivative has at least the variance that the
    process noise of the other coordinates gives to its right-hand side, to first order.

    Args:
        memory: number of steps after which the weight of an observation has decayed to 1/e; 0 uses the newest alone.
        floor: fraction of the mean over the last 16 to 32 samples below which the estimate never falls.
        coupled: whether the diffusions of the other coordinates bound each one from below.
    """

    memory: float = 0.0
    floor: float = 0.0
    coupled: bool = False

    def __post_init__(self) -> None:
        if not (is_real(self.memory) and 0 <= self.memory < float("inf")):
            raise InputError(f"Dynamic: memory is {self.memory!r}; it must be a finite number, 0 or more.")
        if not (is_real(self.floor) and 0 <= self.floor <= 1):
            raise InputError(f"Dynamic: floor is {self.floor!r}; it must be a number from 0 to 1.")
        if not isinstance(self.coupled, bool):
            raise InputError(f"Dynamic: coupled is {self.coupled!r}; it must be True or False.")

    def start(self, guess: Scalar) -> list[Scalar]:
        recent = [guess, jnp.ones(())] if self.memory > 0 else []
        return [*recent, jnp.zeros(()), jnp.zeros(()), jnp.zeros(()), jnp.zeros(())] if self.floor else recent

    def update(self, memory: list[Scalar], residual: Scalar, unit: UnitVariance, coordinate: Index) -> Estimate:
        *recent, total, length, earlier, earlier_length = memory if self.floor else [*memory, 0.0, 0.0, 0.0, 0.0]
        recent, estimate = self._recent(recent, residual, unit)
        if not self.floor:
            return recent, estimate
        full = length >= WINDOW
        earlier, earlier_length = jnp.where(full, total, earlier), jnp.where(full, length, earlier_length)
        total = jnp.where(full, 0.0, total) + unit.share * residual * residual / unit.running
        length = jnp.where(full, 0.0, length) + unit.share
        mean = (total + earlier) / (length + earlier_length)
        return [*recent, total, length, earlier, earlier_length], jnp.maximum(estimate, self.floor * mean)

    def _recent(self, memory: list[Scalar], residual: Scalar, unit: UnitVariance) -> Estimate:
        if not memory:
            return memory, residual * residual / unit.local
        decay = float(np.exp(-1 / self.memory))
        total, weight = memory
        total, weight = decay * total + residual * residual / unit.running, decay * weight + 1
        return [total, weight], total / weight


@dataclass(frozen=True)
class Fixed:
    """A known diffusion.

    Args:
        scale: square root of the diffusion, the same for every coordinate or one per coordinate.
    """

    scale: float | tuple[float, ...] = 1.0

    @property
    def coupled(self) -> bool:
        return False

    def start(self, guess: Scalar) -> list[Scalar]:
        return []

    def update(self, memory: list[Scalar], residual: Scalar, unit: UnitVariance, coordinate: Index) -> Estimate:
        scale: float | tuple[float, ...] | Array = self.scale
        if isinstance(scale, tuple):
            scale = scale[coordinate] if isinstance(coordinate, int) else jnp.asarray(scale)[coordinate]
        return memory, scale**2


@dataclass(frozen=True)
class Given:
    """A diffusion that is handed in: a quantity of the problem, `solver.diffusion`, or another filter's estimate."""

    @property
    def coupled(self) -> bool:
        return False

    def start(self, guess: Scalar) -> list[Scalar]:
        return [guess]

    def update(self, memory: list[Scalar], residual: Scalar, unit: UnitVariance, coordinate: Index) -> Estimate:
        return memory, memory[0]


LARGEST_BY_DATA = 2.0
"""How many times larger than without data a residual may be that calibrates the diffusion.

Data that contradict the model must not count as integration error, so 1 would do; but where steps are far too long,
what data add to a residual is integration error that they have revealed, and its linear prediction is poor.  Rms
z-scores of the van der Pol oscillator at one step per sample, 20 data sets: 2.4 with the data's part subtracted, 1.29
with the smaller of the residuals with and without it, 1.19 with at most twice the latter, 1.20 with three times.
"""


def without_data(residual: Scalar, from_data: Scalar) -> Scalar:
    """The size of a residual, but no more than `LARGEST_BY_DATA` times that without the part that data put there."""
    return jnp.minimum(jnp.abs(residual), LARGEST_BY_DATA * jnp.abs(residual - from_data))


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
