"""Where to propose new particles: distributions fitted to the weighted ones (paper, eq. IMH).

A proposal is fitted to the particles of one or several populations in unconstrained coordinates.  Every family here
ends as a mixture of Student-t or Gaussian components, which can be sampled and whose density can be evaluated: all that
the acceptance ratio needs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from probsysid._internal.statistics import ess_of_weights, log_mean_exp

Vectors = Float[np.ndarray, "*population dimension member"]
Weights = Float[np.ndarray, " member"]

JITTER = 1e-9
"""Relative addition to variances: keeps the Cholesky factor of a nearly flat ellipsoid real."""

SHRINKAGE = 2.0
"""Particles per dimension that the covariance pooled over components counts for in that of each component: keeps one
off single particles, however narrow the modes are."""

SEEDED = 3
"""Particles of which the one that lies best becomes the first centre of a component."""


class DegenerateParticles(ValueError):
    """The particles do not span the space: no distribution can be fitted to them."""


@dataclass(frozen=True, eq=False)
class MixtureDensity:
    """A mixture of Student-t distributions; without degrees of freedom, of Gaussians.

    Several mixtures, one for each population, are one with further axes in front.
    """

    shares: Float[np.ndarray, "*population component"]
    means: Float[np.ndarray, "*population component dimension"]
    factors: Float[np.ndarray, "*population component dimension dimension"]
    degrees: float | None

    @property
    def numbers(self) -> int:
        """Numbers that were fitted: those of the components' shares, means and triangular factors."""
        return _mixture_numbers(*self.means.shape[-2:])

    def sample(self, random: np.random.Generator, count: int) -> Vectors:
        """Independent draws."""
        populations, dimension = self.shares.shape[:-1], self.means.shape[-1]
        ends = np.cumsum(self.shares, axis=-1)[..., :-1, None]
        component = np.sum(random.random((*populations, 1, count)) >= ends, axis=-2)
        normals = random.standard_normal((*populations, dimension, count))
        if self.degrees is not None:
            normals /= np.sqrt(random.chisquare(self.degrees, (*populations, 1, count)) / self.degrees)
        every = _component_products(self.factors, normals)
        every += self.means[..., None]
        return np.take_along_axis(every, component[..., None, None, :], axis=-3)[..., 0, :, :]

    def log_density(self, vectors: Vectors) -> Float[np.ndarray, "*population member"]:
        """Log density at each vector; NaN where a vector is not finite."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            logs = self._log_densities(vectors)
            logs += np.log(self.shares)[..., None]
            top = logs.max(axis=-2, keepdims=True)
            logs -= top
            return top[..., 0, :] + np.log(np.sum(np.exp(logs, out=logs), axis=-2))

    def _log_densities(self, vectors: Vectors) -> Float[np.ndarray, "*population component member"]:
        """Of every component.  The factors are tiny: a threaded triangular solver costs a hundred times more on a busy
        machine than a product with their inverses."""
        dimension, degrees = vectors.shape[-2], self.degrees
        white = _component_products(self._inverses, vectors)
        white -= self._inverses @ self.means[..., None]
        distances = np.sum(np.square(white, out=white), axis=-2)
        constants = np.sum(np.log(np.diagonal(self._inverses, axis1=-2, axis2=-1)), axis=-1)[..., None]
        if degrees is None:
            return constants - 0.5 * (dimension * np.log(2 * np.pi) + distances)
        total = 0.5 * (degrees + dimension)
        scale = math.lgamma(total) - math.lgamma(0.5 * degrees) - 0.5 * dimension * math.log(degrees * math.pi)
        return constants + scale - total * np.log1p(distances / degrees)

    @cached_property
    def _inverses(self) -> Float[np.ndarray, "*population component dimension dimension"]:
        return np.linalg.inv(self.factors)


def _mixture_numbers(components: int, dimension: int) -> int:
    return components * (1 + dimension + dimension * (dimension + 1) // 2)


def _component_products(
    matrices: Float[np.ndarray, "*population component dimension dimension"], vectors: Vectors
) -> Float[np.ndarray, "*population component dimension member"]:
    """The products of all components' matrices with the same vectors, as one product for each population."""
    components, dimension = matrices.shape[-3:-1]
    tall = matrices.reshape(*matrices.shape[:-3], components * dimension, dimension)
    return (tall @ vectors).reshape(*vectors.shape[:-2], components, dimension, vectors.shape[-1])


@dataclass(frozen=True, eq=False)
class StackedDensities:
    """Distributions of any kind, one for each population."""

    of_populations: Sequence["Density"]

    @property
    def numbers(self) -> int:
        """Numbers that were fitted."""
        return sum(density.numbers for density in self.of_populations)

    def sample(self, random: np.random.Generator, count: int) -> Vectors:
        """Independent draws."""
        return np.stack([density.sample(random, count) for density in self.of_populations])

    def log_density(self, vectors: Vectors) -> Float[np.ndarray, "population member"]:
        """Log density at each vector."""
        return np.stack([density.log_density(v) for density, v in zip(self.of_populations, vectors, strict=True)])


