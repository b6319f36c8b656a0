"""The page of benchmark results."""

from pathlib import Path

import pytest

from probsysid.benchmarks.batch import CASES, METHODS
from probsysid.benchmarks.result import Failure
from probsysid.benchmarks.run import save_failure
from tests.benchmarks.runs import context, result
from validation.benchmarks.page import FINDINGS, NOTES, TITLES, PublishedRun, page, read_failures, read_runs


def test_completed_runs_of_a_folder_are_on_the_page(tmp_path: Path) -> None:
    folder = tmp_path / "emps-friction-default"
    folder.mkdir()
    (folder / "result.json").write_text(result().model_dump_json())
    (folder / "context.json").write_text(context().model_dump_json())
    runs = read_runs(tmp_path)
    assert runs == [PublishedRun(result(), context())]
    assert "| friction | default | t |" in page(runs)


def test_failures_of_a_folder_are_on_the_page(tmp_path: Path) -> None:
    failure = Failure(
        case="emps", model="friction", method="paper", particles=8, seed=0, sentence="one particle is left. Too few."
    )
    save_failure(failure, tmp_path / "emps-friction-paper")
    assert read_failures(tmp_path) == [failure]
    runs = [PublishedRun(result(case="emps", model="friction", method="default"), context())]
    assert "| friction | paper | failed: one particle is left |" in page(runs, failures=[failure])


def test_the_page_has_the_ablation_and_the_command_that_runs_everything() -> None:
    run = {"rmse": 1e-3, "log_evidence": 5.0, "sweeps": 2.0}
    trial = {"case": "emps", "test": "closed_loop", "method": "paper", "taken": ["sampler"], "runs": [run]}
    names = [(case, model, method) for case, (_, models) in CASES.items() for model in models for method in METHODS]
    runs = [PublishedRun(result(case=c, model=m, method=w), context()) for c, m, w in names]
    text = page(runs, trials=[trial])
    assert "| paper with the default's sampler | 1 | 5 | 2 |" in text
    assert FINDINGS["emps"] in text
    assert FINDINGS["silverbox"] not in text
    everything = "probsysid benchmark all --out RESULTS --json RESULTS/all.json"
    assert everything in text
    assert everything not in page(runs[1:])


@pytest.mark.parametrize(("case", "prose"), [*NOTES.items(), *FINDINGS.items()])
def test_the_published_page_has_the_prose_of_the_script(case: str, prose: str) -> None:
    """A figure needs the runs again; a sentence must not be changed in one place only."""
    published = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text()
    assert prose in published or f"## {TITLES[case]}" not in published
