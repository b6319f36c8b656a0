"""A stream is a batch: the same posterior to the last bit, however the samples are portioned."""

import linecache
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from jax.sharding import Mesh

import probsysid as ps
from probsysid.parallel.executor import Executor, Result, Task
from tests import duffing

SAMPLES = 90


@pytest.fixture(scope="module")
def record() -> ps.Record:
    return duffing.measure(SAMPLES)


@pytest.fixture(scope="module")
def batch(record: ps.Record) -> ps.Posterior:
    return ps.identify(duffing.model, record, **duffing.options())


def feed(online: ps.Identifier, record: ps.Record, first: int, last: int) -> None:
    online.update({"force": record.inputs["force"][first:last]}, {"position": record.outputs["position"][first:last]})


def assert_identical(one: ps.Posterior, other: ps.Posterior) -> None:
    np.testing.assert_array_equal(one.theta, other.theta)
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.evidence_by_population, other.evidence_by_population)
    np.testing.assert_array_equal(one.history.ess, other.history.ess)
    assert one.history.rejuvenations == other.history.rejuvenations


def test_one_by_one(record: ps.Record, batch: ps.Posterior) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    for k in range(SAMPLES):
        online.update({"force": record.inputs["force"][k]}, {"position": record.outputs["position"][k]})
    assert_identical(online.posterior, batch)


def test_in_blocks_saved_and_loaded(record: ps.Record, batch: ps.Posterior, tmp_path) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    for first, last in [(0, 1), (1, 40), (40, 41)]:
        feed(online, record, first, last)
    online.save(tmp_path / "state.npz")
    online = ps.Identifier.load(tmp_path / "state.npz")
    feed(online, record, 41, SAMPLES)
    assert_identical(online.posterior, batch)


def test_the_posterior_on_the_way_is_that_of_the_record_so_far(record: ps.Record) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    feed(online, record, 0, 60)
    assert_identical(online.posterior, ps.identify(duffing.model, record[:60], **duffing.options()))


def test_missing_outputs_may_be_left_out(record: ps.Record) -> None:
    options = duffing.options(sampler=ps.Sampler(particles=128, recover=False))  # a stream does not recover
    online = ps.Identifier(duffing.model, dt=duffing.DT, **options)
    feed(online, record, 0, 20)
    online.update({"force": record.inputs["force"][20:25]}, {})
    feed(online, record, 25, 40)
    gaps = np.array(record.outputs["position"][:40])
    gaps[20:25] = np.nan
    batch = ps.identify(duffing.model, record[:40].replace(outputs={"position": gaps}), **options)
    assert_identical(online.posterior, batch)


def test_a_posterior_does_not_change_afterwards(record: ps.Record) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    feed(online, record, 0, 20)
    early = online.posterior
    feed(online, record, 20, 40)
    assert len(early.history.ess) == 20
    assert len(online.posterior.history.ess) == 40


# Without waiting


def submit(online: ps.Identifier, record: ps.Record, first: int, last: int) -> None:
    for k in range(first, last):
        online.submit({"force": record.inputs["force"][k]}, {"position": record.outputs["position"][k]})


class Guarded(Executor):
    """Threads that call a function before they evaluate particles."""

    def __init__(self, before: Callable[[], None]):
        self.before = before
        self.threads = ps.Threads()

    def slices(self, particles: int) -> tuple[slice, ...]:
        return self.threads.slices(particles)

    def run(self, tasks: Sequence[Task[Result]]) -> list[Result]:
        self.before()
        return self.threads.run(tasks)

    def mesh(self, particles: int) -> Mesh | None:
        return self.threads.mesh(particles)


