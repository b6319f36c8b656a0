"""Columns on workers: selecting them gives the same as selecting columns of matrices at hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probsysid.parallel.columns import RemoteColumns, interleave, select, take

ROWS, BLOCK = 3, 4


def fetched(columns: RemoteColumns) -> np.ndarray:
    """What the columns stand for: here handles are the matrices themselves."""
    pairs = zip(columns.source, columns.column, strict=True)
    return np.stack([columns.sources[s][:, c] for s, c in pairs], axis=-1)


def blocks(particles: int, seed: int) -> tuple[np.ndarray, RemoteColumns]:
    """A matrix, and the same in padded blocks."""
    matrix = np.random.default_rng(seed).standard_normal((ROWS, particles))
    padded = np.pad(matrix, ((0, 0), (0, -particles % BLOCK)), mode="edge")
    return matrix, RemoteColumns.of(np.split(padded, padded.shape[1] // BLOCK, axis=1), BLOCK, particles)


@given(st.integers(1, 13), st.data())
def test_selecting_moves_nothing_and_gives_the_same(particles: int, data: st.DataObject) -> None:
    (old, old_columns), (new, new_columns) = blocks(particles, 0), blocks(particles, 1)
    positions = np.array(data.draw(st.lists(st.integers(0, particles - 1), min_size=particles, max_size=particles)))
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=particles, max_size=particles)))
    resampled = take(old_columns, positions)
    np.testing.assert_array_equal(fetched(resampled), take(old, positions))
    moved = select(chosen, new_columns, resampled)
    np.testing.assert_array_equal(fetched(moved), select(chosen, new, take(old, positions)))
    assert len(moved) == particles
    # no handle is held that nothing needs: its matrix would stay in a worker's memory
    assert set(moved.source) == set(range(len(moved.sources)))


@pytest.mark.parametrize("populations", [1, 2, 4])
def test_links_of_chains_lie_side_by_side_within_populations(populations: int) -> None:
    links = [blocks(8, seed) for seed in range(3)]
    together = interleave([columns for _, columns in links], populations)
    np.testing.assert_array_equal(fetched(together), interleave([matrix for matrix, _ in links], populations))


def test_columns_elsewhere_are_not_taken_for_numbers() -> None:
    with pytest.raises(TypeError, match="on workers"):
        np.asarray(blocks(5, 0)[1])
