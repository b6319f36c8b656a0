"""Results of a study: runs that are not to be trusted are marked, and give no probabilities of models."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from probsysid.posterior.diagnostics.sampling_check import LaplaceCheck
from probsysid.report import sections
from probsysid.study import run
from probsysid.study.results import CandidateResult, comparison
from tests.study.shell import call
from tests.study.small import STUDY, fitted, loaded, write_study


def results(*changes: dict[str, float | bool]) -> list[CandidateResult]:
    """Copies of one result with other evidences, errors between populations, and trust."""
    _, _, (posterior,) = run.load_posteriors(fitted() / "lag-results")
    resolved, _ = run.load_study(fitted() / "lag.toml")
    assert posterior.sampling is not None
    found = []
    for number, change in enumerate(changes):
        evidence = change["evidence"] + change.get("error", 0.0) * np.sqrt(2.0) * np.array([-1.0, 1.0])
        sampling = replace(posterior.sampling, evidence_spread=0.1 if change.get("trusted", True) else 50.0)
        other = replace(posterior, evidence_by_population=evidence, sampling=sampling)
        candidate = replace(resolved.candidates[0], name=f"model {number}")
        found.append(CandidateResult(candidate, other, {}, []))
    return found


def test_probabilities_follow_from_evidences() -> None:
    table = comparison(results({"evidence": -3.0}, {"evidence": -1.0}))
    assert list(table.index) == ["model 1", "model 0"] and table["trusted"].all()
    np.testing.assert_allclose(table["probability"], [1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))])


def test_no_probabilities_from_a_run_that_is_not_to_be_trusted() -> None:
    table = comparison(results({"evidence": -300.0, "trusted": False}, {"evidence": -1.0}))
    assert table["probability"].isna().all()
    assert list(table["trusted"]) == [True, False]


def test_no_probabilities_from_evidences_whose_errors_overlap() -> None:
    """The error of a mean over two populations is their distance over 2: here 13 each, for a difference of 20."""
    overlapping = comparison(results({"evidence": -20.0, "error": 13.0}, {"evidence": 0.0, "error": 13.0}))
    assert overlapping["probability"].isna().all()
    far = comparison(results({"evidence": -200.0, "error": 13.0}, {"evidence": 0.0, "error": 13.0}))
    assert far["probability"].iloc[0] == 1.0


def test_no_probabilities_from_evidences_of_unknown_error() -> None:
    """A single population has no spread."""
    found = results({"evidence": -20.0}, {"evidence": 0.0})
    one = replace(found[0].posterior, evidence_by_population=np.array([-20.0]))
    assert np.isnan(one.log_evidence_error)
    assert comparison([replace(found[0], posterior=one), found[1]])["probability"].isna().all()


def test_no_probabilities_from_an_integration_that_matters() -> None:
    found = results({"evidence": -20.0}, {"evidence": 0.0})
    check = found[0].posterior.check
    assert check is not None
    coarse = replace(found[0].posterior, check=replace(check, shape=2.0, loss=0.5))
    table = comparison([replace(found[0], posterior=coarse), found[1]])
    assert table["probability"].isna().all()
    assert list(table["sampling"]) == ["trusted", "trusted, integration error not negligible"]


def test_a_fit_that_is_not_to_be_trusted_has_its_own_exit_code(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    answer = call("fit", study, "--particles", "32")
    assert answer.exit_code == 4, answer.stderr
    assert "not to be trusted" in answer.stdout
    page = (tmp_path / "lag-results" / "report.html").read_text()
    assert "the sampling is not to be trusted" in page
    assert page.index("the sampling is not to be trusted") < page.index('class="key"')


def test_a_first_answer_is_labelled_everywhere(tmp_path: Path) -> None:
    """`--method map`: not sampled, and said in the terminal, the summary, the report and the folder that resumes."""
    study = write_study(tmp_path)
    answer = call("fit", study, "--method", "map")
    assert answer.exit_code == 0, answer.stderr
    words = "Laplace approximation around the mode, not sampled"
    assert words in answer.stdout
    out = tmp_path / "lag-results"
    found = json.loads((out / "summary.json").read_text())["models"]["lag"]
    assert found["trusted"] is False and found["sampling"] == "Laplace approximation"
    assert found["settings"]["method"] == "map" and words in found["settings"]["sampling_verdict"]
    # the mode of a posterior that is almost Gaussian is at its mean, to a fraction of its width
    for name in ("a", "b"):
        numbers = found["parameters"][name]
        assert abs(found["map"]["values"][name] - numbers["mean"]) < 0.3 * numbers["sd"]
    page = (out / "report.html").read_text()
    assert page.index(words) < page.index('class="key"')
    assert 'method = "map"' in (out / "study.toml").read_text()
    assert call("report", out).exit_code == 0


def test_another_method_is_a_mistake_in_the_study(tmp_path: Path) -> None:
    answer = call("fit", write_study(tmp_path), "--method", "mcmc")
    assert answer.exit_code == 2 and "sampler.method" in answer.stderr


def test_approximations_are_compared_without_probabilities() -> None:
    sampled = results({"evidence": -3.0}, {"evidence": -1.0})
    other = sampled[0].posterior
    laplace = LaplaceCheck(modes=1, draws=256, pareto_shape=0.1, effective=250.0, weighted_evidence=-3.0)
    approximate = replace(other, sampling=replace(other.sampling, laplace=laplace))
    table = comparison([replace(sampled[0], posterior=approximate), sampled[1]])
    assert list(table["sampling"]) == ["trusted", "Laplace approximation"]
    assert table["probability"].isna().all()


def test_models_are_compared_by_their_errors_on_test_data_too() -> None:
    _, _, (with_runs,) = loaded()
    other = replace(with_runs, candidate=replace(with_runs.candidate, name="without"), runs=[])
    table = comparison([with_runs, other])
    (run,) = with_runs.runs
    expected = run.scores()["test"]["level"]["rmse"]
    assert table.loc[with_runs.candidate.name, "test rmse of level"] == pytest.approx(expected)
    assert np.isnan(table.loc["without", "test rmse of level"])
    part = run.part("test")
    assert part is not None
    twice = comparison([replace(with_runs, runs=[run, run]), other])
    assert twice.loc[with_runs.candidate.name, "test rmse of level"] == pytest.approx(expected)
    shown = sections.comparison(table)
    assert shown.head[-1] == "test rmse of level" and [row[-1] for row in shown.rows].count("") == 1


def test_each_model_may_have_a_solver_of_its_own(tmp_path: Path) -> None:
    common = "[solver]\nsubsteps = 2\nsmoothness = 3\n"
    two = STUDY.replace("[model]\n", "[[model]]\n") + common
    own = two.replace('level = "h"\n', 'level = "h"\n\n[model.solver]\nsubsteps = 4\n', 1)
    resolved, _ = run.load_study(write_study(tmp_path, own))
    (candidate,) = resolved.candidates
    assert (candidate.solver.substeps, candidate.solver.smoothness) == (4, 3)
    wrong = write_study(tmp_path, own.replace("substeps = 4", "substeps = 0"))
    answer = call("check", wrong)
    assert answer.exit_code == 2 and "model.solver" in answer.stderr
    changed = call("check", write_study(tmp_path, own.replace("substeps = 4", "substep = 4")))
    assert changed.exit_code == 2 and "did you mean `substeps`" in changed.stderr
