"""NumPy archives."""

from pathlib import Path

import numpy as np
import pytest

from probsysid import InputError
from probsysid.data.readers import read_record, read_table
from tests.data.readers.files import CHANNELS, FORCE, POSITION, TIME


def test_numpy_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, t=TIME, F=FORCE, x=POSITION)
    record, _ = read_record(path, time="t", **CHANNELS)
    np.testing.assert_array_equal(record.inputs["force"], FORCE)


def test_an_archive_with_pickled_code_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, F=np.array([print], dtype=object))
    with pytest.raises(InputError, match="not an archive of plain arrays"):
        read_table(path)
