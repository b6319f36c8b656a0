"""Parquet files, and the optional package that reads them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from probsysid import InputError
from probsysid.data.readers import read_record, read_table
from tests.data.readers.files import CHANNELS, FORCE, POSITION, TIME, write


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pytest.importorskip("pyarrow")
    pd.DataFrame({"t": TIME, "F": FORCE, "x": POSITION}).to_parquet(path)
    record, _ = read_record(path, time="t", **CHANNELS)
    np.testing.assert_array_equal(record.inputs["force"], FORCE)
    with pytest.raises(InputError, match=r"b\.parquet is not a parquet file"):
        read_table(write(tmp_path / "b.parquet", "nothing"))


def test_parquet_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> None:
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd, "read_parquet", missing)
    with pytest.raises(InputError, match=r"pip install 'probsysid\[parquet\]'"):
        read_table(write(tmp_path / "a.parquet", "x"))
