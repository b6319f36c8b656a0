"""Is the integration accurate enough for these data?  The verdict at the end of a run.

The final particles are evaluated once more with twice the integration steps; or, where there is a pilot, some of them
with far more Runge-Kutta steps, which is believed if it clearly finds no difference that matters.  Importance weights
between the two posteriors, Pareto-smoothed (Vehtari et al. 2024), say how far each quantity moves and how its spread
changes, in units of the posterior standard deviation.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probsysid._internal.errors import SamplingError
from probsysid.odefilter.solver import Solver
from probsysid.posterior import psis
from probsysid.posterior.diagnostics.variance_decomposition import coefficients, log_likelihood
from probsysid.posterior.draws import SOME, draw_indices
from probsysid.smc import adaptive_substeps
from probsysid.smc.adaptive_substeps import LevelEvaluation, MultilevelTarget
from probsysid.smc.budget import Budget, BudgetSpent, MeteredTarget
from probsysid.smc.ibis import IBISState
from probsysid.smc.options import Sampler
from probsysid.smc.rejuvenate import Rejuvenation
from probsysid.smc.weights import normalise
from probsysid.targets.batch_target import BatchTarget

NEGLIGIBLE = 0.25
"""Posterior standard deviations by which a mean may move, and relative change that a spread may have."""

UNRELIABLE = 0.7
"""Pareto shape above which importance weights are unreliable (Vehtari et al. 2024)."""

EVEN = 0.002
"""Loss of effective sample size up to which weights are even whatever their shape, which does not know how large their
differences are: of 1024 weights the largest is then at most 2.4 times the mean."""

CLEAR = 0.5
"""Share of what is negligible up to which a comparison of some of the particles is believed."""

EXACT = 3
"""Levels by which the pilot is finer than the solver whose error it measures, if its programs go so far: eight
Runge-Kutta steps for each of the solver's, at the price of one."""

MOST_STEPS = 8192
"""Steps per particle up to which a run whose steps are not fine enough goes beyond the finest level: samples that are
few and far apart need many steps between them, and cost little."""

FINEST_OF_ALL = 8


@dataclass(frozen=True)
class SolverCheck:
    """What a finer integration would change."""

    substeps: int
    finer: int
    shape: float
    """Pareto shape of the importance weights, k-hat."""
    shift: dict[str, float]
    """Change of each mean in posterior standard deviations."""
    spread: dict[str, float]
    """Ratio of the standard deviations with the finer integration and with this one."""
    loss: float = 1.0
    """Of effective sample size by these weights, as a share."""
    by_pilot: bool = False
    """Whether the finer integration is by Runge-Kutta steps."""

    def to_record(self) -> dict[str, Any]:
        """As plain data; the constructor takes it back."""
        return asdict(self)

    @property
    def reliable(self) -> bool:
        """Whether the weights can tell what a finer integration changes."""
        return self.shape < UNRELIABLE or self.loss <= EVEN

    @property
    def adequate(self) -> bool:
        """Whether a finer integration would change nothing that matters."""
        return self.reliable and self.largest <= NEGLIGIBLE

    @property
    def largest(self) -> float:
        """The largest shift of a mean, or relative change of a spread."""
        moves = [abs(value) for value in self.shift.values()]
        widths = [abs(value - 1) for value in self.spread.values()]
        return max(moves + widths)

    @property
    def verdict(self) -> str:
        """One sentence."""
        steps = f"{self.substeps} step{'s' * (self.substeps > 1)} per sample"
        if not self.reliable:
            return f"integration with {steps} is not accurate enough: with {self.finer} the posterior is another one."
        name = max(self.shift, key=lambda key: abs(self.shift[key]))
        size = f"integration error moves {name} by {abs(self.shift[name]):.2g} posterior sd, the others less"
        other = f"{self.finer} of Runge-Kutta" if self.by_pilot else f"{self.finer}"
        return f"{size}: {'negligible' if self.adequate else 'not negligible'} ({steps} against {other})."


def assess(run: IBISState, finer: LevelEvaluation, values: dict[str, np.ndarray]) -> SolverCheck:
    """Compare the run's particles with themselves at a finer level; `values` are the scalar quantities."""
    ratios = adaptive_substeps.log_ratios(run, finer).ravel()
    return compare(run.normalised_weights, ratios, values, 2**run.level, 2 ** (run.level + 1))


def assess_given(run: IBISState, target: BatchTarget, values: dict[str, np.ndarray]) -> SolverCheck:
    """The same where the number of steps was given: one sweep with twice as many."""
    steps = target.solver.steps
    finer = replace(target.solver, substeps=2 * steps)
    found = log_likelihood(target.problem, finer, target.records, run.flat_theta, target.executor)
    with np.errstate(invalid="ignore"):
        ratios = found - run.log_likelihood.ravel()
    return compare(run.normalised_weights, np.where(np.isnan(ratios), -np.inf, ratios), values, steps, 2 * steps)


