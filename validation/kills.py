"""A run killed with SIGKILL at 50 random moments and resumed each time, compared with an uninterrupted run.

The child writes a checkpoint ten times per second instead of every half minute; the timer that kills it starts with
its first sign of progress, so that kills hit every phase: sampling, writing, renaming, reading.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import probsysid as ps
from probsysid.smc import checkpoint
from validation.duffing import MODEL, SOLVER
from validation.nuts import INITIAL, NOISE, PRIORS, data
from validation.workers import each

KILLS = 50
CHAIN = 10
"""Kills of one run; runs are independent."""
SAMPLES = 250
ROOT = Path(__file__).resolve().parents[1]

SCRIPT = """
import sys
import numpy as np
from validation.kills import identify
print("ready", flush=True)
posterior = identify(sys.argv[1])
np.savez(sys.argv[2], **{name: getattr(posterior, name) for name in ("theta", "weights", "evidence_by_population")},
         ess=posterior.history.ess)
"""


def identify(path: str | None = None) -> ps.Posterior:
    return ps.identify(
        MODEL,
        data(SAMPLES),
        PRIORS,
        {"position": NOISE},
        INITIAL,
        solver=SOLVER,
        sampler=ps.Sampler(particles=512),
        checkpoint=path,
        checkpoint_seconds=0.1,
    )


def launch(path: Path, result: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path), str(result)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, kills: int = KILLS, cluster: ps.Cluster | None = None) -> dict[str, Any]:
    """Kill runs that are resumed each time, `CHAIN` times in turn, and sum up."""
    chains = [(seed, min(CHAIN, kills - first)) for seed, first in enumerate(range(0, kills, CHAIN))]
    found = each(chain, chains, cluster)
    results = [result for _, result in track(found, description="kills", total=len(chains))]
    return {
        name: all(r[name] for r in results) if isinstance(value, bool) else sum(r[name] for r in results)
        for name, value in results[0].items()
    }


def chain(seed: int, kills: int) -> dict[str, Any]:
    """Kill, check that the checkpoint is complete and not older than the last, restart; compare the end bit by bit."""
    moments = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        path, result = Path(name) / "run.npz", Path(name) / "result.npz"
        samples, rounds, delivered, partial = [0], 0, 0, 0
        for _ in range(kills):
            killed, left = _strike(path, result, moments)
            delivered += killed
            partial += left
            if path.exists():
                samples.append(checkpoint.unpack(path)[0].samples)
            if result.exists():  # the run ended before the kill: start a new one
                rounds += 1
                same = _same(result)
                assert same, "a resumed run differs from one that was never killed"
                path.unlink()
                result.unlink()
                samples.append(0)
        child = launch(path, result)
        child.wait()
        return {
            "kills": delivered,
            "checkpoints in the middle of a run": sum(0 < s < SAMPLES for s in samples),
            "finished runs": rounds + 1,
            "unfinished files left behind": partial,
            "checkpoints never go back": all(b >= a or b == 0 for a, b in pairwise(samples)),
            "identical": bool(_same(result)),
        }


def _strike(path: Path, result: Path, moments: np.random.Generator) -> tuple[bool, int]:
    """Start a run, or resume it, and kill it: whether it was still running, and the unfinished files that it left."""
    child = launch(path, result)
    assert child.stdout is not None
    child.stdout.readline()
    seen = path.stat().st_mtime_ns if path.exists() else 0
    limit = time.monotonic() + 300
    # half of the kills at any time (compiling, reading), half after a new checkpoint was written
    if moments.random() < 0.5:
        while (
            child.poll() is None and time.monotonic() < limit and (not path.exists() or path.stat().st_mtime_ns == seen)
        ):
            time.sleep(0.002)
    time.sleep(moments.uniform(0, 1.0))
    running = child.poll() is None
    if running:
        child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    return running, len(list(path.parent.glob(".*.partial")))


@cache
def _uninterrupted() -> ps.Posterior:
    return identify()


def _same(result: Path) -> bool:
    """Whether a result equals that of a run in this process, bit by bit."""
    expected = _uninterrupted()
    with np.load(result) as found:
        parts = [found[name] for name in ("theta", "weights", "evidence_by_population", "ess")]
    wanted = [expected.theta, expected.weights, expected.evidence_by_population, expected.history.ess]
    return all(np.array_equal(a, b) for a, b in zip(parts, wanted, strict=True))
