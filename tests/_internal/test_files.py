"""Files replaced atomically, and held by one process at a time."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from probsysid._internal.errors import InputError
from probsysid._internal.files import locked, read_bytes, write_atomically


def test_a_file_is_written_replaced_and_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"old", b"", b"new"):
        write_atomically(path, content)
        assert read_bytes(path) == content
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"is not a checkpoint, or is damaged \(.*"):
        read_bytes(tmp_path / name)


def test_a_lock_makes_its_folder_and_is_released_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.npz"
    with pytest.raises(ArithmeticError), locked(path):
        assert path.parent.is_dir()
        raise ArithmeticError
    with locked(path), locked(path.with_name("other.npz")):  # one lock per file
        pass


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes(tmp_path: Path) -> None:
    path, name = tmp_path / "run[1].npz", "run[1].npz"
    left, other = tmp_path / f".{name}.99999.partial", tmp_path / ".run1.npz.99999.partial"
    busy = tmp_path / f".{name}.88888.partial"
    for file in (left, other, busy):
        file.write_bytes(b"half")
    with open(busy, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as its writer does
        write_atomically(path, b"whole")
        assert {p.name for p in tmp_path.iterdir()} == {name, other.name, busy.name}
    write_atomically(path, b"whole")
    assert {p.name for p in tmp_path.iterdir()} == {name, other.name}


def test_a_file_that_may_not_grow_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    script = (
        "import resource, sys; from pathlib import Path; from probsysid._internal.files import write_atomically\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_atomically(Path(sys.argv[1]), b'x' * 5000)\n"
        "except OSError as error: print(error.strerror)"
    )
    found = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
    assert found.stdout == "File too large\n"
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["file"]
