"""Files of results: written, read back, and refused if they are something else."""

import json
from pathlib import Path

import pytest

from probsysid._internal.errors import InputError
from probsysid.benchmarks.result import read_results, write_results
from tests.benchmarks.runs import result


def test_one_result_is_an_object_and_several_are_a_list(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "one.json"
    write_results(path, [result()])
    assert isinstance(json.loads(path.read_text()), dict)
    assert read_results(path) == [result()]
    write_results(path, [result(), result(seed=1)])
    assert isinstance(json.loads(path.read_text()), list)
    assert [r.seed for r in read_results(path)] == [0, 1]


def test_a_file_without_results_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"case": "emps"}')
    with pytest.raises(InputError, match=r"x\.json is not a file of benchmark results"):
        read_results(path)
