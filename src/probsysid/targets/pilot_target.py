"""The posterior with Runge-Kutta steps that count as exact: cheap, for looking around."""

from functools import cached_property, partial

from probsysid.model.noise import is_coloured
from probsysid.model.problem import Problem
from probsysid.odefilter.filter import VectorisedFilter, filter_for
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.runge_kutta import RungeKuttaFilter, prepare
from probsysid.targets.batch_target import BatchTarget, padded


class PilotTarget(BatchTarget):
    """The same records and priors as a batch target, with energies by `RungeKuttaFilter`."""

    @classmethod
    def of(cls, target: BatchTarget, substeps: int, particles: int | None = None) -> "PilotTarget":
        """The pilot of a target, with a number of Runge-Kutta steps per sampling interval, and of particles that are
        usually evaluated at once."""
        return cls(
            target.problem,
            target.solver,
            target.records,
            particles or target.particles,
            target.executor,
            substeps=substeps,
            batching=target.batching,
        )

    @cached_property
    def filters(self) -> tuple[VectorisedFilter, ...]:
        rows = self.batching.rows(self.at_once)
        return (filter_for(RungeKuttaFilter(self.problem.model), self.executor, rows),) * len(self.records)

    @cached_property
    def data(self) -> tuple[PackedSamples, ...]:
        packed = [PackedSamples.of(prepare(record, self.problem.model, self.substeps)) for record in self.records]
        return tuple(each.changed(partial(padded, batching=self.batching)) for each in packed)


def applies(problem: Problem) -> bool:
    """Whether a particle's motion is all that it predicts: with model error or coloured noise it is not."""
    return not problem.process_noise and not any(map(is_coloured, problem.noise.values()))