@dataclass(frozen=True, eq=False)
class EqualMixture:
    """Distributions of any kind, with equal shares."""

    parts: tuple["Density", ...]

    @property
    def numbers(self) -> int:
        """Numbers that were fitted."""
        return sum(part.numbers for part in self.parts)

    def sample(self, random: np.random.Generator, count: int) -> Vectors:
        """Independent draws."""
        counts = random.multinomial(count, np.full(len(self.parts), 1 / len(self.parts)))
        draws = np.hstack([part.sample(random, int(n)) for part, n in zip(self.parts, counts, strict=True)])
        return draws[:, random.permutation(count)]

    def log_density(self, vectors: Vectors) -> Float[np.ndarray, " member"]:
        """Log density at each vector."""
        logs = np.stack([part.log_density(vectors) for part in self.parts], axis=-1)
        return log_mean_exp(np.where(np.isnan(logs), -np.inf, logs))


def stacked(densities: Sequence["Density"]) -> "Density":
    """Distributions, one for each population, as one: mixtures with as many components are computed together."""
    mixtures = [density for density in densities if isinstance(density, MixtureDensity)]
    kinds = {(mixture.means.shape, mixture.degrees) for mixture in mixtures}
    if len(mixtures) < len(densities) or len(kinds) > 1:
        return StackedDensities(densities)
    return MixtureDensity(
        np.stack([mixture.shares for mixture in mixtures]),
        np.stack([mixture.means for mixture in mixtures]),
        np.stack([mixture.factors for mixture in mixtures]),
        mixtures[0].degrees,
    )


class Density(Protocol):
    """A distribution that can be sampled and whose density is known: all that the acceptance ratio needs."""

    @property
    def numbers(self) -> int:
        """Numbers that were fitted."""
        ...

    def sample(self, random: np.random.Generator, count: int) -> Vectors:
        """Independent draws."""
        ...

    def log_density(self, vectors: Vectors) -> Float[np.ndarray, "*population member"]:
        """Log density at each vector."""
        ...


@runtime_checkable
class Proposal(Protocol):
    """A family of distributions that can be fitted to weighted particles."""

    @property
    def name(self) -> str: ...

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> Density: ...


