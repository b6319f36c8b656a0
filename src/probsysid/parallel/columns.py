"""Matrices with one column per particle that the sampler copies and selects, wherever they are.

Filter states may lie on workers of a cluster.  Then selecting particles moves nothing: a `RemoteColumns` only notes
where each column is, and the worker that goes on with a block of particles fetches what it needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int, PyTree


@dataclass(frozen=True, eq=False)
class RemoteColumns:
    """Columns of matrices on workers, one per particle."""

    sources: tuple[Any, ...]
    """Handles of the matrices."""
    source: Int[np.ndarray, " particle"]
    """The matrix in which the column of each particle is ..."""
    column: Int[np.ndarray, " particle"]
    """... and its position in it."""

    @classmethod
    def of(cls, sources: Sequence[Any], block: int, particles: int) -> "RemoteColumns":
        """Matrices side by side, with `block` columns each; what is beyond the particles is padding."""
        index = np.arange(particles)
        return cls(tuple(sources), index // block, index % block)

    def take(self, positions: Int[np.ndarray, " chosen"]) -> "RemoteColumns":
        """Some columns; handles that are no longer needed are dropped."""
        used, source = np.unique(self.source[positions], return_inverse=True)
        return RemoteColumns(tuple(self.sources[k] for k in used), source, self.column[positions])

    def beside(self, other: "RemoteColumns") -> "RemoteColumns":
        """These columns and those of another."""
        return RemoteColumns(
            (*self.sources, *other.sources),
            np.concatenate([self.source, other.source + len(self.sources)]),
            np.concatenate([self.column, other.column]),
        )

    def __len__(self) -> int:
        return len(self.source)

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        """NumPy would take it for one object."""
        raise TypeError("these columns are on workers, not in this process")


def take(state: PyTree, positions: Int[np.ndarray, " chosen"]) -> PyTree:
    """Some columns of a state."""
    if isinstance(state, RemoteColumns):
        return state.take(positions)
    return np.take(np.asarray(state), positions, axis=-1)  # through the host: a state may lie on several devices


def select(chosen: Bool[np.ndarray, " particle"], new: PyTree, old: PyTree) -> PyTree:
    """Columns of one state where chosen, those of another elsewhere."""
    if isinstance(new, RemoteColumns) and isinstance(old, RemoteColumns):
        index = np.arange(len(chosen))
        return new.beside(old).take(np.where(chosen, index, index + len(chosen)))
    # on the host, which has the new states anyway: selecting on several devices takes longer
    return np.where(chosen, np.asarray(new), np.asarray(old))


def interleave(states: Sequence[PyTree], populations: int) -> PyTree:
    """States with as many columns each, side by side within each population."""
    if isinstance(states[0], RemoteColumns):
        total = states[0]
        for state in states[1:]:
            total = total.beside(state)
        count = len(states[0]) // populations
        index = np.arange(len(total)).reshape(len(states), populations, count)
        return total.take(index.transpose(1, 0, 2).ravel())
    split = [state.reshape(*state.shape[:-1], populations, -1) for state in states]
    together = jnp.concatenate(split, axis=-1)
    return together.reshape(*together.shape[:-2], -1)
