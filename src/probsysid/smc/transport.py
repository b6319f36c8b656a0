"""Proposals for curved posteriors: a quadratic map straightens the particles before a mixture is fitted to them.

A narrow ridge that bends, such as parameters have that compensate each other nonlinearly, leaves any ellipsoid around
it empty.  In principal axes, or in axes turned so that squares and products explain the first of them least and the
last ones best, each coordinate is regressed on the squares and products of those before it; what remains is straight.
Such a map is triangular with constant slopes on the diagonal: it is inverted coordinate by coordinate, and its Jacobian
determinant is a constant, so that densities stay exact.  Triangular maps as proposals: Parno and Marzouk (2018),
Transport map accelerated Markov chain Monte Carlo.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from probsysid._internal.statistics import ess_of_weights
from probsysid.smc.proposals import (
    DegenerateParticles,
    Density,
    MomentMatchedT,
    Proposal,
    StudentTMixture,
    Vectors,
    Weights,
    moments,
)
from probsysid.smc.scaled import Scaled

PER_TERM = 8
"""Effective particles per term of a regression: with fewer, products of shorter axes are left out."""

JITTER = 1e-9
"""Relative addition to the normal equations' diagonal."""

FARTHEST = 1e6
"""Standard deviations beyond which a particle lies on no distribution that could be fitted."""

Points = Float[np.ndarray, "dimension member"]


@dataclass(frozen=True, eq=False)
class QuadraticMap:
    """A triangular quadratic map between particles and coordinates in which they are straight and round."""

    centre: Float[np.ndarray, " dimension"]
    axes: Float[np.ndarray, "dimension dimension"]
    """Uncorrelated axes with unit variance as columns, those that bend most last."""
    coefficients: Float[np.ndarray, "dimension term"]
    """Of each coordinate, on the terms of those before it; zeros for the others."""
    spreads: Float[np.ndarray, " dimension"]
    """Standard deviations of what remains of each coordinate."""
    terms: "_Terms"

    @classmethod
    def fit(cls, vectors: Points, weights: Weights) -> "QuadraticMap":
        """Principal axes, or the axes by bend, whichever leave less to explain."""
        centre, axes = _principal_axes(vectors, weights)
        size, dimension = ess_of_weights(weights), len(vectors)
        terms = _Terms(dimension, int(np.clip(np.sqrt(2 * max(size / PER_TERM - dimension - 1, 0.0)), 0, dimension)))
        white = np.linalg.solve(axes, vectors - centre[:, None])
        turns = (np.eye(dimension), _by_bend(terms.of(white)[1 + dimension :], white, weights))
        candidates = [cls._of_axes(centre, axes @ turn, turn.T @ white, weights, terms) for turn in turns]
        best = min(candidates, key=lambda candidate: candidate.log_volume)
        if not np.all(best.spreads > 0):
            raise DegenerateParticles("the particles lie on a surface")
        return best

    @classmethod
    def _of_axes(
        cls, centre: np.ndarray, axes: np.ndarray, coordinates: Points, weights: Weights, terms: "_Terms"
    ) -> "QuadraticMap":
        """The map with a regression of each coordinate on those before it."""
        table, size = terms.of(coordinates), ess_of_weights(weights)
        weighted = table * weights
        normal, right = weighted @ table.T, weighted @ coordinates.T
        normal[np.diag_indices(len(normal))] *= 1 + JITTER
        coefficients = np.zeros((len(coordinates), len(table)))
        for k, used in enumerate(terms.before):
            coefficients[k, used] = np.linalg.solve(normal[np.ix_(used, used)], right[used, k])
        free = np.maximum(1 - np.array([len(used) for used in terms.before]) / size, 1 / PER_TERM)
        spreads = np.sqrt((coordinates - coefficients @ table) ** 2 @ weights / free)
        return cls(centre, axes, coefficients, spreads, terms)

    def straighten(self, vectors: Points) -> Points:
        """From particles to straight coordinates."""
        coordinates = np.linalg.solve(self.axes, vectors - self.centre[:, None])
        return (coordinates - self.coefficients @ self.terms.of(coordinates)) / self.spreads[:, None]

    def bend(self, straight: Points) -> Points:
        """The inverse of `straighten`."""
        coordinates = np.zeros_like(straight)
        for k, used in enumerate(self.terms.before):
            means = self.coefficients[k, used] @ self.terms.of(coordinates)[used]
            coordinates[k] = means + self.spreads[k] * straight[k]
        return self.centre[:, None] + self.axes @ coordinates

    @property
    def log_volume(self) -> float:
        """Log of the volume of a unit of straight coordinates."""
        with np.errstate(divide="ignore"):
            return float(np.linalg.slogdet(self.axes)[1] + np.sum(np.log(self.spreads)))


