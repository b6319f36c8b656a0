"""A first-order lag as a stream: small, so that its filter compiles in a second."""

from pathlib import Path
from typing import Any

import numpy as np

import probsysid as ps
from probsysid import dist

DT = 0.1
RATE, GAIN, NOISE = 1.5, 2.0, 0.02

model = ps.Model({"h": 1}, lambda s, u, p: {"h": p.a * (p.b * u.u - s.h)}, lambda s, u, p: {"level": s.h}, name="lag")

OPTIONS: dict[str, Any] = {
    "priors": {"a": dist.LogNormal(0, 1), "b": dist.Normal(1, 2)},
    "noise": {"level": NOISE},
    "initial": {"h": dist.Normal(0, 0.1)},
    "intersample": "zoh",
    "solver": ps.Solver(smoothness=2, substeps=1),
    "sampler": ps.Sampler(particles=128),
    "seed": 1,
}

STUDY = """\
title = "A first-order lag"
seed = 1
noise = { level = 0.02 }
initial = { h = "Normal(0, 0.1)" }

[data]
file = "lag.csv"
time = "t"
inputs = { u = { column = "u", unit = "V", intersample = "zoh" } }
outputs = { level = { column = "y", unit = "m" } }

[model]
name = "lag"
coordinates = { h = 1 }
equations = { h = "a*(b*u - h)" }
outputs = { level = "h" }

[parameters]
a = { prior = "LogNormal(0, 1)", unit = "1/s" }
b = { prior = "Normal(1, 2)", unit = "m/V" }

[solver]
smoothness = 2
substeps = 1

[sampler]
particles = 128
"""


def measure(samples: int, seed: int = 0, rate: float = RATE, change: int | None = None) -> np.ndarray:
    """Rows of time, input, output; from sample `change` on, the rate is another one."""
    random = np.random.default_rng(seed)
    drive = np.where(np.arange(samples) // 15 % 2 == 0, 1.0, -0.5)
    level = np.zeros(samples)
    for k in range(1, samples):
        own = RATE if change is None or k < change else rate
        level[k] = GAIN * drive[k - 1] + (level[k - 1] - GAIN * drive[k - 1]) * np.exp(-own * DT)
    level += NOISE * random.standard_normal(samples)
    return np.column_stack([DT * np.arange(samples), drive, level]).round(6)


def write_csv(path: Path, rows: np.ndarray) -> None:
    path.write_text("t,u,y\n" + "".join(f"{t!r},{u!r},{y!r}\n" for t, u, y in rows.tolist()))


def stream_posterior(rows: np.ndarray) -> ps.Posterior:
    """What an Identifier finds that has all samples at once."""
    online = ps.Identifier(model, dt=DT, **OPTIONS)
    online.update({"u": rows[:, 1]}, {"level": rows[:, 2]})
    return online.posterior


def assert_identical(one: ps.Posterior, other: ps.Posterior) -> None:
    np.testing.assert_array_equal(one.theta, other.theta)
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.evidence_by_population, other.evidence_by_population)
