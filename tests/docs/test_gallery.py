"""The gallery: every study is valid, and finds the constants that its data were simulated with."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probsysid.study.run import load_results, load_study
from tests.study.shell import call

FOLDER = Path(__file__).parents[2] / "examples" / "gallery"


@cache
def systems() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("gallery_systems", FOLDER / "systems.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return dict(module.SYSTEMS)


NAMES = [
    *("duffing", "pendulum", "motor", "drug", "heater", "van-der-pol", "lotka-volterra", "tanks", "friction"),
    "acceleration",
]


def test_these_are_all() -> None:
    assert list(systems()) == NAMES and len(NAMES) == 10


@pytest.mark.parametrize("name", NAMES)
def test_the_study_is_valid_and_its_priors_hold_the_truth(name: str, tmp_path: Path) -> None:
    system = systems()[name]
    resolved, _ = load_study(system.write(tmp_path, name))
    (candidate,) = resolved.candidates
    assert resolved.measured[0].test is not None
    for key, value in system.truth.items():
        prior = candidate.problem.priors.get(key)
        if hasattr(prior, "loc"):  # log-normal: within two and a half standard deviations
            assert abs(np.log(value) - float(prior.loc)) < 2.5 * float(prior.scale), key
        else:
            assert prior == value


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_study_finds_the_truth(name: str, tmp_path: Path) -> None:
    system = systems()[name]
    answer = call("fit", system.write(tmp_path, name), "--quiet")
    assert answer.exit_code == 0, answer.stderr
    _, _, (found,) = load_results(tmp_path / f"{name}-results")
    table = found.table()
    # 35 constants: the largest of so many normal distances exceeds 4 once in 450 galleries
    far = {k: (table.loc[k, "mean"] - v) / table.loc[k, "sd"] for k, v in system.truth.items() if k in table.index}
    assert max(map(abs, far.values())) < 4, far
