"""Weighted statistics, one function per quantity, for every folder.

NumPy: the arrays are small, and nothing needs to be compiled.
"""

from typing import Any

import numpy as np
from jaxtyping import Float


def log_sum_exp(values: Float[np.ndarray, "*rows n"]) -> Float[np.ndarray, "*rows"]:
    """Log of the sum of exponentials along the last axis; minus infinity where all are.

    SciPy's has an overhead of a third of a millisecond per call, which shows in a profile.
    """
    return sizes_and_log_sums(values)[1]


def log_mean_exp(values: Float[np.ndarray, "*rows n"]) -> Float[np.ndarray, "*rows"]:
    """Log of the mean of exponentials along the last axis."""
    return np.asarray(log_sum_exp(values) - np.log(values.shape[-1]))


def effective_sample_size(log_weights: Float[np.ndarray, "*rows n"]) -> Float[np.ndarray, "*rows"]:
    """(sum of weights)^2 / sum of squared weights along the last axis (paper, eq. ESS); zero where all weights are."""
    return sizes_and_log_sums(log_weights)[0]


def sizes_and_log_sums(
    log_weights: Float[np.ndarray, "*rows n"],
) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """Effective sample size and log of the sum of weights, which share most of their work."""
    top = np.max(log_weights, axis=-1, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    weights = log_weights - safe
    np.exp(weights, out=weights)
    sums = np.sum(weights, axis=-1)
    squares = np.sum(np.square(weights, out=weights), axis=-1)
    sizes = np.where(squares > 0, sums**2 / np.where(squares > 0, squares, 1.0), 0.0)
    with np.errstate(divide="ignore"):
        return sizes, np.log(sums) + safe[..., 0]


def ess_of_weights(weights: Float[np.ndarray, " n"]) -> float:
    """Effective sample size of weights that sum to one."""
    return float(1 / np.sum(weights**2))


def weighted_quantile(
    values: Float[np.ndarray, "n *columns"], weights: Float[np.ndarray, " n"], levels: Any
) -> Float[np.ndarray, "*levels_and_columns"]:
    """Quantiles along the first axis: the smallest value whose cumulative weight reaches the level."""
    order = np.argsort(values, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    ranked = np.take_along_axis(values, order, axis=0)
    found = []
    for level in np.atleast_1d(levels):
        rank = np.minimum(np.sum(cumulative < level, axis=0), len(values) - 1)
        found.append(np.take_along_axis(ranked, np.asarray(rank)[None], axis=0)[0])
    return np.stack(found) if np.ndim(levels) else found[0]


def weighted_moments(values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Mean and standard deviation; values without weight may be anything."""
    values = np.where(weights > 0, values, 0.0)
    mean = weights @ values
    return float(mean), float(np.sqrt(weights @ (values - mean) ** 2))
