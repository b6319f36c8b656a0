"""What is asked of particles at the end of a run: is the integration accurate enough, can the sampling be trusted, are
modes missing, and where does the variance come from?"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from probsysid._internal.statistics import log_mean_exp
from probsysid.inference.confirm import Pilot, confirm
from probsysid.inference.mode_search import search_lost_modes
from probsysid.model.problem import Problem
from probsysid.posterior.diagnostics.sampling_check import SamplingCheck
from probsysid.posterior.diagnostics.solver_check import (
    SolverCheck,
    assess_given,
    at_level,
    compare_with_pilot,
    refine_until_adequate,
)
from probsysid.posterior.diagnostics.variance_decomposition import decompose, log_likelihood, without_process_noise
from probsysid.posterior.draws import scalars, some_draws
from probsysid.smc import adaptive_substeps
from probsysid.smc.budget import Budget
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import Sampler
from probsysid.targets.batch_target import BatchTarget


class Assessed(NamedTuple):
    """A run over all data at an adequate number of steps, and what the checks found."""

    run: IBISState
    history: History
    errors: tuple[np.ndarray, ...]
    sampling: SamplingCheck
    checks: dict[str, Any]
    """Further fields of the posterior."""

    def after(self, course: str) -> "Assessed":
        """With a note of what was done."""
        return self._replace(sampling=replace(self.sampling, course=course))


def assess(
    run: IBISState,
    history: History,
    target: BatchTarget,
    sampler: Sampler,
    seed: int,
    budget: Budget,
    explored: IBISState | None = None,
) -> Assessed | None:
    """The checks; None for a run that has not reached the end of the data.  `explored` is the run on the pilot, before
    it was taken over to the target."""
    if run.samples < target.samples:
        return None
    values = partial(_values, target.problem)
    checks: dict[str, Any] = {}
    if target.adaptive and not target.estimated:
        run, found = _adequate(run, history, target, sampler, budget)
        checks = found._asdict()
    whole = target.at(run.level) if target.adaptive else target
    pilot = _pilot(run, target, explored)
    run, sampling, rejuvenations = confirm(run, whole, sampler, values, seed, budget, pilot)
    if rejuvenations:
        nothing = np.empty((0, sampler.islands))
        history.add(StepInfo(nothing, nothing, rejuvenations, run.evidence_by_island))
    if not target.adaptive:
        checks = {"check": assess_given(run, target, values(run.flat_theta))}
    if not target.estimated:  # a mode is found by the gradient, which an estimate does not have
        evidence, effective = (
            float(log_mean_exp(run.evidence_by_population)),
            float(np.median([*sampling.ess.values()])),
        )
        sampling = replace(sampling, modes=search_lost_modes(run, target, evidence, effective, seed))
    return Assessed(run, history, _one_step_errors(run, target), sampling, checks)


def _pilot(run: IBISState, target: BatchTarget, explored: IBISState | None) -> Pilot | None:
    """What fresh draws are compared on: where the particles are those that the pilot left, at no further cost."""
    if target.pilot is None:
        return None
    same = explored is not None and explored.theta is run.theta
    return Pilot(target.pilot.at(explored.level), explored) if explored and same else Pilot(target.pilot.at(run.level))


def _one_step_errors(run: IBISState, target: BatchTarget) -> tuple[np.ndarray, ...]:
    target = target.at(run.level) if target.adaptive else target
    return target.one_step_errors(*some_draws(run.flat_theta, run.normalised_weights))


def _values(problem: Problem, theta: np.ndarray) -> dict[str, np.ndarray]:
    """Scalar quantities by name."""
    return scalars({name: np.asarray(value) for name, value in problem.space.values(theta).items()})


class _Checks(NamedTuple):
    """Fields of the posterior."""

    check: SolverCheck
    variance_shares: dict[str, dict[str, float]]


def _adequate(
    run: IBISState, history: History, target: BatchTarget, sampler: Sampler, budget: Budget
) -> tuple[IBISState, _Checks]:
    """The run at an adequate number of integration steps, its verdict, and where its variance comes from."""
    problem = target.problem

    def values(run: IBISState) -> dict[str, np.ndarray]:
        return _values(problem, run.flat_theta)

    quick = compare_with_pilot(run, target, values(run))
    if quick is not None:
        found, chosen, weights, ratios = quick
    else:
        before = run
        run, found, finer, rejuvenations = refine_until_adequate(run, target, sampler, values, budget)
        nothing = StepInfo(np.empty((0, sampler.islands)), np.empty((0, sampler.islands)))
        history.add(adaptive_substeps.with_change(nothing, before, run, rejuvenations))
        ratios, weights = adaptive_substeps.log_ratios(run, finer).ravel(), run.normalised_weights
        chosen = np.arange(len(weights))
    differences, theta = {"integration": ratios}, run.flat_theta[:, chosen]
    if problem.process_noise:
        plain, rest = without_process_noise(problem, theta)
        solver = at_level(target.solver, run.level)
        without = log_likelihood(plain, solver, target.records, rest, target.executor)
        differences["model error"] = without - run.log_likelihood.ravel()[chosen]
    some = {name: value[chosen] for name, value in values(run).items()}
    shares = decompose(theta, weights, some, differences)
    return run, _Checks(found, shares.to_dict(orient="index"))
