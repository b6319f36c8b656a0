"""Resampling: copies of particles in proportion to their weights, so that all weigh the same again.

Every scheme returns, for each of `count` new particles, the index of the particle it copies; the expected number of
copies of particle n is count * weight n.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

Weights = Float[np.ndarray, " member"]
Indices = Int[np.ndarray, " count"]


@runtime_checkable
class Resampling(Protocol):
    """A scheme that picks ancestors."""

    def __call__(self, random: np.random.Generator, weights: Weights, count: int) -> Indices: ...


def _invert(weights: Weights, positions: Float[np.ndarray, " count"]) -> Indices:
    """Index of the particle whose share of [0, 1) contains each position."""
    cumulative = np.cumsum(weights)
    found = np.searchsorted(cumulative / cumulative[-1], positions, side="right")
    # rounding may place a position beyond the last particle that has any weight
    return np.minimum(found, np.flatnonzero(weights)[-1])


@dataclass(frozen=True)
class Systematic:
    """One random number, evenly spaced positions: the least noise in practice."""

    def __call__(self, random: np.random.Generator, weights: Weights, count: int) -> Indices:
        return _invert(weights, (np.arange(count) + random.random()) / count)


@dataclass(frozen=True)
class Stratified:
    """One random position in each of `count` equal intervals."""

    def __call__(self, random: np.random.Generator, weights: Weights, count: int) -> Indices:
        return _invert(weights, (np.arange(count) + random.random(count)) / count)


@dataclass(frozen=True)
class Multinomial:
    """Independent draws."""

    def __call__(self, random: np.random.Generator, weights: Weights, count: int) -> Indices:
        return _invert(weights, random.random(count))


@dataclass(frozen=True)
class Residual:
    """The whole part of each expected number of copies for certain, the rest by independent draws."""

    def __call__(self, random: np.random.Generator, weights: Weights, count: int) -> Indices:
        expected = count * weights / np.sum(weights)
        # a product that rounding puts just under a whole number counts as that number
        certain = np.floor(expected * (1 + 4 * np.finfo(float).eps)).astype(int)
        copies = np.repeat(np.arange(len(weights)), certain)
        left = np.maximum(expected - certain, 0.0)
        missing = count - len(copies)
        if missing <= 0 or left.sum() <= 0:
            return np.resize(copies, count)
        return np.concatenate([copies, _invert(left, random.random(missing))])


SCHEMES: dict[str, Resampling] = {
    "systematic": Systematic(),
    "stratified": Stratified(),
    "multinomial": Multinomial(),
    "residual": Residual(),
}
