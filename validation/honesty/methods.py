"""The likelihoods compared, as targets of the same sampler."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.model.problem import Problem
from probsysid.odefilter.diffusion import Given
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


def fenrir(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """As `plain`, with the likelihood of the data given the ODE linearised along the solution without data, and the
    diffusion of that solution."""
    return _shared(problem, ps.Solver("paper", steps, ps.EKF1(), ps.QuasiMLE(), likelihood="fenrir")).experiment(record)


def fenrir_inferred(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """The same with the diffusions inferred, as in the article."""
    solver = ps.Solver("paper", steps, ps.EKF1(), diffusion="inferred", likelihood="fenrir")
    return _shared(problem, solver).experiment(record)


def dalton(problem: HonestyProblem, record: ps.Record, steps: int) -> Any:
    """As `fenrir`, with the ODE linearised where the data lead."""
    return _shared(problem, ps.Solver("paper", steps, ps.EKF1(), ps.QuasiMLE(), likelihood="dalton")).experiment(record)


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

PEERS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "fenrir": (fenrir, (1, 2, 4)),
    "fenrir-inferred": (fenrir_inferred, (1, 2, 4)),
    "dalton": (dalton, (1, 2, 4)),
}
"""Likelihoods of others, run only where they are named (`peers.py`)."""

SPREAD = 2.0
"""Standard deviation of the logarithm of an inferred diffusion in its prior."""


@lru_cache
def _shared(problem: HonestyProblem, solver: ps.Solver) -> Shared:
    """One problem, and so one compilation, for all data sets."""
    priors = problem.priors | (_diffusions(problem, solver) if isinstance(solver.diffusion, Given) else {})
    asked = Problem.make(problem.model, priors, problem.noise, [problem.initial], None)
    return Shared(asked, solver, SAMPLER)


def _diffusions(problem: HonestyProblem, solver: ps.Solver) -> dict[str, Any]:
    """Wide priors around the diffusions of a fine solution at the typical constants, on the first data set's input.

    One for all coordinates where these are of one kind, as in the article: the solution without data does not depend on
    it then.  With several, ratios that are far off let that solution diverge.
    """
    calibrated = ps.Solver(solver.smoothness, problem.fine, ps.EKF1(), ps.QuasiMLE())
    solution = ps.solve(problem.model, problem.typical, problem.record(0), initial=problem.initial, solver=calibrated)
    scales = {name: np.log(float(value)) for name, value in solution.diffusion.items()}
    if len(set(problem.model.orders)) == 1:
        return {"solver.diffusion": dist.LogNormal(np.mean(list(scales.values())), SPREAD)}
    return {f"solver.diffusion.{name}": dist.LogNormal(scale, SPREAD) for name, scale in scales.items()}
