"""Records put together with what is asked of them."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from threading import Event
from typing import Any

import numpy as np
from jaxtyping import Float

from probsysid.data.record import Record
from probsysid.model.problem import Problem
from probsysid.odefilter.filter import VectorisedFilter, filter_for
from probsysid.odefilter.filter_inputs import measured, prepare, with_room
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.parallel.sharding import prefetch, rows_of
from probsysid.targets.filter_target import FilterTarget, at_once, whole_chunks


class BatchTarget(FilterTarget):
    """Finished records."""

    def __init__(self, problem: Problem, records: Sequence[Record], particles: int):
        super().__init__(problem, particles)
        self.records = tuple(records)

    @cached_property
    def filters(self) -> tuple[VectorisedFilter, ...]:
        """Records whose inputs behave alike share a filter, and so its compiled programs."""
        problem = self.problem
        systems = [problem.solver.ode_filter(problem.model, record.jump_order) for record in self.records]
        return tuple(filter_for(ode_filter, at_once(self.particles)) for ode_filter in systems)

    @cached_property
    def data(self) -> tuple[PackedSamples, ...]:
        pairs = zip(self.records, self.filters, strict=True)
        samples = [prepare(record, f.ode_filter, self.substeps) for record, f in pairs]
        roomy = self.adaptive or self.substeps > 1
        return tuple(PackedSamples.of(with_room(s) if roomy else s).changed(_padded) for s in samples)

    def one_step_errors(self, theta: Any, weights: np.ndarray) -> tuple[Float[np.ndarray, "sample output"], ...]:
        """For each record: prediction errors in units of their standard deviation, averaged over particles.  NaN where
        nothing was measured, and at the first sample, which nothing predicts."""
        return tuple(self._errors_on(r, theta, weights) for r in range(len(self.records)))

    def _errors_on(self, record: int, theta: Any, weights: np.ndarray) -> Float[np.ndarray, "sample output"]:
        outputs = measured(self.records[record], self.problem.model)
        errors = np.full(outputs.shape, np.nan)
        for output in range(outputs.shape[1]):
            of_core = partial(self._weighted_errors, record, theta, weights, output)
            errors[1:, output] = np.sum(self._each(of_core, theta, self.offsets[record + 1]), axis=0)
        return np.where(np.isnan(outputs), np.nan, errors)

    def _weighted_errors(
        self, record: int, theta: Any, weights: np.ndarray, output: int, place: slice, given_up: Event
    ) -> Float[np.ndarray, " later"]:
        """Errors of an output at all samples but the first: the sum over some particles, by their weights."""
        alive = weights[place] > 0  # lost particles have no errors, and zero times that is not zero
        parts = []
        for count, rows in prefetch(self._errors_of(record, theta, place, output)):
            found = rows_of(rows, count)
            parts.append((found if alive.all() else found[:, alive]) @ weights[place][alive])
            if given_up.is_set():
                break
        return np.concatenate([np.empty(0), *parts])

    def _errors_of(self, record: int, theta: Any, place: slice, output: int) -> Iterator[tuple[int, Any]]:
        """Lengths of ranges of samples and errors of an output in them, as soon as a device has been told to find
        them."""
        state, begin = None, self.offsets[record]
        first, end = begin, self.offsets[record + 1]
        while first < end:
            last = self.limit(first)
            state, rows = self._advance(state, theta, place, first, last, watched=output)
            if first > begin:
                yield last - first, rows
            first = last

    def at(self, level: int) -> "BatchTarget":
        """The same with 2**level integration steps a sampling interval; all levels share their programs."""
        if level not in self._levels:
            other = BatchTarget(self.problem, self.records, self.particles)
            other.substeps = 2**level
            other.__dict__ |= {name: getattr(self, name) for name in ("filters", "offsets", "_levels")}
            self._levels[level] = other
        return self._levels[level]

    @cached_property
    def _levels(self) -> dict[int, "BatchTarget"]:
        return {}

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        return tuple(int(o) for o in np.cumsum([0, *(record.samples for record in self.records)]))

    def describe(self, sample: int) -> str:
        record, local = self._locate(sample)
        where = f"sample {local}" if len(self.records) == 1 else f"sample {local} of record {record}"
        return f"{where} (t = {self.records[record].time[local]:.6g})"


def _padded(rows: Float[np.ndarray, "sample number"]) -> Float[np.ndarray, "sample number"]:
    """Repeat the last sample until whole chunks are full."""
    return np.concatenate([rows, np.repeat(rows[-1:], whole_chunks(len(rows)) - len(rows), axis=0)])
