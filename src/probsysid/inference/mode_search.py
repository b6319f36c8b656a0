"""The search for lost modes at the end of every run, for at most a twentieth of what the run has cost.

Searches start from peaks among prior draws and from the best particle, on the Runge-Kutta pilot.  Particles whose
densities by the filter are known say by how much the two differ; a mode that the particles seem to miss is verified
with the filter before there is an alarm.
"""

import time as clock
from collections.abc import Sequence

import jax
import numpy as np

from probsysid.model.parameter_space import ParameterSpace
from probsysid.posterior.diagnostics.mode_check import (
    LostMode,
    ModeCheck,
    is_lost,
    mass_around,
    suspects,
    weight_around,
)
from probsysid.posterior.importance_sampling import LogTarget
from probsysid.posterior.map import FINER, FIRST_WIDTH, PORTION, cheap_target, estimate
from probsysid.posterior.modes import Mode, find_modes, peaks
from probsysid.smc.ibis import IBISState
from probsysid.targets.batch_target import BatchTarget
from probsysid.targets.integrators import why_no_pilot

SHARE = 0.05
"""Of the run's cost."""

PORTION_COST = 4.0
"""Evaluations of the pilot, tens of points at a time, at the price of one of the filter's."""

LEAST = 4096.0
"""Evaluations that are spent in any case: a twentieth of a run with default settings.  Runs with few particles lose
modes most easily, and take no time."""

SCREENED = 0.125
"""Of these evaluations, for prior draws among which searches start."""

STARTS = 5
"""Searches from prior draws, and one from the best particle."""

FIRST_STEPS = 3
"""Newton steps with a full Hessian that must be affordable."""

TRIALS = 10
"""Points that a search tries in each iteration."""

ALIKE = 1.0
"""Standard deviation of the difference of two log densities over the particles, up to which the modes of one are those
of the other."""

MOST_VERIFIED = 3
"""Suspects that are looked at: each takes a sweep over the data."""


def search_lost_modes(
    run: IBISState, target: BatchTarget, log_evidence: float, effective: float, seed: int
) -> ModeCheck:
    """Modes of a run's posterior, and those among them that its particles miss.

    `log_evidence` is the run's, `effective` its number of effective particles.
    """
    began = clock.perf_counter()
    missing = why_no_pilot(target.problem)
    if missing is not None:
        return ModeCheck(skipped=missing)
    evaluations = run.work / target.samples
    allowed = max(SHARE * PORTION_COST * evaluations, LEAST)
    dimension, count = len(run.theta), run.log_weights.size
    screened = int(SCREENED * min(allowed, max(LEAST, count / SCREENED)))
    if allowed < screened + FIRST_STEPS * (dimension * (dimension + 1) + TRIALS):
        return ModeCheck(skipped=f"with {dimension} unknowns it would take more than {SHARE:.0%} of the run")
    finest = target.at(run.level) if target.adaptive else target
    finer = 1 if target.pilot is not None else FINER  # a run that explores with the pilot has chosen steps that suit it
    pilot, own = cheap_target(finest, PORTION, finer), LogTarget(finest, count)
    density = np.asarray(finest.log_prior(run.flat_theta)) + run.log_likelihood.ravel()
    modes, starts = _modes(run, density, pilot, screened, allowed, seed)
    shift = _difference(run, density, pilot)
    known = -np.inf if shift is None else log_evidence - shift
    found = suspects(modes, run.flat_theta, run.normalised_weights, effective, known)[:MOST_VERIFIED]
    space = target.problem.space
    return ModeCheck(
        found=() if shift is None else tuple(estimate(mode, space, shift) for mode in modes if mode.converged),
        lost=_verified(found, run, own, space, log_evidence, effective, seed),
        starts=starts,
        unfinished=sum(not mode.converged for mode in modes),
        price=(pilot.work / PORTION_COST + own.work) / max(evaluations, 1.0),
        seconds=clock.perf_counter() - began,
    )


def _modes(
    run: IBISState, density: np.ndarray, pilot: LogTarget, screened: int, allowed: float, seed: int
) -> tuple[list[Mode], int]:
    """Modes of the pilot, and the number of searches; `density` is that of the particles."""
    prior = _prior_draws(pilot, len(density), screened, seed)
    alive = np.isfinite(density) & (run.normalised_weights > 0)
    best = run.flat_theta[:, [int(np.argmax(np.where(alive, density, -np.inf)))]]
    starts = np.hstack([peaks(prior[:, :screened], _coarse(pilot)(prior[:, :screened]), STARTS), best])
    found = find_modes(pilot, starts, FIRST_WIDTH * prior.std(axis=1), go_on=lambda: pilot.work < allowed)
    return found, starts.shape[1]


def _coarse(pilot: LogTarget) -> LogTarget:
    """The pilot with half as many steps, which will do to see where searches should start, and the same programs."""
    assert isinstance(pilot.target, BatchTarget)
    steps = pilot.target.substeps
    return LogTarget(pilot.target.at(steps.bit_length() - 2), pilot.portion) if steps > 1 else pilot


def _prior_draws(pilot: LogTarget, count: int, least: int, seed: int) -> np.ndarray:
    """At least so many, `count` at once: as many as the run drew, for which the program is there."""
    key = jax.random.fold_in(jax.random.key(seed), 10)
    keys = [key, *jax.random.split(key, max(-(-least // count), 1))][: max(-(-least // count), 1)]
    return np.hstack([np.asarray(pilot.target.sample_prior(each, count)) for each in keys])


def _difference(run: IBISState, density: np.ndarray, pilot: LogTarget) -> float | None:
    """Log density by the filter minus that of the pilot, at some particles; None where it varies between them."""
    chosen = np.linspace(0, len(density) - 1, PORTION).astype(int)
    with np.errstate(invalid="ignore"):
        differences = density[chosen] - pilot(run.flat_theta[:, chosen])
    weights = run.normalised_weights[chosen]
    kept = np.isfinite(differences) & (weights > 0)
    if not kept.any():
        return None
    shares = weights[kept] / weights[kept].sum()
    mean = float(shares @ differences[kept])
    return mean if np.sqrt(shares @ (differences[kept] - mean) ** 2) < ALIKE else None


def _verified(
    modes: Sequence[Mode],
    run: IBISState,
    own: LogTarget,
    space: ParameterSpace,
    log_evidence: float,
    effective: float,
    seed: int,
) -> tuple[LostMode, ...]:
    """Those modes that the particles miss by the filter's own density, too, as draws around them say."""
    random = np.random.default_rng([seed, 11])
    found = []
    for mode in modes:
        log_mass = mass_around(mode, own, random, own.portion)
        weight = weight_around(mode, run.flat_theta, run.normalised_weights)
        lost, share = is_lost(log_mass, weight, log_evidence, effective)
        if lost:
            found.append(LostMode(estimate(mode, space), share, weight))
    return tuple(found)
