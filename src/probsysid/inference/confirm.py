"""The verdict on the sampling, and further moves where fresh draws raise doubts.

Fresh draws that differ from the particles as they would by chance in one of a hundred runs, or whose weights have a
rather heavy tail, do not make a run bad: particles may not have been moved since their weights became uneven, or a part
of the posterior is only just being found.  Moving the particles again, a few sweeps, tells: fresh draws are compared
with the new ones.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from probsysid._internal.errors import SamplingError
from probsysid._internal.statistics import log_mean_exp
from probsysid.posterior.diagnostics.sampling_check import NO_DRAWS, SamplingCheck, check_populations, compare_fresh
from probsysid.posterior.importance_sampling import LogTarget, fitted_sample
from probsysid.smc import ibis
from probsysid.smc import weights as w
from probsysid.smc.adaptive_substeps import LevelEvaluation, MultilevelTarget, evaluate, log_ratios, loss
from probsysid.smc.budget import Budget, BudgetSpent, MeteredTarget
from probsysid.smc.ibis import IBISState
from probsysid.smc.options import Sampler
from probsysid.smc.rejuvenate import Rejuvenation

TURNS = 5
"""Times that particles are moved again at most."""

DOUBTFUL = 0.01
"""Probability of a chance difference below which the particles are moved again, ..."""
TAIL = 0.4
"""... and the Pareto shape from which on: 0.5 is where the variance of weights becomes infinite."""

FEWEST_FRESH = 512
"""Draws that particles are compared with, however few these are: what few particles miss takes more draws to find."""

CLOSE = 0.2
"""Share of the effective number that particles may lose when they are weighted for the pilot."""


class Pilot(NamedTuple):
    """The pilot at the level of a run, and the run as it was on the pilot, if its particles came from there."""

    target: MultilevelTarget
    run: IBISState | None = None


Values = Callable[[np.ndarray], dict[str, np.ndarray]]
"""Scalar quantities by name, of particles as columns."""


def confirm(
    run: IBISState,
    target: MultilevelTarget,
    sampler: Sampler,
    values: Values,
    seed: int,
    budget: Budget,
    pilot: Pilot | None = None,
) -> tuple[IBISState, SamplingCheck, tuple[Rejuvenation, ...]]:
    """The run, moved further where that is called for, what the checks say of it, and the rejuvenations.

    Nothing is moved where the sampler is not to recover, or the budget is spent.  Fresh draws are compared on the
    pilot, if there is one and it is close enough.
    """
    rejuvenations: list[Rejuvenation] = []
    found = check(run, target, values, seed, pilot)
    try:
        while sampler.recover and len(rejuvenations) < TURNS and _doubtful(found) and _alive(run):
            moved, info = ibis.move_again(run, MeteredTarget(target, budget), sampler, len(rejuvenations))
            found = check(moved, target, values, seed, pilot)
            run = moved
            rejuvenations.append(info)
    except (BudgetSpent, SamplingError):
        pass
    return run, found, tuple(rejuvenations)


def check(
    run: IBISState, target: MultilevelTarget, values: Values, seed: int, pilot: Pilot | None = None
) -> SamplingCheck:
    """Compare the populations with each other, and with fresh draws: one sweep over the data, or
    one or two of the pilot."""
    by_population = {name: value.reshape(run.log_weights.shape) for name, value in values(run.flat_theta).items()}
    evidence = run.evidence_by_population
    agreement = check_populations(by_population, run.log_weights, evidence, run.shared_error)
    run, target = _on_pilot(run, target, pilot)
    theta, weights = run.flat_theta, run.normalised_weights
    log_target, draws = LogTarget(target, run.log_weights.size), max(run.log_weights.size, FEWEST_FRESH)
    sample = fitted_sample(theta, weights, log_target, np.random.default_rng([seed, 8]), draws)
    if sample is None:
        return replace(agreement, fresh=NO_DRAWS)
    total = float(log_mean_exp(run.evidence_by_population))
    return replace(agreement, fresh=compare_fresh(sample.ratios, sample.theta, theta, weights, agreement, total))


def _on_pilot(run: IBISState, target: MultilevelTarget, pilot: Pilot | None) -> tuple[IBISState, MultilevelTarget]:
    """The particles weighted for the pilot's posterior, and the pilot; where that would cost too much of their
    effective number, or any of them, they themselves and their own target.

    Weights between the two are exact, so what is wrong with the particles is as wrong there, and draws are cheap.
    """
    if pilot is None:
        return run, target
    same = pilot.run is not None and pilot.run.theta is run.theta
    explored = pilot.run if pilot.run is not None and same else _weighted_for(run, pilot.target)
    other = LevelEvaluation(explored.state, explored.log_likelihood)
    ratios = log_ratios(run, other)
    if not np.all(np.isfinite(ratios.ravel()[run.normalised_weights > 0])) or loss(run, other) > CLOSE:
        return run, target
    return explored, pilot.target


def _weighted_for(run: IBISState, target: MultilevelTarget) -> IBISState:
    """The particles with the weights and likelihoods of another target."""
    other = evaluate(run, target)
    return replace(run, log_weights=run.log_weights + log_ratios(run, other), log_likelihood=other.likelihood)


def _doubtful(found: SamplingCheck) -> bool:
    """Whether fresh draws raise doubts about populations that agree.  Those that disagree are not moved until they
    happen to agree: recovery is for them."""
    if found.fresh is None or replace(found, fresh=None).reasons:
        return False
    return found.fresh.pareto_shape >= TAIL or found.fresh.least_p < DOUBTFUL


def _alive(run: IBISState) -> bool:
    return bool(np.all(w.alive(run.log_weights)))
