"""Long arrays a stretch at a time: programs see one length, whatever the length of a record."""

from typing import Any

import jax
import numpy as np

LONGEST = 256
"""Points of a stretch, where they are small."""

MEMORY = 32_000_000
"""Bytes that a stretch may take."""

MATRICES = 8
"""Matrices of the state's size that are kept for each of its points: factors, gains and what leads to them."""


def chunk_length(size: int, particles: int, draws: int = 0) -> int:
    """Points that are worked on together: a power of two, as many as fit into the memory."""
    fitting = MEMORY // (8 * particles * size * (MATRICES * size + 2 * draws))
    return min(LONGEST, 1 << max(fitting.bit_length() - 1, 0))


def padded_slice(arrays: Any, first: int, last: int, length: int) -> Any:
    """So many rows of arrays from the first on; places outside the array, or from `last` on, get the nearest row."""
    rows = np.clip(np.arange(first, first + length), 0, last - 1)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], arrays)


class ChunkBuffer:
    """Arrays of so many rows, filled stretch by stretch."""

    def __init__(self, rows: int):
        self.rows = rows
        self.arrays: Any = None

    def put(self, first: int, part: Any) -> None:
        """Rows from the first on; those that there is no room for are left out."""
        if self.arrays is None:
            self.arrays = jax.tree.map(lambda leaf: np.empty((self.rows, *leaf.shape[1:])), part)
        pairs = zip(jax.tree.leaves(self.arrays), jax.tree.leaves(part), strict=True)
        for target, leaf in pairs:
            low, high = max(first, 0), min(first + len(leaf), self.rows)
            target[low:high] = np.asarray(leaf)[low - first : high - first]
