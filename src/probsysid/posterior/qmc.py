"""Randomised quasi-Monte Carlo: scrambled Sobol points (Owen 1997; Matousek 1998) in place of random numbers.

Each draw by itself has the required distribution, so that means are unbiased, as with independent draws.  Together they
fill the space evenly: means of smooth functions are several to tens of times less uncertain.  Repetitions with fresh
scrambling are independent; their spread is an honest error.
"""

import numpy as np
from jaxtyping import Float

from probsysid.smc.proposals import Density, MixtureDensity
from probsysid.smc.scaled import ScaledDensity
from probsysid.smc.transport import CurvedDensity

BITS = 30
"""Of the points' coordinates; what lies below is filled with random bits."""


def uniforms(random: np.random.Generator, dimension: int, count: int) -> Float[np.ndarray, "dimension draw"]:
    """Freshly scrambled points of the unit cube; most even where their number is a power of two."""
    from scipy.stats import qmc  # takes long to import

    points = qmc.Sobol(dimension, scramble=True, bits=BITS, rng=random).random_base2((count - 1).bit_length())
    filled = points[:count].T + 2.0**-BITS * random.random((dimension, count))
    return np.clip(filled, np.finfo(float).tiny, 1 - np.finfo(float).epsneg)


def quasi_random(density: Density, random: np.random.Generator, count: int) -> Float[np.ndarray, "dimension draw"]:
    """Draws from a mixture, straight, curved or scaled.  Two coordinates of a point give the component and the
    chi-square variate, the others the normal variates."""
    if isinstance(density, CurvedDensity):
        with np.errstate(over="ignore", invalid="ignore"):
            return density.mapping.bend(quasi_random(density.mixture, random, count))
    if isinstance(density, ScaledDensity):
        with np.errstate(over="ignore", invalid="ignore"):
            return density.mapping.scale(quasi_random(density.mixture, random, count))
    assert isinstance(density, MixtureDensity)
    return _of_mixture(density, random, count)


def _of_mixture(mixture: MixtureDensity, random: np.random.Generator, count: int) -> np.ndarray:
    from scipy.special import gammaincinv, ndtri

    choice, width, *place = uniforms(random, mixture.means.shape[1] + 2, count)
    component = np.searchsorted(np.cumsum(mixture.shares)[:-1], choice, side="right")
    steps = ndtri(np.stack(place))
    if mixture.degrees is not None:
        steps /= np.sqrt(2 * gammaincinv(mixture.degrees / 2, width) / mixture.degrees)
    shifts = np.take_along_axis(mixture.factors @ steps, component[None, None], axis=0)[0]
    return np.asarray(mixture.means.T[:, component] + shifts)
