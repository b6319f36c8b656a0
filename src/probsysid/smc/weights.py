"""Weights of particles: how a sample changes them, and how many particles they are worth.

Log weights are kept per population: arrays (population, member).  A particle whose energy is not finite gets weight
zero.  This is NumPy: the arrays are small, and nothing needs to be compiled.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LogWeights = Float[np.ndarray, "population member"]

BISECTIONS, PRECISE = 60, 1e-3
"""The tempering interval is halved until a share is known that precisely, or so many times.  Any share is right; one
that is a thousandth too small costs nothing."""


class ReweightedBlock(NamedTuple):
    """Weights after each sample of a block."""

    log_weights: Float[np.ndarray, "sample population member"]
    ess: Float[np.ndarray, "sample population"]
    log_mean: Float[np.ndarray, "sample population"]
    """Log of the mean weight: the evidence since the weights were last equal."""
    lost: Float[np.ndarray, " sample"]
    """Particles whose energy stopped being finite."""


def effective_size(log_weights: LogWeights) -> Float[np.ndarray, " population"]:
    """Effective sample size of each population (paper, eq. ESS); zero where no particle is left."""
    return _size_and_log_sum(log_weights)[0]


def ess_fraction(sizes: Float[np.ndarray, "*rows population"], members: int) -> Float[np.ndarray, "*rows"]:
    """How even weights are, given the effective size of each population: their mean as a share of the members.  A
    population whose share is less than half of that counts by twice its share, so that none dies out unnoticed."""
    return np.minimum(sizes.mean(axis=-1), 2 * sizes.min(axis=-1)) / members


def _size_and_log_sum(
    log_weights: LogWeights,
) -> tuple[Float[np.ndarray, " population"], Float[np.ndarray, " population"]]:
    """Effective sample size, and log of the sum of weights, of each population."""
    top = np.max(log_weights, axis=-1, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    weights = log_weights - safe
    np.exp(weights, out=weights)
    sums = np.sum(weights, axis=-1)
    squares = np.sum(np.square(weights, out=weights), axis=-1)
    sizes = np.where(squares > 0, sums**2 / np.where(squares > 0, squares, 1.0), 0.0)
    with np.errstate(divide="ignore"):
        return sizes, np.log(sums) + safe[..., 0]


def log_sum_exp(values: Float[np.ndarray, "*rows n"]) -> Float[np.ndarray, "*rows"]:
    """Log of the sum of exponentials along the last axis, minus infinity where all are.

    SciPy's does the same with a third of a millisecond of overhead a call, which shows in a profile.
    """
    return _size_and_log_sum(values)[1]


def log_mean(log_weights: LogWeights) -> Float[np.ndarray, " population"]:
    """Log of the mean weight of each population."""
    return log_sum_exp(log_weights) - np.log(log_weights.shape[-1])


def normalise(log_weights: Float[np.ndarray, "*population member"]) -> Float[np.ndarray, "*population member"]:
    """Weights that sum to one along the last axis, however large the logarithms; NaN where no particle is left."""
    top = np.max(log_weights, axis=-1, keepdims=True)
    weights = np.exp(log_weights - np.where(np.isfinite(top), top, 0.0))
    with np.errstate(invalid="ignore"):
        return weights / np.sum(weights, axis=-1, keepdims=True)


def finite_or_lost(energies: np.ndarray) -> np.ndarray:
    """Energies with plus infinity, weight zero, for whatever is not a number."""
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(np.sum(energies)):  # the usual case: nothing to copy
            return energies
    return np.where(np.isfinite(energies), energies, np.inf)


def weigh(log_weights: LogWeights, energies: Float[np.ndarray, "sample particle"]) -> ReweightedBlock:
    """Absorb samples one after the other (paper, eq. log_lik).

    The order of additions does not depend on how samples are grouped into blocks, so that a stream and a batch agree
    to the last bit.
    """
    kept = finite_or_lost(energies)
    some_lost = kept is not energies
    kept = kept.reshape(-1, *log_weights.shape)
    path = np.empty((len(kept) + 1, *log_weights.shape))
    path[0] = log_weights
    for k, energy in enumerate(kept):  # `np.subtract.accumulate` goes down the columns: ten times slower
        np.subtract(path[k], energy, out=path[k + 1])
    lost = np.sum(np.isinf(kept) & np.isfinite(path[:-1]), axis=(1, 2)) if some_lost else np.zeros(len(kept), int)
    sizes, log_sums = _size_and_log_sum(path[1:])
    return ReweightedBlock(path[1:], sizes, log_sums - np.log(log_weights.shape[-1]), lost)


def temper(log_weights: LogWeights, energy: LogWeights, share_of_members: float) -> float:
    """The largest share of one more energy that keeps the weights as even as wanted.

    Lost particles are lost at any share above zero; where too few are left because of them, what is left takes the
    place of all.
    """
    members = log_weights.shape[-1]

    def even(share: float) -> float:
        return float(ess_fraction(effective_size(log_weights - tempered(energy, share)), members))

    alive = even(1e-300)
    wanted = share_of_members if alive >= share_of_members else share_of_members * alive

    def enough(share: float) -> bool:
        return even(share) >= wanted

    if enough(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
        if high - low < PRECISE * low:
            break
    return low


def tempered(energy: np.ndarray, share: float) -> np.ndarray:
    """A share of an energy; infinite energies stay infinite at any positive share and vanish at zero."""
    return share * energy if share > 0 else np.zeros_like(energy)
