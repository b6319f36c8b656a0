"""The target of an online run: one record that grows."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from probsysid._internal.array_types import Numbers
from probsysid._internal.errors import InputError
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.model.problem import Problem
from probsysid.odefilter.filter import OneStep, SampleFilter, VectorisedFilter, filter_for
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.solver import Solver
from probsysid.parallel.executor import Executor
from probsysid.smc.ibis import IBISState
from probsysid.targets.filter_target import Batching, FilterTarget
from probsysid.targets.integrators import Integrator, RungeKutta, has_pilot

Word = Literal["linear", "zoh"]


class SampleBlock(NamedTuple):
    """Samples that have come in."""

    first: int
    """Index of the first one in the stream."""
    samples: int
    channels: dict[str, np.ndarray]
    """Inputs by their names, outputs as `output:name`."""


class GrowingRecord:
    """The samples of a stream so far: the targets that are computed from them share them."""

    def __init__(self, model: Model, dt: float, intersample: Word):
        self.model = model
        self.dt = dt
        self.intersample = intersample
        self.count = 0
        self._channels: dict[str, np.ndarray] = {}

    @property
    def channels(self) -> dict[str, np.ndarray]:
        """All samples: inputs by their names, outputs as `output:name`."""
        return {name: values[: self.count] for name, values in self._channels.items()}

    def append(self, fresh: Mapping[str, np.ndarray]) -> None:
        """Add samples, given as arrays of one length: inputs by their names, outputs as `output:name`."""
        count = len(next(iter(fresh.values())))
        for name, values in fresh.items():
            self._channels[name] = _written(self._channels.get(name), self.count, values)
        self.count += count

    def record(self, first: int, last: int) -> Record:
        """Samples first..last-1 as a record."""
        return Record(
            inputs={name: self._channels[name][first:last] for name in self.model.input_names},
            outputs={name: self._channels[f"output:{name}"][first:last] for name in self.model.output_names},
            dt=self.dt,
            start=first * self.dt,
            intersample=self.intersample,
        )


class StreamTarget(FilterTarget):
    """The posterior given the samples of a stream so far.

    The samples are kept, since rejuvenation filters all of them again; nothing else grows with time.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        particles: int,
        executor: Executor,
        stream: GrowingRecord,
        *,
        substeps: int | None = None,
        integrator: Integrator | None = None,
        batching: Batching = Batching(),
    ):
        if executor.remote is not None:
            raise InputError("a cluster evaluates finished records; an Identifier takes executor=Threads(...).")
        super().__init__(problem, solver, particles, executor, integrator, substeps=substeps, batching=batching)
        self.stream = stream
        self._packed: PackedSamples | None = None
        self._packed_count = 0

    @cached_property
    def filters(self) -> tuple[VectorisedFilter, ...]:
        return (filter_for(self._sample_filter, self.executor, self.batching.rows(self.at_once)),)

    @cached_property
    def _sample_filter(self) -> SampleFilter:
        model, stream = self.problem.model, self.stream
        inputs = dict.fromkeys(model.input_names, np.zeros(2))
        alike = Record(inputs=inputs, dt=stream.dt, samples=2, intersample=stream.intersample)
        return self.integrator.sample_filter(model, alike.jump_order)

    @property
    def offsets(self) -> tuple[int, int]:
        return (0, self.stream.count)

    @property
    def data(self) -> tuple[PackedSamples, ...]:
        self._catch_up()
        return () if self._packed is None else (self._packed,)

    def describe(self, sample: int) -> str:
        return f"sample {sample} (t = {sample * self.stream.dt:.6g})"

    @cached_property
    def pilot(self) -> "StreamTarget | None":
        """The same with a cheaper likelihood, where there is one and steps are automatic."""
        if not (self.adaptive and self.solver.pilot and has_pilot(self.problem)):
            return None
        return self._like(self.substeps, RungeKutta.of(self.problem, self.solver))

    def at(self, level: int) -> "StreamTarget":
        """The same with 2**level integration steps per sampling interval."""
        return self if self.substeps == 2**level else self._like(2**level, self.integrator)

    def of(self, run: IBISState) -> "StreamTarget":
        """The target that a run is computed with."""
        kind = self.pilot if run.pilot else self
        assert kind is not None, "a run on a pilot comes from a target that has one"
        return kind.at(run.level) if self.adaptive else kind

    def _like(self, substeps: int, integrator: Integrator) -> "StreamTarget":
        return StreamTarget(
            self.problem,
            self.solver,
            self.particles,
            self.executor,
            self.stream,
            substeps=substeps,
            integrator=integrator,
            batching=self.batching,
        )

    def one_step(self, state: Numbers, theta: Numbers, first: int, last: int) -> OneStep:
        """One-step predictions of particles with this state over samples first..last-1, a range that `limit` allows;
        the first sample of the stream is not predicted."""
        prepared = self._prepare(0)(theta)
        row = (first - 1) % self.batching.chunk
        samples = self.portion(0, first - row, first - row + self.batching.chunk)
        return self.filters[0].one_step(state, prepared.particles, samples, row, row + last - first)

    def _catch_up(self) -> None:
        """Add the rows of new samples, and pad the last chunk with the newest."""
        first, count = self._packed_count, self.stream.count
        if first == count:
            return
        record = self.stream.record(max(first - 1, 0), count)
        new = self.integrator.samples(record, self._sample_filter, self.substeps, first)
        padding = np.repeat(new.numbers[-1:], self.batching.whole_chunks(count) - count, axis=0)
        old = None if self._packed is None else np.asarray(self._packed.numbers)  # the same buffer
        self._packed = new.changed(lambda numbers: _written(old, first, np.concatenate([numbers, padding])))
        self._packed_count = count


def joined(blocks: Sequence[SampleBlock]) -> dict[str, np.ndarray]:
    """The channels of consecutive blocks."""
    return {name: np.concatenate([block.channels[name] for block in blocks]) for name in blocks[0].channels}


def _written(buffer: np.ndarray | None, used: int, values: Numbers) -> np.ndarray:
    """The buffer with values written from `used` on; doubled where it is full."""
    values = np.asarray(values, dtype=float)
    if buffer is None:
        buffer = np.zeros((max(256, len(values)), *values.shape[1:]))
    while len(buffer) < used + len(values):
        buffer = np.concatenate([buffer, np.zeros_like(buffer)])
    buffer[used : used + len(values)] = values
    return buffer