def moments(vectors: Vectors, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and covariance."""
    mean = vectors @ weights
    centred = vectors - mean[:, None]
    return mean, (centred * weights) @ centred.T


def cholesky(covariance: np.ndarray) -> np.ndarray:
    """Cholesky factor, or a stack of them, after a relative jitter; computed for unit variances and scaled back."""
    sd = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    if not (np.all(np.isfinite(sd)) and np.all(sd > 0)):
        raise DegenerateParticles("a variance is zero")
    scaled = covariance / (sd[..., :, None] * sd[..., None, :]) + JITTER * np.eye(sd.shape[-1])
    try:
        return sd[..., :, None] * np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        raise DegenerateParticles("the covariance is singular") from None


@dataclass(frozen=True)
class MomentMatchedT:
    """One Student-t (or Gaussian) on the weighted moments, with a wide defensive part.

    Args:
        degrees: degrees of freedom; None is Gaussian, as in the paper.
        defensive: share of proposals from the same shape, `width` times as wide.
        width: how much wider.
    """

    degrees: float | None = 10.0
    defensive: float = 0.1
    width: float = 2.5

    name: ClassVar[str] = "moment-matched t"

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> MixtureDensity:
        mean, covariance = moments(vectors, weights)
        factor = cholesky(covariance)
        return MixtureDensity(
            np.array([1 - self.defensive, self.defensive]),
            np.stack([mean, mean]),
            np.stack([factor, self.width * factor]),
            self.degrees,
        )


@dataclass(frozen=True)
class WideAxesT:
    """One Student-t on the weighted moments, and one more for each principal axis, wider along it.

    Finds out how far a ridge goes: something that is wide in all directions hits one ever more rarely, the more
    dimensions there are.

    Args:
        degrees: degrees of freedom.
        wide: share of proposals from the wide components.
        width: how much wider they are.
    """

    degrees: float | None = 5.0
    wide: float = 0.4
    width: float = 3.0

    name: ClassVar[str] = "t with wide axes"

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> MixtureDensity:
        mean, covariance = moments(vectors, weights)
        return self.around(mean, cholesky(covariance))

    def around(self, centre: Float[np.ndarray, " dimension"], factor: np.ndarray) -> MixtureDensity:
        """The same around a point, with a triangular factor of the covariance."""
        axes, lengths, _ = np.linalg.svd(factor)
        dimension = len(centre)
        stretched = axes * lengths * np.where(np.eye(dimension, dtype=bool), self.width, 1.0)[:, None, :]
        return MixtureDensity(
            np.append(np.full(dimension, self.wide / dimension), 1 - self.wide),
            np.tile(centre, (dimension + 1, 1)),
            np.concatenate([triangular(stretched), factor[None]]),
            self.degrees,
        )


def triangular(factors: Float[np.ndarray, "*stack dimension dimension"]) -> np.ndarray:
    """Lower triangular factors with positive diagonals of the same covariances."""
    upper = np.asarray(np.linalg.qr(factors.swapaxes(-1, -2), mode="r"))
    signs = np.where(np.diagonal(upper, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return (upper * signs[..., None]).swapaxes(-1, -2)


@dataclass(frozen=True)
class StudentTMixture:
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

    name: ClassVar[str] = "Student-t mixture"

    def numbers(self, dimension: int) -> int:
        """That are fitted."""
        return _mixture_numbers(self.components, dimension)

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> MixtureDensity:
        mean, covariance = moments(vectors, weights)
        factor = cholesky(covariance)
        white = np.linalg.inv(factor) @ (vectors - mean[:, None])
        shares, centres, covariances = self._maximise(random, white, weights)
        factors = factor @ cholesky(covariances)
        return MixtureDensity(
            np.append((1 - self.defensive) * shares, self.defensive),
            np.vstack([mean + centres @ factor.T, mean]),
            np.concatenate([factors, factor[None]]),
            self.degrees,
        )

    def _maximise(
        self, random: np.random.Generator, white: Vectors, weights: Weights
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Expectation maximisation for Gaussian components, in coordinates where the cloud is round.

        There, products of coordinates are of order one: log densities of all components are one matrix product with
        them, and so are the moments.
        """
        dimension = len(white)
        monomials = _Monomials(dimension)
        features = monomials.of(white)
        centres, variance = _spread_out(random, white, weights, self.components)
        covariances = np.broadcast_to(variance * np.eye(dimension), (len(centres), dimension, dimension))
        shares = np.full(len(centres), 1 / len(centres))
        size, prior = ess_of_weights(weights), SHRINKAGE * dimension
        for _ in range(self.iterations):
            logs = monomials.log_gaussians(shares, centres, covariances) @ features
            logs -= logs.max(axis=0)
            responsibilities = np.exp(logs, out=logs)
            responsibilities *= weights / responsibilities.sum(axis=0)
            totals, centres, squares = monomials.moments(responsibilities @ features.T)
            own = squares - centres[:, :, None] * centres[:, None, :]
            shares = totals / totals.sum()
            pooled = np.tensordot(shares, own, axes=1) + JITTER * np.eye(dimension)
            counts = (size * shares)[:, None, None]
            covariances = (counts * own + prior * pooled) / (counts + prior)
        return shares, centres, covariances


def _spread_out(
    random: np.random.Generator, white: Vectors, weights: Weights, count: int
) -> tuple[Float[np.ndarray, "component dimension"], float]:
    """Particles far from each other, at most `count`, and the variance along an axis around the nearest of them.

    Greedy k-means++ (Arthur and Vassilvitskii 2007): each is the best of a few that are drawn in proportion to weight
    times squared distance from those before, so that no narrow mode is left out.
    """
    chosen = [int(random.choice(white.shape[1], p=weights))]
    distances = np.sum((white - white[:, chosen]) ** 2, axis=0)
    while len(chosen) < count and (far := weights * distances).sum() > 0:
        drawn = random.choice(white.shape[1], SEEDED, p=far / far.sum())
        shorter = np.minimum(distances, np.sum((white[:, None, :] - white[:, drawn, None]) ** 2, axis=0))
        best = int(np.argmin(shorter @ weights))
        chosen.append(int(drawn[best]))
        distances = shorter[best]
    return white[:, chosen].T, max(float(distances @ weights) / len(white), JITTER)


class _Monomials:
    """One, the coordinates, and each product of two of them: what log densities of Gaussians are made of."""

    def __init__(self, dimension: int):
        self.dimension = dimension
        self.rows, self.columns = np.triu_indices(dimension)
        self.doubled = np.where(self.rows == self.columns, 0.5, 1.0)

    def of(self, vectors: Vectors) -> Float[np.ndarray, "monomial member"]:
        return np.concatenate([np.ones_like(vectors[:1]), vectors, vectors[self.rows] * vectors[self.columns]])

    def log_gaussians(
        self, shares: np.ndarray, centres: np.ndarray, covariances: np.ndarray
    ) -> Float[np.ndarray, "component monomial"]:
        """Coefficients of the log densities times shares, up to a common constant."""
        precisions = np.linalg.inv(covariances)
        pulls = (precisions @ centres[:, :, None])[:, :, 0]
        constants = 0.5 * (np.linalg.slogdet(precisions)[1] - np.sum(pulls * centres, axis=1))
        with np.errstate(divide="ignore"):
            constants += np.log(shares)
        return np.column_stack([constants, pulls, -self.doubled * precisions[:, self.rows, self.columns]])

    def moments(self, sums: Float[np.ndarray, "component monomial"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Total weight, mean and mean products of each component, from weighted sums of the monomials."""
        totals = np.maximum(sums[:, 0], 1e-300)
        means = sums[:, 1:] / totals[:, None]
        squares = np.empty((len(sums), self.dimension, self.dimension))
        squares[:, self.rows, self.columns] = squares[:, self.columns, self.rows] = means[:, self.dimension :]
        return totals, means[:, : self.dimension], squares
