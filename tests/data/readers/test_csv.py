"""Text files with all kinds of separators, headers and encodings."""

from pathlib import Path

import numpy as np
import pytest

from probsysid._internal.errors import InputError
from probsysid.data.readers import Channel, read_record, read_table
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


def numbers(folder: Path, text: str, **options: str) -> dict[str, list[float]]:
    table = read_table(write(folder / "a.csv", text), **options)
    return {name: table.numbers(name).tolist() for name in table.names}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1234,5", "0,25"),  # decimal commas
        ("1.234,5", "0,25"),  # and points between thousands, as in Germany or Spain
        ("1.234,5", "1.000"),
        ("1 234,5", "0,25"),  # blanks, as in France or Sweden
        ("1\u00a0234,5", "0,25"),
        ("1\u202f234,5", "0,25"),
        ("1'234.5", "0.25"),  # as in Switzerland
        ("1’234.5", "0.25"),
        ("1,234.5", "0.25"),  # as in Britain
        ("1,234,567", "1,000"),
        ("\u22121234,5", "0,25"),  # a typographical minus sign
        ("+1.234,5e-3", "0,25"),
    ],
)
def test_numbers_as_countries_write_them(tmp_path: Path, first: str, second: str) -> None:
    values = {"1,234,567": 1234567.0, "1,000": 1000.0, "1.000": 1000.0, "0,25": 0.25, "0.25": 0.25}
    values |= {"\u22121234,5": -1234.5, "+1.234,5e-3": 1.2345}
    expected = [values.get(first, 1234.5), values.get(second, 0.0)]
    assert numbers(tmp_path, f"t;x\n0;{first}\n1;{second}\n") == {"t": [0, 1], "x": expected}
    quoted = f't,x\n0,"{first}"\n1,"{second}"\n'
    assert numbers(tmp_path, quoted) == {"t": [0, 1], "x": expected}


def test_a_decimal_comma_after_many_whole_numbers(tmp_path: Path) -> None:
    rows = [f"{k};{k}" for k in range(50)] + ["50;0,5"]
    assert numbers(tmp_path, "\n".join(["t;x", *rows]))["x"][-1] == 0.5


def test_texts_that_only_look_like_numbers_stay_texts(tmp_path: Path) -> None:
    for cell in ("1.2.3", "192.168.1.1", "12.34,5,6", "1,23,456", "2024-03-01 120", "1 23"):
        path = write(tmp_path / "a.csv", f"t;x\n0;{cell}\n1;1,5\n")
        with pytest.raises(InputError, match=r"has '.*' at line 2; expected a number"):
            read_table(path).numbers("x")


def test_a_hash_inside_a_cell_is_not_a_comment(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t,x,y\n0,1,2\n1,1#2,3\n")
    assert read_table(path).numbers("y").tolist() == [2, 3]
    with pytest.raises(InputError, match=r"column 'x' has '1#2' at line 3; expected a number"):
        read_table(path).numbers("x")


def test_comments_and_blank_lines_between_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "# one\nt,x\n0,1\n\n# two, three\n  % four\n1,wrong\n")
    with pytest.raises(InputError, match="'wrong' at line 7"):
        read_table(path).numbers("x")


def test_separators_inside_quotation_marks_belong_to_the_cell(tmp_path: Path) -> None:
    text = '"time, s","Force ""F"", N",x\n0,1,2\n1,3,4\n'
    assert numbers(tmp_path, text) == {"time, s": [0, 1], 'Force "F", N': [1, 3], "x": [2, 4]}
    blanks = '"time in s"   force\n0   1\n1   3\n'
    assert numbers(tmp_path, blanks) == {"time in s": [0, 1], "force": [1, 3]}


def test_infinite_values_are_named_by_their_line(tmp_path: Path) -> None:
    for column, advice in (("x", "leave the cell empty if it is missing"), ("F", "an input must be known throughout")):
        rows = table_text().splitlines()
        cells = rows[3].split(",")
        cells[["t", "F", "x"].index(column)] = "-inf"
        rows[3] = ",".join(cells)
        path = write(tmp_path / "a.csv", "\n".join(rows))
        with pytest.raises(InputError, match=f"column '{column}' has -inf at line 4; {advice}"):
            read_record(path, time="t", **CHANNELS)


def test_decimal_commas_between_commas_are_recognised(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2 has 4 cells, expected 2; are decimals written with a comma\?"):
        read_table(write(tmp_path / "a.csv", "t,x\n0,0,1,5\n0,1,1,7\n"))


def test_an_open_quotation_mark_is_found(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 3 has a quotation mark that is not closed"):
        read_table(write(tmp_path / "a.csv", 't,x\n0,1\n"1,2\n2,3\n'))
