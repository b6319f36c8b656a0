"""The command line on two hosts that are real processes: the posterior of one, and an orderly end when one is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probsysid as ps
from tests.hosts.companies import free_port
from tests.hosts.test_over_hosts import identify
from tests.study.small import STUDY, write_data

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
from importlib import import_module

from probsysid.cli import main

import_module("probsysid.inference.identify").CHECKPOINT_SECONDS = 0.05
main()
"""

SAMPLES = 400


def write_study(folder: Path) -> Path:
    write_data(folder / "lag.csv", SAMPLES)
    text = STUDY.replace("samples = [0, 40]", f"samples = [0, {SAMPLES - 20}]").replace("[40,", f"[{SAMPLES - 20},")
    (folder / "lag.toml").write_text(text.replace("particles = 64", "particles = 256"))
    return folder / "lag.toml"


def launch(*arguments: object, **environment: str) -> subprocess.Popen:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    settings = {**os.environ, "PROBSYSID_DEVICES": "1", "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(
        command, env=settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def pair(study: Path, out: Path, *more: object) -> list[subprocess.Popen]:
    """The same command on two hosts."""
    hosts = ["--hosts", f"localhost:{free_port()}", "--host-count", 2, "--host-timeout", 10]
    return [launch("fit", study, "--out", out, "-q", *hosts, "--host-index", index, *more) for index in range(2)]


def ended(process: subprocess.Popen, seconds: float) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"still running after {seconds:g} s: {out}{err}") from None
    return process.returncode, out, err


def numbers(path: Path) -> Any:
    """What a summary says, without times."""
    found = json.loads(path.read_text())
    model = found["models"]["lag"]
    return model["parameters"], model["log_evidence"], model["log_evidence_error"], model["effective_particles"]


def assert_close(one: Any, other: Any) -> None:
    assert one[1:] == pytest.approx(other[1:], rel=1e-7)
    for name, row in one[0].items():
        for key in ("mean", "sd", "q05", "q95"):
            assert row[key] == pytest.approx(other[0][name][key], rel=1e-6)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A study, and the numbers of one process."""
    folder = tmp_path_factory.mktemp("study")
    study = write_study(folder)
    code, _, errors = ended(launch("fit", study, "-q"), 300)
    assert code == 0, errors
    return study, numbers(folder / "lag-results" / "summary.json")


@pytest.mark.long
def test_two_hosts_are_as_one(undisturbed: tuple[Path, Any], tmp_path: Path) -> None:
    study, expected = undisturbed
    first, second = pair(study, tmp_path / "out", "--json", "-")
    assert ended(second, 300) == (0, "", "")
    code, printed, errors = ended(first, 300)
    assert (code, errors) == (0, "")
    assert json.loads(printed)["models"].keys() == {"lag"}
    assert_close(numbers(tmp_path / "out" / "summary.json"), expected)


@pytest.mark.long
def test_srun_needs_no_options(undisturbed: tuple[Path, Any], tmp_path: Path) -> None:
    study, expected = undisturbed
    step = {"SLURM_JOB_ID": str(free_port()), "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost"}
    tasks = [launch("fit", study, "--out", tmp_path / "out", "-q", SLURM_PROCID=str(k), **step) for k in range(2)]
    for task in tasks:
        assert ended(task, 300) == (0, "", "")
    assert_close(numbers(tmp_path / "out" / "summary.json"), expected)


@pytest.mark.long
@pytest.mark.parametrize(
    ("victim", "blow", "sentence"),
    [
        (1, signal.SIGKILL, "probsysid: host 1 is lost: its connection has ended. To go on, on any number of hosts:"),
        (1, signal.SIGSTOP, "probsysid: host 1 is lost: nothing has been heard from it for 10 s. To go on,"),
        (1, signal.SIGTERM, "probsysid: host 1 has stopped: stopped by its user. To go on,"),
        (0, signal.SIGKILL, "probsysid on host 1: host 0 is lost: its connection has ended."),
    ],
)
def test_a_lost_host_ends_the_others_and_the_run_goes_on_alone(
    undisturbed: tuple[Path, Any], tmp_path: Path, victim: int, blow: int, sentence: str
) -> None:
    study, expected = undisturbed
    out = tmp_path / "out"
    checkpoint = tmp_path / "out.unfinished" / "lag.npz"
    processes = pair(study, out)
    deadline = time.monotonic() + 200
    while not checkpoint.exists() and time.monotonic() < deadline and processes[0].poll() is None:
        time.sleep(0.01)
    struck = time.monotonic()
    processes[victim].send_signal(blow)
    try:
        code, printed, errors = ended(processes[1 - victim], 40)
    finally:
        processes[victim].kill()
        processes[victim].communicate()
    assert time.monotonic() - struck < 20  # twice the timeout
    assert (code, printed) == (3, "")
    assert errors.startswith(sentence)
    assert errors.count("\n") == 1
    assert checkpoint.exists() and not out.exists()
    code, _, errors = ended(launch("fit", study, "--out", out, "-q", "--resume"), 300)
    assert code == 0, errors
    assert_close(numbers(out / "summary.json"), expected)


OF_JAX = """
import sys

import jax
import numpy as np

import probsysid as ps
from probsysid import hosts
from tests.hosts.test_over_hosts import identify

port, index, path = sys.argv[1:]
jax.distributed.initialize(f"localhost:{port}", 2, int(index))
hosts.join()
assert hosts.index() == int(index) == jax.process_index()
posterior = identify()
if hosts.first():
    posterior.save(path)
"""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::probsysid.ModelWarning")
def test_processes_of_jax_need_no_options(tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "posterior.nc"
    settings = {**os.environ, "PROBSYSID_DEVICES": "2", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", OF_JAX, str(port)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    pair = [subprocess.Popen([*command, str(k), str(path)], env=settings, **pipes) for k in range(2)]
    for process in pair:
        code, _, errors = ended(process, 200)
        assert code == 0, errors
    np.testing.assert_allclose(ps.Posterior.load(path).theta, identify().theta, rtol=0, atol=1e-7)
