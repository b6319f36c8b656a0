"""One problem with many data sets, compiled once."""

from typing import Any

import probsysid as ps
from probsysid.inference.identify import sample_all
from probsysid.model.problem import Problem
from probsysid.parallel.default import default_executor
from probsysid.smc import ibis
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState
from probsysid.targets.batch_target import BatchTarget


class Shared:
    """Targets of the same problem, which share their compiled programs."""

    def __init__(self, problem: Problem, solver: ps.Solver, sampler: ps.Sampler):
        self.problem = problem
        self.solver = solver
        self.sampler = sampler

    def experiment(self, record: ps.Record) -> BatchTarget:
        return BatchTarget(self.problem, self.solver, (record,), self.sampler.particles, default_executor())

    def run(self, target: BatchTarget, seed: int) -> tuple[IBISState, History]:
        history = History(self.sampler.islands)
        run = ibis.start(target, self.sampler, seed)
        return sample_all(run, history, target, self.sampler, _ignore, _ignore), history


def _ignore(*_: Any) -> None:
    """Neither progress nor checkpoints."""
