"""A first answer within seconds: Laplace's approximation around the modes (`identify(..., method="map")`).

Searches from prior draws find the modes of a Runge-Kutta likelihood; they are polished on the density by the filter.
Particles are drawn from the Gaussians of their curvatures, in proportion to their masses.  Weights by the target only
say how close the approximation is.
"""

import time as clock
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from probsysid._internal.errors import ModelWarning, SamplingError, SamplingWarning
from probsysid._internal.statistics import effective_sample_size, log_mean_exp, log_sum_exp
from probsysid.inference.mode_search import PORTION_COST
from probsysid.inference.posterior_from_run import posterior_from_run
from probsysid.inference.progress import Notices
from probsysid.posterior.diagnostics.advice import find_doubts
from probsysid.posterior.diagnostics.mode_check import ModeCheck
from probsysid.posterior.diagnostics.sampling_check import LaplaceCheck, SamplingCheck
from probsysid.posterior.diagnostics.solver_check import SolverCheck, compare, smoothed
from probsysid.posterior.draws import scalars
from probsysid.posterior.importance_sampling import LogTarget
from probsysid.posterior.map import NO_START, STARTS, cheap_target, estimate, search
from probsysid.posterior.modes import Mode, polish
from probsysid.posterior.posterior import Posterior
from probsysid.smc.adaptive_substeps import FINEST
from probsysid.smc.budget import Budget, in_words
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState
from probsysid.smc.options import Sampler
from probsysid.smc.proposals import MixtureDensity
from probsysid.targets.batch_target import BatchTarget
from probsysid.targets.integrators import has_pilot

PRIOR_DRAWS = 2048
"""Among which searches start."""

FIRST_LEVEL = 1
"""The coarsest that is tried, where steps are automatic."""

ACCURATE = 1.0
"""Change of a mode's log density with twice the Runge-Kutta steps up to which the search need not be repeated."""

RELEVANT = 10.0
"""Difference in log evidence (Laplace) down to which modes are kept: a share of 5e-5."""

Say = Callable[[str], None]


def approximate(target: BatchTarget, sampler: Sampler, seed: int, progress: bool) -> Posterior:
    """Laplace's approximation of the target's posterior, as equally weighted draws."""
    began = clock.perf_counter()
    with Notices(progress) as say:
        meter = _Meter(Budget.of(sampler.budget, sampler.seconds, sampler.particles, target.samples), target.samples)
        found = _approximated(target, sampler.particles, seed, say, meter)
        say("checking the approximation")
        check = _check(found, target)
        if meter.stopped:
            check = replace(check, course=f"the budget of {in_words(sampler)} was spent before the search had ended")
        finest = target.at(found.level) if target.adaptive else target
        even = np.full(found.theta.shape[1], 1 / found.theta.shape[1])
        errors = finest.one_step_errors(found.theta, even)
    if not check.usable:
        warnings.warn(check.verdict, SamplingWarning, stacklevel=3)
    problem, solver = target.problem, target.solver
    given, adequate = solver.substeps != "auto", found.integration is None or found.integration.adequate
    doubts = find_doubts(errors, problem, target.records, found.theta, even, given, adequate)
    for sentence in doubts:
        warnings.warn(sentence, ModelWarning, stacklevel=3)
    run, seconds = _as_run(found, target, seed), clock.perf_counter() - began
    single = replace(sampler, islands=1, chain=1)
    posterior = posterior_from_run(run, History(1), problem, solver, target.records, single, seconds)
    settings = replace(posterior.settings, method="map")
    return replace(
        posterior, settings=settings, errors=errors, doubts=tuple(doubts), sampling=check, check=found.integration
    )


