"""From a study file to a folder of results, through the command line."""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer

import probsysid as ps
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.study import commands, output_folder, run, terminal_tables
from probsysid.study.freerun import free_runs
from probsysid.study.resolve import ResolvedStudy
from tests.study.shell import call
from tests.study.small import GAIN, RATE, STUDY, fitted, loaded, write_study


def test_the_folder_is_complete() -> None:
    folder = fitted()
    out = folder / "lag-results"
    expected = {"posterior.nc", "summary.csv", "summary.json", "rejuvenations.csv", "figures"}
    expected |= {"report.html", "study.toml", "log.txt"}
    assert {p.name for p in out.iterdir()} == expected
    assert {p.name for p in (out / "figures").iterdir()} == {
        "marginals.png",
        "fit-lag-train-level.png",
        "fit-lag-test-level.png",
    }
    assert {p.name for p in folder.iterdir()} == {"lag.csv", "lag.toml", "lag-results", "copy.json"}


def test_the_numbers_are_those_of_the_posterior() -> None:
    folder = fitted()
    out = folder / "lag-results"
    posterior = ps.Posterior.load(out / "posterior.nc")
    summary = json.loads((out / "summary.json").read_text())
    assert json.loads((folder / "copy.json").read_text())["models"] == summary["models"]
    found = summary["models"]["lag"]
    assert found["log_evidence"] == posterior.log_evidence
    assert found["parameters"]["a"]["mean"] == posterior.mean("a")
    assert found["parameters"]["a"]["unit"] == "1/s"
    assert found["identifiability"] == []
    # two quantities beyond 4 sd: probability 1.3e-4 over data sets
    assert abs(posterior.mean("a") - RATE) < 4 * posterior.sd("a")
    assert abs(posterior.mean("b") - GAIN) < 4 * posterior.sd("b")
    # the free run leaves the noise, 2 % of a range of three: the fit is well over 95 %
    assert found["scores"]["lag.csv"]["test"]["level"]["fit_percent"] > 95
    assert summary["data"][0]["train"] == [0, 40]


def asking_for(draws: int) -> ResolvedStudy:
    resolved, _, _ = loaded()
    sampler = resolved.study.sampler.model_copy(update={"refine": draws})
    report = resolved.study.report.model_copy(update={"states": False, "draws": 2})
    return replace(resolved, study=resolved.study.model_copy(update={"sampler": sampler, "report": report}))


def test_fresh_draws_at_the_end() -> None:
    """A study that asks for fresh draws gets them, once."""
    asking = asking_for(128)
    _, _, (found,) = loaded()
    result = run.work_out(asking, found.candidate, found.posterior, lambda _: None)
    expected = found.posterior.refined(128, seed=asking.study.seed)
    np.testing.assert_array_equal(result.posterior.theta, expected.theta)
    again = run.work_out(asking, found.candidate, result.posterior, lambda _: None)
    np.testing.assert_array_equal(again.posterior.theta, expected.theta)


def test_fresh_draws_that_fail_are_a_remark() -> None:
    """Around particles where the model overflows, no draw has any weight; the results are those of the run."""
    _, _, (found,) = loaded()
    astray = replace(found.posterior, theta=found.posterior.theta + 700.0)
    with pytest.raises(ps.SamplingError) as error:
        astray.refined(128)
    result = run.work_out(asking_for(128), found.candidate, astray, lambda _: None)
    assert result.problems[0] == str(error.value).rstrip(".")
    assert result.posterior is astray


def test_the_study_as_used_gives_the_same_numbers() -> None:
    folder = fitted()
    used = folder / "lag-results" / "study.toml"
    assert tomllib.loads(used.read_text())["data"]["file"] == os.path.join("..", "lag.csv")
    resolved, _ = run.load_study(used)
    original, _ = run.load_study(folder / "lag.toml")
    np.testing.assert_array_equal(resolved.training[0].outputs["level"], original.training[0].outputs["level"])
    assert resolved.sampler == original.sampler and resolved.study.seed == original.study.seed


