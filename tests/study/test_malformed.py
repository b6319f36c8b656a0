"""Two hundred studies and data files with one mistake each: a sentence with its place, and exit code 2."""

import json
import os
import random
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from probsysid.study.toml_writer import to_toml
from tests.study.shell import call
from tests.study.small import STUDY, write_data, write_study

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
    """The change, the resulting text, and what the message has to name."""
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
    """The change, the resulting file, and what the message has to name; lines count from 1, the header."""
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


@pytest.mark.parametrize("name", ["pipe.toml", "device.toml"])
def test_a_study_that_is_no_stored_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path) if name.startswith("pipe") else path.symlink_to("/dev/zero")
    answer = call("fit", path)
    assert answer.exit_code == 2 and "is not a file that is stored" in answer.stderr


def changed(old: str, new: str) -> str:
    assert old in STUDY
    return STUDY.replace(old, new)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (changed("a*(b*u - h)", "a*(b*u - h) + 1/0"), "column 16: 1/0 divides by zero"),
        (changed("a*(b*u - h)", "a*(b*u - h)/(2 - 2)"), "divides by zero"),
        (changed("a*(b*u - h)", "log(-1)*h"), "column 1: log(-1) is nan"),
        (changed("a*(b*u - h)", "h + 9**9**9**9"), "9**9**9 is inf"),
        (changed('level = "h"', 'level = "2*u"'), "'2*u' does not depend on the state"),
        (changed("LogNormal(0, 1)", "LogNormal(50000, 20000)"), "mean and sd are those of the logarithm"),
        (changed("LogNormal(0, 1)", "TruncatedNormal(0, 1, low=50)"), "low is 50, 50 sd from the mean"),
        (changed("LogNormal(0, 1)", "TruncatedNormal(9, 1, high=-3)"), "high is -3, 12 sd from the mean"),
        (changed('unit = "m" }', 'unit = "m", scale = 0 }'), "`data.outputs.level.scale` is 0"),
        (changed('time = "t"', 'time = "t"\nseparator = "\\n"'), "`data.separator`"),
        (changed('time = "t"', 'time = "t"\nseparator = ","\ndecimal = ","'), "both ','"),
        (changed("seed = 1", f"seed = {2**63}"), f"`seed` is {2**63}"),
        (changed("particles = 256", "particles = 1_000_000_000"), "`sampler.particles` is 1000000000"),
        (changed('name = "lag"', f'name = "{"x" * 300}"'), "cannot be the name of a folder"),
        (STUDY + "\n[solver]\ndiffusion = -1\n", "`solver.diffusion` is -1"),
        (
            STUDY + "\n[solver]\nsubsteps = 100_000_000\n",
            "substeps is 100000000; it must be a whole number from 1 to 10000",
        ),
        (changed('unit = "m" }', 'unit = "m", scale = 1e307 }'), "beyond 1e+100 powers overflow"),
    ],
)
def test_studies_that_would_fail_late(tmp_path: Path, text: str, named: str) -> None:
    write_data(tmp_path / "lag.csv")
    (tmp_path / "lag.toml").write_text(text)
    check(tmp_path, named, named)


def refused(folder: Path, *arguments: object) -> str:
    """The message of a command that has to end with exit code 2 and leave the folder unchanged."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    answer = call(*arguments)
    assert answer.exit_code == 2, answer
    assert answer.stdout == "" and "Traceback" not in answer.stderr, answer
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    return answer.stderr


@pytest.mark.parametrize("place", ["lag.csv/results", "x" * 300, "/proc/nowhere"])
def test_folders_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    study = write_study(tmp_path)
    assert "nothing can be written to" in refused(tmp_path, "fit", study, "--out", tmp_path / place)
    assert {path.name for path in tmp_path.iterdir()} == {"lag.csv", "lag.toml"}


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    study, data = write_study(tmp_path), tmp_path / "lag.csv"
    assert "is a folder; name a file" in refused(tmp_path, "fit", study, "--json", tmp_path)
    assert "nothing can be written to" in refused(tmp_path, "fit", study, "--json", tmp_path / ("x" * 300))
    assert "is a folder; name a file" in refused(tmp_path, "check", study, "--out", tmp_path)
    assert "its name may end in .png" in refused(tmp_path, "check", study, "--out", tmp_path / "prior.doc")
    assert "is not the name of a study" in refused(tmp_path, "new", "", "--data", data)
    assert "nothing can be written to" in refused(tmp_path, "new", tmp_path / ("x" * 300), "--data", data)
    (tmp_path / "lag-results.unfinished").write_text("mine")
    assert "is a file" in refused(tmp_path, "fit", study, "--resume")


def test_results_without_a_posterior(tmp_path: Path) -> None:
    write_study(tmp_path)
    results = tmp_path / "results"
    results.mkdir()
    (results / "summary.json").write_text("{}")
    (results / "study.toml").write_text(changed('"lag.csv"', '"../lag.csv"'))
    assert "holds no posterior.nc" in refused(tmp_path, "report", results)
    (results / "posterior.nc").write_bytes(b"CDF and nonsense")
    assert "is not a saved posterior" in refused(tmp_path, "report", results)
