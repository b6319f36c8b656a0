"""Modes of a posterior and its curvature there, by damped Newton steps from several starts at once.

Derivatives are finite differences: the points for all starts are evaluated in one sweep over the data, as particles
are, so that any target will do.  Differences are taken along the axes of the last Hessian's ellipsoid, in steps of a
fraction of its width, and so have the same relative error in all directions, however long and narrow it is.

Far from a mode the Hessian is replaced by the sum of outer products of the samples' gradients (Berndt, Hall, Hall and
Hausman 1974), scaled to the Hessian's diagonal: two evaluations per coordinate, and never indefinite.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

from probsysid.smc.proposals import triangular

Points = Float[np.ndarray, "dimension point"]
Starts = Float[np.ndarray, "dimension start"]

STEP = 0.01
"""Length of a difference, in widths of the ellipsoid."""

DAMPING = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0, 1e4)
"""Levenberg-Marquardt parameters tried at once, in units of the median curvature, ..."""
LONGER = ((0.0, 2.0), (0.1, 4.0), (1.0, 16.0))
"""... and some of their steps made longer: narrow valleys are long."""

STRETCH = 30.0
"""Factor by which the axes of the ellipsoid may grow or shrink in one iteration."""

RIDGE = 1e-6
"""Relative addition to that diagonal."""

NEAR = 3.0
"""Gain in log density, as predicted by the quadratic model, below which the Hessian is computed in full ..."""
CONVERGED = 1e-6
"""... and below which a search ends."""

SAME = 1.0
"""Distance in widths of the ellipsoid below which two searches have met."""

ITERATIONS, MORE = 80, 15
"""Of all searches, and after the first has converged."""

NEIGHBOURS = 8
"""Points around one that must all be worse for it to be a peak."""


class Objective(Protocol):
    """A log density as a sum of terms: one for each sample, the last one for the prior."""

    def __call__(self, points: Points, /) -> Float[np.ndarray, " point"]:
        """The sum; minus infinity where it is not defined."""
        ...

    def terms(self, points: Points, /) -> Float[np.ndarray, "term point"]: ...


@dataclass(frozen=True, eq=False)
class Mode:
    """A local maximum of the density in unconstrained coordinates."""

    theta: Float[np.ndarray, " dimension"]
    log_density: float
    factor: Float[np.ndarray, "dimension dimension"]
    """F F' is the inverse of the negative Hessian: the covariance in Laplace's approximation."""
    converged: bool = False

    @property
    def log_evidence(self) -> float:
        """Laplace's approximation of the log of the integral around the mode."""
        volume = 0.5 * len(self.theta) * math.log(2 * math.pi) + float(np.linalg.slogdet(self.factor)[1])
        return self.log_density + volume


def peaks(points: Points, values: Float[np.ndarray, " point"], most: int) -> Starts:
    """Points to start searches from, best first: those that are better than their nearest neighbours (topographical
    global optimisation, Törn and Viitanen 1992), so that a narrow mode is not passed over for the flank of a wide one.
    """
    finite = np.flatnonzero(np.isfinite(values))
    points, values = points[:, finite], values[finite]
    if len(values) < 2:
        return points
    spread = points.std(axis=1, keepdims=True)
    scaled = points / np.where(spread > 0, spread, 1.0)
    _, near = cKDTree(scaled.T).query(scaled.T, k=min(NEIGHBOURS + 1, len(values)))
    highest = np.flatnonzero(values >= values[near].max(axis=1))
    return points[:, highest[np.argsort(-values[highest])][:most]]


def find_modes(
    objective: Objective,
    starts: Starts,
    scales: Float[np.ndarray, " dimension"],
    iterations: int = ITERATIONS,
    go_on: Callable[[], bool] = lambda: True,
) -> list[Mode]:
    """The modes that searches from the starts reach, best first; `scales` are first guesses of their widths.

    Searches that are not at their end after so many iterations, or when `go_on` says no, are not `converged`.
    """
    if not starts.shape[1]:
        return []
    begun = zip(starts.T, objective(starts), strict=True)
    return _searched(
        objective, [Mode(theta, float(v), np.diag(scales)) for theta, v in begun if np.isfinite(v)], iterations, go_on
    )


