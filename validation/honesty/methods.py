"""The likelihoods compared, as targets of the same sampler."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import probsysid as ps
from probsysid.model.problem import Problem
from validation.honesty.problems import HonestyProblem
from validation.honesty.runge_kutta import RungeKuttaTarget
from validation.shared import Shared

SAMPLER = ps.Sampler(particles=256, islands=1)
"""Its Monte Carlo error of a posterior mean is at most 0.09 sd (128 effective particles): 1 % of a squared z-score."""

AUTO = 0
"""Number of steps that stands for an automatic choice."""

Make = Callable[[HonestyProblem, ps.Record, int], Any]


def runge_kutta(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """Fourth-order Runge-Kutta at the same step, treated as exact."""
    return RungeKuttaTarget(problem, record, steps)


def paper(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """The paper's choices."""
    return _shared(problem, ps.Solver.paper(substeps=steps)).experiment(record)


def fixed(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """Our filter with q = 3 for second-order and q = 2 for first-order coordinates: one more than the order."""
    return _shared(problem, ps.Solver("paper", steps)).experiment(record)


def plain(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """As `fixed`, with the choices of automatic steps: one linearisation, at the prediction, and constant diffusion."""
    return _shared(problem, ps.Solver("paper", steps, ps.EKF1(), ps.QuasiMLE())).experiment(record)


def automatic(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """Our filter with its defaults."""
    return _shared(problem, ps.Solver()).experiment(record)


def gold(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """Runge-Kutta with enough steps that more do not change the posterior."""
    return RungeKuttaTarget(problem, record, problem.fine)


METHODS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "rk4": (runge_kutta, (1, 2, 4)),
    "paper": (paper, (1, 2, 4)),
    "plain": (plain, (1, 2, 4)),
    "fixed": (fixed, (1, 2, 4)),
    "auto": (automatic, (AUTO,)),
    "gold": (gold, (AUTO,)),
}
"""Each with the numbers of steps per sample it is run with."""


@lru_cache
def _shared(problem: HonestyProblem, solver: ps.Solver) -> Shared:
    """One problem, and so one compilation, for all data sets."""
    asked = Problem.make(problem.model, problem.priors, problem.noise, [problem.initial], None)
    return Shared(asked, solver, SAMPLER)
