"""Samples as one matrix."""

from itertools import pairwise

import jax
import numpy as np
import pytest

import probsysid as ps
from probsysid.model.problem import Problem
from probsysid.odefilter.filter_inputs import prepare, with_room
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.parallel.threads import Threads
from probsysid.targets.batch_target import BatchTarget
from probsysid.targets.filter_target import Batching
from probsysid.targets.growing_record import GrowingRecord
from probsysid.targets.stream_target import StreamTarget
from tests import duffing

CHUNK = 8


@pytest.mark.parametrize("time", [0.1 * np.arange(12), np.cumsum(np.r_[0.0, 0.1, 0.3, 0.05, 0.2])])
def test_every_row_is_the_sample(time: np.ndarray) -> None:
    random = np.random.default_rng(0)
    record = ps.Record({"force": random.normal(size=len(time))}, {"position": random.normal(size=len(time))}, time=time)
    samples = with_room(prepare(record, ps.Solver().ode_filter(duffing.model, record.jump_order), 2))
    rows = PackedSamples.of(samples)
    assert len(rows) == len(time)
    for k in range(len(time)):
        found, expected = jax.tree.flatten(rows[k]), jax.tree.flatten(jax.tree.map(lambda leaf, k=k: leaf[k], samples))
        assert found[1] == expected[1]
        for one, other in zip(found[0], expected[0], strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


def test_rows_go_through_compiled_functions() -> None:
    rows = PackedSamples.of(IntervalData(*(np.full((3, 2), float(i)) for i in range(7))))
    np.testing.assert_array_equal(jax.jit(lambda rows: rows[1].outputs)(rows), [3.0, 3.0])


# Streams, which write on in what has been sent


class AlignedStream(StreamTarget):
    """A stream whose second chunk lies where JAX would use it without copying: at a multiple of 64 bytes."""

    buffer: np.ndarray | None = None

    @property
    def data(self) -> tuple[PackedSamples, ...]:
        (packed,) = super().data
        if self.buffer is None:
            place = np.empty(packed.numbers.nbytes + 64, dtype=np.uint8)
            shift = -(place.ctypes.data + (1 + CHUNK) * packed.numbers.strides[0]) % 64
            self.buffer = place[shift : shift + packed.numbers.nbytes].view(float).reshape(packed.numbers.shape)
        self.buffer[:] = packed.numbers
        return (packed.changed(lambda _: self.buffer),)


@pytest.fixture
def target() -> tuple[StreamTarget, BatchTarget, ps.Record]:
    record = duffing.measure(40)
    options = duffing.options()
    problem = Problem.make(duffing.model, options["priors"], options["noise"], [options["initial"]], None)
    solver, executor, batching = ps.Solver(substeps=2), Threads(1), Batching(chunk=CHUNK)
    growing = GrowingRecord(duffing.model, duffing.DT, "linear")
    stream = AlignedStream(problem, solver, 64, executor, growing, batching=batching)
    return stream, BatchTarget(problem, solver, [record], 64, executor, batching=batching), record


def feed(stream: StreamTarget, record: ps.Record, first: int, last: int) -> None:
    inputs, outputs = record.inputs["force"], record.outputs["position"]
    stream.stream.append({"force": np.asarray(inputs)[first:last], "output:position": outputs[first:last]})


def chunk(target: StreamTarget | BatchTarget, number: int) -> PackedSamples:
    first = 1 + number * CHUNK
    return target.portion(0, first, first + CHUNK)


def test_rows_of_a_stream_are_those_of_the_record(target: tuple[StreamTarget, BatchTarget, ps.Record]) -> None:
    stream, batch, record = target
    ends = [0, 1, 2, 3, 8, 9, 10, 24, 25, 26, 39]
    for first, last in pairwise(ends):
        feed(stream, record, first, last)
        for number in range(-(-(last - 1) // CHUNK)):
            there = min(last - 1 - number * CHUNK, CHUNK)
            found, expected = (np.asarray(chunk(t, number).numbers)[:there] for t in (stream, batch))
            np.testing.assert_array_equal(found, expected)


def test_full_chunks_are_sent_once(target: tuple[StreamTarget, BatchTarget, ps.Record]) -> None:
    stream, _, record = target
    feed(stream, record, 0, 12)
    full, growing = chunk(stream, 0), chunk(stream, 1)
    assert chunk(stream, 1) is growing
    feed(stream, record, 12, 13)
    assert chunk(stream, 0) is full
    assert chunk(stream, 1) is not growing


def test_what_was_sent_does_not_change_when_more_is_written(
    target: tuple[StreamTarget, BatchTarget, ps.Record],
) -> None:
    stream, _, record = target
    feed(stream, record, 0, 12)
    sent = chunk(stream, 1)
    before = np.array(sent.numbers)
    feed(stream, record, 12, 15)
    np.testing.assert_array_equal(np.asarray(sent.numbers), before)
    assert np.any(np.asarray(chunk(stream, 1).numbers) != before)