def polish(
    objective: Objective, modes: Sequence[Mode], iterations: int = MORE, go_on: Callable[[], bool] = lambda: True
) -> list[Mode]:
    """The modes of an objective close to those of a similar one, from there and from its curvature."""
    if not modes:
        return []
    values = objective(np.stack([mode.theta for mode in modes], axis=1))
    begun = [
        replace(mode, log_density=float(value), converged=False)
        for mode, value in zip(modes, values, strict=True)
        if np.isfinite(value)
    ]
    return _searched(objective, begun, iterations, go_on, near=True)


def _searched(
    objective: Objective, begun: Sequence[Mode], iterations: int, go_on: Callable[[], bool], near: bool = False
) -> list[Mode]:
    searches = [_Search(mode, near) for mode in begun]
    more = iterations
    for _ in range(iterations):
        going = [search for search in searches if not search.mode.converged]
        if not going or not more or not go_on():
            break
        more = min(more, MORE) - 1 if len(going) < len(searches) else more
        going = _stepped(objective, _modelled(objective, going))
        searches = _distinct([*going, *(search for search in searches if search.mode.converged)])
    return [replace(s.mode, factor=triangular(s.mode.factor)) for s in searches]


@dataclass(frozen=True, eq=False)
class _Search:
    """Where a search is, and its quadratic model in the coordinates of the mode's ellipsoid."""

    mode: Mode
    near: bool = False
    """Whether the Hessian is to be computed in full."""
    slope: np.ndarray | None = None
    curvature: np.ndarray | None = None
    axes: np.ndarray | None = None

    @property
    def gain(self) -> float:
        """What the quadratic model promises."""
        if self.slope is None or self.curvature is None:
            return np.inf
        return 0.5 * float(np.sum(self.slope**2 / np.maximum(np.abs(self.curvature), STRETCH**-2)))

    def with_model(self, gradient: np.ndarray, hessian: np.ndarray) -> "_Search":
        """With the gradient and the negative Hessian; where they are not finite, with a smaller ellipsoid."""
        if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
            smaller = replace(self.mode, factor=0.1 * self.mode.factor)
            return replace(self, mode=smaller, slope=None, curvature=None, axes=None)
        curvature, axes = np.linalg.eigh(hessian)
        return replace(self, slope=axes.T @ gradient, curvature=curvature, axes=axes)

    def steps(self) -> np.ndarray:
        """Steps to try, as columns."""
        if self.slope is None or self.curvature is None or self.axes is None:
            return np.zeros((len(self.mode.theta), len(DAMPING) + len(LONGER)))
        size = np.maximum(np.abs(self.curvature), STRETCH**-2)
        median = np.median(size)
        tried = [*((damping, 1.0) for damping in DAMPING), *LONGER]
        ways = np.stack([length * self.slope / (size + damping * median) for damping, length in tried], axis=1)
        return self.mode.factor @ self.axes @ ways

    def moved(self, points: np.ndarray, values: np.ndarray) -> "_Search":
        """At the best of the points tried, with the ellipsoid of the quadratic model."""
        if self.slope is None or self.curvature is None or self.axes is None:
            return self
        widths = 1 / np.sqrt(np.clip(np.abs(self.curvature), STRETCH**-2, STRETCH**2))
        factor = self.mode.factor @ (self.axes * widths)
        best = int(np.argmax(values))
        better = bool(values[best] > self.mode.log_density)
        settled = self.near and bool(np.all((self.curvature > 0.1) & (self.curvature < 10)))
        done = settled and self.gain < CONVERGED
        if not better and not done:
            factor = 0.3 * factor  # the quadratic model does not reach as far
        place, value = (points[:, best], float(values[best])) if better else (self.mode.theta, self.mode.log_density)
        return _Search(Mode(place, value, factor, done), near=self.gain < NEAR)


