"""Many data sets for one question, with one compilation."""

from typing import Any

import probsysid as ps
from probsysid.inference.identify import sample_all
from probsysid.model.problem import Question
from probsysid.smc import ibis
from probsysid.smc.history import History
from probsysid.smc.ibis import Run
from probsysid.targets.batch_target import Experiment


class Shared:
    """Experiments with the same question, which share what they compile."""

    def __init__(self, question: Question, sampler: ps.Sampler):
        self.question = question
        self.sampler = sampler

    def experiment(self, record: ps.Record) -> Experiment:
        return Experiment(self.question, (record,), self.sampler.particles)

    def run(self, experiment: Experiment, seed: int) -> tuple[Run, History]:
        history = History(self.sampler.islands)
        run = ibis.start(experiment, self.sampler, seed)
        return sample_all(run, history, experiment, self.sampler, _ignore, _ignore), history


def _ignore(*_: Any) -> None:
    """Neither progress nor checkpoints."""
