"""Samples on the grid: in order, each once, none invented; everything else is counted."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probsysid.live.alignment import CLOCK_RESET, Alignment, Released, Restart, Rows

DT = 0.1


def aligned(**options: Any) -> Alignment:
    given = {"inputs": 0, "gaps": "missing", "patience": 8, "linear": (False,)}
    return Alignment(DT, **{**given, **options})


def rows(places: Any, inputs: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Samples whose output is their place; inputs are ten times it."""
    places = np.asarray(places, dtype=float)
    return DT * places, np.column_stack([*[10 * places] * inputs, places])


def places(released: list[Released]) -> list[float]:
    return [float(x) for item in released if isinstance(item, Rows) for x in item.values[:, -1]]


def feed(alignment: Alignment, order: Any) -> list[Released]:
    released = [item for k in order for item in alignment.add(*rows([k], alignment.inputs))]
    return released + alignment.flush()


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(40)), st.lists(st.integers(0, 39), max_size=20))
def test_any_order_with_repetitions_gives_each_sample_once(order: list[int], again: list[int]) -> None:
    alignment = aligned(patience=100)
    # the first sample sets the origin, so it comes first; afterwards any order
    sequence = [0, *[k for k in order if k], *again]
    assert places(feed(alignment, sequence)) == list(range(40))
    assert alignment.counts.accepted == 40
    assert alignment.counts.duplicate == len(again)
    assert alignment.counts.gaps == 0


def test_a_gap_becomes_missing_outputs_without_inputs() -> None:
    alignment = aligned(patience=2)
    found = feed(alignment, [0, 1, 5, 6, 7])
    assert all(isinstance(item, Rows) for item in found)
    np.testing.assert_array_equal(places(found), [0, 1, np.nan, np.nan, np.nan, 5, 6, 7])
    times = np.concatenate([item.time for item in found])  # type: ignore[union-attr]
    np.testing.assert_allclose(times, DT * np.arange(8), rtol=1e-12)
    assert (alignment.counts.gaps, alignment.counts.gap_samples) == (1, 3)


def test_what_comes_after_its_place_was_given_up_is_late_and_not_used() -> None:
    alignment = aligned(patience=2)
    found = feed(alignment, [0, 1, 3, 4, 2, 5])
    np.testing.assert_array_equal(places(found), [0, 1, np.nan, 3, 4, 5])
    assert alignment.counts.late == 1


@pytest.mark.parametrize(("linear", "expected"), [(True, [0, 10, 20, 30, 40]), (False, [0, 10, 10, 10, 40])])
def test_inputs_are_carried_over_a_gap_only_on_request(linear: bool, expected: list[float]) -> None:
    alignment = aligned(inputs=1, gaps="hold", patience=2, linear=(linear,))
    found = feed(alignment, [0, 1, 4])
    inputs = [float(x) for item in found if isinstance(item, Rows) for x in item.values[:, 0]]
    assert inputs == pytest.approx(expected)
    np.testing.assert_array_equal(places(found), [0, 1, np.nan, np.nan, 4])


def test_with_inputs_a_gap_is_a_new_start_that_says_so() -> None:
    alignment = aligned(inputs=1, gaps="restart", patience=2)
    found = feed(alignment, [0, 1, 5, 6, 4, 7])
    kinds = [type(item).__name__ for item in found]
    assert kinds.count("Restart") == 1
    restart = next(item for item in found if isinstance(item, Restart))
    assert "a gap of 3 samples" in restart.reason
    # sample 4 came after its place had been given up: it lies before the new segment
    assert places(found) == [0, 1, 5, 6, 7]
    assert alignment.counts.restarts == 1


def test_a_drifting_clock_is_followed() -> None:
    alignment = aligned()
    time = DT * 1.002 * np.arange(2000)  # four samples off at the end
    found = alignment.add(time, np.arange(2000.0)[:, None])
    assert places(found) == list(range(2000))
    assert alignment.counts.gaps == alignment.counts.off_grid == 0


def test_a_clock_that_was_set_back_begins_a_new_segment_and_loses_nothing() -> None:
    alignment = aligned(inputs=1)
    before = alignment.add(*rows(range(100), 1))
    time, values = rows(range(CLOCK_RESET + 20), 1)
    after = alignment.add(time, values + 1000)
    assert len(places(before)) == 100
    assert any(isinstance(item, Restart) for item in after)
    assert places(after) == [1000.0 + k for k in range(CLOCK_RESET + 20)]


def test_a_file_that_is_read_again_is_all_repetitions() -> None:
    alignment = aligned(inputs=1)
    alignment.add(*rows(range(200), 1))
    assert alignment.add(*rows(range(200), 1)) == []
    assert alignment.counts.duplicate == 200
    assert places(alignment.add(*rows([200], 1))) == [200]


def test_a_sample_without_its_input_is_not_used() -> None:
    alignment = aligned(inputs=1)
    time, values = rows([0, 1], 1)
    values[1, 0] = np.nan
    assert places(alignment.add(time, values)) == [0]
    assert alignment.counts.malformed == 1


def test_without_times_samples_come_in_order() -> None:
    alignment = aligned()
    assert places(alignment.add(None, np.arange(5.0)[:, None])) == [0, 1, 2, 3, 4]


def test_an_absurd_time_ends_in_a_new_start_not_in_memory() -> None:
    alignment = aligned(gaps="missing", patience=2)
    found = feed(alignment, [0, 1, 10**12])
    assert any(isinstance(item, Restart) for item in found)
    assert sum(len(item.time) for item in found if isinstance(item, Rows)) == 3
