"""The likelihoods that are compared, as targets for one and the same sampler."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import probsysid as ps
from probsysid.model.problem import Problem
from validation.honesty.problems import HonestyProblem
from validation.honesty.runge_kutta import RungeKuttaTarget
from validation.shared import Shared

SAMPLER = ps.Sampler(particles=256, islands=1)
"""Its own error of a posterior mean is at most 0.09 sd, from 128 effective particles: 1 % of a squared z-score."""

AUTO = 0
"""In place of a number of steps: chosen by the program."""

Make = Callable[[HonestyProblem, ps.Record, int], Any]


def runge_kutta(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """Runge-Kutta of order four at the same step, taken for exact."""
    return RungeKuttaTarget(problem, record, steps)


def paper(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """The paper's choices."""
    return _shared(problem, ps.Solver.paper(substeps=steps)).experiment(record)


def fixed(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """Ours with q = 3 for coordinates of second order, and q = 2 for those of first: one more than the order."""
    return _shared(problem, ps.Solver("paper", steps)).experiment(record)


def plain(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """As `fixed`, with what automatic steps use: linearised once, at the prediction, and one diffusion for all time."""
    return _shared(problem, ps.Solver("paper", steps, ps.EKF1(), ps.QuasiMLE())).experiment(record)


def automatic(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """Ours as it comes."""
    return _shared(problem, ps.Solver()).experiment(record)


def gold(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """Runge-Kutta with so many steps that more of them change nothing."""
    return RungeKuttaTarget(problem, record, problem.fine)


METHODS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "rk4": (runge_kutta, (1, 2, 4)),
    "paper": (paper, (1, 2, 4)),
    "plain": (plain, (1, 2, 4)),
    "fixed": (fixed, (1, 2, 4)),
    "auto": (automatic, (AUTO,)),
    "gold": (gold, (AUTO,)),
}
"""Each with the numbers of steps a sample that it is tried at."""


@lru_cache
def _shared(problem: HonestyProblem, solver: ps.Solver) -> Shared:
    """One compilation for all data sets."""
    asked = Problem.make(problem.model, solver, problem.priors, problem.noise, [problem.initial], None)
    return Shared(asked, SAMPLER)
