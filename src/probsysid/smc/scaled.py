"""Proposals for funnels: along one direction the particles' spread in the others grows or shrinks.

A parameter that scales others, such as the spread of values that vary between records, has a posterior with a wide
mouth and a narrow neck.  An ellipsoid hardly ever proposes anything in the neck: particles there are not replaced, and
mass that no particle has found yet stays unknown to all populations alike.  So the direction along which the size of
the others changes most is sought; across it, the mean is taken as linear and the spread as log-linear along it.  In
coordinates relative to that mean and spread the particles are round.  The map is triangular, and its Jacobian
determinant is a function of the first coordinate alone, so that densities stay exact.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from probsysid._internal.statistics import ess_of_weights
from probsysid.smc.proposals import (
    DegenerateParticles,
    Density,
    MomentMatchedT,
    Proposal,
    Vectors,
    Weights,
    cholesky,
    moments,
)

TURNS = 3
"""Times that the direction is sought anew, across the last one."""

NEWTON, SETTLED = 12, 1e-4
"""Steps towards the most likely spreads, and the change that ends them: the objective is convex, five usually
suffice."""

ROUNDS = 3
"""Times that means and spreads across the direction are found in turn."""

STEEPEST = 4.0
"""Change of the log spread per standard deviation up to which a fit counts: beyond it, a few particles decide."""

NUMBERS = 5
"""Numbers that are fitted for each coordinate across the direction: two of its line, two of its spread, one of the
direction."""

WORTHWHILE = 0.5
"""The squares of the slopes are what a varying spread adds to the log likelihood of a particle, to second order.  Where
that, over all particles, is less than this share of the numbers fitted, Akaike's criterion would not choose it."""

TINY = 1e-12
"""Squared distance, in standard deviations, below which a particle lies on the direction."""

Points = Float[np.ndarray, "dimension member"]


@dataclass(frozen=True, eq=False)
class ScaleMap:
    """A map between particles and coordinates in which their spread is the same everywhere."""

    centre: Float[np.ndarray, " dimension"]
    axes: Float[np.ndarray, "dimension dimension"]
    """Uncorrelated axes with unit variance as columns; the first one scales the others."""
    lines: Float[np.ndarray, "others 2"]
    """Mean along each other axis: at the centre, and its change per standard deviation along the first one."""
    levels: Float[np.ndarray, " others"]
    """Log spread along each other axis, at the centre."""
    slopes: Float[np.ndarray, " others"]
    """Its change per standard deviation along the first one."""

    @classmethod
    def fit(cls, vectors: Points, weights: Weights) -> "ScaleMap":
        """Most likely means and spreads across the direction along which sizes change most."""
        if len(vectors) < 2:
            raise DegenerateParticles("a single quantity scales no other")
        centre, covariance = moments(vectors, weights)
        factor = cholesky(covariance)
        white = np.linalg.solve(factor, vectors - centre[:, None])
        turn = _across(_direction(white, weights), white, weights)
        coordinates = turn.T @ white
        first, others = coordinates[0], coordinates[1:]
        lines = np.zeros((len(others), 2))
        for _ in range(ROUNDS):
            levels, slopes = _log_spreads(first, others - _on(lines, first), weights)
            if not np.all(np.abs(slopes) < STEEPEST):
                raise DegenerateParticles("no spread fits the particles")
            if np.sum(slopes**2) * ess_of_weights(weights) < WORTHWHILE * NUMBERS * len(slopes):
                raise DegenerateParticles("their spread is the same everywhere")
            lines = _lines(first, others, weights * np.exp(-2 * np.outer(slopes, first)))
        return cls(centre, factor @ turn, lines, levels, slopes)

    def even(self, vectors: Points) -> Points:
        """From particles to coordinates of equal spread."""
        coordinates = np.linalg.solve(self.axes, vectors - self.centre[:, None])
        first, others = coordinates[:1], coordinates[1:] - _on(self.lines, coordinates[0])
        return np.concatenate([first, others * np.exp(-self._log_spread(coordinates[0]))])

    def scale(self, even: Points) -> Points:
        """The inverse of `even`."""
        scaled = _on(self.lines, even[0]) + even[1:] * np.exp(self._log_spread(even[0]))
        return self.centre[:, None] + self.axes @ np.concatenate([even[:1], scaled])

    def log_volume(self, even: Points) -> Float[np.ndarray, " member"]:
        """Log of the volume of a unit of even coordinates."""
        return np.linalg.slogdet(self.axes)[1] + np.sum(self._log_spread(even[0]), axis=0)

    def _log_spread(self, first: Float[np.ndarray, " member"]) -> Float[np.ndarray, "others member"]:
        return self.levels[:, None] + self.slopes[:, None] * first


