"""Equally weighted draws from weighted particles, and their scalar quantities by name."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from probsysid.smc.resampling import Systematic


def draw_indices(weights: Float[np.ndarray, " particle"], count: int, seed: int = 0) -> Int[np.ndarray, " draw"]:
    """Indices of equally weighted draws, by systematic resampling."""
    return Systematic()(np.random.default_rng([seed, 3]), weights, count)


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
