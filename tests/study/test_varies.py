"""Parameters that vary between records in study files: names, results, and what test records are scored with."""

import json
from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid.study.freerun import free_runs
from probsysid.study.run import load_results
from tests.study.shell import call

DT, NOISE, RATE = 0.1, 0.02, 1.5
GAINS = {"first.csv": 1.0, "second.csv": 2.0, "third.csv": 1.5}

RECORD = """
[[data]]
file = "{file}"
time = "t"
{ranges}
[data.inputs]
u = {{ column = "u", intersample = "zoh" }}
[data.outputs]
level = "y"
"""

STUDY = """
[model]
name = "lag"
[model.coordinates]
h = 1
[model.equations]
h = "a*(b*u - h)"
[model.outputs]
level = "h"
[parameters]
a = "LogNormal(0, 1)"
b = { prior = "LogNormal(0, 1)", unit = "m/V" }
[varies]
b = "HalfNormal(1)"
[noise]
level = 0.02
[initial]
h = "Normal(0, 2)"
[solver]
substeps = 2
pilot = false
[sampler]
particles = 256
[report]
draws = 256
states = false
"""


def write(folder: Path, text: str = STUDY) -> Path:
    random = np.random.default_rng(0)
    parts = []
    for file, gain in GAINS.items():
        time, level = DT * np.arange(60), np.zeros(60)
        drive = np.where(np.arange(60) // 15 % 2 == 0, 1.0, -0.5)
        for k in range(1, 60):
            level[k] = gain * drive[k - 1] + (level[k - 1] - gain * drive[k - 1]) * np.exp(-RATE * DT)
        level += NOISE * random.standard_normal(60)
        rows = "".join(f"{t:.1f},{u:g},{y:.5f}\n" for t, u, y in zip(time, drive, level, strict=True))
        (folder / file).write_text("t,u,y\n" + rows)
        # of the second record the test comes before the training
        early = 'train = { samples = [30, "end"] }\ntest = { samples = [0, 30] }'
        ranges = {"first.csv": 'train = "all"', "second.csv": early, "third.csv": 'test = "all"'}[file]
        parts.append(RECORD.format(file=file, ranges=ranges))
    (folder / "study.toml").write_text("".join(parts) + text)
    return folder / "study.toml"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("varies")
    answer = call("fit", write(folder))
    assert answer.exit_code == 0, answer.stderr
    return folder / "study-results"


@pytest.mark.long
def test_each_record_has_its_value(results: Path) -> None:
    found = json.loads((results / "summary.json").read_text())["models"]["lag"]
    table = found["parameters"]
    assert list(table)[:5] == ["a", "b", "b.spread", "b[0]", "b[1]"]
    for quantity, truth in (("b[0]", 1.0), ("b[1]", 2.0), ("a", RATE)):
        assert abs(table[quantity]["mean"] - truth) < 4 * table[quantity]["sd"], quantity
    assert table["b[1]"]["unit"] == "m/V" and table["b[1]"]["prior"] == "LogNormal(log b, b.spread)"
    page = (results / "report.html").read_text()
    assert "relative spread of b between records" in page and "b on second.csv" in page


@pytest.mark.long
def test_a_test_record_of_its_own_has_new_values(results: Path) -> None:
    """Where the gain is 1.5, which lies between those of the training records: the band has to be wide."""
    scores = json.loads((results / "summary.json").read_text())["models"]["lag"]["scores"]
    assert scores["first.csv"]["train"]["level"]["rmse"] < 2 * NOISE
    assert scores["second.csv"]["test"]["level"]["rmse"] < 3 * NOISE  # the same experiment, an earlier part of it
    assert scores["third.csv"]["test"]["level"]["rmse"] > 10 * NOISE
    assert scores["third.csv"]["test"]["level"]["coverage"] > 0.9
    resolved, _, (result,) = load_results(results)
    runs = free_runs(result.posterior, resolved.measured, 256)
    widths = [float(np.mean(run.bands["level"].sd)) for run in runs]
    assert max(widths[:3]) < 3 * NOISE < 10 * NOISE < widths[3]


@pytest.mark.long
def test_the_posterior_file_stands_for_itself(results: Path) -> None:
    posterior = ps.Posterior.load(results / "posterior.nc")
    assert posterior.setup.problem.varies.keys() == {"b"}
    assert posterior.simulate(posterior.records[1], particles=8).outputs["level"].shape == (8, 30)


def test_check_simulates_the_prior(tmp_path: Path) -> None:
    separate = STUDY.replace('b = "HalfNormal(1)"', 'b = "separate"')
    answer = call("check", write(tmp_path, separate))
    assert answer.exit_code == 0, answer.stderr


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('c = "HalfNormal(1)"', "`varies.c`: there is no parameter 'c'; there are: a, b"),
        ('b = "Normal(0, 1)"', "the prior of b.spread allows negative values"),
        ("b = -1.0", "varies of 'b' is -1.0"),
        (
            'b = "separat"',
            "such as 'HalfNormal(0.05)', a number, or 'separate'",
        ),
        ("b = true", "`varies.b` is True: it must be a prior of the spread"),
    ],
)
def test_mistakes_have_a_sentence(tmp_path: Path, line: str, sentence: str) -> None:
    answer = call("check", write(tmp_path, STUDY.replace('b = "HalfNormal(1)"', line)))
    assert answer.exit_code != 0
    assert sentence in " ".join(answer.stderr.split())
