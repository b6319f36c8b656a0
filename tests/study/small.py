"""A study small enough to run in tests: a first-order lag, whose filter compiles in a second."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from probsysid.study.resolve import ResolvedStudy
from probsysid.study.run import CandidateResult, load_results
from tests.study.shell import call

RATE, GAIN, NOISE = 1.5, 2.0, 0.02

STUDY = """\
title = "A first-order lag"
seed = 1

[data]
file = "lag.csv"
time = "t"
train = { samples = [0, 40] }
test = { samples = [40, "end"] }

[data.inputs]
u = { column = "u", unit = "V", intersample = "zoh" }

[data.outputs]
level = { column = "y", unit = "m" }

[model]
name = "lag"

[model.coordinates]
h = 1

[model.equations]
h = "a*(b*u - h)"

[model.outputs]
level = "h"

[parameters]
a = { prior = "LogNormal(0, 1)", unit = "1/s", description = "rate" }
b = { prior = "Normal(1, 2)", unit = "m/V", description = "gain" }

[noise]
level = 0.02

[initial]
h = "Normal(0, 0.1)"

[sampler]
particles = 256

[report]
draws = 32
"""


def write_data(path: Path, samples: int = 60) -> None:
    """A square wave held between samples, and the exact response with noise."""
    random = np.random.default_rng(0)
    time = 0.1 * np.arange(samples)
    drive = np.where(np.arange(samples) // 15 % 2 == 0, 1.0, -0.5)
    level = np.zeros(samples)
    for k in range(1, samples):
        level[k] = GAIN * drive[k - 1] + (level[k - 1] - GAIN * drive[k - 1]) * np.exp(-RATE * 0.1)
    level += NOISE * random.standard_normal(samples)
    rows = "".join(f"{t:.1f},{u:g},{y:.5f}\n" for t, u, y in zip(time, drive, level, strict=True))
    path.write_text("t,u,y\n" + rows)


def write_study(folder: Path, text: str = STUDY) -> Path:
    """Data and study in a folder."""
    write_data(folder / "lag.csv")
    (folder / "lag.toml").write_text(text)
    return folder / "lag.toml"


@cache
def fitted() -> Path:
    """A folder with data, study and results, made once per process for all tests that read them."""
    folder = Path(tempfile.mkdtemp(prefix="probsysid-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    answer = call("fit", write_study(folder), "--json", folder / "copy.json")
    assert answer.exit_code == 0, answer.stderr
    return folder


@cache
def loaded() -> tuple[ResolvedStudy, dict[str, Any], list[CandidateResult]]:
    """The results in that folder, read back once."""
    return load_results(fitted() / "lag-results")
