"""Damaged entries are removed, whole ones stay, and each is checked once."""

import os
import time
import zlib
from pathlib import Path

from probsysid._internal.program_cache import remove_damaged

WHOLE = zlib.compress(b"machine code " * 1000)


def test_entries_that_were_cut_off_are_removed(tmp_path: Path) -> None:
    for name, content in {"a": WHOLE, "b": WHOLE[:-1], "c": b"", "d": WHOLE[: len(WHOLE) // 2]}.items():
        (tmp_path / f"{name}-cache").write_bytes(content)
    (tmp_path / "notes.txt").write_bytes(b"")
    remove_damaged(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"a-cache", "notes.txt", ".checked"}


def test_entries_are_checked_once(tmp_path: Path) -> None:
    remove_damaged(tmp_path)
    old, new = tmp_path / "old-cache", tmp_path / "new-cache"
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (time.time() - 60, time.time() - 60))
    remove_damaged(tmp_path)
    assert old.exists() and not new.exists()


def test_a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    remove_damaged(tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []
