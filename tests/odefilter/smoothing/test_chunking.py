"""Long arrays in chunks: lengths, padding, and writing back."""

import numpy as np

from probsysid.odefilter.smoothing.chunking import LONGEST_CHUNK, ChunkBuffer, chunk_length, padded_slice


def test_chunks_are_powers_of_two_that_shrink_with_the_memory_per_point() -> None:
    assert chunk_length(4, 1) == LONGEST_CHUNK
    assert chunk_length(4, 1, longest=6) == 6
    # Eight matrices of doubles per particle, 64 size^2 bytes: the 32 MB hold 31, 7, 1 and not even 1 point.
    assert [chunk_length(size, 1000) for size in (4, 8, 16, 32)] == [16, 4, 1, 1]
    assert chunk_length(64, 1_000_000) == 1
    assert chunk_length(8, 1000, draws=500) < chunk_length(8, 1000)


def test_slices_are_padded_with_the_nearest_row() -> None:
    rows = {"a": np.arange(5), "b": 10.0 * np.arange(10).reshape(5, 2)}
    found = padded_slice(rows, -2, 4, 8)
    np.testing.assert_array_equal(found["a"], [0, 0, 0, 1, 2, 3, 3, 3])
    np.testing.assert_array_equal(found["b"][:, 0], [0, 0, 0, 20, 40, 60, 60, 60])


def test_chunks_written_to_a_buffer_are_the_whole_array() -> None:
    """The first chunk begins before the buffer and the last one ends after it."""
    rows = np.arange(14.0).reshape(7, 2)
    buffer = ChunkBuffer(7)
    for first in (-1, 3, 6):
        length = 4 if first < 6 else 2
        buffer.put(first, padded_slice(rows, first, 7, length))
    np.testing.assert_array_equal(buffer.arrays, rows)
    assert ChunkBuffer(7).arrays is None
