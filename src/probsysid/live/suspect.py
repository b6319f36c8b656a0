"""Which constant has changed most probably: a generalised likelihood ratio for each alone.

Initial values cannot change on the way and are left out, as are quantities with a joint prior.

From a state before the onset of the change, the filter runs over the samples since with one constant changed at a time,
on a grid of values; the constant whose best value explains the samples best is the most suspicious.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from probsysid.model.parameter_space import PriorSite
from probsysid.smc.ibis import IBISState
from probsysid.targets.stream_target import StreamTarget

SMALLEST = 0.3
"""Of the posterior's standard deviation, in unconstrained coordinates: the smallest change that is tried."""

LARGEST = 1.0
"""The largest, in standard deviations of the prior, or a factor of e if that is less."""


class Suspect(NamedTuple):
    """A quantity with its value before and after, and the log likelihood that the change gains."""

    name: str
    before: float
    after: float
    gain: float

    def describe(self, unit: str = "") -> str:
        change = (self.after / self.before - 1) if self.before else float("inf")
        how = f"{change:+.1%}" if abs(change) < 10 else "beyond a factor of ten"
        return f"{self.name} {self.before:.4g} -> {self.after:.4g}{f' {unit}' if unit else ''} ({how})"


def rank(
    earlier: IBISState, target: StreamTarget, stop: int, prior_sd: Float[np.ndarray, " dimension"]
) -> list[Suspect]:
    """The quantities by how well a change of each alone explains the samples from `earlier` up to `stop`."""
    target = target.of(earlier)
    theta, weights = earlier.flat_theta, earlier.normalised_weights
    centre = theta @ weights
    spread = np.sqrt((theta - centre[:, None]) ** 2 @ weights)
    state = _middle_state(earlier, centre, spread)
    problem = target.problem
    gone = {problem.initial_name(0, name) for name in problem.model.physical_names}
    members = [s for s in problem.space.sites if isinstance(s.name, str) and s.size == 1 and s.name not in gone]
    if not members:
        return []
    count = theta.shape[1]
    places = np.zeros((len(members), 3))  # of the best change: its coordinate, value and gain
    offsets = [_grid(spread[s.start], prior_sd[s.start], max(count // max(len(members), 1) - 1, 2)) for s in members]
    for _ in range(2):
        trial, owner = _trials(centre, members, offsets, count)
        gains = _log_likelihood(target, state, trial, earlier.samples, stop)
        gains = gains - gains[0]
        for j, site in enumerate(members):
            own = np.flatnonzero(owner == j)
            best = own[np.argmax(gains[own])]
            places[j] = site.start, trial[site.start, best], gains[best]
            near = np.sort(trial[site.start, own])
            k = int(np.searchsorted(near, places[j, 1]))
            low, high = near[max(k - 1, 0)], near[min(k + 1, len(near) - 1)]
            offsets[j] = np.linspace(low, high, len(own)) - centre[site.start]
    return _named(target, centre, members, places)


def _middle_state(earlier: IBISState, centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The filter state of the particle closest to the posterior's mean, for all."""
    distance = np.sum(((earlier.flat_theta - centre[:, None]) / np.maximum(spread, 1e-300)[:, None]) ** 2, axis=0)
    nearest = int(np.argmin(np.where(earlier.normalised_weights > 0, distance, np.inf)))
    state = np.asarray(earlier.state)
    return np.repeat(state[:, nearest : nearest + 1], state.shape[1], axis=1)


def _grid(spread: float, prior: float, count: int) -> np.ndarray:
    largest = max(min(LARGEST * prior, 1.0), 10 * spread)
    steps = np.geomspace(max(SMALLEST * spread, 1e-6 * largest), largest, max(count // 2, 1))
    return np.concatenate([-steps[::-1], steps])


def _trials(centre: np.ndarray, members: list[PriorSite], offsets: list[np.ndarray], count: int) -> tuple[Any, Any]:
    """Particles: the first unchanged, then one changed coordinate each; and whose trial each is."""
    trial = np.repeat(centre[:, None], count, axis=1)
    owner = np.full(count, -1)
    place = 1
    for j, (site, steps) in enumerate(zip(members, offsets, strict=True)):
        last = min(place + len(steps), count)
        trial[site.start, place:last] += steps[: last - place]
        owner[place:last] = j
        place = last
    return trial, owner


def _log_likelihood(target: StreamTarget, state: Any, theta: np.ndarray, first: int, stop: int) -> np.ndarray:
    total = np.zeros(theta.shape[1])
    while first < stop:
        last = min(target.limit(first), stop)
        state, energies = target.advance(state, theta, first, last)
        total += np.sum(np.asarray(energies)[: last - first], axis=0)
        first = last
    return np.where(np.isfinite(total), -total, -np.inf)


def _named(target: StreamTarget, centre: np.ndarray, members: list[PriorSite], places: np.ndarray) -> list[Suspect]:
    space = target.problem.space
    changed = np.repeat(centre[:, None], len(members) + 1, axis=1)
    for j in range(len(members)):
        changed[int(places[j, 0]), j + 1] = places[j, 1]
    values: Mapping[str, Any] = space.values(changed)
    found = [
        Suspect(str(site.name), float(values[str(site.name)][0]), float(values[str(site.name)][j + 1]), places[j, 2])
        for j, site in enumerate(members)
    ]
    return sorted(found, key=lambda suspect: -suspect.gain)
