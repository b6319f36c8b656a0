"""Batches of runs: which are run, which are reused, what failures and interruptions leave; and one small run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib
import pytest

import probsysid as ps
from probsysid._internal.errors import InputError, SamplingError
from probsysid.benchmarks.batch import METHODS, BatchOptions, Cases, run_batch, write_all
from probsysid.benchmarks.case import CaseStudy
from probsysid.benchmarks.result import read_failure, read_results
from probsysid.benchmarks.run import run
from tests.benchmarks.runs import SAMPLES, Runs, context, small_study

matplotlib.use("Agg")


@pytest.mark.long
def test_a_small_run_writes_everything(tmp_path: Path) -> None:
    outcome = run(small_study(), particles=64)
    folder = tmp_path / "results" / "bouc-wen-bouc-wen-default"
    write_all(outcome, folder)
    written = {path.name for path in folder.iterdir()}
    pictures = {"marginals", "corner", "evolution", "degeneracy", "states", "residual_spectrum", "test_simulated"}
    assert written == {"posterior.nc", "result.json", "context.json", "report.html", *(f"{p}.png" for p in pictures)}
    content = json.loads((folder / "result.json").read_text())
    assert list(content) == [
        *("case", "model", "method", "particles", "seed", "seconds", "sweeps", "log_evidence", "log_evidence_error"),
        *("parameters", "test"),
    ]
    assert set(content["parameters"]["m"]) == {"mean", "sd", "q05", "q95"}
    assert list(content["test"]["simulated"]) == [
        "rmse_min",
        "rmse_mean",
        "rmse_max",
        "fit_percent",
        "baseline",
        "coverage",
        "standardised_rms",
    ]
    score = content["test"]["simulated"]
    # A model that explains half of the amplitude of its own training record has been identified at all: a posterior
    # far from the data has the error of the baseline, one at the truth that of the noise, some per cent of it.
    assert score["rmse_min"] <= score["rmse_mean"] <= score["rmse_max"] < 0.5 * score["baseline"]
    html = (folder / "report.html").read_text()
    assert html.count("data:image/png;base64,") == len(pictures)
    assert "http" not in html
    assert ps.Posterior.load(folder / "posterior.nc").mean("m") == content["parameters"]["m"]["mean"]
    evolution = outcome.evolution.quantiles(outcome.posterior)
    assert evolution["samples"].values[-1] == SAMPLES
    assert evolution["m"].values[-1].tolist() == list(outcome.posterior.quantile("m", [0.05, 0.5, 0.95]))


def cases() -> Cases:
    """Two cases with three models in all."""
    study = small_study()
    study = replace(study, methods={name: study.methods["default"] for name in METHODS})

    def make(case: str) -> Callable[..., CaseStudy]:
        return lambda folder, variant: replace(study, case=case, variant=variant)

    return {"silverbox": (make("silverbox"), ("duffing",)), "emps": (make("emps"), ("friction", "asymmetric"))}


class Batch:
    """`run_batch` on the two cases in a folder, with runs that take no time."""

    def __init__(self, folder: Path) -> None:
        self.runs = Runs()
        self.options = BatchOptions(out=folder / "benchmarks", json=folder / "all.json")
        self.cases = cases()

    def __call__(self, case: str = "all", method: str | None = None, **changes: object) -> None:
        run_batch(case, method, options=replace(self.options, **changes), cases=self.cases, execute=self.runs)

    @property
    def written(self) -> list[str]:
        """The runs whose results are in the file."""
        assert self.options.json is not None
        return [f"{r.case}-{r.model}-{r.method}" for r in read_results(self.options.json)]


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    return Batch(tmp_path)


EVERYTHING = [
    f"{study}-{method}" for study in ("silverbox-duffing", "emps-friction", "emps-asymmetric") for method in METHODS
]


def test_all_runs_every_case_model_and_method_into_one_list(batch: Batch) -> None:
    batch()
    assert batch.runs.asked == batch.written == EVERYTHING


def test_all_with_one_method(batch: Batch) -> None:
    batch(method="paper")
    assert batch.runs.asked == [name for name in EVERYTHING if name.endswith("-paper")]


def test_a_failing_case_does_not_lose_the_others_and_only_it_is_repeated(batch: Batch) -> None:
    failed = ["silverbox-duffing-default", "emps-friction-default"]
    batch.runs.failing = {failed[0]: SamplingError("all particles are lost"), failed[1]: ZeroDivisionError("by zero")}
    with pytest.raises(SamplingError, match=r"duffing, method default: all particles.*ZeroDivisionError, by zero"):
        batch()
    assert batch.written == [name for name in EVERYTHING if name not in failed]
    batch.runs = Runs()
    batch()
    assert batch.runs.asked == failed
    assert batch.written == EVERYTHING


def test_a_failing_preset_of_the_paper_is_a_finding(batch: Batch, capsys: pytest.CaptureFixture[str]) -> None:
    name = "emps-friction-paper"
    file = batch.options.out / name / "failure.json"
    batch.runs.failing = {name: SamplingError("one particle is left")}
    batch()
    assert "failed: one particle is left" in capsys.readouterr().out
    assert batch.written == [other for other in EVERYTHING if other != name]
    failure = read_failure(file)
    assert (failure.case, failure.model, failure.method) == ("emps", "friction", "paper")
    batch.runs.failing = {}
    batch()
    assert batch.written == EVERYTHING
    assert not file.exists()


def test_an_interrupted_command_keeps_completed_runs(batch: Batch) -> None:
    batch.runs.failing = {EVERYTHING[1]: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        batch()
    assert batch.written == EVERYTHING[:1]
    assert batch.options.json is not None
    assert isinstance(json.loads(batch.options.json.read_text()), list)


def test_runs_with_other_options_unfinished_ones_and_requested_ones_are_repeated(batch: Batch) -> None:
    batch()
    for options in ({"seed": 1}, {"seed": 1, "particles": 8}, {"seed": 1, "particles": 8, "again": True}):
        batch.runs = Runs()
        batch(**options)
        assert batch.runs.asked == EVERYTHING
    folder = batch.options.out
    (folder / EVERYTHING[0] / "report.html").unlink()
    (folder / EVERYTHING[1] / "result.json").write_text("{")
    (folder / EVERYTHING[2] / "context.json").write_text(context(version="0.0").model_dump_json())
    batch.runs = Runs()
    batch(seed=1, particles=8)
    assert batch.runs.asked == EVERYTHING[:3]


def test_one_case_always_runs_and_its_file_is_one_object(batch: Batch) -> None:
    for _ in range(2):
        batch("emps")
    assert batch.runs.asked == ["emps-friction-default"] * 2
    assert batch.options.json is not None
    assert isinstance(json.loads(batch.options.json.read_text()), dict)
    batch.runs.failing = {"emps-friction-default": InputError("particles is 3")}
    with pytest.raises(InputError, match="particles is 3"):
        batch("emps")


ON_CLUSTER = """
import sys
from dataclasses import replace
from pathlib import Path
import probsysid as ps
from probsysid.benchmarks.batch import BatchOptions, run_batch
from probsysid.benchmarks.result import read_results
from probsysid.benchmarks.run import run
from tests.benchmarks.runs import small_study
from tests.parallel.clusters import cluster

out = Path(sys.argv[1])
cases = {"emps": (lambda _, variant: replace(small_study(), case="emps", variant=variant), ("one", "other"))}
with cluster() as workers:
    run_batch("all", "default", options=BatchOptions(64, out=out, json=out / "all.json", cluster=workers), cases=cases)
results = read_results(out / "all.json")
assert [result.model for result in results] == ["one", "other"]  # in the order of the cases
assert all((out / f"emps-{result.model}-default" / "report.html").exists() for result in results)
alone = run(small_study(), particles=64, executor=ps.Threads(cores=1)).result
assert results[0].log_evidence == alone.log_evidence
"""


@pytest.mark.long
def test_cases_are_whole_runs_on_a_cluster(tmp_path: Path) -> None:
    """In a process of its own: functions whose shapes are checked cannot be sent."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", ON_CLUSTER, str(tmp_path)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