def _modelled(objective: Objective, searches: Sequence[_Search]) -> list[_Search]:
    """The searches with quadratic models; all evaluations at once for those that are far, and for those that are
    near."""
    far, near = ([s for s in searches if s.near is which] for which in (False, True))
    return [*_by_outer_products(objective, far), *_by_differences(objective, near)]


def _by_outer_products(objective: Objective, searches: Sequence[_Search]) -> list[_Search]:
    if not searches:
        return []
    dimension = len(searches[0].mode.theta)
    offsets = STEP * np.hstack([np.eye(dimension), -np.eye(dimension), np.zeros((dimension, 1))])
    terms = objective.terms(_around(searches, offsets)).reshape(-1, len(searches), 2 * dimension + 1)
    up, down, centre = terms[..., :dimension], terms[..., dimension : 2 * dimension], terms[..., -1:]
    with np.errstate(invalid="ignore", over="ignore"):
        slopes = (up - down) / (2 * STEP)
        bends = np.abs((2 * centre - up - down).sum(axis=0)) / STEP**2
        products = np.einsum("tsi,tsj->sij", slopes, slopes)
        sizes = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))
        scale = np.sqrt(bends) / np.where(sizes > 0, sizes, 1.0)
        hessians = products * scale[:, :, None] * scale[:, None, :] + RIDGE * bends[:, :, None] * np.eye(dimension)
    return [
        search.with_model(slope, hessian)
        for search, slope, hessian in zip(searches, slopes.sum(axis=0), hessians, strict=True)
    ]


def _by_differences(objective: Objective, searches: Sequence[_Search]) -> list[_Search]:
    if not searches:
        return []
    dimension = len(searches[0].mode.theta)
    first, second = np.triu_indices(dimension)
    alone = first == second
    identity = np.eye(dimension)
    pairs = np.where(alone, identity[:, first], identity[:, first] + identity[:, second])
    values = objective(_around(searches, STEP * np.hstack([pairs, -pairs]))).reshape(len(searches), 2, -1)
    found = []
    for search, (up, down) in zip(searches, values, strict=True):
        with np.errstate(invalid="ignore"):
            bends = (2 * search.mode.log_density - up - down) / STEP**2
            slopes = (up - down)[alone] / (2 * STEP)
            own = bends[alone]
            hessian = np.diag(0.5 * own)
            hessian[first[~alone], second[~alone]] = 0.5 * (bends[~alone] - own[first[~alone]] - own[second[~alone]])
        found.append(search.with_model(slopes, hessian + hessian.T))
    return found


def _around(searches: Sequence[_Search], offsets: np.ndarray) -> Points:
    """Points around each search, in the coordinates of its ellipsoid."""
    return np.hstack([search.mode.theta[:, None] + search.mode.factor @ offsets for search in searches])


def _stepped(objective: Objective, searches: Sequence[_Search]) -> list[_Search]:
    tried = [search.mode.theta[:, None] + search.steps() for search in searches]
    values = objective(np.hstack(tried)).reshape(len(searches), -1)
    values = np.where(np.isnan(values), -np.inf, values)
    return [search.moved(points, found) for search, points, found in zip(searches, tried, values, strict=True)]


def _distinct(searches: Sequence[_Search]) -> list[_Search]:
    """Best first, without those that have met a better one."""
    kept: list[_Search] = []
    for search in sorted(searches, key=lambda s: -s.mode.log_density):
        if not any(_met(search.mode, other.mode) for other in kept):
            kept.append(search)
    return kept


def _met(mode: Mode, better: Mode) -> bool:
    """Whether one is inside the ellipsoid of a better one; one that has shrunk to a plane holds nothing."""
    try:
        return bool(np.linalg.norm(np.linalg.solve(better.factor, mode.theta - better.theta)) < SAME)
    except np.linalg.LinAlgError:
        return False
