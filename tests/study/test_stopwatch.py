"""Where the time of a run goes: the parts add up, and are told and stored."""

import json
import time
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsysid._internal.compile_clock import compile_seconds
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.study import stopwatch
from probsysid.study.stopwatch import CourseOfRun, Stopwatch, in_seconds
from tests.study.small import fitted


def test_compiling_is_counted_apart() -> None:
    compile_seconds()
    watch, began = Stopwatch(), time.perf_counter()
    with watch.phase("work"):
        jax.jit(lambda x: jnp.sin(x) + 17.25)(jnp.ones(3)).block_until_ready()
        time.sleep(0.05)
    total = time.perf_counter() - began
    assert watch.compiling > 0
    assert watch.seconds["work"] >= 0.05
    assert watch.total <= total + 1e-3
    with watch.phase("work"):
        pass
    assert list(watch.seconds) == ["work"]


def test_in_words() -> None:
    assert [in_seconds(s) for s in (0.44, 12.4, 210, 7200)] == ["0.4 s", "12 s", "3.5 min", "2.0 h"]
    assert str(Stopwatch({"sampling": 60.0, "checks": 1.0}, 39.0)) == "100 s: compiling 39 s, sampling 60 s".replace(
        "100 s", "1.7 min"
    )


def test_the_course_is_said_now_and_then_and_the_end_of_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(stopwatch, "clock", SimpleNamespace(perf_counter=lambda: now[0]))
    said: list[str] = []
    others: list[Any] = []
    ones = np.ones((1, 1))
    course = CourseOfRun(100, said.append, often=True, also=lambda run, step: others.append(run))
    for samples, at in ((10, 10.0), (20, 35.0), (30, 40.0), (100, 50.0)):
        now[0] = at
        course(IBISState(samples, ones[None], None, ones, ones, ones[0], seed=0), StepInfo(ones, ones))
    now[0] = 70.0
    watch = Stopwatch()
    course.close(watch)
    assert said == ["sample 20 of 100 after 35 s", "checking: integration, fresh draws, lost modes"]
    assert len(others) == 4
    assert watch.seconds == {"sampling": 50.0, "checks": 20.0}


def test_a_fit_stores_where_its_time_went() -> None:
    (found,) = json.loads((fitted() / "lag-results" / "summary.json").read_text())["models"].values()
    seconds = found["seconds"]
    assert set(seconds) == {"compiling", "sampling", "checks", "states and predictions"}
    assert all(value >= 0 for value in seconds.values()) and seconds["sampling"] > 0
    log = (fitted() / "lag-results" / "log.txt").read_text()
    assert "checking: integration, fresh draws, lost modes" in log
