"""The target of a batch run: finished records."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from threading import Event

import numpy as np
from jaxtyping import Float, PyTree

from probsysid._internal.array_types import Numbers
from probsysid.data.record import Record
from probsysid.model.problem import Problem
from probsysid.odefilter.filter import SampleFilter, VectorisedFilter, filter_for
from probsysid.odefilter.filter_inputs import measured
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.solver import Solver
from probsysid.parallel.executor import Executor
from probsysid.parallel.sharding import prefetch, rows_of
from probsysid.targets.filter_target import Batching, FilterTarget, PreparedParticles
from probsysid.targets.integrators import Integrator, RungeKutta, has_pilot
from probsysid.targets.remote_target import RemoteTarget


class BatchTarget(FilterTarget):
    """The posterior given finished records.

    Args:
        problem, solver, records: what is asked, how it is integrated, and the data.
        particles: how many are usually evaluated at once.
        executor: what evaluates them.
        substeps: integration steps per sampling interval, in place of the solver's.
        integrator: what integrates in place of the solver.
        batching: how samples are grouped into calls of the filter.
        levels: the same target at other numbers of steps, which share their filters; filled by `at`.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        records: Sequence[Record],
        particles: int,
        executor: Executor,
        *,
        substeps: int | None = None,
        integrator: Integrator | None = None,
        batching: Batching = Batching(),
        levels: "dict[int, BatchTarget] | None" = None,
    ):
        super().__init__(problem, solver, particles, executor, integrator, substeps=substeps, batching=batching)
        self.records = tuple(records)
        self._levels = {} if levels is None else levels

    @cached_property
    def filters(self) -> tuple[VectorisedFilter, ...]:
        """Records whose inputs behave alike share a filter, and so its compiled programs."""
        rows = self.batching.rows(self.at_once)
        return tuple(filter_for(each, self.executor, rows) for each in self._sample_filters)

    @cached_property
    def _sample_filters(self) -> tuple[SampleFilter, ...]:
        return tuple(self.integrator.sample_filter(self.problem.model, record.jump_order) for record in self.records)

    @cached_property
    def data(self) -> tuple[PackedSamples, ...]:
        pairs = enumerate(zip(self.records, self._sample_filters, strict=True))
        packed = [self.integrator.samples(record, each, self.substeps, number=n) for n, (record, each) in pairs]
        return tuple(each.changed(partial(padded, batching=self.batching)) for each in packed)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        return tuple(int(o) for o in np.cumsum([0, *(record.samples for record in self.records)]))

    def describe(self, sample: int) -> str:
        record, local = self._locate(sample)
        where = f"sample {local}" if len(self.records) == 1 else f"sample {local} of record {record}"
        return f"{where} (t = {self.records[record].time[local]:.6g})"

    def at(self, level: int) -> "BatchTarget":
        """The same with 2**level integration steps per sampling interval, all levels with the same programs; or with
        2**level times as many points."""
        if level not in self._levels:
            self._levels[level] = self._like(*self.of_level(level), self.particles, self._levels)
        return self._levels[level]

    @cached_property
    def pilot(self) -> "BatchTarget | None":
        """The same with a cheaper likelihood, where there is one and steps are automatic."""
        if self.estimated or not (self.adaptive and self.solver.pilot and has_pilot(self.problem)):
            return None
        return self.with_runge_kutta(self.substeps)

    def with_runge_kutta(self, substeps: int, particles: int | None = None) -> "BatchTarget":
        """The same with a number of Runge-Kutta steps per sampling interval that count as exact, and with a number of
        particles that are usually evaluated at once."""
        return self._like(substeps, RungeKutta.of(self.problem, self.solver), particles or self.particles)

    def _like(
        self, substeps: int, integrator: Integrator, particles: int, levels: "dict[int, BatchTarget] | None" = None
    ) -> "BatchTarget":
        return BatchTarget(
            self.problem,
            self.solver,
            self.records,
            particles,
            self.executor,
            substeps=substeps,
            integrator=integrator,
            batching=self.batching,
            levels=levels,
        )

    # On a cluster

    @cached_property
    def _remote(self) -> RemoteTarget | None:
        remote = self.executor.remote
        return None if remote is None or self.block is None else RemoteTarget(self, self.records, remote, self.block)

    def _worthwhile(self, theta: Numbers, samples: int) -> RemoteTarget | None:
        """The target on the cluster, where there is one and enough to do for it."""
        remote = self._remote
        return remote if remote is not None and remote.worthwhile(theta.shape[-1], samples) else None

    def advance(self, state: PyTree, theta: Numbers, first: int, last: int) -> tuple[PyTree, Numbers]:
        remote = self._worthwhile(theta, last - first)
        if remote is None:
            return super().advance(state, theta, first, last)
        return remote.advance(state, theta, first, last)

    def sweep(self, theta: Numbers, stop: int) -> tuple[PyTree, np.ndarray, np.ndarray]:
        remote = self._worthwhile(theta, stop)
        return super().sweep(theta, stop) if remote is None else remote.sweep(theta, stop)

    # One-step prediction errors

    def one_step_errors(
        self, theta: Float[np.ndarray, "dimension particle"], weights: Float[np.ndarray, " particle"]
    ) -> tuple[Float[np.ndarray, "_sample output"], ...]:
        """For each record, the weighted mean over particles of the one-step prediction errors, in units of their
        standard deviation.  NaN where nothing was measured, and at the first sample, which is not predicted."""
        remote = self._worthwhile(theta, self.samples)
        if remote is not None:
            return remote.one_step_errors(theta, weights)
        some = self._few(theta.shape[-1])
        if some is not None:
            placed = np.zeros(self.particles)
            placed[some.places] = weights
            theta, weights = theta[:, some.order], placed
        active = None if some is None else some.active
        return tuple(self._errors_on(r, theta, weights, active) for r in range(len(self.records)))

    def _errors_on(
        self, record: int, theta: Numbers, weights: np.ndarray, active: int | None
    ) -> Float[np.ndarray, "sample output"]:
        outputs = measured(self.records[record], self.problem.model)
        prepared = self._prepared(record, theta)
        errors = np.full(outputs.shape, np.nan)
        for output in range(outputs.shape[1]):
            of_slice = partial(self._weighted_errors, record, prepared, weights, output, active)
            errors[1:, output] = np.sum(self._on_slices(of_slice, theta), axis=0)
        return np.where(np.isnan(outputs), np.nan, errors)

    def _weighted_errors(
        self,
        record: int,
        prepared: Sequence[PreparedParticles],
        weights: np.ndarray,
        output: int,
        active: int | None,
        index: int,
        part: slice,
        give_up: Event,
    ) -> Float[np.ndarray, " later"]:
        """The sum of one slice's weighted errors of an output, at all samples but the first."""
        alive = weights[part] > 0  # lost particles have no errors, and zero times NaN is not zero
        pieces = []
        for count, rows in prefetch(self._error_ranges(record, prepared[index], output, active)):
            found = rows_of(rows, count)
            pieces.append((found if alive.all() else found[:, alive]) @ weights[part][alive])
            if give_up.is_set():
                break
        return np.concatenate([np.empty(0), *pieces])

    def _error_ranges(
        self, record: int, prepared: PreparedParticles, output: int, active: int | None
    ) -> Iterator[tuple[int, PyTree]]:
        """The length of each range of samples and the errors in it, as soon as the device has been told to compute
        them."""
        state, begin = None, self.offsets[record]
        first, end = begin, self.offsets[record + 1]
        while first < end:
            last = self.limit(first)
            state, rows = self._advance(state, prepared, first, last, output, active)
            if first > begin:
                yield last - first, rows
            first = last


def padded(rows: Float[np.ndarray, "sample number"], batching: Batching) -> Float[np.ndarray, "row number"]:
    """The last sample repeated until whole chunks are full."""
    return np.concatenate([rows, np.repeat(rows[-1:], batching.whole_chunks(len(rows)) - len(rows), axis=0)])
