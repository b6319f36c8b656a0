"""`probsysid select`: a menu in a study file, its folder, its mistakes."""

import json
from pathlib import Path

import pandas as pd
import pytest

from probsysid import InputError
from probsysid.study.menus import search_options
from probsysid.study.run import load_study
from tests.study import small
from tests.study.shell import call

MENU = """
[model.candidates.quadratic]
dynamics.h = "-q*h**2"
parameters.q = "Normal(0, 0.5)"

[model.candidates.offset]
outputs.level = "b0"
parameters.b0 = { prior = "Normal(0, 0.1)", unit = "m" }
description = "of the sensor"
"""


def written(folder: Path, menu: str = MENU) -> Path:
    return small.write_study(folder, small.STUDY + menu)


@pytest.mark.slow
def test_a_study_with_a_menu_is_searched(tmp_path: Path) -> None:
    path = written(tmp_path)
    answer = call("select", path, "--method", "map", "--budget", 3)
    assert answer.exit_code == 0, answer.stderr
    assert "model 1, no terms" in answer.stderr and "no terms" in answer.stdout
    folder = tmp_path / "lag-selection"
    assert {each.name for each in folder.iterdir()} == {
        "study.toml", "models.csv", "terms.csv", "summary.json", "posterior.nc", "tree.png", "report.html", "runs",
        "log.txt",
    }  # fmt: skip
    models = pd.read_csv(folder / "models.csv", index_col="model")
    assert models["terms"].iloc[0] == "no terms"
    # one-step noise of the simulated record: the free run of the true model misses by little more
    assert models["test rmse level"].iloc[0] == pytest.approx(small.NOISE, rel=0.5)
    summary = json.loads((folder / "summary.json").read_text())
    assert set(summary["inclusion"]) == {"quadratic", "offset"} and summary["best"] == "no terms"
    again = call("select", path, "--method", "map", "--budget", 3, "--overwrite", "--json", "-")
    assert json.loads(again.stdout)["models"] == summary["models"]  # nothing was run again, times included


def test_mistakes_in_a_menu_are_found_by_check(tmp_path: Path) -> None:
    path = written(tmp_path, MENU.replace("h**2", "hh**2"))
    with pytest.raises(InputError, match=r"the term 'quadratic': unknown name 'hh'"):
        load_study(path)
    path = written(tmp_path, '\n[model.candidates.empty]\nneeds = ["offset"]\n')
    with pytest.raises(InputError, match="the term 'empty' adds nothing"):
        load_study(path)


def test_a_study_without_a_menu_is_refused(tmp_path: Path) -> None:
    answer = call("select", written(tmp_path, ""))
    assert answer.exit_code == 2 and "no optional terms to choose from" in answer.stderr


def test_options_of_the_search_come_from_the_study(tmp_path: Path) -> None:
    resolved, _ = load_study(written(tmp_path, f'{MENU}\n[selection]\nbudget = 7\nstarts = [["offset"]]\n'))
    options = search_options(resolved.study.selection, None)
    assert (options.budget, options.starts) == (7, (("offset",),))
    assert search_options(resolved.study.selection, 9).budget == 9
