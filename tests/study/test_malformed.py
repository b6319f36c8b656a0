"""Two hundred studies and data files with one mistake each: all get a sentence with the place, and exit code 2."""

import json
import random
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from probsysid.study.toml import to_toml
from tests.study.shell import call
from tests.study.small import STUDY, write_data

TABLES = tomllib.loads(STUDY)


def leaves(table: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key of the study, sections included."""
    for key, value in table.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))


def with_change(path: tuple[str, ...], change: Any) -> dict[str, Any]:
    """The study with the innermost table of a path changed."""
    tables = deepcopy(TABLES)
    table: Any = tables
    for key in path[:-1]:
        table = table[key]
    change(table, path[-1])
    return tables


def misspelt(table: dict[str, Any], key: str) -> None:
    table[f"{key}q"] = table.pop(key)


def malformed_studies() -> Iterator[tuple[str, str, str]]:
    """What was done, the text, and what the message has to name."""
    for path in leaves(TABLES):
        name = ".".join(path)
        if path[-1] != "name":
            yield f"{name} misspelt", to_toml(with_change(path, misspelt)), path[-1]
        for value in (True, [], [1, "a"], {"a": {}}):
            if value is True or path[-1] != "samples":
                changed = with_change(path, lambda table, key, value=value: table.update({key: value}))
                yield f"{name} = {value}", to_toml(changed), path[-1]
    for key in ("data", "model", "parameters", "initial"):
        yield f"no {key}", to_toml({k: v for k, v in TABLES.items() if k != key}), ""
    lines = STUDY.splitlines()
    for k, line in enumerate(lines):
        if '"' in line:
            broken = line[: line.rindex('"')]
            yield f"line {k + 1} cut", "\n".join([*lines[:k], broken, *lines[k + 1 :]]), f"line {k + 1}"


def cell(lines: list[str], row: int, column: int, text: str) -> str:
    cells = lines[row].split(",")
    cells[column] = text
    return "\n".join([*lines[:row], ",".join(cells), *lines[row + 1 :]])


def malformed_data(lines: list[str]) -> Iterator[tuple[str, bytes, str]]:
    """What was done, the file, and what the message has to name: lines are counted from 1, the header is the first."""
    draw = random.Random(0)
    for word in ("broken", "1.2.3", "--", "12 N", "=A1", "true story"):
        for column in (0, 1, 2):
            row = draw.randrange(1, len(lines))
            yield f"{word} in column {column}", cell(lines, row, column, word).encode(), f"line {row + 1}"
    for text in ("", "nan", "inf", "-inf", "NA"):
        for column in (0, 1):
            row = draw.randrange(1, len(lines))
            yield f"{text!r} in column {column}", cell(lines, row, column, text).encode(), f"line {row + 1}"
    for _ in range(6):
        row = draw.randrange(3, len(lines))
        yield "time repeated", cell(lines, row, 0, lines[row - 1].split(",")[0]).encode(), f"line {row + 1}"
        yield "time back", cell(lines, row, 0, "-1").encode(), f"line {row + 1}"
        more = "\n".join([*lines[:row], lines[row] + ",7", *lines[row + 1 :]])
        yield "a cell too many", more.encode(), f"line {row + 1}"
        strange = cell(lines, row, 2, "é").encode("latin-1")
        yield "another encoding", strange, f"line {row + 1}"
    for column, name in enumerate(("t", "u", "y")):
        yield f"{name} renamed", cell(lines, 0, column, "other").encode(), f"'{name}'"
    yield "two of a name", cell(lines, 0, 0, "u").encode(), "'u'"
    yield "empty", b"", "lag.csv is empty"
    yield "header alone", lines[0].encode(), "lag.csv"
    yield "binary", bytes(range(256)) * 4, "lag.csv"
    yield "too short", "\n".join(lines[:20]).encode(), "train.samples"
    yield "blank lines", b"\n\n\n", "lag.csv"


def check(tmp_path: Path, what: str, named: str) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    answer = call("fit", tmp_path / "lag.toml", "--out", tmp_path / "out")
    assert answer.exit_code == 2, (what, answer)
    assert answer.stderr.startswith("probsysid: "), (what, answer.stderr)
    assert "Traceback" not in answer.stderr and "pydantic" not in answer.stderr, (what, answer.stderr)
    assert named in answer.stderr, (what, named, answer.stderr)
    assert answer.stdout == ""
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before, what


def test_studies(tmp_path: Path) -> None:
    write_data(tmp_path / "lag.csv")
    cases = list(malformed_studies())
    assert len(cases) > 150
    for what, text, named in cases:
        (tmp_path / "lag.toml").write_text(text)
        check(tmp_path, what, named)


def test_data_files(tmp_path: Path) -> None:
    (tmp_path / "lag.toml").write_text(STUDY)
    write_data(tmp_path / "lag.csv")
    cases = list(malformed_data((tmp_path / "lag.csv").read_text().splitlines()))
    assert len(cases) > 50
    for what, content, named in cases:
        (tmp_path / "lag.csv").write_bytes(content)
        check(tmp_path, what, named)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"\xff\xfe\x00", "UTF-8"),
        (b"a = 1\na = 2\n", "line 2"),
        (b"[data\n", "line 1"),
        (b"{}", "TOML"),
        (b"", "`data` is missing"),
        (b"a" * 2_000_000, "is it a study file?"),
        (b"x = " + b"[" * 5000, "TOML"),
        (json.dumps({"data": 1}).encode(), "TOML"),
    ],
)
def test_files_that_are_no_studies(tmp_path: Path, content: bytes, named: str) -> None:
    (tmp_path / "lag.toml").write_bytes(content)
    check(tmp_path, str(content[:20]), named)


def test_no_file(tmp_path: Path) -> None:
    (tmp_path / "lag.toml").write_text(STUDY)
    for name in ("leg.toml", "."):
        answer = call("fit", tmp_path / name)
        assert answer.exit_code == 2
        assert "probsysid: " in answer.stderr
    assert "Did you mean 'lag.toml'?" in call("fit", tmp_path / "leg.toml").stderr
