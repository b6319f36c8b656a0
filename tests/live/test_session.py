"""A stream is a batch, whatever happens on the way; a run that is resumed goes on as if nothing had been."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid.live.alignment import Rows
from probsysid.live.journal import Event, Journal
from tests.live import lag

SAMPLES = 120


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return lag.measure(SAMPLES)


@pytest.fixture(scope="module")
def batch(rows: np.ndarray) -> ps.Posterior:
    return lag.stream_posterior(rows)


def begin(**changes: Any) -> ps.Live:
    return ps.Live(lag.model, dt=lag.DT, **{**lag.OPTIONS, **changes})


def push(live: ps.Live, rows: np.ndarray) -> int:
    return live.push({"u": rows[:, 1], "level": rows[:, 2]}, rows[:, 0])


def test_blocks_out_of_order_and_repeated_give_the_posterior_of_the_record(
    rows: np.ndarray, batch: ps.Posterior
) -> None:
    seen: list[int] = []
    options = ps.LiveOptions(patience=3.0)
    with begin(on_posterior=lambda live: seen.append(live.lag), options=options) as live:
        assert push(live, rows[:10]) == 10
        for first in (20, 10, 10, 35, 30, 40):
            push(live, rows[first : first + 10])
        assert push(live, rows[50:]) == SAMPLES
        assert live.wait(120)
        assert live.lag == 0
        counts = live.counts
    lag.assert_identical(live.posterior, batch)
    assert counts["accepted"] == SAMPLES
    assert counts["duplicate"] == 20
    assert seen


def test_white_residuals_and_predictions_are_those_of_the_batch(rows: np.ndarray) -> None:
    """The mean over particles of whitened errors is what `Posterior.residuals` has; here each is given the past alone,
    so they agree only late, when the posterior hardly moves."""
    with begin() as live:
        push(live, rows)
        live.wait(120)
        columns = live._session.engine.feed.samples_since(0).columns
    errors = live.posterior.checked().errors[0][:, 0]
    late = slice(SAMPLES // 2, None)
    # the posterior's mean moves by less than its standard deviation: a tenth of a residual's
    np.testing.assert_allclose(columns["white:level"][late], errors[late], atol=0.35)
    assert np.corrcoef(columns["white:level"][late], errors[late])[0, 1] > 0.98
    inside = (columns["low:level"] <= rows[:, 2]) & (rows[:, 2] <= columns["high:level"])
    # 90 % of 119 samples, 4 standard errors of a binomial share
    assert abs(np.mean(inside[1:]) - 0.9) < 4 * np.sqrt(0.09 / (SAMPLES - 1))


def test_a_gap_with_known_inputs_is_missing_outputs(rows: np.ndarray) -> None:
    options = ps.LiveOptions(gaps="hold", patience=0.3)
    with begin(options=options) as live:
        push(live, rows[:50])
        push(live, rows[53:])
        live.wait(120)
    held = rows.copy()
    held[50:53, 2] = np.nan
    held[50:53, 1] = rows[49, 1]
    lag.assert_identical(live.posterior, lag.stream_posterior(held))
    assert (live.counts["gaps"], live.counts["gap_samples"]) == (1, 3)


def test_a_gap_with_unknown_inputs_is_a_new_start_that_keeps_what_is_known(rows: np.ndarray, tmp_path: Path) -> None:
    with begin(folder=tmp_path / "run", options=ps.LiveOptions(patience=0.3)) as live:
        push(live, rows[:60])
        push(live, rows[70:])
        live.wait(120)
        events = live._session.engine.feed.events
    first = ps.Posterior.load(tmp_path / "run" / "posterior-lag-1.nc")
    lag.assert_identical(first, lag.stream_posterior(rows[:60]))
    assert events[-1]["kind"] == "restart" and "a gap of 10 samples" in events[-1]["text"]
    assert live.posterior.settings.samples == 50
    # constants are known from before: no wider than then
    assert live.posterior.sd("a") <= 1.05 * first.sd("a")
    assert abs(live.posterior.mean("a") - lag.RATE) < 5 * live.posterior.sd("a")


@pytest.mark.parametrize("at", [1, 57])
def test_a_run_that_ends_anywhere_is_resumed_to_the_same_posterior(
    rows: np.ndarray, batch: ps.Posterior, tmp_path: Path, at: int
) -> None:
    folder = tmp_path / "run"
    with begin(folder=folder) as live:
        push(live, rows[:at])
        live.wait(120)
    # as if killed: samples in the journal that no checkpoint has
    journal = Journal(folder / "journal.bin", ("u", "level"), lag.DT)
    list(journal.entries())
    journal.append([Rows(rows[at : at + 9, 0], rows[at : at + 9, 1:])])
    journal.close()
    with begin(folder=folder, resume=True) as live:
        assert push(live, rows) == SAMPLES  # the sender repeats what it had sent
        live.wait(120)
        assert live.counts["duplicate"] == at + 9
    lag.assert_identical(live.posterior, batch)


def test_a_resumed_run_knows_its_new_starts(rows: np.ndarray, tmp_path: Path) -> None:
    folder, options = tmp_path / "run", ps.LiveOptions(patience=0.3)
    with begin(folder=folder, options=options) as live:
        push(live, rows[:40])
        push(live, rows[50:90])
        live.wait(120)
    with begin(folder=folder, options=options, resume=True) as resumed:
        push(resumed, rows[90:])
        resumed.wait(120)
    with begin(folder=tmp_path / "whole", options=options) as whole:
        push(whole, rows[:40])
        push(whole, rows[50:])
        whole.wait(120)
    lag.assert_identical(resumed.posterior, whole.posterior)


@pytest.mark.parametrize("window", [None, 64])
def test_a_change_raises_an_alarm_that_names_the_constant(window: int | None) -> None:
    rows, raised = lag.measure(400, change=250, rate=0.85 * lag.RATE), []
    with begin(on_alarm=raised.append, window=window) as live:
        push(live, rows)
        live.wait(120)
    alarm = raised[0]
    assert 250 < alarm.sample < 280
    assert 240 < alarm.onset / lag.DT <= alarm.sample
    assert alarm.suspects[0].name == "a"
    assert alarm.suspects[0].gain > alarm.suspects[1].gain + 3
    assert alarm.suspects[0].after < alarm.suspects[0].before
    assert "most suspicious: a 1.49" in alarm.text
    assert live.alarms[0] == alarm


def test_after_an_alarm_a_new_start_finds_the_new_value() -> None:
    rows = lag.measure(700, change=250, rate=0.85 * lag.RATE)
    with begin(options=ps.LiveOptions(on_alarm="restart")) as live:
        push(live, rows[:500])
        live.wait(120)
        push(live, rows[500:])
        live.wait(120)
    posterior = live.posterior
    assert posterior.settings.samples < 450
    # without the new start the mean is still above 95 % of the old value, by the samples of the first part
    assert abs(posterior.mean("a") - 0.85 * lag.RATE) < 4 * posterior.sd("a")
    assert len(live.alarms) == 1  # the new values fit
    begun, given = posterior.setup.problem.priors, lag.OPTIONS["priors"]  # all is forgotten
    for name, prior in given.items():
        assert type(begun[name]) is type(prior)
        assert (float(begun[name].loc), float(begun[name].scale)) == (prior.loc, prior.scale)


def test_events_are_kept_with_the_samples_as_data(tmp_path: Path) -> None:
    lines: list[str] = []

    class Lines:
        def write(self, line: str) -> None:
            lines.append(line)

        def close(self) -> None:
            pass

    from probsysid.data.readers import Channel
    from probsysid.live.channels import Channels
    from probsysid.live.messages import Message
    from probsysid.live.session import Session

    arguments = {"model": lag.model, "dt": lag.DT, **lag.OPTIONS}
    channels = Channels({"u": Channel("u")}, {"level": Channel("y")}, "t")
    session = Session({"lag": arguments}, channels, ps.LiveOptions(), folder=tmp_path / "run", results=[Lines()])
    session.start()
    rows = lag.measure(20)
    session.intake.push(Message({"u": rows[:, 1], "y": rows[:, 2]}, rows[:, 0]))
    session.engine.wait(60)
    session.engine.mark("<script>alert(1)</script>\n../../etc/passwd; rm -rf /" + "x" * 100)
    session.end(finish=True)
    found = [json.loads(line) for line in lines]
    (mark,) = [item for item in found if item["kind"] == "mark"]
    assert len(mark["text"]) <= 80 and "\n" not in mark["text"]
    last = [item for item in found if item["kind"] == "posterior"][-1]
    assert last["accepted"] == last["processed"] == 20
    assert set(last["models"]["lag"]["parameters"]) == {"a", "b", "initial.h"}
    journal = Journal(tmp_path / "run" / "journal.bin", ("u", "level"), lag.DT)
    events = [entry.content for entry in journal.entries() if isinstance(entry, Event)]
    journal.close()
    assert mark in events


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dt": -1.0}, "dt is -1.0"),
        ({"options": ps.LiveOptions(gaps="missing")}, "over a gap the inputs are not known"),
        ({"resume": True, "folder": "nowhere"}, "there is nothing to resume"),
        ({"noise": {}}, "noise has no entry"),
    ],
)
def test_a_wrong_argument_is_one_sentence(
    changes: dict[str, Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ps.InputError, match=sentence):
        ps.Live(lag.model, **{"dt": lag.DT, **lag.OPTIONS, **changes})


@pytest.mark.parametrize("given", [{"block": 0}, {"keep": 2}, {"on_alarm": "panic"}, {"false_alarms": -1}])
def test_wrong_options_are_one_sentence(given: dict[str, Any]) -> None:
    with pytest.raises(ps.InputError, match=next(iter(given))):
        ps.LiveOptions(**given)