def _principal_axes(vectors: Points, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and principal axes of the correlation matrix with unit variance, longest first."""
    centre, covariance = moments(vectors, weights)
    scale = np.sqrt(np.diagonal(covariance))
    if not np.all(scale > 0):
        raise DegenerateParticles("a variance is zero")
    variances, directions = np.linalg.eigh(covariance / np.outer(scale, scale))
    if variances[0] <= 0:
        raise DegenerateParticles("the covariance is singular")
    return centre, scale[:, None] * (directions * np.sqrt(variances))[:, ::-1]


def _by_bend(
    products: Float[np.ndarray, "product member"], white: Points, weights: Weights
) -> Float[np.ndarray, "dimension dimension"]:
    """Directions in white coordinates, as columns, by the share of variance that squares and products explain."""
    products = products - (products @ weights)[:, None]
    weighted = products * weights
    normal = weighted @ products.T
    normal[np.diag_indices(len(normal))] *= 1 + JITTER
    explained = white @ weighted.T @ np.linalg.solve(normal, weighted @ white.T)
    return np.linalg.eigh(0.5 * (explained + explained.T))[1]


class _Terms:
    """One, the coordinates, and the products of the leading ones, ordered by the later of the two."""

    def __init__(self, dimension: int, squared: int):
        """`squared` is the number of leading coordinates whose products are terms."""
        self.squared = squared
        self.later, self.earlier = np.tril_indices(squared)
        counts = [min(k, squared) for k in range(dimension)]
        self.before = [
            np.concatenate([np.arange(1 + k), 1 + dimension + np.arange(m * (m + 1) // 2)])
            for k, m in enumerate(counts)
        ]
        """Indices of the terms of the coordinates before each."""

    def of(self, coordinates: Points) -> Float[np.ndarray, "term member"]:
        products = coordinates[self.later] * coordinates[self.earlier]
        return np.concatenate([np.ones((1, coordinates.shape[1])), coordinates, products])


@dataclass(frozen=True, eq=False)
class CurvedDensity:
    """A mixture in straight coordinates, seen through a quadratic map."""

    mapping: QuadraticMap
    mixture: Density

    @property
    def numbers(self) -> int:
        """Numbers that were fitted."""
        return sum(map(len, self.mapping.terms.before)) + self.mixture.numbers

    def sample(self, random: np.random.Generator, count: int) -> Points:
        """Independent draws; far out in the tails they may not be finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.mapping.bend(self.mixture.sample(random, count))

    def log_density(self, vectors: Points) -> Float[np.ndarray, " member"]:
        """Log density at each vector."""
        with np.errstate(over="ignore", invalid="ignore"):
            logs = self.mixture.log_density(self.mapping.straighten(vectors)) - self.mapping.log_volume
        return np.where(np.isnan(logs), -np.inf, logs)


@dataclass(frozen=True)
class Curved:
    """A family of distributions, fitted to the particles in coordinates in which these are straight.

    Args:
        family: `MomentMatchedT()` or `StudentTMixture()`.
    """

    family: Proposal = StudentTMixture()

    @property
    def name(self) -> str:
        return f"curved {self.family.name}"

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> CurvedDensity:
        with np.errstate(over="ignore", invalid="ignore"):
            mapping = QuadraticMap.fit(vectors, weights)
            straight = mapping.straighten(vectors)
        if not np.max(np.abs(straight)) < FARTHEST:
            raise DegenerateParticles("their covariance is nearly singular")
        return CurvedDensity(mapping, self.family.fit(random, straight, weights))


MANY = StudentTMixture(components=20)
"""For many narrow modes, such as a frequency has with its aliases."""


ONE = (MomentMatchedT(), Curved(MomentMatchedT()), Scaled(MomentMatchedT()))
SEVERAL = (StudentTMixture(), Curved(StudentTMixture()), Scaled(StudentTMixture()))


@dataclass(frozen=True)
class BestFit:
    """Of several families, the one under which the particles are most likely (Akaike's criterion).

    Expectation maximisation takes most of the time.  Where straight coordinates have no use for several components, it
    is left out, but for the coordinates that suit one component best.

    Args:
        families: those to choose from: of one component, or none, then mixtures, straight ones first.
        many: one more with many components, for as many particles as there are numbers to fit; None for none.
    """

    families: tuple[Proposal, ...] = (*ONE, *SEVERAL)
    many: StudentTMixture | None = MANY

    @property
    def name(self) -> str:
        return "best-fitting mixture" if self == BestFit() else " or ".join(family.name for family in self.families)

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> Density:
        fits = _Fits(random, vectors, weights)
        one = fits.of([family for family in self.families if not _is_mixture(family)])
        mixtures = [family for family in self.families if _is_mixture(family)]
        straight = fits.of(mixtures[:1])
        if one is None or straight is None or straight.score > one.score:
            fits.of(mixtures[1:])
            if self.many is not None and self.many.numbers(len(vectors)) <= fits.size:
                fits.of([self.many])
        else:
            fits.of([family for family in mixtures[1:] if type(family) is type(one.family)])
        return fits.best


class _Fit(NamedTuple):
    score: float
    """Mean log density of the particles, less one for each number that was fitted to an effective particle."""
    family: Proposal
    density: Density


class _Fits:
    """Families that were fitted to the same particles."""

    def __init__(self, random: np.random.Generator, vectors: Vectors, weights: Weights):
        self.random, self.vectors, self.weights = random, vectors, weights
        self.size = ess_of_weights(weights)
        self._found: list[_Fit] = []
        self._failures: list[DegenerateParticles] = []

    def of(self, families: Sequence[Proposal]) -> _Fit | None:
        """The best of these; None where none can be fitted."""
        before = len(self._found)
        for family in families:
            try:
                density = family.fit(self.random, self.vectors, self.weights)
            except DegenerateParticles as error:
                self._failures.append(error)
            else:
                score = float(self.weights @ density.log_density(self.vectors)) - density.numbers / self.size
                self._found.append(_Fit(score, family, density))
        return max(self._found[before:], key=itemgetter(0), default=None)

    @property
    def best(self) -> Density:
        if not self._found:
            raise self._failures[0]
        return max(self._found, key=itemgetter(0)).density


def _is_mixture(family: Proposal) -> bool:
    """Whether it has several components that expectation maximisation finds."""
    return isinstance(family.family if isinstance(family, Curved | Scaled) else family, StudentTMixture)
