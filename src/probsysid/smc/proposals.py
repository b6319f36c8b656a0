"""Where to propose new particles: distributions fitted to the weighted ones (paper, eq. IMH).

A proposal is fitted to the particles of one island in unconstrained coordinates.  Every family here ends as a mixture
of Student-t or Gaussian components, which can be sampled and whose density can be evaluated: all that the acceptance
ratio needs.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from jaxtyping import Float

Vectors = Float[np.ndarray, "dimension member"]
Weights = Float[np.ndarray, " member"]

JITTER = 1e-9
"""Relative addition to variances: keeps the Cholesky factor of a nearly flat ellipsoid real."""

RIDGE = 1e-2
"""Variance added to each mixture component, in units of the whole cloud: keeps it off single particles."""


class Collapsed(ValueError):
    """The particles do not span the space: no distribution can be fitted to them."""


@dataclass(frozen=True, eq=False)
class StudentMixture:
    """A mixture of Student-t distributions; without degrees of freedom, of Gaussians."""

    shares: Float[np.ndarray, " component"]
    means: Float[np.ndarray, "component dimension"]
    factors: Float[np.ndarray, "component dimension dimension"]
    degrees: float | None

    def sample(self, random: np.random.Generator, count: int) -> Vectors:
        """Independent draws."""
        component = np.searchsorted(np.cumsum(self.shares)[:-1], random.random(count), side="right")
        normals = random.standard_normal((self.means.shape[1], count))
        if self.degrees is not None:
            normals /= np.sqrt(random.chisquare(self.degrees, count) / self.degrees)
        shifts = np.take_along_axis(self.factors @ normals, component[None, None], axis=0)[0]
        return self.means.T[:, component] + shifts

    def log_density(self, vectors: Vectors) -> Float[np.ndarray, " member"]:
        """Log density at each vector."""
        with np.errstate(divide="ignore"):
            shares = np.log(self.shares)
        logs = _log_densities(vectors, self.means, self._inverses, self.degrees) + shares[:, None]
        top = logs.max(axis=0)
        return top + np.log(np.sum(np.exp(logs - top), axis=0))

    @cached_property
    def _inverses(self) -> Float[np.ndarray, "component dimension dimension"]:
        return np.linalg.inv(self.factors)


def _log_densities(
    vectors: Vectors, means: np.ndarray, inverses: np.ndarray, degrees: float | None
) -> Float[np.ndarray, "component member"]:
    """Of every component, given the inverses of their factors.

    The factors are tiny; a threaded triangular solver costs a hundred times more on a busy machine.
    """
    dimension = len(vectors)
    white = inverses @ vectors
    white -= inverses @ means[:, :, None]
    distances = np.sum(np.square(white, out=white), axis=1)
    constants = np.sum(np.log(np.diagonal(inverses, axis1=1, axis2=2)), axis=1)[:, None]
    if degrees is None:
        return constants - 0.5 * (dimension * np.log(2 * np.pi) + distances)
    total = 0.5 * (degrees + dimension)
    scale = math.lgamma(total) - math.lgamma(0.5 * degrees) - 0.5 * dimension * math.log(degrees * math.pi)
    return constants + scale - total * np.log1p(distances / degrees)


class Proposal(Protocol):
    """A family of distributions that can be fitted to weighted particles."""

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> StudentMixture: ...


def moments(vectors: Vectors, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and covariance."""
    mean = vectors @ weights
    centred = vectors - mean[:, None]
    return mean, (centred * weights) @ centred.T


def cholesky(covariance: np.ndarray) -> np.ndarray:
    """Cholesky factor, or a stack of them, after a relative jitter; computed for unit variances and scaled back."""
    sd = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    if not (np.all(np.isfinite(sd)) and np.all(sd > 0)):
        raise Collapsed("a variance is zero")
    scaled = covariance / (sd[..., :, None] * sd[..., None, :]) + JITTER * np.eye(sd.shape[-1])
    try:
        return sd[..., :, None] * np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        raise Collapsed("the covariance is singular") from None


@dataclass(frozen=True)
class Ellipsoid:
    """One Student-t (or Gaussian) on the weighted moments, with a wide defensive part.

    Args:
        degrees: degrees of freedom; None is Gaussian, as in the paper.
        defensive: share of proposals from the same shape, `width` times as wide.
        width: how much wider.
    """

    degrees: float | None = 10.0
    defensive: float = 0.1
    width: float = 2.5

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> StudentMixture:
        mean, covariance = moments(vectors, weights)
        factor = cholesky(covariance)
        return StudentMixture(
            np.array([1 - self.defensive, self.defensive]),
            np.stack([mean, mean]),
            np.stack([factor, self.width * factor]),
            self.degrees,
        )


@dataclass(frozen=True)
class Mixture:
    """Several Student-t components found by weighted expectation maximisation: for ridges and several modes.

    Args:
        components: how many.
        degrees: degrees of freedom of each; None is Gaussian.
        defensive: share of proposals from one component on the overall moments.
        iterations: steps of expectation maximisation.
    """

    components: int = 6
    degrees: float | None = 5.0
    defensive: float = 0.1
    iterations: int = 20

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> StudentMixture:
        mean, covariance = moments(vectors, weights)
        factor = cholesky(covariance)
        white = np.linalg.inv(factor) @ (vectors - mean[:, None])
        shares, centres, covariances = self._maximise(random, white, weights)
        factors = factor @ cholesky(covariances)
        return StudentMixture(
            np.append((1 - self.defensive) * shares, self.defensive),
            np.vstack([mean + centres @ factor.T, mean]),
            np.concatenate([factors, factor[None]]),
            self.degrees,
        )

    def _maximise(
        self, random: np.random.Generator, white: Vectors, weights: Weights
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Expectation maximisation for Gaussian components, in coordinates where the cloud is round.

        There, products of coordinates are of order one: densities and moments of all components are each one matrix
        product with them.
        """
        dimension, count = white.shape
        products = (white[:, None] * white).reshape(dimension**2, count)
        centres = white[:, random.choice(count, self.components, p=weights)].T
        covariances = np.broadcast_to(0.5 * np.eye(dimension), (self.components, dimension, dimension))
        shares = np.full(self.components, 1 / self.components)
        for _ in range(self.iterations):
            logs = _log_gaussians(white, products, centres, covariances)
            with np.errstate(divide="ignore"):
                logs += np.log(shares)[:, None]
            logs -= logs.max(axis=0)
            responsibilities = np.exp(logs)
            responsibilities *= weights / responsibilities.sum(axis=0)
            totals = np.maximum(responsibilities.sum(axis=1), 1e-300)
            centres = responsibilities @ white.T / totals[:, None]
            squares = (responsibilities @ products.T / totals[:, None]).reshape(covariances.shape)
            covariances = squares - centres[:, :, None] * centres[:, None, :] + RIDGE * np.eye(dimension)
            shares = totals / totals.sum()
        return shares, centres, covariances


def _log_gaussians(
    vectors: Vectors, products: np.ndarray, centres: np.ndarray, covariances: np.ndarray
) -> Float[np.ndarray, "component member"]:
    """Log densities of Gaussians up to a common constant, given all products of the vectors' coordinates."""
    precisions = np.linalg.inv(covariances)
    pulls = np.einsum("cij,cj->ci", precisions, centres)
    constants = np.linalg.slogdet(precisions)[1] - np.einsum("ci,ci->c", pulls, centres)
    distances = precisions.reshape(len(centres), -1) @ products - 2 * pulls @ vectors
    return 0.5 * (constants[:, None] - distances)
