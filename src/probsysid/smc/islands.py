"""Islands, their halves, and cross-fitting: which particles a proposal is fitted to.

An *island* is a sampler of its own; the spread between islands gives the error of the evidence.  A proposal fitted to
the particles that it is to replace has too high a density at them: they leave too easily, and mass in narrow places is
lost.  So an island has two halves that resample apart and share no ancestors, and a half is moved by a proposal fitted
to other halves (docs/decisions.md).  A half, or an island that stays whole, is a *population*; populations moved by the
same proposal form a *group*.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from probsysid.smc.proposals import DegenerateParticles

GROUPS = 4
"""Each group is moved by a proposal fitted to the other groups: the more groups, the better it fits, and the longer
fitting takes."""

Source = tuple[Float[np.ndarray, "dimension particle"], Float[np.ndarray, " particle"]]
"""Particles and weights that a proposal is fitted to."""


def by_island(values: Float[np.ndarray, "*rows population"], islands: int) -> Float[np.ndarray, "*rows island half"]:
    """The last axis, over populations, as one over islands and one over the populations of each."""
    return values.reshape(*values.shape[:-1], islands, values.shape[-1] // islands)


def group_of_population(populations: int, halves: int) -> Int[np.ndarray, " population"]:
    """The group of each population: every fourth population, or every whole island by itself."""
    index = np.arange(populations)
    return index if halves == 1 else index % GROUPS


def fit_sources(
    theta: Float[np.ndarray, "dimension population member"],
    weights: Float[np.ndarray, "population member"],
    halves: int,
) -> list[Source]:
    """What each group's proposal is fitted to: the particles of all other groups, or of all groups where too few
    distinct ones are left; a whole island's own.

    Raises `DegenerateParticles` where even all particles do not span the space.
    """
    group = group_of_population(len(weights), halves)
    groups = range(group.max() + 1)
    if halves == 1:
        sources = [_pooled(theta, weights, group == g) for g in groups]
        for source in sources:
            _check_span(*source)
        return sources
    others = [_pooled(theta, weights, group != g) for g in groups]
    if all(_distinct(*other) > len(theta) for other in others):
        return others
    everything = _pooled(theta, weights, np.ones_like(group, dtype=bool))
    _check_span(*everything)
    return [other if _distinct(*other) > len(theta) else everything for other in others]


def _pooled(theta: np.ndarray, weights: np.ndarray, chosen: Bool[np.ndarray, " population"]) -> Source:
    """The particles of some populations and their weights, every population counting the same."""
    pooled = weights[chosen]
    return theta[:, chosen].reshape(len(theta), -1), pooled.ravel() / len(pooled)


def _distinct(theta: np.ndarray, weights: np.ndarray) -> int:
    """The number of distinct particles with weight."""
    return len(np.unique(theta[0, weights > 0]))


def _check_span(theta: np.ndarray, weights: np.ndarray) -> None:
    """Raise where so few distinct particles are left that their covariance is certainly singular."""
    distinct = _distinct(theta, weights)
    if distinct <= len(theta):
        raise DegenerateParticles(
            f"{distinct} different ones are left for {len(theta)} quantities, their covariance is singular"
        )