def compare(
    weights: np.ndarray, ratios: np.ndarray, values: Mapping[str, np.ndarray], substeps: int, finer: int
) -> SolverCheck:
    """How a posterior changes when each particle's log likelihood changes by its entry in `ratios`."""
    alive = (weights > 0) & np.isfinite(ratios)
    if not alive.any():
        return SolverCheck(substeps, finer, np.inf, dict.fromkeys(values, np.nan), {})
    relative, shape = smoothed(ratios[alive])
    new = weights[alive] * relative
    new /= new.sum()
    old = weights[alive] / weights[alive].sum()
    shift, spread = {}, {}
    for name, value in values.items():
        x = value[alive]
        mean, sd = old @ x, np.sqrt(old @ (x - old @ x) ** 2)
        shift[name] = float((new @ x - mean) / sd)
        spread[name] = float(np.sqrt(new @ (x - new @ x) ** 2) / sd)
    if 1 - weights[alive].sum() >= 0.01:
        return SolverCheck(substeps, finer, np.inf, shift, spread)
    plain = np.exp(ratios[alive] - np.max(ratios[alive]))
    loss = 1 - float((old @ plain) ** 2 / (old @ plain**2))
    return SolverCheck(substeps, finer, shape, shift, spread, loss)


class Comparison(NamedTuple):
    """A verdict, and the particles, weights and log likelihood ratios that it comes from."""

    check: SolverCheck
    chosen: Int[np.ndarray, " chosen"]
    weights: Float[np.ndarray, " chosen"]
    ratios: Float[np.ndarray, " chosen"]


def compare_with_pilot(run: IBISState, target: MultilevelTarget, values: dict[str, np.ndarray]) -> Comparison | None:
    """The verdict by the pilot at a much finer level, on some of the particles; None where that does not clearly say
    that the integration is adequate."""
    if target.pilot is None:
        return None
    weights = run.normalised_weights
    chosen, count = np.arange(len(weights)), max(SOME, 4 * coefficients(len(run.theta)))
    if 2 * count <= len(weights):
        chosen, weights = draw_indices(weights, count), np.full(count, 1 / count)
    level = max(min(run.level + EXACT, adaptive_substeps.FINEST), run.level + 1)
    _, likelihood, energy = target.pilot.at(level).sweep(run.flat_theta[:, chosen], run.samples)
    with np.errstate(invalid="ignore"):
        ratios = likelihood - energy - run.log_likelihood.ravel()[chosen]
    ratios = np.where(np.isnan(ratios), -np.inf, ratios)
    some = {name: value[chosen] for name, value in values.items()}
    found = replace(compare(weights, ratios, some, 2**run.level, 2**level), by_pilot=True)
    clear = found.reliable and found.largest <= CLEAR * NEGLIGIBLE
    return Comparison(found, chosen, weights, ratios) if clear else None


def finest_level(samples: int) -> int:
    """The finest level at which a run may end."""
    return max(adaptive_substeps.FINEST, min(FINEST_OF_ALL, (MOST_STEPS // samples).bit_length() - 1))


def smoothed(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Importance weights that sum to one, their tail smoothed (Vehtari et al. 2024), and its Pareto shape."""
    weights, alive = np.zeros(len(log_weights)), np.isfinite(log_weights)
    if not alive.any():
        return weights, np.inf
    logs, shape = psis.smoothed(log_weights[alive])
    weights[alive] = normalise(logs)
    return weights, shape


def refine_until_adequate(
    run: IBISState,
    target: MultilevelTarget,
    sampler: Sampler,
    values: Callable[[IBISState], dict[str, np.ndarray]],
    budget: Budget | None = None,
) -> tuple[IBISState, SolverCheck, LevelEvaluation, tuple[Rejuvenation, ...]]:
    """The run at an adequate level, or at the finest that the budget allows, with the last comparison and the
    rejuvenations on the way.

    `values` maps a run to its scalar quantities by name.
    """
    metered = MeteredTarget(target, budget or Budget(np.inf))
    rejuvenations: tuple[Rejuvenation, ...] = ()
    while True:
        run, finer = adaptive_substeps.compute(run, target, run.level + 1)
        found = assess(run, finer, values(run))
        if found.adequate or run.level >= finest_level(run.samples):
            return run, found, finer, rejuvenations
        try:
            metered.budget.check()
            run, more = adaptive_substeps.switch_level(run, metered, finer, run.level + 1, sampler)
        except (SamplingError, BudgetSpent):  # no particle survives at the finer level: keep this one, with its verdict
            return run, found, finer, rejuvenations
        rejuvenations += more


def at_level(solver: Solver, level: int) -> Solver:
    """The solver with the number of steps of a level in place of an automatic one."""
    return replace(solver, substeps=2**level)
