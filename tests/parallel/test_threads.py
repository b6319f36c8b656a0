"""Particles over several cores: the same posterior from any number of threads, and nobody is left behind."""

import json
import os
import subprocess
import sys
import threading
import time
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

from probsysid.parallel.executor import FEWEST, concatenate, even_shards
from probsysid.parallel.threads import Threads

PROGRAM = """
import json, sys, threading, warnings
BEGUN
import jax
import numpy as np
import probsysid as ps
from probsysid import dist
from probsysid.parallel.default import default_executor

compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: compiled.append(name) if name.endswith("backend_compile_duration") else None
)

warnings.simplefilter("ignore")
lag = ps.Model({"x": 1}, lambda s, u, p: {"x": p.gain * u.u - s.x / p.tau})
time = 0.1 * np.arange(60)
outputs = {"x": np.sin(time - 0.8) + 0.1 * np.random.default_rng(0).standard_normal(60)}
record = ps.Record({"u": np.sin(time)}, outputs, dt=0.1, intersample="linear")
problem = {
    "priors": {"gain": dist.LogNormal(0, 1), "tau": dist.LogNormal(0, 1)},
    "noise": {"x": dist.LogNormal(-2, 1)},
    "initial": {"x": 0.0},
}
posterior = ps.identify(
    lag, [record, record[:20]], solver=ps.Solver(substeps=1), sampler=ps.Sampler(particles=512), **problem
)
print(json.dumps({
    "cores": len(default_executor().slices(512)),
    "threads": sum(thread.name.startswith("probsysid: core") for thread in threading.enumerate()),
    "compiled": len(compiled),
    "theta": posterior.theta.tolist(),
    "weights": posterior.weights.tolist(),
    "log_evidence": posterior.log_evidence,
    "errors": [np.nan_to_num(e).tolist() for e in posterior.errors],
}))
"""


def run(devices: int, *, begun: bool = False) -> dict[str, Any]:
    """In a process of its own: the number of devices is fixed when JAX begins."""
    environment = {**os.environ, "PROBSYSID_DEVICES": str(devices), "PYTHONPATH": os.pathsep.join(sys.path)}
    first = "import jax; jax.config.update('jax_num_cpu_devices', 2); jax.devices()" if begun else ""
    program = PROGRAM.replace("BEGUN", first)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return run(1)


def assert_same(found: dict[str, Any], alone: dict[str, Any]) -> None:
    """Up to rounding that grows from proposal to proposal; another random decision would differ by a hundredth."""
    np.testing.assert_allclose(found["theta"], alone["theta"], rtol=0, atol=1e-7)
    np.testing.assert_allclose(found["weights"], alone["weights"], rtol=1e-5)
    np.testing.assert_allclose(found["log_evidence"], alone["log_evidence"], rtol=1e-9)
    for one, other in zip(found["errors"], alone["errors"], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.long), 4])
def test_the_number_of_cores_does_not_matter(count: int, alone: dict[str, Any]) -> None:
    found = run(count)
    assert (alone["cores"], alone["threads"]) == (1, 0)
    assert found["cores"] == count
    assert 1 <= found["threads"] <= count - 1  # the caller works, too
    assert_same(found, alone)
    # threads do not compile the same program side by side
    assert found["compiled"] == alone["compiled"] > 3


@pytest.mark.slow
@pytest.mark.long
def test_where_jax_has_begun_before_its_devices_are_used(alone: dict[str, Any]) -> None:
    found = run(4, begun=True)
    assert (found["cores"], found["threads"]) == (1, 0)
    assert_same(found, alone)


# Dealing out


@pytest.mark.parametrize(
    ("particles", "available", "count"),
    [
        (4 * FEWEST, 4, 4),
        (4 * FEWEST - 1, 4, 1),
        (3 * FEWEST, 4, 3),
        (2 * FEWEST, 8, 2),
        (2 * FEWEST - 2, 8, 1),
        (10**5, 1, 1),
        (1022, 4, 2),
    ],
)
def test_as_many_as_get_the_same_number(particles: int, available: int, count: int) -> None:
    assert even_shards(particles, available, FEWEST) == count


def test_slices_hold_every_particle_once() -> None:
    found = Threads(cores=3).slices(3 * FEWEST)
    assert [part.stop - part.start for part in found] == [FEWEST] * 3
    np.testing.assert_array_equal(np.concatenate([np.arange(3 * FEWEST)[part] for part in found]), np.arange(384))


def test_one_part_is_not_copied() -> None:
    alone = np.zeros((2, 3))
    assert concatenate([alone]) is alone
    np.testing.assert_array_equal(concatenate([alone, alone + 1]), [[0, 0, 0, 1, 1, 1]] * 2)


# Together


SETTING: ContextVar[int] = ContextVar("SETTING", default=0)


def test_results_come_in_order_from_tasks_at_the_same_time() -> None:
    barrier = threading.Barrier(4)  # passed only if all are there
    token = SETTING.set(7)

    def task(k: int) -> Any:
        return lambda _: (barrier.wait(20), k, SETTING.get(), threading.current_thread() is threading.main_thread())[1:]

    found = Threads(cores=4).run([task(k) for k in range(4)])
    SETTING.reset(token)
    assert found == [(0, 7, True), (1, 7, False), (2, 7, False), (3, 7, False)]


@pytest.mark.parametrize("failing", [0, 2])
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_where_one_fails_the_others_stop(failing: int, kind: type[BaseException]) -> None:
    ended = []

    def task(k: int) -> Any:
        def run(given_up: threading.Event) -> None:
            if k == failing:
                raise kind("no more")
            if k == 0:  # it waits for nobody: the failure is noticed when its turn comes
                return
            assert given_up.wait(20)
            time.sleep(0.01)
            ended.append(k)

        return run

    with pytest.raises(kind, match="no more"):
        Threads(cores=4).run([task(k) for k in range(3 if failing else 4)])
    # nobody is at work any more
    assert sorted(ended) == ([1] if failing else [1, 2, 3])