@dataclass
class _Meter:
    """What the approximation has cost, in evaluations with the filter, against what it may."""

    budget: Budget
    samples: int
    counted: list[tuple[LogTarget, float]] = field(default_factory=list)
    """Targets, and how many of their evaluations cost as much as one with the filter."""
    stopped: bool = False

    def count(self, target: LogTarget, price: float = 1.0) -> LogTarget:
        """The target, whose evaluations count from now on."""
        self.counted.append((target, price))
        return target

    def go_on(self) -> bool:
        self.budget.spent = self.samples * sum(target.work / price for target, price in self.counted)
        self.stopped = self.stopped or self.budget.is_spent
        return not self.stopped


class _Approximation(NamedTuple):
    """Modes, and draws of the mixture of their Gaussians."""

    modes: Sequence[Mode]
    theta: Float[np.ndarray, "dimension draw"]
    log_target: Float[np.ndarray, " draw"]
    log_density: Float[np.ndarray, " draw"]
    level: int
    integration: SolverCheck | None
    work: float
    """Evaluations with the filter."""


def _approximated(target: BatchTarget, count: int, seed: int, say: Say, meter: _Meter) -> _Approximation:
    random = np.random.default_rng([seed, 12])
    prior = np.asarray(target.sample_prior(jax.random.key(seed), max(PRIOR_DRAWS, count)))
    say(f"searching for modes from {STARTS} starts among {prior.shape[1]} prior draws")
    modes: Sequence[Mode] = _searched(target, prior, count, meter)
    level, work = 0, 0.0
    if target.adaptive:
        say("finding the number of integration steps")
        level, work = _adequate_level(target, _mixture(modes).sample(random, count), meter)
    say(f"polishing {len(modes)} mode{'s' * (len(modes) > 1)} with the filter")
    while True:
        found = _polished(target, modes, level, random, count, meter)
        work += found.work
        if found.integration is None or found.integration.adequate or level >= FINEST or not meter.go_on():
            return found._replace(work=work)
        # draws around the pilot's modes had called these steps enough, those around the filter's own do not
        modes, level, work = found.modes, level + 1, work / 2


def _polished(
    target: BatchTarget, modes: Sequence[Mode], level: int, random: np.random.Generator, count: int, meter: _Meter
) -> _Approximation:
    """The approximation around the modes of the filter with a number of steps, held against twice as many."""
    own = meter.count(LogTarget(target.at(level) if target.adaptive else target, count))
    modes = _relevant(polish(own, modes, go_on=meter.go_on))
    density = _mixture(modes)
    theta = density.sample(random, count)
    log_target, integration, work = own(theta), None, float(own.work)
    if target.adaptive:
        finer = LogTarget(target.at(level + 1), count)
        integration = _compared(target, theta, log_target, finer(theta), level)
        work += 2 * finer.work
    return _Approximation(modes, theta, log_target, density.log_density(theta), level, integration, work)


def _searched(target: BatchTarget, prior: np.ndarray, count: int, meter: _Meter) -> list[Mode]:
    """Modes of the cheap likelihood; where steps are automatic, with as many as it needs there."""
    price = PORTION_COST if has_pilot(target.problem) else 1.0
    if not target.adaptive:
        cheap = meter.count(cheap_target(target, count), price)
        return _relevant(search(cheap, prior, go_on=meter.go_on))
    for level in range(FIRST_LEVEL, FINEST + 1, 2):
        cheap, finer = (meter.count(cheap_target(target.at(each), count), price) for each in (level, level + 1))
        modes = search(cheap, prior, go_on=meter.go_on)
        if modes and abs(float(finer(modes[0].theta[:, None])[0]) - modes[0].log_density) < ACCURATE:
            break
        if not meter.go_on():
            break
    return _relevant(modes)


def _relevant(modes: Sequence[Mode]) -> list[Mode]:
    """Those that matter, converged ones if there are any."""
    if not modes:
        raise SamplingError(NO_START)
    kept = [mode for mode in modes if mode.converged] or list(modes[:1])
    best = max(mode.log_evidence for mode in kept)
    return [mode for mode in kept if mode.log_evidence > best - RELEVANT]


