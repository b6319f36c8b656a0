"""Text files with all kinds of separators, headers and encodings."""

from pathlib import Path

import numpy as np
import pytest

from probsysid.data.readers import Channel, read_record
from tests.data.readers.files import CHANNELS, FORCE, POSITION, TIME, write


def table_text(separator: str = ",", decimal: str = ".", header: str | None = "t,F,x") -> str:
    lines = [] if header is None else [header.replace(",", separator)]
    for row in zip(TIME, FORCE, POSITION, strict=True):
        lines.append(separator.join(f"{value:.6g}".replace(".", decimal) for value in row))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", table_text()),
        ("a.csv", table_text(";")),
        ("a.csv", table_text(";", ",")),
        ("a.csv", table_text("\t")),
        ("a.txt", table_text(" ")),
        ("a.tsv", table_text("\t")),
        ("a.csv", "# made by a logger\n% at noon\n" + table_text()),
        ("a.csv", "\ufeff" + table_text()),
        ("a.csv", table_text().replace("\n", "\r\n")),
        ("a.csv", table_text().replace("\n", "\n\n")),
        ("a.csv", table_text().replace("t,F,x", '"t", "F", "x"')),
        ("a.csv", table_text().encode("utf-16")),
    ],
)
def test_text(tmp_path: Path, name: str, content: str | bytes) -> None:
    record, notes = read_record(write(tmp_path / name, content), time="t", **CHANNELS)
    np.testing.assert_array_equal(record.inputs["force"], FORCE)
    np.testing.assert_array_equal(record.outputs["position"], POSITION)
    assert record.dt == pytest.approx(0.1)
    assert record.units == {"force": "N", "position": "m"}
    assert notes == ()


def test_columns_by_number_without_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table_text(header=None))
    record, _ = read_record(path, time=1, inputs={"force": Channel(2)}, outputs={"position": Channel("3")})
    np.testing.assert_array_equal(record.inputs["force"], FORCE)
    np.testing.assert_array_equal(record.outputs["position"], POSITION)
