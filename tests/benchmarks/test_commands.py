"""The commands: options that are refused, with one sentence and exit code 2."""

import sys
from pathlib import Path

import pytest

from probsysid import cli
from probsysid._internal.errors import InputError
from probsysid.benchmarks import commands


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROBSYSID_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"case": "silverbix"}, "benchmark is 'silverbix'.*Did you mean 'silverbox'"),
        ({"case": "silverbox", "model": "dufing"}, "model is 'dufing'.*Did you mean 'duffing'"),
        ({"case": "all", "model": "duffing"}, "model is 'duffing', but all cases"),
        ({"case": "bouc-wen", "method": "papr"}, "method is 'papr'.*Did you mean 'paper'"),
        ({"case": "bouc-wen", "particles": 30}, "particles is 30; it must be a multiple of 4"),
        ({"case": "bouc-wen", "seed": -1}, "seed is -1"),
        ({"case": "silverbox"}, "SNLS80mV.mat does not exist; run: probsysid data silverbox"),
        ({"case": "emps", "data": Path("nothing")}, "nothing/emps/DATA_EMPS.mat does not exist; put it there"),
        ({"case": "bouc-wen", "out": Path("taken")}, "out is 'taken', which is a file"),
        ({"case": "bouc-wen", "json": Path(".")}, "json is '.', which is a folder"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(arguments: dict, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match=sentence):
        commands.benchmark(**arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_the_command_line_gives_one_sentence_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["probsysid", "data", "silverbix"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("probsysid: benchmark is 'silverbix'")