def _mixture(modes: Sequence[Mode]) -> MixtureDensity:
    """Gaussians around the modes, in proportion to their masses."""
    masses = np.array([mode.log_evidence for mode in modes])
    shares = np.exp(masses - log_sum_exp(masses))
    return MixtureDensity(shares, np.stack([m.theta for m in modes]), np.stack([m.factor for m in modes]), None)


def _adequate_level(target: BatchTarget, theta: np.ndarray, meter: _Meter) -> tuple[int, float]:
    """The coarsest level at which a finer one changes nothing that matters, and the evaluations that this took."""
    count = theta.shape[1]
    level, work = FIRST_LEVEL, count * 2.0**FIRST_LEVEL
    values = meter.count(LogTarget(target.at(level), count))(theta)
    while level < FINEST and meter.go_on():
        finer = meter.count(LogTarget(target.at(level + 1), count))(theta)
        work += count * 2.0 ** (level + 1)
        if _compared(target, theta, values, finer, level).adequate:
            break
        level, values = level + 1, finer
    return level, work / 2.0**level


def _compared(target: BatchTarget, theta: np.ndarray, coarse: np.ndarray, fine: np.ndarray, level: int) -> SolverCheck:
    with np.errstate(invalid="ignore"):
        ratios = fine - coarse
    even = np.full(len(ratios), 1 / len(ratios))
    ratios = np.where(np.isnan(ratios), -np.inf, ratios)
    return compare(even, ratios, _columns(target, theta), 2**level, 2 ** (level + 1))


def _columns(target: BatchTarget, theta: np.ndarray) -> dict[str, Any]:
    return scalars({name: np.asarray(value) for name, value in target.problem.space.values(theta).items()})


def _check(found: _Approximation, target: BatchTarget) -> SamplingCheck:
    """How close the approximation is, by the weights of its draws."""
    with np.errstate(invalid="ignore"):
        ratios = found.log_target - found.log_density
    ratios = np.where(np.isnan(ratios), -np.inf, ratios)
    size = float(effective_sample_size(ratios)) if np.isfinite(ratios).any() else 0.0
    names, space = list(_columns(target, found.theta[:, :1])), target.problem.space
    return SamplingCheck(
        particles=len(ratios),
        r_hat=dict.fromkeys(names, float("nan")),
        ess=dict.fromkeys(names, size),
        evidence_spread=float("nan"),
        evidence_error=float("nan"),
        modes=ModeCheck(found=tuple(estimate(mode, space) for mode in found.modes), starts=STARTS),
        laplace=LaplaceCheck(
            modes=len(found.modes),
            draws=len(ratios),
            pareto_shape=float(smoothed(ratios)[1]),
            effective=size,
            weighted_evidence=float(log_mean_exp(ratios)),
            converged=found.modes[0].converged,
        ),
    )


def _as_run(found: _Approximation, target: BatchTarget, seed: int) -> IBISState:
    """Equally weighted particles with Laplace's evidence; draws at which the likelihood is not finite are replaced by
    others."""
    alive = np.flatnonzero(np.isfinite(found.log_target))
    if not len(alive):
        raise SamplingError("the likelihood is finite at no draw of the Laplace approximation; sample instead.")
    lost = np.flatnonzero(~np.isfinite(found.log_target))
    chosen = np.arange(found.theta.shape[1])
    chosen[lost] = alive[np.arange(len(lost)) % len(alive)]
    theta = found.theta[:, chosen]
    prior = np.asarray(target.log_prior(theta))
    return IBISState(
        samples=target.samples,
        theta=theta[:, None, :],
        state=None,
        log_weights=np.zeros((1, len(chosen))),
        log_likelihood=(found.log_target[chosen] - prior)[None],
        base_evidence=np.array([float(log_sum_exp(np.array([mode.log_evidence for mode in found.modes])))]),
        seed=seed,
        work=found.work * target.samples,
        lost=len(lost),
        level=found.level,
    )
