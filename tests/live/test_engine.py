"""What a page is told stays bounded, and two models share a stream."""

from pathlib import Path
from typing import Any

import numpy as np

import probsysid as ps
from probsysid.data.readers import Channel
from probsysid.live import shown
from probsysid.live.channels import Channels
from probsysid.live.engine import finite
from probsysid.live.feed import Newest, Thinned
from probsysid.live.messages import Message
from probsysid.live.session import Session
from tests.live import lag


def test_the_newest_rows_are_kept_and_told_once() -> None:
    newest = Newest(("a",), size=10)
    newest.add(np.arange(4.0)[:, None])
    first = newest.since(0)
    np.testing.assert_array_equal(first.columns["a"], [0, 1, 2, 3])
    newest.add(np.arange(4.0, 9.0)[:, None])
    second = newest.since(first.position)
    np.testing.assert_array_equal(second.columns["a"], [4, 5, 6, 7, 8])
    assert not second.replace
    newest.add(np.arange(9.0, 40.0)[:, None])
    third = newest.since(second.position)
    np.testing.assert_array_equal(third.columns["a"], np.arange(30.0, 40.0))
    assert third.position == 40
    assert third.replace  # a page that was away too long begins anew


def test_the_whole_run_is_thinned_in_bounded_memory() -> None:
    thinned, position, shown = Thinned(("a",), points=20), 0, np.empty(0)
    for k in range(5000):
        thinned.add(np.array([float(k)]))
        fresh = thinned.since(position)
        position = fresh.position
        shown = fresh.columns["a"] if fresh.replace else np.concatenate([shown, fresh.columns["a"]])
        assert len(shown) <= 40
    np.testing.assert_array_equal(shown, thinned.since(0).columns["a"])
    assert np.ptp(np.diff(shown)) == 0  # even over the whole run
    assert shown[0] < 300 and shown[-1] > 4700


def test_json_has_no_numbers_that_are_none() -> None:
    assert finite({"a": float("nan"), "b": [np.float64(1.5), np.inf], "c": np.int64(3)}) == {
        "a": None,
        "b": [1.5, None],
        "c": 3,
    }


def two_models(**changes: Any) -> dict[str, dict[str, Any]]:
    arguments = {"model": lag.model, "dt": lag.DT, **lag.OPTIONS}
    slow = ps.Model({"h": 1}, lambda s, u, p: {"h": p.b * u.u}, lambda s, u, p: {"level": s.h}, name="integrator")
    return {"lag": arguments, "integrator": {**arguments, "model": slow, "priors": {"b": ps.dist.Normal(1, 2)}}}


def test_the_better_of_two_models_leads_and_the_wrong_one_raises_the_alarm(tmp_path: Path) -> None:
    channels = Channels({"u": Channel("u")}, {"level": Channel("y")}, "t")
    rows = lag.measure(200)
    session = Session(two_models(), channels, ps.LiveOptions(settle=20), folder=tmp_path / "run")
    session.start()
    session.intake.push(Message({"u": rows[:, 1], "y": rows[:, 2]}, rows[:, 0]))
    assert session.engine.wait(120)
    engine = session.engine
    assert engine.leading.name == "lag"
    models = engine.summary()["models"]
    assert models["lag"]["log_evidence"] > models["integrator"]["log_evidence"] + 50
    assert {alarm.model for alarm in engine.alarms} == {"integrator"}
    session.end(finish=True)
    resumed = Session(two_models(), channels, ps.LiveOptions(settle=20), folder=tmp_path / "run", resume=True)
    resumed.start()
    assert resumed.engine.wait(60)
    found = resumed.engine.summary()["models"]
    resumed.end(finish=True)
    assert {n: m["log_evidence"] for n, m in found.items()} == {n: m["log_evidence"] for n, m in models.items()}


def test_a_model_whose_particles_are_lost_says_so_and_the_other_goes_on() -> None:
    channels = Channels({"u": Channel("u")}, {"level": Channel("y")}, "t")
    given = two_models()
    wild = ps.Model({"h": 1}, lambda s, u, p: {"h": p.b * s.h**3}, lambda s, u, p: {"level": s.h}, name="wild")
    given["integrator"] |= {"model": wild, "priors": {"b": ps.dist.LogNormal(12, 0.1)}, "initial": {"h": 5.0}}
    rows = lag.measure(30)
    session = Session({"lag": given["lag"], "wild": given["integrator"]}, channels, ps.LiveOptions())
    session.start()
    session.intake.push(Message({"y": rows[:, 2], "u": rows[:, 1]}, rows[:, 0]))
    session.engine.wait(120)
    status = shown.status(session.engine)
    assert "lost" in status["failures"]["wild"]
    assert session.engine.tracks[0].identifier.samples == 30
    session.end(finish=True)
