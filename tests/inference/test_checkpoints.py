"""A run that is killed goes on from its checkpoint and ends as if nothing had happened."""

import gc
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid._internal.files import locked, write_atomically
from probsysid.smc import checkpoint
from tests import duffing
from tests.interruption import interrupted_by_the_collector

ROOT = Path(__file__).resolve().parents[2]
KILLS, SAMPLES = 1, 100

SCRIPT = (
    f"""
SAMPLES = {SAMPLES}
"""
    + """
import sys
import numpy as np
import probsysid as ps
from tests import duffing

options = {**duffing.options(), "checkpoint": sys.argv[1], "checkpoint_seconds": 0.05}
posterior = ps.identify(duffing.model, duffing.measure(SAMPLES), **options)
np.savez(sys.argv[2], theta=posterior.theta, weights=posterior.weights, ess=posterior.history.ess)
"""
)


def launch(path: Path, result: Path) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT, str(path), str(result)]
    return subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
@pytest.mark.slow
def test_sigkill_at_random_moments_changes_nothing(tmp_path: Path) -> None:
    path, result = tmp_path / "run.npz", tmp_path / "result.npz"
    moments = random.Random(0)
    found = []
    for _ in range(KILLS):
        before = path.stat().st_mtime_ns if path.exists() else 0
        child = launch(path, result)
        deadline = time.monotonic() + 120
        while child.poll() is None and time.monotonic() < deadline:
            if path.exists() and path.stat().st_mtime_ns != before:
                time.sleep(moments.uniform(0, 0.1))  # somewhere in the middle of what follows
                child.send_signal(signal.SIGKILL)
                break
            time.sleep(0.005)
        child.wait(timeout=120)
        child.stderr.close()
        assert path.exists()
        found.append(checkpoint.unpack(path)[0].samples)  # whole, whenever the blow came
        assert not list(tmp_path.glob("*.lock.*"))
        if result.exists():
            break
    assert 0 < min(found) < SAMPLES  # some came in the middle
    if not result.exists():
        child = launch(path, result)
        _, errors = child.communicate(timeout=180)
        assert child.returncode == 0, errors
    expected = ps.identify(duffing.model, duffing.measure(SAMPLES), **duffing.options())
    with np.load(result) as found:
        np.testing.assert_array_equal(found["theta"], expected.theta)
        np.testing.assert_array_equal(found["weights"], expected.weights)
        np.testing.assert_array_equal(found["ess"], expected.history.ess)


def test_a_signal_that_python_loses_stops_the_run_and_leaves_a_checkpoint(tmp_path: Path) -> None:
    """It comes while garbage is collected, where Python cannot raise anything."""
    path, record = tmp_path / "run.npz", duffing.measure(60)

    def strike(run: object, step: object) -> None:
        with interrupted_by_the_collector():
            gc.collect()

    with pytest.raises(KeyboardInterrupt):
        ps.identify(duffing.model, record, checkpoint=path, notice=strike, **duffing.options())
    assert 0 < checkpoint.unpack(path)[0].samples < 60
    resumed = ps.identify(duffing.model, record, checkpoint=path, **duffing.options())
    whole = ps.identify(duffing.model, record, **duffing.options())
    np.testing.assert_array_equal(resumed.theta, whole.theta)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    with locked(path):
        holder = (
            "from pathlib import Path; from probsysid._internal.files import locked\n"
            f"with locked(Path({str(path)!r})): pass"
        )
        other = subprocess.run([sys.executable, "-c", holder], capture_output=True, text=True)
    assert other.returncode != 0
    assert "in use by another process" in other.stderr


def test_a_finished_run_is_read_back(tmp_path: Path) -> None:
    record = duffing.measure(30)
    first = ps.identify(duffing.model, record, checkpoint=tmp_path / "run.npz", **duffing.options())
    again = ps.identify(duffing.model, record, checkpoint=tmp_path / "run.npz", **duffing.options())
    np.testing.assert_array_equal(first.theta, again.theta)
    assert first.history.rejuvenations == again.history.rejuvenations


@pytest.mark.parametrize("change", ["seed", "data", "sampler", "prior"])
def test_a_foreign_checkpoint_is_refused(tmp_path: Path, change: str) -> None:
    path, record = tmp_path / "run.npz", duffing.measure(12)
    ps.identify(duffing.model, record, checkpoint=path, **duffing.options())
    other = duffing.options()
    if change == "seed":
        other["seed"] = 1
    if change == "data":
        record = duffing.measure(12, seed=1)
    if change == "sampler":
        other["sampler"] = ps.Sampler(particles=128, ess=0.6)
    if change == "prior":
        other["priors"] = {**duffing.PRIORS, "m": ps.dist.LogNormal(0, 0.31)}
    with pytest.raises(ps.InputError, match="belongs to another problem"):
        ps.identify(duffing.model, record, checkpoint=path, **other)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    path.write_bytes(b"not an archive")
    with pytest.raises(ps.InputError, match=r"run\.npz is not a checkpoint"):
        ps.identify(duffing.model, duffing.measure(12), checkpoint=path, **duffing.options())


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
