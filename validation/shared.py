"""Many data sets for one question, with one compilation."""

from typing import Any

import probsysid as ps
from probsysid.inference.identify import sample_all
from probsysid.model.problem import Problem
from probsysid.smc import ibis
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState
from probsysid.targets.batch_target import BatchTarget


class Shared:
    """Experiments with the same question, which share what they compile."""

    def __init__(self, problem: Problem, sampler: ps.Sampler):
        self.problem = problem
        self.sampler = sampler

    def experiment(self, record: ps.Record) -> BatchTarget:
        return BatchTarget(self.problem, (record,), self.sampler.particles)

    def run(self, experiment: BatchTarget, seed: int) -> tuple[IBISState, History]:
        history = History(self.sampler.islands)
        run = ibis.start(experiment, self.sampler, seed)
        return sample_all(run, history, experiment, self.sampler, _ignore, _ignore), history


def _ignore(*_: Any) -> None:
    """Neither progress nor checkpoints."""
