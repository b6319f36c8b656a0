"""What a worker of a cluster does: evaluate one block of particles.

A task is pure: (digest of problem and data, block of particles, state or none, range of samples) -> (state, energies).
A worker fetches what belongs to a digest once, and keeps it with its compiled programs for as long as it lives.  The
filter's state is a function of the particles and the samples so far, so that a task can do without it: it then filters
all samples before.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from probsysid.data.record import Record
from probsysid.model.problem import Problem
from probsysid.odefilter.solver import Solver
from probsysid.parallel.published import fetch
from probsysid.parallel.threads import Threads
from probsysid.targets.filter_target import Batching
from probsysid.targets.integrators import Integrator

MOST_PROBLEMS = 8
"""That a worker keeps, with their data and programs."""


class Recipe(NamedTuple):
    """What a target is made of, but for the number of integration steps."""

    kind: Callable[..., Any]
    """The class of the target."""
    problem: Problem
    solver: Solver
    integrator: Integrator
    records: tuple[Record, ...]
    block: int
    batching: Batching


class Where(NamedTuple):
    """Which columns of a block are in which of the states that come with it."""

    source: np.ndarray
    column: np.ndarray


def sweep_block(digest: str, substeps: int, theta: np.ndarray, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """The state after all samples before `stop`; the log likelihood of all but the last of them, and its energy."""
    state, likelihood, energy = _target(digest, substeps).sweep(theta, stop)
    return np.asarray(state), np.stack([likelihood, energy])


def advance_block(
    digest: str, substeps: int, theta: np.ndarray, first: int, last: int, where: Where | None, *results: PyTree
) -> tuple[np.ndarray, np.ndarray]:
    """The state after samples first..last-1, and their energies.  The columns of the state before are in the results of
    earlier tasks, pairs that begin with a state; without these, all samples before are filtered."""
    target = _target(digest, substeps)
    state: PyTree
    if where is not None:
        state = _columns(where, [result[0] for result in results])
    else:
        state = None if first == 0 else target.sweep(theta, first)[0]
    end, energies = target.advance(state, theta, first, last)
    return np.asarray(end), np.asarray(energies)[: last - first]


def errors_block(
    digest: str, substeps: int, theta: np.ndarray, weights: np.ndarray
) -> tuple[None, tuple[np.ndarray, ...]]:
    """The weighted sum over the block of one-step prediction errors on each record."""
    return None, _target(digest, substeps).one_step_errors(theta, weights)


def _columns(where: Where, matrices: Sequence[np.ndarray]) -> np.ndarray:
    """The columns of a block, gathered."""
    state = np.empty((matrices[0].shape[0], len(where.source)))
    for k, matrix in enumerate(matrices):
        chosen = where.source == k
        state[:, chosen] = matrix[:, where.column[chosen]]
    return state


_BUILDING = Lock()
"""Threads of a worker take turns, so that a problem is fetched once and its programs are shared."""


def _target(digest: str, substeps: int) -> Any:
    with _BUILDING:
        return _built(digest, substeps)


@lru_cache(maxsize=8 * MOST_PROBLEMS)
def _built(digest: str, substeps: int) -> Any:
    recipe = _recipe(digest)
    return recipe.kind(
        recipe.problem,
        recipe.solver,
        recipe.records,
        recipe.block,
        Threads(cores=1),
        integrator=recipe.integrator,
        substeps=substeps,
        batching=recipe.batching,
    )


@lru_cache(maxsize=MOST_PROBLEMS)
def _recipe(digest: str) -> Recipe:
    return Recipe(*fetch(digest))
