"""A run killed with SIGKILL at 50 random moments and resumed each time, against one that was never killed.

The child checkpoints ten times a second instead of every half minute and gives up its life to a timer that starts
with its first sign of progress, so that blows fall on everything: sampling, writing, renaming, reading.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import probsysid as ps
from probsysid.smc import checkpoint
from validation.duffing import MODEL, SOLVER
from validation.nuts import INITIAL, NOISE, PRIORS, data

KILLS = 50
SAMPLES = 250
ROOT = Path(__file__).resolve().parents[1]

SCRIPT = """
import sys
from importlib import import_module
import numpy as np
from validation.kills import identify
import_module("probsysid.inference.identify").CHECKPOINT_SECONDS = 0.1
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
    )


def launch(path: Path, result: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path), str(result)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, kills: int = KILLS) -> dict[str, Any]:
    """Kill, look whether the checkpoint is whole and never behind, start again; compare the end to the last bit."""
    moments = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        path, result = Path(name) / "run.npz", Path(name) / "result.npz"
        samples, rounds, blows, partial = [0], 0, 0, 0
        for _ in track(range(kills), description="kills"):
            child = launch(path, result)
            assert child.stdout is not None
            child.stdout.readline()
            seen = path.stat().st_mtime_ns if path.exists() else 0
            limit = time.monotonic() + 300
            # half of the blows from the start on (compiling, reading), half once something new was written
            if moments.random() < 0.5:
                while (
                    child.poll() is None
                    and time.monotonic() < limit
                    and (not path.exists() or path.stat().st_mtime_ns == seen)
                ):
                    time.sleep(0.002)
            time.sleep(moments.uniform(0, 1.0))
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                blows += 1
            child.wait()
            child.stdout.close()
            partial += len(list(Path(name).glob(".*.partial")))
            if path.exists():
                samples.append(checkpoint.unpack(path)[0].samples)
            if result.exists():  # it was done before the blow: begin anew
                rounds += 1
                same = _same(result)
                assert same, "a resumed run differs from one that was never killed"
                path.unlink()
                result.unlink()
                samples.append(0)
        child = launch(path, result)
        child.wait()
        return {
            "kills": blows,
            "checkpoints in the middle of a run": sum(0 < s < SAMPLES for s in samples),
            "finished runs": rounds + 1,
            "unfinished files left behind": partial,
            "checkpoints never go back": all(b >= a or b == 0 for a, b in pairwise(samples)),
            "identical": bool(_same(result)),
        }


def _same(result: Path) -> bool:
    """Whether a result is that of a run in this process, to the last bit."""
    if not hasattr(_same, "expected"):
        _same.expected = identify()  # type: ignore[attr-defined]
    expected: ps.Posterior = _same.expected  # type: ignore[attr-defined]
    with np.load(result) as found:
        parts = [found[name] for name in ("theta", "weights", "evidence_by_population", "ess")]
    wanted = [expected.theta, expected.weights, expected.evidence_by_population, expected.history.ess]
    return all(np.array_equal(a, b) for a, b in zip(parts, wanted, strict=True))
