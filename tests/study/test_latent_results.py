"""A study with an input that is not used and a parameter that may drift, from its file to its report."""

import json
from pathlib import Path

import pytest

from tests.study.shell import call
from tests.study.small import STUDY, write_study

LATENT = """
[unknown.u]
kernel = "matern"
nu = 0.5
scale = "LogNormal(0, 0.5)"
length = 1.5

[drifts.a]
kernel = "random-walk"
rate = "HalfNormal(0.1)"
"""


@pytest.mark.long
def test_results_have_the_inputs_and_the_verdicts(tmp_path: Path) -> None:
    fixed = STUDY.replace('prior = "Normal(1, 2)"', "fixed = 2.0")
    answer = call("fit", write_study(tmp_path, fixed + LATENT))
    assert answer.exit_code == 0, answer.stderr
    numbers = json.loads((tmp_path / "lag-results" / "summary.json").read_text())["models"]["lag"]
    ((compared, verdict),) = numbers["inputs"].values()
    assert compared.startswith("u: mean square error ") and "of its samples in the 90 % band" in compared
    assert any(verdict.startswith(words) for words in ("whether a drifts", "a is constant", "a drifts"))
    assert compared in answer.stdout and verdict[:40] in answer.stdout
    page = (tmp_path / "lag-results" / "report.html").read_text()
    assert "Unknown inputs and drifts" in page and compared in page and "Drift of a:" in page
