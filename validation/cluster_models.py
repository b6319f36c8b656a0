"""Whole runs on a cluster: sixteen models of one study on one worker and on two.

python -m validation.cluster_models
"""

import os
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

import probsysid as ps
from probsysid.study.identification import Course, identify_all
from probsysid.study.run import Log, load_study

SAMPLES, RATE, GAIN, NOISE = 150, 1.5, 2.0, 0.05
FORCES = ("u", "u**3", "tanh(u)", "u*abs(u)")
LOSSES = ("h", "h**3", "tanh(h)", "h*abs(h)")
HEAD = """
seed = 1
[data]
file = "data.csv"
time = "t"
[data.inputs]
u = { column = "u", intersample = "linear" }
[data.outputs]
level = { column = "y" }
"""
TAIL = """
[parameters]
a = "LogNormal(0, 1)"
b = "Normal(1, 2)"
[initial]
h = 0.0
[sampler]
particles = 512
[solver]
substeps = 2
"""


def write(folder: Path) -> Path:
    random = np.random.default_rng(0)
    times = 0.1 * np.arange(SAMPLES)
    drive, level = np.sin(times) + np.sin(2.3 * times), np.zeros(SAMPLES)
    for k in range(1, SAMPLES):  # close to a lag; which of the models is right does not matter here
        level[k] = level[k - 1] + 0.1 * RATE * (GAIN * drive[k - 1] - level[k - 1])
    table = np.column_stack([times, drive, level + NOISE * random.standard_normal(SAMPLES)])
    np.savetxt(folder / "data.csv", table, delimiter=",", header="t,u,y", comments="", fmt="%.10g")
    models = [
        f'[[model]]\nname = "model{k}"\ncoordinates = {{ h = 1 }}\n'
        f'equations = {{ h = "a*(b*{force} - {loss})" }}\noutputs = {{ level = "h" }}\n'
        for k, (force, loss) in enumerate(product(FORCES, LOSSES))
    ]
    (folder / "study.toml").write_text(HEAD + "\n".join(models) + TAIL)
    return folder / "study.toml"


class Timed(NamedTuple):
    """How long all models took, the mean number of workers that were busy, and what was found."""

    seconds: float
    busy: float
    evidences: list[float]


def timed(study: Path, workers: int) -> Timed:
    """Identify all models; nothing is compiled beforehand."""
    resolved, _ = load_study(study)
    left = study.parent / f"left-{workers}"
    left.mkdir()
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(left / "programs")  # of the workers, which inherit it
    with ps.Cluster(workers=workers) as cluster:
        cluster.client.wait_for_workers(workers, timeout=300)
        began = time.perf_counter()
        log = Log(left / "log.txt", lambda _: None, lambda: None)
        found = identify_all(resolved, Course(left, log, executor=cluster))
        seconds = time.perf_counter() - began
    busy = sum(posterior.settings.seconds for posterior in found) / seconds
    return Timed(seconds, busy, [posterior.log_evidence for posterior in found])


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        study = write(Path(name))
        first, second = timed(study, 1), timed(study, 2)
    same = first.evidences == second.evidences
    gain = first.seconds / second.seconds
    print(f"16 models: {first.seconds:.0f} s on one worker, {second.seconds:.0f} s on two, {gain:.2f} times as fast")
    print(f"workers busy: {first.busy:.2f} of one, {second.busy:.2f} of two; the same: {same}")


if __name__ == "__main__":
    main()
