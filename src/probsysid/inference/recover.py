"""What is done when particles that followed the data are not to be trusted.

Modes and curvature first: searches from the best particles and prior draws find the modes, importance sampling adapts
to what lies around them, and new particles start from there.  They are tempered to the posterior in a few steps, in
populations of their own, so that the same checks apply to them.  Searches and adaptation use the Runge-Kutta pilot
where there is one; the new particles are those of the filter's own target.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import numpy as np

from probsysid._internal.errors import SamplingError
from probsysid.posterior.adaptive_importance import FAMILIES, Adapted, adapt
from probsysid.posterior.importance_sampling import LogTarget
from probsysid.posterior.modes import Mode, find_modes, peaks
from probsysid.smc.bridge import temper_from
from probsysid.smc.budget import PILOT_COST, Budget, BudgetSpent, MeteredTarget
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import Sampler
from probsysid.smc.proposals import DegenerateParticles, Density, WideAxesT
from probsysid.targets.batch_target import BatchTarget
from probsysid.targets.integrators import has_pilot

PORTION = 256
"""Points that the pilot takes at once."""

STARTS = 6
"""Searches from particles, and as many from prior draws ..."""
PRIOR_DRAWS = 1024
"""... of which there are at least so many."""

DRAWS = 2048
"""Draws per round of adaptation."""

RELEVANT = 20.0
"""Difference in log evidence (Laplace) down to which modes are kept."""

LOST = 1e6
"""By how much the log evidence of a population without particles is below those of the others."""

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Recovery:
    """New particles, and how they were found."""

    run: IBISState
    step: StepInfo
    modes: tuple[Mode, ...]
    adapted: Adapted

    @property
    def origin(self) -> str:
        """Where they come from, in words."""
        count = len(self.modes)
        return "the mode" if count == 1 else f"{count} modes"

    def as_step(self, islands: int) -> StepInfo:
        """The step as an addition to the history of the run that it replaces."""
        last = self.run.samples - 1
        rejuvenations = tuple(r._replace(sample=last, correction=0.0) for r in self.step.rejuvenations)
        nothing = np.empty((0, islands))
        return StepInfo(nothing, nothing, rejuvenations, self.run.evidence_by_island)


def recover(
    theta: np.ndarray,
    target: BatchTarget,
    level: int,
    sampler: Sampler,
    seed: int,
    budget: Budget,
    say: Say = lambda _: None,
) -> Recovery | None:
    """New particles in place of those in `theta`; None where the budget ends first or nothing is found."""
    finest = target.at(level) if target.adaptive else target
    if has_pilot(target.problem):
        portion, price = PORTION, PILOT_COST
        pilot = finest.with_runge_kutta(finest.substeps, PORTION)
    else:
        pilot, portion, price = finest, sampler.particles, 1.0
    cheap = Budget(price * (budget.evaluations - budget.spent), budget.deadline)
    random = np.random.default_rng([seed, 9])
    try:
        log_pilot = LogTarget(MeteredTarget(pilot, cheap), portion)
        say("searching for modes")
        modes = _modes(theta, log_pilot, seed)
        say("adapting to them")
        adapted = adapt(log_pilot, _sources(theta, modes, log_pilot, random), random, DRAWS)
        budget.spent += cheap.spent / price
        say("sampling from there")
        run, step = temper_from(MeteredTarget(finest, budget), adapted.density, sampler, seed, level)
    except (BudgetSpent, DegenerateParticles, SamplingError, np.linalg.LinAlgError):
        return None
    return Recovery(replace(run, work=budget.spent), step, tuple(modes), adapted)


def _modes(theta: np.ndarray, objective: LogTarget, seed: int) -> list[Mode]:
    """Modes reached from the best particles and from peaks among prior draws."""
    prior = np.asarray(objective.target.sample_prior(jax.random.key(seed), max(theta.shape[1], PRIOR_DRAWS)))
    best = theta[:, np.argsort(-objective(theta))[:STARTS]]
    starts = np.hstack([best, peaks(prior, objective(prior), STARTS)])
    modes = find_modes(objective, np.unique(starts, axis=1), 0.1 * prior.std(axis=1))
    if not modes:
        raise DegenerateParticles("no particle and no prior draw has a finite density")
    most = max(mode.log_evidence for mode in modes)
    return [mode for mode in modes if mode.log_evidence > most - RELEVANT]


def _sources(theta: np.ndarray, modes: list[Mode], objective: LogTarget, random: np.random.Generator) -> list[Density]:
    """Distributions around the modes, and one around the particles if some of them are as likely."""
    around: list[Density] = [WideAxesT().around(mode.theta, mode.factor) for mode in modes]
    values = objective(theta)
    close = values > modes[0].log_density - RELEVANT
    if np.count_nonzero(close) > 4 * len(theta):
        even = np.full(int(close.sum()), 1 / close.sum())
        around += [family.fit(random, theta[:, close], even) for family in FAMILIES]
    return around


def finished(run: IBISState, target: BatchTarget) -> IBISState:
    """A run that was cut short, its particles weighted by the rest of the data: all that is left to do without a
    budget, and hardly ever enough."""
    whole = target.at(run.level) if target.adaptive else target
    state, likelihood, energy = whole.sweep(run.flat_theta, whole.samples)
    total = (likelihood - energy).reshape(run.log_likelihood.shape)
    with np.errstate(invalid="ignore"):
        gain = total - run.log_likelihood
    weights = run.log_weights + np.where(np.isfinite(gain), gain, -np.inf)
    alive = np.isfinite(weights).any(axis=1)
    if not alive.any():
        return run
    return replace(
        run,
        samples=whole.samples,
        pilot=False,
        state=state,
        log_weights=np.where(alive[:, None], weights, run.log_weights),
        log_likelihood=total,
        base_evidence=np.where(alive, run.base_evidence, run.base_evidence.min() - LOST),
    )