class Gate:
    """Lets an identification go on when it is told to."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        self.executor = Guarded(self.stop)

    def stop(self) -> None:
        self.reached.set()
        assert self.open.wait(60)


def test_samples_faster_than_they_can_be_brought_in(record: ps.Record, batch: ps.Posterior) -> None:
    gate = Gate()
    with ps.Identifier(duffing.model, dt=duffing.DT, executor=gate.executor, **duffing.options()) as online:
        submit(online, record, 0, 1)
        assert gate.reached.wait(60)
        submit(online, record, 1, 50)  # comes back although nothing moves
        assert (online.samples, online.lag) == (50, 50)
        assert len(online.posterior.history.ess) == 0
        assert not online.wait(0.01)
        gate.open.set()
        submit(online, record, 50, SAMPLES)
        on_the_way = online.posterior
        assert online.wait()
        assert (online.samples, online.lag) == (SAMPLES, 0)
    assert_identical(online.posterior, batch)
    count = len(on_the_way.history.ess)
    assert np.array_equal(on_the_way.history.ess, batch.history.ess[:count])
    assert sum(r.samples for r in on_the_way.records) == count


def test_submit_and_update_keep_the_order(record: ps.Record, batch: ps.Posterior) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    submit(online, record, 0, 20)
    feed(online, record, 20, 40)
    assert online.lag == 0
    submit(online, record, 40, SAMPLES)
    online.close()
    assert online.lag == 0
    assert_identical(online.posterior, batch)


@pytest.mark.parametrize("goes_on", ["here", pytest.param("elsewhere", marks=pytest.mark.long)])
def test_nothing_is_lost_when_the_user_stops(
    record: ps.Record, batch: ps.Posterior, tmp_path: Path, goes_on: str
) -> None:
    """Ctrl-C while samples are queued: what is not in the posterior is saved all the same, and caught up with later."""
    gate = Gate()
    with (
        pytest.raises(KeyboardInterrupt),
        ps.Identifier(duffing.model, dt=duffing.DT, executor=gate.executor, **duffing.options()) as online,
    ):
        submit(online, record, 0, 70)
        assert gate.reached.wait(60)
        raise KeyboardInterrupt
    assert online.samples == 70
    online.save(tmp_path / "state.npz")
    gate.open.set()
    loaded = ps.Identifier.load(tmp_path / "state.npz")
    assert (loaded.samples, loaded.lag) == (70, 70)
    one = loaded if goes_on == "elsewhere" else online
    feed(one, record, 70, SAMPLES)
    assert_identical(one.posterior, batch)


@contextmanager
def ctrl_c(functions: set[str], line: int) -> Iterator[None]:
    """An interruption where this thread comes to the given line, counted from 0, of those that the functions execute.

    Lines with `with` do not count: Python comes to them again on the way out, where a signal is not handled before
    the lock is released.
    """
    left = iter(range(line, -1, -1))

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_qualname not in functions:
            return None
        leaving = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith("with ")
        if event == "line" and not leaving and next(left, None) == 0:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_ctrl_c_in_the_middle_of_an_update(record: ps.Record, batch: ps.Posterior) -> None:
    """Wherever it strikes while samples enter the stream and the posterior, they are taken in once."""
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    feed(online, record, 0, 30)
    lags, last = set(), 30
    for line in range(100):
        first, last = last, last + 2
        try:
            with ctrl_c({"Identifier._step", "GrowingRecord.append", "StreamTarget._catch_up"}, line):
                feed(online, record, first, last)
        except KeyboardInterrupt:
            assert online.samples == last
            lags.add(online.lag)
            assert online.wait()
        else:
            break
    assert lags >= {0, 2}  # some struck before the posterior was replaced, some after
    feed(online, record, last, SAMPLES)
    assert_identical(online.posterior, batch)


def test_a_failure_is_raised_by_the_next_call_and_nothing_is_lost(record: ps.Record, batch: ps.Posterior) -> None:
    broken = threading.Event()

    def fail() -> None:
        if broken.is_set():
            raise ps.SamplingError("all particles are lost")

    online = ps.Identifier(duffing.model, dt=duffing.DT, executor=Guarded(fail), **duffing.options())
    submit(online, record, 0, 30)
    online.wait()
    broken.set()
    submit(online, record, 30, 31)
    with pytest.raises(ps.SamplingError, match="all particles are lost"):
        online.wait()
    submit(online, record, 31, 32)
    for thread in threading.enumerate():  # it ends when it has failed
        if thread.name == "probsysid: background":
            thread.join(60)
    broken.clear()
    with pytest.raises(ps.SamplingError, match="all particles are lost"):
        submit(online, record, 32, 33)
    assert (online.samples, online.lag) == (33, 3)
    submit(online, record, 33, SAMPLES)
    online.close()
    assert_identical(online.posterior, batch)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({"forse": 1.0}, {"position": 1.0}, "no input 'forse'"),
        ({}, {"position": 1.0}, "input 'force' is missing"),
        ({"force": np.nan}, {"position": 1.0}, "input 'force' is nan"),
        ({"force": 1.0}, {"position": np.inf}, "output 'position' is inf"),
        ({"force": [1.0, 2.0]}, {"position": 1.0}, "different lengths"),
        ({"force": "much"}, {"position": 1.0}, "'much'"),
        ({"force": 1.0}, {"velocity": 1.0}, "no output 'velocity'"),
    ],
)
def test_bad_samples_are_refused_and_nothing_is_taken_in(inputs, outputs, message) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    for call in (online.update, online.submit):
        with pytest.raises(ps.InputError, match=message):
            call(inputs, outputs)
    assert online.samples == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dt": 0.0}, "dt is 0.0"),
        ({"intersample": "bandlimited"}, "online it must be"),
        ({"noise": {}}, "noise has no entry for 'position'"),
        ({"seed": -1}, "seed is -1"),
        ({"sampler": ps.Sampler(path="likelihood")}, "online it must be 'data'"),
    ],
)
def test_bad_settings(changes, message) -> None:
    with pytest.raises(ps.InputError, match=message):
        ps.Identifier(duffing.model, **{"dt": duffing.DT, **duffing.options(), **changes})
