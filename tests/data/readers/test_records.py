"""Records from tables, and the errors about files and columns that are wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probsysid import InputError
from probsysid.data.readers import Channel, read_record, read_table
from tests.data.readers.files import CHANNELS, FORCE, POSITION, TIME, write


def test_scale_offset_and_missing_outputs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t;F;x\n0;1;2\n1;2;\n2;3;NaN\n")
    outputs = {"position": Channel("x", scale=1e-3, offset=1.0)}
    record, _ = read_record(path, time="t", time_unit="ms", inputs={"force": Channel("F")}, outputs=outputs)
    np.testing.assert_array_equal(record.outputs["position"], [1.002, np.nan, np.nan])
    assert record.dt == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", r"a\.csv is empty"),
        ("a.csv", "\n\n", "no lines with data"),
        ("a.csv", "t,F,x\n", "a header and no data"),
        ("a.csv", "t,F,x\n0,1,2\n1,broken,2\n", r"column 'F' has 'broken' at line 3; expected a number"),
        ("a.csv", "# c\n\nt,F,x\n0,1,2\n\n1,broken,2\n", r"column 'F' has 'broken' at line 6"),
        ("a.csv", "t,F,x\n0,1,2\n1,,2\n", r"column 'F' has no value at line 3; an input must be known"),
        ("a.csv", "t,F,x\n0,1,2\n1,inf,2\n", r"column 'F' has inf at line 3"),
        ("a.csv", "t,F,x\n0,1,2\n1,1,-inf\n", r"column 'x' has -inf at line 3"),
        ("a.csv", "t,F,x\n0,1,2\n1,2,3,4\n", r"line 3 has 4 cells, expected 3"),
        ("a.csv", "t,F,x\n0,1,2,9\n1,2,3,4\n", r"line 2 has 4 cells, expected 3"),
        ("a.csv", "t,F,x\n0,1,2\n0,1,2\n", r"time column 't' repeats 0 s at line 3"),
        ("a.csv", "t,F,x\n0,1,2\n2,1,2\n1,1,2\n", r"time column 't' goes back: it has 1 s at line 4, after 2 s"),
        ("a.csv", "t,F,x\n0,1,2\n,1,2\n", r"time column 't' has no value at line 3"),
        ("a.csv", "t,F,x\nnoon,1,2\nlater,1,2\n", r"column 't' has 'noon' at line 2"),
        ("a.csv", "t,G,x\n0,1,2\n", r"there is no column 'F'; there are: t, G, x"),
        ("a.csv", "t,F,F\n0,1,2\n", r"two columns are called 'F'"),
        ("a.csv", "t,F,x\n0,1,2°\n".encode("latin-1"), r"line 2 is not utf-8 text \(byte 0xb0\); set encoding"),
        ("a.csv", b"\x00\x01\x02\x03", "holds binary data"),
        ("a.mat", b"MATLAB? no", r"a\.mat is not a MATLAB file"),
        ("a.npz", b"PK no", r"a\.npz is not an archive"),
        ("a.xlsx", b"x", r"files ending in '\.xlsx' cannot be read"),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_record(write(tmp_path / name, content), time="t", **CHANNELS)
    assert name in str(caught.value)


def test_a_missing_file_and_its_neighbour(tmp_path: Path) -> None:
    write(tmp_path / "measurement.csv", "x")
    with pytest.raises(InputError, match=r"there is no file .*Did you mean 'measurement\.csv'"):
        read_table(tmp_path / "mesurement.csv")


def test_lengths_of_variables_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, t=TIME, F=FORCE[:4], x=POSITION)
    with pytest.raises(InputError, match=r"'F' has 4 samples, but the time has 5"):
        read_record(path, time="t", **CHANNELS)


def test_intersample_of_all_inputs_or_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t,F,x\n0,1,2\n1,2,2\n2,3,3\n3,3,3\n")
    for given in ("zoh", {"force": "zoh"}):
        record, _ = read_record(path, time="t", **CHANNELS, intersample=given)
        assert record.intersample == {"force": "zoh"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"intersample": "zohh"}, r"a\.csv: intersample of 'force' must be one of zoh.*Did you mean 'zoh'"),
        ({"intersample": {"forse": "zoh"}}, r"there is no input 'forse'\. Did you mean 'force'"),
        ({"units": {"force": "N"}}, r"units belongs to a channel, as in .*Channel\('F', unit="),
        ({"seperator": ";"}, r"read_record takes no seperator; .* Did you mean 'separator'"),
    ],
)
def test_options_that_are_not_are_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "a.csv", "t,F,x\n0,1,2\n1,2,2\n2,3,3\n3,3,3\n")
    with pytest.raises(InputError, match=message):
        read_record(path, time="t", **CHANNELS, **options)
