"""Files replaced atomically, and held by one process at a time."""

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
