"""Importance weights of particles: how samples change them, and how much of a sample keeps them even.

Log weights are kept per population, as arrays (population, member).  A particle whose energy is not finite gets weight
zero.  NumPy: the arrays are small, and nothing needs to be compiled.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from probsysid._internal.statistics import effective_sample_size, sizes_and_log_sums

LogWeights = Float[np.ndarray, "population member"]

BISECTIONS, PRECISE = 1000, 1e-3
"""Bisection of the tempering exponent ends at this relative precision, or after this many steps: enough for energies as
large as numbers go.  Any exponent is valid; one that is a thousandth too small costs nothing."""

SMALLEST = 1e-300
"""An exponent that changes nothing but the weights of lost particles."""


class ReweightedBlock(NamedTuple):
    """Weights after each sample of a block."""

    log_weights: Float[np.ndarray, "sample population member"]
    ess: Float[np.ndarray, "sample population"]
    log_mean: Float[np.ndarray, "sample population"]
    """Log of the mean weight: the evidence since the weights were last equal."""
    lost: Int[np.ndarray, " sample"]
    """Particles whose energy stopped being finite."""


def ess_fraction(sizes: Float[np.ndarray, "*rows population"], members: int) -> Float[np.ndarray, "*rows"]:
    """Mean effective sample size of the populations as a fraction of their members.  A population with less than half
    of that counts by twice its fraction, so that none degenerates unnoticed."""
    return np.minimum(sizes.mean(axis=-1), 2 * sizes.min(axis=-1)) / members


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
    """Reweight by samples one after the other (paper, eq. log_lik).

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
    sizes, log_sums = sizes_and_log_sums(path[1:])
    return ReweightedBlock(path[1:], sizes, log_sums - np.log(log_weights.shape[-1]), lost)


def alive(log_weights: LogWeights) -> Bool[np.ndarray, " population"]:
    """Which populations have a particle left."""
    return np.isfinite(log_weights).any(axis=-1)


def temper(log_weights: LogWeights, energy: LogWeights, threshold: float) -> float:
    """The largest tempering exponent of one more energy that keeps the ESS fraction at the threshold.

    Lost particles are lost at any exponent above zero; where they leave too few, the threshold is relative to those
    that are left.  Populations without any are left out.
    """
    members = log_weights.shape[-1]
    living = alive(log_weights - tempered(energy, SMALLEST))
    log_weights, energy = log_weights[living], energy[living]
    if not len(energy):
        return 1.0

    def even(exponent: float) -> float:
        return float(ess_fraction(effective_sample_size(log_weights - tempered(energy, exponent)), members))

    most = even(SMALLEST)
    wanted = threshold if most >= threshold else threshold * most

    def enough(exponent: float) -> bool:
        return even(exponent) >= wanted

    if enough(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
        if high - low < PRECISE * low:
            break
    return low


def tempered(energy: np.ndarray, exponent: float) -> np.ndarray:
    """An energy times a tempering exponent; infinite energies stay infinite at any positive one and vanish at zero."""
    return exponent * energy if exponent > 0 else np.zeros_like(energy)
