"""The commands: what they refuse, and one small run from beginning to end."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from rich.console import Console

import probsysid as ps
from probsysid import cli
from probsysid._internal.errors import InputError, SamplingError
from probsysid.benchmarks import commands, emps, silverbox
from probsysid.benchmarks.case import CaseStudy, FigureSettings, LeastSquaresFit, Method, ScoringProtocol, free_run
from probsysid.benchmarks.page import FINDINGS, Entry, page, read_entries, read_failures
from probsysid.benchmarks.result import Context, RunResult, read_results, write_results
from probsysid.benchmarks.run import Finished, run
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


def small_study() -> CaseStudy:
    """A Duffing oscillator in the place of a benchmark."""
    record = duffing.measure(SAMPLES)
    options = duffing.options()
    training = free_run(duffing.model, record, steps=2)
    measured = np.asarray(record.outputs["position"])
    view = FigureSettings(
        states=("x", "dx"),
        samples=SAMPLES,
        zoom=(float(record.time[40]), float(record.time[60])),
        window=(SAMPLES // 4, SAMPLES),
        measured={"x": "position"},
        units={"x": "m"},
    )
    sampler = ps.Sampler(particles=64)
    return CaseStudy(
        case="bouc-wen",
        variant="bouc-wen",
        model=duffing.model,
        record=record,
        priors=options["priors"],
        initial=options["initial"],
        methods={"default": Method(options["solver"], sampler)},
        protocols=(ScoringProtocol("simulated", record, training),),
        equation="m x'' + c x' + k x + k3 x^3 = u",
        fits={"simulated": LeastSquaresFit("the same record", measured, training)},
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


def result(**changes: object) -> RunResult:
    summary = {"mean": 1.0, "sd": 0.1, "q05": 0.9, "q95": 1.1}
    score = {"rmse_min": 1.0, "rmse_mean": 2.0, "rmse_max": 3.0, "fit_percent": 90.0, "baseline": 9.0}
    start = {"case": "emps", "model": "friction", "method": "default", "particles": 8, "seed": 0, "seconds": 1.0}
    rest = {"sweeps": 2.0, "log_evidence": -1.0, "log_evidence_error": None}
    return RunResult.model_validate({**start, **rest, "parameters": {"M": summary}, "test": {"t": score}, **changes})


def context(**changes: object) -> Context:
    start = {"command": "", "date": "", "version": ps.__version__, "machine": "", "record_samples": 1}
    return Context.model_validate({**start, "settings": {}, "limits": {}, **changes})


class Runs:
    """Stands in for the runs of `benchmark`: notes which were asked for, fails those that are to fail."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failing: dict[str, Exception] = {}

    def __call__(
        self, study: CaseStudy, method: str, particles: int | None, seed: int, folder: Path, console: Console
    ) -> Finished:
        self.asked.append(folder.name)
        if folder.name in self.failing:
            raise self.failing[folder.name]
        names = {"case": study.case, "model": study.variant, "method": method}
        done = result(**names, particles=particles or 64, seed=seed, test={"simulated": result().test["t"]})
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text(done.model_dump_json())
        (folder / "context.json").write_text(context().model_dump_json())
        (folder / "report.html").write_text("")
        return Finished(study, done, context())


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Two cases with three models in all, and runs that take no time."""
    study = small_study()
    study = replace(study, methods={name: study.methods["default"] for name in commands.METHODS})

    def make(case: str) -> Callable[..., CaseStudy]:
        return lambda folder, variant: replace(study, case=case, variant=variant)

    monkeypatch.setattr(
        commands,
        "CASES",
        {"silverbox": (make("silverbox"), ("duffing",)), "emps": (make("emps"), ("friction", "asymmetric"))},
    )
    stand_in = Runs()
    monkeypatch.setattr(commands, "_run", stand_in)
    return stand_in


EVERYTHING = [
    f"{study}-{method}"
    for study in ("silverbox-duffing", "emps-friction", "emps-asymmetric")
    for method in commands.METHODS
]


def ran(path: Path) -> list[str]:
    """The runs that a file has results of."""
    return [f"{r.case}-{r.model}-{r.method}" for r in read_results(path)]


def test_all_runs_every_case_model_and_method_into_one_list(runs: Runs, tmp_path: Path) -> None:
    commands.benchmark("all", json=tmp_path / "all.json")
    assert runs.asked == ran(tmp_path / "all.json") == EVERYTHING


def test_all_with_one_method(runs: Runs) -> None:
    commands.benchmark("all", method="paper")
    assert runs.asked == [name for name in EVERYTHING if name.endswith("-paper")]


def test_a_failing_case_does_not_lose_the_others_and_only_it_is_repeated(runs: Runs, tmp_path: Path) -> None:
    file, failed = tmp_path / "all.json", ["silverbox-duffing-default", "emps-friction-default"]
    runs.failing = {failed[0]: SamplingError("all particles are lost"), failed[1]: ZeroDivisionError("by zero")}
    with pytest.raises(SamplingError, match=r"duffing, method default: all particles.*ZeroDivisionError, by zero"):
        commands.benchmark("all", json=file)
    assert ran(file) == [name for name in EVERYTHING if name not in failed]
    runs.asked, runs.failing = [], {}
    commands.benchmark("all", json=file)
    assert runs.asked == failed
    assert ran(file) == EVERYTHING


def test_a_preset_of_the_paper_that_fails_is_a_finding(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.json"
    runs.failing = {"emps-friction-paper": SamplingError("one particle is left")}
    commands.benchmark("all", json=file)
    assert "failed: one particle is left" in capsys.readouterr().out
    assert ran(file) == [name for name in EVERYTHING if name != "emps-friction-paper"]
    (failure,) = read_failures(tmp_path / "benchmarks")
    assert (failure.case, failure.model, failure.method) == ("emps", "friction", "paper")
    entries = [Entry(result(case="emps", model="friction", method="default"), context())]
    assert "| friction | paper | failed: one particle is left |" in page(entries, failures=[failure])
    runs.failing = {}
    commands.benchmark("all", json=file)
    assert ran(file) == EVERYTHING
    assert not read_failures(tmp_path / "benchmarks")


def test_an_interrupted_command_keeps_what_was_done(runs: Runs, tmp_path: Path) -> None:
    runs.failing = {EVERYTHING[1]: KeyboardInterrupt()}  # type: ignore[dict-item]
    with pytest.raises(KeyboardInterrupt):
        commands.benchmark("all", json=tmp_path / "all.json")
    assert ran(tmp_path / "all.json") == EVERYTHING[:1]
    assert isinstance(json.loads((tmp_path / "all.json").read_text()), list)


def test_runs_with_other_options_unfinished_ones_and_those_asked_for_are_repeated(runs: Runs, tmp_path: Path) -> None:
    commands.benchmark("all")
    for options in ({"seed": 1}, {"seed": 1, "particles": 8}, {"seed": 1, "particles": 8, "again": True}):
        runs.asked = []
        commands.benchmark("all", **options)
        assert runs.asked == EVERYTHING
    folder = tmp_path / "benchmarks"
    (folder / EVERYTHING[0] / "report.html").unlink()
    (folder / EVERYTHING[1] / "result.json").write_text("{")
    (folder / EVERYTHING[2] / "context.json").write_text(context(version="0.0").model_dump_json())
    runs.asked = []
    commands.benchmark("all", seed=1, particles=8)
    assert runs.asked == EVERYTHING[:3]


def test_one_case_always_runs_and_its_file_is_one_object(runs: Runs, tmp_path: Path) -> None:
    for _ in range(2):
        commands.benchmark("emps", json=tmp_path / "one.json")
    assert runs.asked == ["emps-friction-default"] * 2
    assert isinstance(json.loads((tmp_path / "one.json").read_text()), dict)
    runs.failing = {"emps-friction-default": InputError("particles is 3")}
    with pytest.raises(InputError, match="particles is 3"):
        commands.benchmark("emps")


def test_the_page_has_the_paper_taken_apart_and_the_command_that_makes_everything(tmp_path: Path) -> None:
    run = {"rmse": 1e-3, "log_evidence": 5.0, "sweeps": 2.0}
    trial = {"case": "emps", "test": "closed_loop", "method": "paper", "taken": ["sampler"], "runs": [run]}
    models = {"bouc-wen": ["bouc-wen"], "silverbox": silverbox.EQUATIONS, "emps": emps.EQUATIONS}
    names = [(case, model, method) for case in models for model in models[case] for method in commands.METHODS]
    entries = [Entry(result(case=c, model=m, method=w), context()) for c, m, w in names]
    text = page(entries, trials=[trial])
    assert "| paper with the default's sampler | 1 | 5 | 2 |" in text
    assert FINDINGS["emps"] in text
    assert FINDINGS["silverbox"] not in text
    everything = "probsysid benchmark all --out RESULTS --json RESULTS/all.json"
    assert everything in text
    assert everything not in page(entries[1:])


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
