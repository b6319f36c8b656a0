"""The target of an online run: one record that grows."""

from collections.abc import Callable
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probsysid._internal.array_types import Numbers, Scalar
from probsysid._internal.errors import InputError
from probsysid.data.record import Record
from probsysid.model.problem import Problem
from probsysid.odefilter.filter import OneStep, SampleFilter, VectorisedFilter, filter_for
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.solver import Solver
from probsysid.parallel.executor import Executor
from probsysid.smc.ibis import IBISState
from probsysid.targets.carried import CarriedPosterior
from probsysid.targets.filter_target import Batching, FilterTarget, PreparedParticles
from probsysid.targets.growing_record import GrowingRecord, written
from probsysid.targets.integrators import Integrator, RungeKutta, has_pilot


class StreamTarget(FilterTarget):
    """The posterior given the samples of a stream so far.

    The samples are kept, since rejuvenation filters all of them again; nothing else grows with time.  With a `carried`
    posterior it begins after the samples that this one stands for.
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
        carried: CarriedPosterior | None = None,
    ):
        if executor.remote is not None:
            raise InputError("a cluster evaluates finished records; an Identifier takes executor=Threads(...).")
        super().__init__(problem, solver, particles, executor, integrator, substeps=substeps, batching=batching)
        self.stream = stream
        self.carried = carried
        self.begin = 0 if carried is None else carried.samples - 1
        """The first sample that is filtered: where a posterior is carried over, the last one that it includes."""
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
        return (self.begin, self.stream.count)

    @property
    def data(self) -> tuple[PackedSamples, ...]:
        self._catch_up()
        return () if self._packed is None else (self._packed,)

    def describe(self, sample: int) -> str:
        return f"sample {sample} (t = {sample * self.stream.dt:.6g})"

    @cached_property
    def pilot(self) -> "StreamTarget | None":
        """The same with a cheaper likelihood, where there is one and steps are automatic."""
        if self.estimated or not (self.adaptive and self.solver.pilot and has_pilot(self.problem)):
            return None
        return self._like(self.substeps, RungeKutta.of(self.problem, self.solver))

    def at(self, level: int) -> "StreamTarget":
        """The same with 2**level integration steps per sampling interval."""
        of_level = self.of_level(level)
        return self if (self.substeps, self.integrator) == of_level else self._like(*of_level)

    def of(self, run: IBISState) -> "StreamTarget":
        """The target that a run is computed with."""
        kind = self.pilot if run.pilot else self
        assert kind is not None, "a run on a pilot comes from a target that has one"
        return kind.at(run.level) if self.adaptive else kind

    def on(self, stream: GrowingRecord, carried: CarriedPosterior | None) -> "StreamTarget":
        """The same on other samples, after a posterior that is carried over."""
        return self._like(self.substeps, self.integrator, stream, carried)

    def _like(
        self,
        substeps: int,
        integrator: Integrator,
        stream: GrowingRecord | None = None,
        carried: CarriedPosterior | None = None,
    ) -> "StreamTarget":
        return StreamTarget(
            self.problem,
            self.solver,
            self.particles,
            self.executor,
            stream or self.stream,
            substeps=substeps,
            integrator=integrator,
            batching=self.batching,
            carried=carried if stream else self.carried,
        )

    def cost(self, stop: int) -> int:
        return stop - self.begin

    def log_prior(self, theta: Numbers) -> Numbers:
        """With a carried posterior, its log density."""
        return super().log_prior(theta) if self.carried is None else self.carried.log_density(theta)

    def _prepare(self, record: int) -> Callable[[Numbers], PreparedParticles]:
        prepare, carried = super()._prepare(record), self.carried
        if carried is None:
            return prepare
        constant = list(carried.state_sd)

        def begun(theta: Numbers) -> PreparedParticles:
            given = prepare(theta)
            sds: list[Scalar] = [jnp.full(theta.shape[-1], sd) for sd in constant]
            start = given.particles._replace(initial_mean=list(jnp.asarray(carried.states(theta))), initial_sd=sds)
            return given._replace(particles=start)

        return begun

    def physical(
        self, state: Numbers, theta: Numbers, sample: int
    ) -> tuple[Float[np.ndarray, "component particle"], Float[np.ndarray, "component particle"]]:
        """Means and standard deviations of the physical components of particles with this state after a sample."""
        prepared = self._prepare(0)(theta)
        row = max(sample - self.begin - 1, 0) % self.batching.chunk
        first = max(sample - self.begin - row, 1)
        samples = self.portion(0, first, first + self.batching.chunk)
        return self.filters[0].physical(state, prepared.particles, samples, row)

    def one_step(self, state: Numbers, theta: Numbers, first: int, last: int) -> OneStep:
        """One-step predictions of particles with this state over samples first..last-1, a range that `limit` allows;
        the first sample of the stream is not predicted."""
        prepared = self._prepare(0)(theta)
        local = first - self.begin
        row = (local - 1) % self.batching.chunk
        samples = self.portion(0, local - row, local - row + self.batching.chunk)
        return self.filters[0].one_step(state, prepared.particles, samples, row, row + last - first)

    def _catch_up(self) -> None:
        """Add the rows of new samples, and pad the last chunk with the newest."""
        first, count = self._packed_count, self.stream.count - self.begin
        if first == count:
            return
        record = self.stream.record(self.begin + max(first - 1, 0), self.stream.count)
        if first == 0 and self.carried is not None:  # what was measured there is in the carried posterior
            record = record.replace(outputs={n: _without_first(values) for n, values in record.outputs.items()})
        new = self.integrator.samples(record, self._sample_filter, self.substeps, first)
        padding = np.repeat(new.numbers[-1:], self.batching.whole_chunks(count) - count, axis=0)
        old = None if self._packed is None else np.asarray(self._packed.numbers)  # the same buffer
        self._packed = new.changed(lambda numbers: written(old, first, np.concatenate([numbers, padding])))
        self._packed_count = count


def _without_first(values: np.ndarray) -> np.ndarray:
    found = np.array(values, dtype=float)
    found[0] = np.nan
    return found