def test_results_are_not_overwritten_without_a_word() -> None:
    folder = fitted()
    before = (folder / "lag-results" / "summary.json").read_bytes()
    result = call("fit", folder / "lag.toml")
    assert result.exit_code == 2
    assert "holds results already; choose another folder with --out, or add --overwrite" in result.stderr
    assert (folder / "lag-results" / "summary.json").read_bytes() == before


def test_a_folder_of_something_else_is_never_overwritten(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    result = call("fit", study, "--out", tmp_path / "thesis", "--overwrite")
    assert result.exit_code == 2
    assert "holds something else than results" in result.stderr
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "years of work"


def test_the_report_can_be_written_again() -> None:
    folder = fitted()
    assert call("report", folder).exit_code == 2
    result = call("report", folder / "lag-results", "--out", folder / "copy.html")
    assert result.exit_code == 0, result.stderr
    # Bokeh's identifiers are new on every page; the data file is named as in the study that was read.
    changing = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\bp\d+\b")
    again, first = (
        changing.sub("", (folder / name).read_text()).replace("../lag.csv", "lag.csv")
        for name in ("copy.html", "lag-results/report.html")
    )
    assert again == first
    (folder / "copy.html").unlink()


@pytest.mark.long
def test_a_stopped_run_resumes_to_the_same_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = write_study(tmp_path, STUDY.replace("draws = 32", "draws = 2\nstates = false"))
    steps: list[StepInfo] = []

    def stop(_: IBISState, step: StepInfo) -> None:
        steps.append(step)
        if len(steps) == 4:
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as stopped:
        commands.fit_study(study, quiet=True, notice=stop)
    assert stopped.value.exit_code == 130
    assert f"To go on: probsysid fit {study} --resume" in capsys.readouterr().err
    assert not (tmp_path / "lag-results").exists()
    assert (tmp_path / "lag-results.unfinished" / "lag.npz").exists()

    refused = call("fit", study)
    assert refused.exit_code == 2
    assert "holds an unfinished run; go on with --resume" in refused.stderr

    other = call("fit", study, "--resume", "--seed", 5)
    assert other.exit_code == 2
    assert "belongs to another problem" in other.stderr

    resumed = call("fit", study, "--resume", "--quiet")
    assert resumed.exit_code == 0, resumed.stderr
    assert resumed.stdout == ""
    assert not (tmp_path / "lag-results.unfinished").exists()
    first, second = (ps.Posterior.load(p / "lag-results" / "posterior.nc") for p in (fitted(), tmp_path))
    np.testing.assert_array_equal(first.theta, second.theta)
    np.testing.assert_array_equal(first.weights, second.weights)


def test_results_are_read_with_the_model_of_the_study() -> None:
    resolved, _, (posterior,) = run.load_posteriors(fitted() / "lag-results")
    assert posterior.setup.problem is resolved.candidates[0].problem


def test_a_damaged_checkpoint_is_named_with_a_way_out(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    left = tmp_path / "lag-results.unfinished"
    left.mkdir()
    (left / "lag.npz").write_bytes(b"PK and nonsense")
    answer = call("fit", study, "--resume", "--quiet")
    assert answer.exit_code == 2
    assert "lag.npz is not a checkpoint, or is damaged" in answer.stderr
    assert "write --overwrite in place of --resume" in answer.stderr
    assert (left / "lag.npz").read_bytes() == b"PK and nonsense"


def test_remarks_are_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, (found,) = loaded()
    frame = found.table().assign(flags="tied to b (0.98)")
    a = np.exp(np.random.default_rng(0).standard_normal(256))
    tied = replace(found.posterior, values={**found.posterior.values, "a": a, "b": 2.0 / a})
    flagged: Any = SimpleNamespace(**{**vars(found), "posterior": tied}, table=lambda: frame, trusted=True)
    monkeypatch.setenv("COLUMNS", "60")
    terminal_tables.show_results([flagged])
    shown = capsys.readouterr().out
    assert "a: tied to b (0.98)" in shown
    assert "not identified: only a*b is known: 2 +- " in shown


def test_numbers_are_kept_whatever_fails_in_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolved, tables, results = loaded()

    def breaks(*_: object, **__: object) -> None:
        raise AssertionError("no such font")

    for name in ("probsysid.report.figures.plot_marginals", "probsysid.study.report_views.write_study_page"):
        monkeypatch.setattr(name, breaks)
    sentences = run.write_results(resolved, tables, results, tmp_path, tmp_path)
    assert sentences == [f"{name} could not be drawn (no such font)" for name in ("marginals.png", "report.html")]
    names = {p.name for p in tmp_path.rglob("*.*")}
    assert {"posterior.nc", "summary.csv", "summary.json", "study.toml", "fit-lag-test-level.png"} <= names


def test_what_is_written_later_is_checked_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The study as used and the typeset equations do not depend on the results."""
    monkeypatch.setattr("probsysid.study.run.to_toml", lambda _: "")
    answer = call("fit", write_study(tmp_path), "--quiet")
    assert answer.exit_code == 2 and "cannot be written again as TOML" in answer.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"lag.csv", "lag.toml"}


def test_names_of_figures_fit_on_any_file_system() -> None:
    resolved, tables, (found,) = loaded()
    (item,) = resolved.measured
    long = replace(item, record=item.record.replace(name="µ" * 300 + "/x"))
    renamed = replace(found, runs=[replace(run_, measured=long) for run_ in found.runs])
    with tempfile.TemporaryDirectory() as folder:
        assert run.write_results(resolved, tables, [renamed], Path(folder), Path(folder)) == []


@pytest.mark.long
def test_several_models_have_a_folder_each_and_a_comparison(tmp_path: Path) -> None:
    resolved, tables, (found,) = loaded()
    better = replace(found.posterior, evidence_by_population=found.posterior.evidence_by_population + 3.0)
    other = run.CandidateResult(replace(found.candidate, name="other"), better, {}, found.runs)
    run.write_results(resolved, tables, [found, other], tmp_path, tmp_path)
    assert {p.name for p in tmp_path.iterdir() if p.is_dir()} == {"lag", "other"}
    assert {"posterior.nc", "summary.csv", "figures"} <= {p.name for p in (tmp_path / "other").iterdir()}
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [row["model"] for row in summary["comparison"]] == ["other", "lag"]
    assert summary["comparison"][1]["below_best"] == pytest.approx(3.0)
    # two models, equally likely before: 1 / (1 + exp(-3))
    assert summary["comparison"][0]["probability"] == pytest.approx(0.9525741, rel=1e-6)
    assert "The best of 2 models by evidence is <b>other</b>" in (tmp_path / "report.html").read_text()


def test_free_runs_start_where_something_is_known() -> None:
    """A test after the training range continues its run; others start as the study says, or from first samples."""
    resolved, _, (found,) = loaded()
    (item,) = resolved.measured
    early = replace(item, train=slice(20, 60), test=slice(0, 10))
    alone = replace(item, train=None, test=slice(0, 60), skip=5)
    given = replace(alone, section=alone.section.model_copy(update={"initial": {"h": 0.25}}))
    runs = free_runs(found.posterior, (item, alone, given), 8) + free_runs(found.posterior, (early,), 8)
    assert [(r.train, r.test, r.start) for r in runs] == [
        (slice(0, 40), slice(40, 60), "each particle's own initial state"),
        (None, slice(0, 60), "the state estimated from the first 15 samples"),
        (None, slice(0, 60), "the given initial state"),
        (slice(0, 40), None, "the state estimated from the first 10 samples"),
        (None, slice(0, 10), "the state estimated from the first 2 samples"),
    ]
    own = found.posterior.values["initial.h"][runs[0].simulation.chosen]
    np.testing.assert_array_equal(runs[0].simulation.outputs["level"][:, 0], own)
    assert np.all(runs[2].simulation.outputs["level"][:, 0] == 0.25)


def test_scores_leave_out_what_the_start_was_estimated_from() -> None:
    resolved, _, (found,) = loaded()
    (item,) = resolved.measured
    (run,) = free_runs(found.posterior, (replace(item, train=None, test=slice(0, 60), skip=5),), 8)
    part = run.part("test")
    assert part is not None and part.skip == 15
    errors = part.outputs["level"][:, 15:] - np.asarray(part.record.outputs["level"])[15:]
    scores = run.scores()["test"]["level"]
    assert scores["rmse"] == pytest.approx(np.mean(np.sqrt(np.mean(errors**2, axis=1))))
    inside = [
        low <= y <= high
        for low, y, high in zip(
            run.bands["level"].low, item.record.outputs["level"], run.bands["level"].high, strict=True
        )
    ]
    assert scores["coverage"] == pytest.approx(np.mean(inside[15:]))


def test_nothing_to_resume(tmp_path: Path) -> None:
    result = call("fit", write_study(tmp_path), "--resume")
    assert result.exit_code == 2
    assert "there is no unfinished run to resume" in result.stderr


def test_a_run_that_cannot_succeed_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    text = STUDY.replace('"a*(b*u - h)"', '"sqrt(-a) + b*u"')
    study = write_study(tmp_path, text)
    result = call("fit", study)
    assert result.exit_code == 1
    assert "lost at sample" in result.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"lag.csv", "lag.toml"}


def test_a_failure_while_writing_leaves_no_half_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "results"
    with pytest.raises(OSError, match="disk full"), output_folder.complete(out) as partial:
        (partial / "half").write_text("x")
        raise OSError("disk full")
    assert list(tmp_path.iterdir()) == []
    with output_folder.complete(out) as partial:
        (partial / "summary.json").write_text("1")
    with output_folder.complete(out) as partial:
        (partial / "summary.json").write_text("2")
    assert (out / "summary.json").read_text() == "2"
    assert list(tmp_path.iterdir()) == [out]


def test_what_a_run_left_that_was_killed_while_writing_is_taken_away(tmp_path: Path) -> None:
    out, left = tmp_path / "results", tmp_path / "results.unfinished"
    for name in ("results", "replaced"):
        (left / name).mkdir(parents=True)
        (left / name / "half").write_text("x")
    with output_folder.complete(out) as partial:
        (partial / "summary.json").write_text("1")
    assert [p.name for p in tmp_path.rglob("*")] == ["results", "summary.json"]


@pytest.mark.parametrize("command", ["fit", "new", "check", "report"])
def test_help_has_an_example_or_says_what_it_reads(command: str) -> None:
    result = call(command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout or "Reads" in result.stdout


def test_the_version_is_told() -> None:
    assert call("--version").stdout == f"probsysid {ps.__version__}\n"


def test_a_mistake_at_the_shell_has_no_traceback(tmp_path: Path) -> None:
    study = write_study(tmp_path, STUDY.replace("particles = 256", "particle = 256"))
    shell = subprocess.run(
        [sys.executable, "-m", "probsysid", "fit", str(study)], capture_output=True, text=True, cwd=tmp_path
    )
    assert shell.returncode == 2
    assert shell.stderr == f"probsysid: {study}: unknown key `sampler.particle`; did you mean `particles`?\n"
    assert shell.stdout == ""
    assert {p.name for p in tmp_path.iterdir()} == {"lag.csv", "lag.toml"}


@pytest.mark.long
def test_given_steps_are_judged(tmp_path: Path) -> None:
    answer = call("fit", write_study(tmp_path, f"{STUDY}\n[solver]\nsubsteps = 1\n"))
    assert answer.exit_code == 0, answer.stderr
    posterior = run.load_results(tmp_path / "lag-results")[2][0].posterior
    assert "1 step per sample against 2" in posterior.verdict
    assert "integration error" in (tmp_path / "lag-results" / "report.html").read_text()
