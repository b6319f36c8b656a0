"""Long arrays in chunks of points: programs are compiled for one length, whatever the length of a record."""

import jax
import numpy as np
from jaxtyping import PyTree

LONGEST_CHUNK = 256
"""Points of a chunk, where the state is small."""

MEMORY = 32_000_000
"""Bytes that a chunk may take."""

MATRICES = 8
"""Matrices of the state's size that are stored per point: factors, gains and intermediate results."""


def chunk_length(size: int, particles: int, draws: int = 0, longest: int = LONGEST_CHUNK) -> int:
    """Number of points processed together: the largest power of two that fits into the memory, at most `longest`."""
    fitting = MEMORY // (8 * particles * size * (MATRICES * size + 2 * draws))
    return min(longest, 1 << max(fitting.bit_length() - 1, 0))


def padded_slice(arrays: PyTree, first: int, last: int, length: int) -> PyTree:
    """Rows `first` to `first + length` of arrays; rows before 0 or from `last` on repeat the nearest row within."""
    rows = np.clip(np.arange(first, first + length), 0, last - 1)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], arrays)


class ChunkBuffer:
    """A tree of arrays with a given number of rows, written in place chunk by chunk."""

    def __init__(self, rows: int):
        self.rows = rows
        self.arrays: PyTree = None
        """Allocated by the first `put`, which knows their shapes; None before."""

    def put(self, first: int, chunk: PyTree) -> None:
        """Write a chunk to the rows from `first` on; its rows that lie outside the buffer are dropped."""
        if self.arrays is None:
            self.arrays = jax.tree.map(lambda leaf: np.empty((self.rows, *leaf.shape[1:])), chunk)
        pairs = zip(jax.tree.leaves(self.arrays), jax.tree.leaves(chunk), strict=True)
        for target, leaf in pairs:
            low, high = max(first, 0), min(first + len(leaf), self.rows)
            target[low:high] = np.asarray(leaf)[low - first : high - first]