def _direction(white: Points, weights: Weights) -> Float[np.ndarray, " dimension"]:
    """The direction in white coordinates along which the size of the others changes most."""
    sizes = np.log1p(np.sum(white**2, axis=0))
    found = white @ (weights * (sizes - weights @ sizes))
    for _ in range(TURNS):
        found = found / max(float(np.linalg.norm(found)), TINY)
        others = np.sum(white**2, axis=0) - (found @ white) ** 2
        sizes = np.log(np.maximum(others, TINY))
        found = white @ (weights * (sizes - weights @ sizes))
    return found / max(float(np.linalg.norm(found)), TINY)


def _across(direction: np.ndarray, white: Points, weights: Weights) -> Float[np.ndarray, "dimension dimension"]:
    """An orthogonal matrix: the direction, then those across it, by how much their spread changes along it."""
    first = direction @ white
    others = np.linalg.svd(direction[None])[2][1:]
    values = others @ white
    changes = (values * (weights * first)) @ values.T
    return np.column_stack([direction, others.T @ np.linalg.eigh(changes)[1]])


def _on(lines: Float[np.ndarray, "others 2"], first: np.ndarray) -> Float[np.ndarray, "others member"]:
    return lines[:, :1] + lines[:, 1:] * first


def _lines(first: np.ndarray, values: np.ndarray, weights: np.ndarray) -> Float[np.ndarray, "others 2"]:
    """Regression of each coordinate on the first, with weights of its own: particles in the neck know best."""
    zeroth, linear, square = (weights @ np.stack([np.ones_like(first), first, first**2], axis=1)).T
    total, product = np.sum(weights * values, axis=1), (weights * values) @ first
    with np.errstate(invalid="ignore", divide="ignore"):
        slopes = (zeroth * product - linear * total) / (zeroth * square - linear**2)
        found = np.stack([(total - slopes * linear) / zeroth, slopes], axis=1)
    if not np.all(np.isfinite(found)):
        raise DegenerateParticles("no line fits the particles")
    return found


def _log_spreads(first: np.ndarray, values: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Level and slope of each coordinate's log spread, by Newton's method on the Gaussian likelihood: with
    s = level + slope * first, the mean of s + r^2 exp(-2 s) / 2 is least."""
    powers = np.stack([np.ones_like(first), first, first**2], axis=1)
    squares, position = weights * values**2, float(weights @ first)
    levels, slopes = np.zeros(len(values)), np.zeros(len(values))
    for _ in range(NEWTON):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            zeroth, linear, square = ((squares * np.exp(-2 * (levels[:, None] + np.outer(slopes, first)))) @ powers).T
            pull, tilt = 1 - zeroth, position - linear  # the gradient; the curvature is twice the moments
            determinant = 2 * (zeroth * square - linear**2)
            steps = np.stack([square * pull - linear * tilt, zeroth * tilt - linear * pull]) / determinant
        if not np.all(np.isfinite(steps)):
            raise DegenerateParticles("no spread fits the particles")
        levels, slopes = np.stack([levels, slopes]) - np.clip(steps, -1.0, 1.0)
        if np.max(np.abs(steps)) < SETTLED:
            break
    return levels, slopes


@dataclass(frozen=True, eq=False)
class ScaledDensity:
    """A distribution of even coordinates, seen through a map that scales them."""

    mapping: ScaleMap
    mixture: Density

    @property
    def numbers(self) -> int:
        """Numbers that were fitted."""
        return NUMBERS * len(self.mapping.slopes) + self.mixture.numbers

    def sample(self, random: np.random.Generator, count: int) -> Points:
        """Independent draws; far out in the tails they may not be finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.mapping.scale(self.mixture.sample(random, count))

    def log_density(self, vectors: Points) -> Float[np.ndarray, " member"]:
        """Log density at each vector."""
        with np.errstate(over="ignore", invalid="ignore"):
            even = self.mapping.even(vectors)
            logs = self.mixture.log_density(even) - self.mapping.log_volume(even)
        return np.where(np.isnan(logs), -np.inf, logs)


@dataclass(frozen=True)
class Scaled:
    """A family of distributions, fitted to the particles in coordinates in which their spread is even.

    Args:
        family: `MomentMatchedT()` or `StudentTMixture()`.
    """

    family: Proposal = MomentMatchedT()

    @property
    def name(self) -> str:
        return f"scaled {self.family.name}"

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> ScaledDensity:
        mapping = ScaleMap.fit(vectors, weights)
        return ScaledDensity(mapping, self.family.fit(random, mapping.even(vectors), weights))
