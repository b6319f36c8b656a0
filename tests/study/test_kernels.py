"""Kernels of unknown inputs and drifts in study files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid.study.kernels import parse_kernel
from probsysid.study.resolve import ResolvedStudy, resolve_study
from probsysid.study.study_file import read_study
from tests.study.shell import call

STUDY = """
[[data]]
file = "record.csv"
dt = 0.1
train = "all"
[data.outputs]
position = "y"
[model]
[model.coordinates]
x = 2
[model.equations]
x = "force - c*dx - k*x"
[model.outputs]
position = "x"
[parameters]
c = "LogNormal(-1, 1)"
k = "LogNormal(0, 1)"
[initial]
x = 0
dx = 0
[unknown.force]
kernel = "matern"
nu = 1.5
scale = "LogNormal(0, 1)"
length = 2
[drifts.k]
kernel = "random-walk"
rate = "HalfNormal(0.05)"
"""


def resolve(path: Path) -> ResolvedStudy:
    return resolve_study(read_study(path), path)


def write(folder: Path, text: str) -> Path:
    rows = "\n".join(f"{value:.6f}" for value in np.sin(np.arange(40) / 3))
    (folder / "record.csv").write_text(f"y\n{rows}\n")
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_kernels_join_the_model(tmp_path: Path) -> None:
    (candidate,) = resolve(write(tmp_path, STUDY)).candidates
    assert candidate.problem.space.names[:2] == ("c", "k")
    assert {"force.scale", "k.rate"} <= set(candidate.problem.space.names)
    assert dict(candidate.model.coordinates) == {"x": 2, "force": 2, "k_drift": 1}
    assert candidate.problem.latent.quantities["force.length"] == 2.0


def test_sums_and_products() -> None:
    wave = {"kernel": "quasi-periodic", "scale": 1.0, "period": 2.0, "length": 3.0}
    gust = {"kernel": "matern", "nu": 0.5, "scale": 1, "length": 2}
    product = {"kernel": "product", "of": [wave, gust]}
    found = parse_kernel({"kernel": "sum", "of": [product, {"kernel": "constant", "value": 0.3}]})
    assert found == ps.QuasiPeriodic(1.0, 2.0, 3.0) * ps.Matern(0.5, 1.0, 2.0) + ps.Constant(0.3)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (1.0, "write a table with a kernel"),
        ({"kernel": "mattern"}, "there is no kernel 'mattern'; known are: matern"),
        ({"kernel": "matern", "nu": 0.5, "scale": 1.0}, "the kernel 'matern' needs 'length'"),
        ({"kernel": "constant", "valeu": 1.0}, "the kernel 'constant' has no 'valeu'; it has: value."),
        ({"kernel": "random-walk", "rate": True}, "rate is True; it must be a number"),
        ({"kernel": "random-walk", "rate": -1.0}, "RandomWalk: rate is -1.0"),
        ({"kernel": "sum", "of": []}, "a sum has nothing but of = [...]"),
    ],
)
def test_mistakes_are_named(table: Any, sentence: str) -> None:
    with pytest.raises(ps.InputError) as error:
        parse_kernel(table)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("line", "other", "sentence"),
    [
        ("[unknown.force]", "[unknown.forse]", "forse"),
        ("[drifts.k]", "[drifts.q]", "there is no parameter 'q'"),
        ("nu = 1.5", "nu = 1.0", "Matern: nu is 1.0; it must be 0.5, 1.5 or 2.5."),
    ],
)
def test_mistakes_in_studies_are_named(tmp_path: Path, line: str, other: str, sentence: str) -> None:
    with pytest.raises(ps.InputError) as error:
        resolve(write(tmp_path, STUDY.replace(line, other)))
    assert sentence in str(error.value)


def partly_measured(folder: Path, noise: str) -> Path:
    """The same with a column for the force, which has a value at every other sample."""
    text = STUDY.replace("[model]\n", f'[data.inputs]\nforce = "F"\n[noise]\n{noise}[model]\n', 1)
    path = write(folder, text)
    rows = [f"{np.sin(k / 3):.6f},{k if k % 2 else ''}" for k in range(40)]
    (folder / "record.csv").write_text("\n".join(["y,F", *rows, ""]))
    return path


def test_an_unknown_input_with_a_noise_is_measured(tmp_path: Path) -> None:
    resolved = resolve(partly_measured(tmp_path, "force = 0.1\n"))
    (candidate,), (record,) = resolved.candidates, resolved.training
    assert candidate.problem.latent.measured == ("force",)
    assert candidate.model.output_names == ("position", "force") and candidate.problem.noise["force"] == 0.1
    assert record.input_names == () and np.isnan(record.outputs["force"][::2]).all()
    np.testing.assert_allclose(record.outputs["force"][1::2], np.arange(1, 40, 2))


def test_gaps_of_an_unknown_input_need_a_noise(tmp_path: Path) -> None:
    with pytest.raises(ps.InputError) as error:
        resolve(partly_measured(tmp_path, ""))
    assert "the unknown input 'force' has no value at line 2" in str(error.value)
    assert "say with which noise: noise.force = ..." in str(error.value)


@pytest.mark.long
def test_a_study_with_an_input_that_is_measured_in_part_passes_its_check(tmp_path: Path) -> None:
    answer = call("check", partly_measured(tmp_path, "force = 0.1\n"))
    assert answer.exit_code == 0, answer.stderr
