"""The commands: what they refuse, and one small run from beginning to end."""

import json
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import probsysid as ps
from probsysid import cli
from probsysid.benchmarks import commands
from probsysid.benchmarks.case import Fit, Method, Protocol, Study, View, free_run
from probsysid.benchmarks.page import page, read_entries
from probsysid.benchmarks.result import Result, read_results, write_results
from probsysid.benchmarks.run import run
from probsysid.errors import InputError
from tests import duffing

matplotlib.use("Agg")

SAMPLES = 100


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


def small_study() -> Study:
    """A Duffing oscillator in the place of a benchmark."""
    record = duffing.measure(SAMPLES)
    options = duffing.options()
    training = free_run(duffing.model, record, steps=2)
    measured = np.asarray(record.outputs["position"])
    view = View(
        states=("x", "dx"),
        samples=SAMPLES,
        zoom=(float(record.time[40]), float(record.time[60])),
        window=(SAMPLES // 4, SAMPLES),
        measured={"x": "position"},
        units={"x": "m"},
    )
    sampler = ps.Sampler(particles=64)
    return Study(
        case="bouc-wen",
        variant="bouc-wen",
        model=duffing.model,
        record=record,
        priors=options["priors"],
        initial=options["initial"],
        methods={"default": Method(options["solver"], sampler)},
        protocols=(Protocol("simulated", record, training),),
        equation="m x'' + c x' + k x + k3 x^3 = u",
        fits={"simulated": Fit("the same record", measured, training)},
        guess=duffing.TRUTH,
        view=view,
        training=training,
        truth=duffing.TRUTH,
    )


@pytest.mark.long
def test_a_small_run_writes_everything(tmp_path: Path) -> None:
    outcome = run(small_study(), particles=64)
    folder = tmp_path / "results" / "bouc-wen-bouc-wen-default"
    commands.write_all(outcome, folder)
    written = {path.name for path in folder.iterdir()}
    pictures = {"marginals", "corner", "evolution", "degeneracy", "states", "residual_spectrum", "test_simulated"}
    assert written == {"posterior.nc", "result.json", "context.json", "report.html", *(f"{p}.png" for p in pictures)}
    content = json.loads((folder / "result.json").read_text())
    assert list(content) == [
        *("case", "model", "method", "particles", "seed", "seconds", "sweeps", "log_evidence", "log_evidence_error"),
        *("parameters", "test"),
    ]
    assert set(content["parameters"]["m"]) == {"mean", "sd", "q05", "q95"}
    assert list(content["test"]["simulated"]) == ["rmse_min", "rmse_mean", "rmse_max", "fit_percent", "baseline"]
    score = content["test"]["simulated"]
    assert score["rmse_min"] <= score["rmse_mean"] <= score["rmse_max"] < 0.5 * score["baseline"]
    html = (folder / "report.html").read_text()
    assert html.count("data:image/png;base64,") == len(pictures)
    assert "http" not in html
    assert ps.Posterior.load(folder / "posterior.nc").mean("m") == content["parameters"]["m"]["mean"]
    evolution = outcome.evolution.quantiles(outcome.posterior)
    assert evolution["samples"].values[-1] == SAMPLES
    assert evolution["m"].values[-1].tolist() == list(outcome.posterior.quantile("m", [0.05, 0.5, 0.95]))
    text = page(read_entries(folder.parent))
    assert "| bouc-wen | default | simulated |" in text


def result(**changes: object) -> Result:
    summary = {"mean": 1.0, "sd": 0.1, "q05": 0.9, "q95": 1.1}
    score = {"rmse_min": 1.0, "rmse_mean": 2.0, "rmse_max": 3.0, "fit_percent": 90.0, "baseline": 9.0}
    start = {"case": "emps", "model": "friction", "method": "default", "particles": 8, "seed": 0, "seconds": 1.0}
    rest = {"sweeps": 2.0, "log_evidence": -1.0, "log_evidence_error": None}
    return Result.model_validate({**start, **rest, "parameters": {"M": summary}, "test": {"t": score}, **changes})


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
