"""Equally weighted draws from weighted particles, and their scalar quantities by name."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from probsysid.smc.resampling import Systematic


def draw_indices(weights: Float[np.ndarray, " particle"], count: int, seed: int = 0) -> Int[np.ndarray, " draw"]:
    """Indices of equally weighted draws, by systematic resampling."""
    return Systematic()(np.random.default_rng([seed, 3]), weights, count)


SOME = 256
"""Draws that stand for a posterior where a mean over it is wanted that hardly varies."""


def some_draws(
    theta: Float[np.ndarray, "dimension particle"], weights: Float[np.ndarray, " particle"]
) -> tuple[Float[np.ndarray, "dimension draw"], Float[np.ndarray, " draw"]]:
    """Equally weighted draws that stand for all particles, and their weights; all particles where they are few."""
    if len(weights) < 2 * SOME:
        return theta, weights
    return theta[:, draw_indices(weights, SOME)], np.full(SOME, 1 / SOME)


def scalars(values: Mapping[str, np.ndarray]) -> dict[str, Float[np.ndarray, " particle"]]:
    """Every scalar quantity by name; entries of arrays as `name[0]`, ..."""
    result = {}
    for name, value in values.items():
        if value.ndim == 1:
            result[name] = value
        else:
            for index in np.ndindex(value.shape[:-1]):
                result[f"{name}[{','.join(map(str, index))}]"] = value[index]
    return result
