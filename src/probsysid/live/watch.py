"""What is seen of a run at every sample: one-step predictions, whitened residuals, hidden states.

Predictions are those of particles drawn from the posterior before the sample, weighted as the samples since then tell.
Their mixture's probability of a smaller value, as a standard normal, is the whitened residual: independent standard
normals if model, priors and noise are right.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtr, ndtri

from probsysid.odefilter.filter import OneStep
from probsysid.smc.ibis import IBISState
from probsysid.targets.stream_target import StreamTarget

MOST_PARTICLES = 128
"""Particles of the predictions: with more, what is shown would cost as much as what is computed."""

LARGEST = 8.0
"""Whitened residuals are cut off here: further out, doubles have no tail probabilities."""


class Seen(NamedTuple):
    """Consecutive samples."""

    first: int
    mean: Float[np.ndarray, "sample output"]
    sd: Float[np.ndarray, "sample output"]
    white: Float[np.ndarray, "sample output"]
    """NaN where nothing was measured."""
    state_mean: Float[np.ndarray, "sample component"]
    state_sd: Float[np.ndarray, "sample component"]


def see(before: IBISState, stop: int, target: StreamTarget) -> Seen | None:
    """The samples from the end of a run up to `stop`; None for the first sample, which is not predicted."""
    first = before.samples
    if first == 0 or stop <= first or before.state is None:
        return None
    target = target.of(before)
    chosen = representatives(before.normalised_weights)
    found = target.one_step(np.asarray(before.state)[..., chosen], before.flat_theta[:, chosen], first, stop)
    channels = target.stream.between(first, stop)
    measured = np.stack([channels[f"output:{n}"] for n in target.problem.model.output_names], axis=1)
    return mixed(first, found, np.isfinite(measured))


def representatives(weights: Float[np.ndarray, " particle"]) -> np.ndarray:
    """Indices of equally weighted particles: systematic resampling without chance."""
    count = min(MOST_PARTICLES, len(weights))
    places = (np.arange(count) + 0.5) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)


def mixed(first: int, found: OneStep, measured: Bool[np.ndarray, "sample output"]) -> Seen:
    """The mixture over particles, whose weights start equal and follow the energies."""
    energy = np.where(np.isfinite(found.energy), found.energy, np.inf)
    total = np.cumsum(energy, axis=0) - energy
    prior, after = _weights(total), _weights(total + energy)
    mean, sd = _moments(found.mean, found.sd, prior[:, None])
    lower = np.sum(prior[:, None] * ndtr(np.nan_to_num(found.white)), axis=-1)
    upper = np.sum(prior[:, None] * ndtr(-np.nan_to_num(found.white)), axis=-1)
    with np.errstate(divide="ignore"):
        white = np.where(lower < upper, ndtri(lower), -ndtri(upper))
    white = np.where(measured, np.clip(white, -LARGEST, LARGEST), np.nan)
    return Seen(first, mean, sd, white, *_moments(found.state_mean, found.state_sd, after[:, None]))


def _weights(total: Float[np.ndarray, "sample particle"]) -> Float[np.ndarray, "sample particle"]:
    with np.errstate(invalid="ignore"):
        weights = np.exp(total.min(axis=1, keepdims=True) - total)
    weights = np.where(np.isfinite(weights), weights, 0.0)
    sums = weights.sum(axis=1, keepdims=True)
    return np.where(sums > 0, weights / np.where(sums > 0, sums, 1.0), 1.0 / weights.shape[1])


def _moments(mean: Any, sd: Any, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of a mixture of Gaussians, along the last axis; lost particles count nothing."""
    alive = weights > 0
    mean, sd = np.where(alive, mean, 0.0), np.where(alive, sd, 0.0)
    middle = np.sum(weights * mean, axis=-1)
    spread = np.sum(weights * (sd**2 + (mean - middle[..., None]) ** 2), axis=-1)
    return middle, np.sqrt(spread)
