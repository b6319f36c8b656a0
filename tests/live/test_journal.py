"""The journal survives a kill at any byte."""

from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid.live.alignment import Restart, Rows
from probsysid.live.journal import Event, Journal

CHANNELS = ("u", "y")


def block(first: int, count: int) -> Rows:
    index = np.arange(first, first + count, dtype=float)
    return Rows(0.1 * index, np.column_stack([index, -index]))


def written(path: Path) -> bytes:
    journal = Journal(path, CHANNELS, 0.1)
    list(journal.entries())
    journal.append([block(0, 5)])
    journal.append([Restart("a gap"), block(5, 3), Event({"kind": "mark", "text": "now"})])
    journal.close()
    return path.read_bytes()


def samples(path: Path) -> int:
    journal = Journal(path, CHANNELS, 0.1)
    count = sum(len(entry.time) for entry in journal.entries() if isinstance(entry, Rows))
    journal.close()
    return count


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.bin"
    written(path)
    journal = Journal(path, CHANNELS, 0.1)
    _, first, gap, second, mark = journal.entries()
    journal.close()
    assert isinstance(first, Rows) and isinstance(second, Rows)
    np.testing.assert_array_equal(first.values, block(0, 5).values)
    np.testing.assert_array_equal(second.time, block(5, 3).time)
    assert gap == Restart("a gap")
    assert mark == Event({"kind": "mark", "text": "now"})


def test_cut_at_any_byte_it_keeps_whole_records_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.bin"
    content = written(path)
    previous = 0
    for end in [*range(0, len(content), 5), len(content)]:
        path.write_bytes(content[:end])
        kept = samples(path)
        assert kept in (0, 5, 8)
        assert kept >= previous
        previous = kept
        journal = Journal(path, CHANNELS, 0.1)
        list(journal.entries())
        journal.append([block(8, 2)])
        journal.close()
        assert samples(path) == kept + 2
    assert previous == 8


def test_room_that_was_never_written_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.bin"
    path.write_bytes(written(path) + bytes(100))
    assert samples(path) == 8


def test_damage_in_the_middle_is_said(tmp_path: Path) -> None:
    path = tmp_path / "journal.bin"
    content = bytearray(written(path))
    content[150] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ps.InputError, match="damaged at byte"):
        samples(path)


def test_the_journal_of_another_stream_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.bin"
    written(path)
    with pytest.raises(ps.InputError, match="belongs to another stream"):
        list(Journal(path, ("u", "z"), 0.1).entries())
