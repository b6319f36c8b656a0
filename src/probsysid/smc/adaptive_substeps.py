"""Adaptive number of integration steps per sampling interval, while the sampler runs.

A target may come in levels, each computed with twice the integration steps of the one below.  After 2, 4, 8, ...
samples the particles' likelihoods at the current level are compared with those of the next finer one.  What counts is
how their difference varies over the posterior: a constant difference changes nothing.  Where it matters, the particles
are carried over to the finer level, by reweighting or, if the weights are too uneven, by tempering the difference with
moves in between; where even the next coarser level makes no difference, that one is taken.  The evidence stays right:
it is multiplied by the mean of the new weights.

All decisions depend on the samples so far only, so that a stream takes the same ones as a batch.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from probsysid._internal.array_types import Numbers
from probsysid._internal.errors import SamplingError
from probsysid._internal.statistics import effective_sample_size
from probsysid.smc import ibis
from probsysid.smc import weights as w
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import Sampler
from probsysid.smc.rejuvenate import Rejuvenation
from probsysid.smc.resampling import Systematic
from probsysid.smc.target import Target, sweep_by_advance

FIRST = 3
"""Level at the start: prior draws may be stiffer than any particle of the posterior."""

FINEST = 5

TOLERANCE = 0.03
"""Fraction of the effective sample size that reweighting to the finer level may cost: a bias of at most 0.17 sd."""

SPARE = 0.002
"""The same for the coarser level."""


@runtime_checkable
class MultilevelTarget(Target, Protocol):
    """A target that comes in levels."""

    @property
    def adaptive(self) -> bool:
        """Whether the level is to be chosen; otherwise there is only one."""
        ...

    @property
    def estimated(self) -> bool:
        """Whether energies are estimates; levels then are of twice as many points each (`adaptive_points.py`)."""
        ...

    @property
    def most_levels(self) -> int:
        """The last level of such a target."""
        ...

    @property
    def pilot(self) -> "MultilevelTarget | None":
        """A cheaper target with nearly the same posterior (`pilot.py`)."""
        ...

    def at(self, level: int) -> Target:
        """The target at a level."""
        ...


class LevelEvaluation(NamedTuple):
    """Filter states and log likelihoods of all particles at one level."""

    state: PyTree
    likelihood: Float[np.ndarray, "population member"]


def first_level(target: MultilevelTarget) -> int:
    """The level at which a run starts."""
    return FIRST if target.adaptive and not target.estimated else 0


class Trial(NamedTuple):
    """How levels are tried."""

    spare: float = SPARE
    """Loss up to which the coarser level is taken."""
    some: int | None = None
    """How many particles are tried before all of them; None for all at once."""


def forward(
    run: IBISState, target: MultilevelTarget, sampler: Sampler, trial: Trial = Trial()
) -> tuple[IBISState, StepInfo]:
    """`ibis.step` at the run's level, followed by an adjustment of the level where one is due."""
    if not target.adaptive:
        return ibis.step(run, target, sampler)
    stop = milestone(run.samples)
    try:
        # finer steps may keep a population alive that only a coarse integration loses
        after, step = ibis.step(run, target.at(run.level), sampler, stop, refill=run.level == FINEST)
    except SamplingError:
        if run.level == FINEST:
            raise
        return _retreat(run, target, sampler)
    if after.samples < stop:
        return after, step
    adjusted, rejuvenations = adjust(after, target, sampler, trial)
    return adjusted, with_change(step, after, adjusted, rejuvenations)


def _retreat(run: IBISState, target: MultilevelTarget, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """The run before the samples at which it failed, at a finer level: too coarse a level may lose every particle."""
    nothing = StepInfo(np.empty((0, run.islands)), np.empty((0, run.islands)))
    if run.samples == 0:
        return replace(run, level=run.level + 1), nothing
    run, finer = compute(run, target, run.level + 1)
    changed, rejuvenations = switch_level(run, target, finer, run.level + 1, sampler)
    return changed, with_change(nothing, run, changed, rejuvenations)


def with_change(
    step: StepInfo, before: IBISState, after: IBISState, rejuvenations: tuple[Rejuvenation, ...]
) -> StepInfo:
    """The step's record, extended by a change of level."""
    rebased = after.evidence_by_island if after.level != before.level else step.rebased
    return step._replace(rejuvenations=step.rejuvenations + rejuvenations, rebased=rebased)


def milestone(samples: int) -> int:
    """The number of samples after which the level is next adjusted: the next power of two, from 2."""
    return max(2, 1 << samples.bit_length())


def adjust(
    run: IBISState, target: MultilevelTarget, sampler: Sampler, trial: Trial = Trial()
) -> tuple[IBISState, tuple[Rejuvenation, ...]]:
    """The run at an adequate level: as many levels finer as needed, or one coarser."""
    level = run.level
    rejuvenations: tuple[Rejuvenation, ...] = ()
    while run.level < FINEST:
        if trial.some is not None:
            run, estimate = loss_of_some(run, target, run.level + 1, trial.some)
            if estimate <= TOLERANCE:
                break
        run, finer = compute(run, target, run.level + 1)
        if loss(run, finer) <= TOLERANCE:
            break
        run, more = switch_level(run, target, finer, run.level + 1, sampler)
        rejuvenations += more
    if 0 < run.level == level:
        if trial.some is not None:
            run, estimate = loss_of_some(run, target, run.level - 1, trial.some)
            if estimate > trial.spare:
                return run, rejuvenations
        run, coarser = compute(run, target, run.level - 1)
        if loss(run, coarser) <= trial.spare:
            run, more = switch_level(run, target, coarser, run.level - 1, sampler)
            rejuvenations += more
    return run, rejuvenations


def compute(run: IBISState, target: MultilevelTarget, level: int) -> tuple[IBISState, LevelEvaluation]:
    """Evaluate the run's particles at another level; the run is returned with the work counted."""
    return with_work(run, target, level, run.log_likelihood.size), evaluate(run, target.at(level))


def with_work(run: IBISState, target: MultilevelTarget, level: int, count: int) -> IBISState:
    """The run with the work counted that evaluating some particles at a level takes."""
    work = 2.0 ** (level - run.level) * target.cost(run.samples) * count
    return replace(run, work=run.work + work)


def evaluate(run: IBISState, target: Target) -> LevelEvaluation:
    """The run's particles with another likelihood."""
    state, likelihood, energy = target.sweep(run.flat_theta, run.samples)
    return LevelEvaluation(state, (likelihood - energy).reshape(run.log_likelihood.shape))


def restored(run: IBISState, target: MultilevelTarget) -> IBISState:
    """A run that was saved without filter states, with the states recomputed."""
    if run.samples == 0 or run.state is not None:
        return run
    kind = target.pilot if run.pilot else target
    assert kind is not None, "a run on a pilot is resumed with it"
    chosen = kind.at(run.level) if target.adaptive else target
    state, _, _ = chosen.sweep(run.flat_theta, run.samples)
    return replace(run, state=state)


def log_ratios(run: IBISState, other: LevelEvaluation) -> Float[np.ndarray, "population member"]:
    """Log likelihood at the other level minus that of the run; minus infinity for what is lost in either."""
    with np.errstate(invalid="ignore"):
        ratios = other.likelihood - run.log_likelihood
    return np.where(np.isfinite(ratios), ratios, -np.inf)


def loss(run: IBISState, other: LevelEvaluation) -> float:
    """Fraction of the effective sample size that reweighting to another level costs: 0 for a constant difference."""
    weights = run.normalised_weights
    ratios = log_ratios(run, other).ravel()
    alive = (weights > 0) & np.isfinite(ratios)
    if not alive.any():
        return 1.0
    relative = np.exp(np.where(alive, ratios, -np.inf) - ratios[alive].max())
    return 1.0 - float((weights @ relative) ** 2 / (weights @ relative**2))


def loss_of_some(run: IBISState, target: MultilevelTarget, level: int, count: int) -> tuple[IBISState, float]:
    """`loss` as estimated from draws of the run's particles; the run is returned with the work counted."""
    chosen = some_particles(run, count)
    ratios = likelihood_of_some(run, target.at(level), chosen) - run.log_likelihood.ravel()[chosen]
    estimate = 1.0 - float(effective_sample_size(ratios)) / count if np.all(np.isfinite(ratios)) else 1.0
    return with_work(run, target, level, count), estimate


def some_particles(run: IBISState, count: int) -> Int[np.ndarray, " chosen"]:
    """Equally weighted draws of a run's particles."""
    return Systematic()(np.random.default_rng([run.seed, run.samples, 12]), run.normalised_weights, count)


def likelihood_of_some(
    run: IBISState, target: Target, chosen: Int[np.ndarray, " chosen"]
) -> Float[np.ndarray, " chosen"]:
    """Their log likelihoods by a target."""
    _, likelihood, energy = target.sweep(run.flat_theta[:, chosen], run.samples)
    with np.errstate(invalid="ignore"):
        return np.asarray(likelihood - energy)


def switch_level(
    run: IBISState, target: MultilevelTarget, other: LevelEvaluation, level: int, sampler: Sampler
) -> tuple[IBISState, tuple[Rejuvenation, ...]]:
    """The run at another level."""
    return switch(run, target.at(run.level), target.at(level), other, level, sampler)


def switch(
    run: IBISState, before: Target, after: Target, other: LevelEvaluation, level: int, sampler: Sampler
) -> tuple[IBISState, tuple[Rejuvenation, ...]]:
    """The run taken over from one target to another, whose values at the particles are `other`: by reweighting if the
    weights stay even enough, else by tempering with moves."""
    energy = -log_ratios(run, other)
    weighted = replace(
        run,
        level=level,
        state=other.state,
        log_weights=run.log_weights - energy,
        log_likelihood=other.likelihood,
    )
    if w.ess_fraction(effective_sample_size(weighted.log_weights), sampler.population_size) >= sampler.ess:
        return weighted, ()
    bridge = _Bridge(before, after, run.samples)
    seed = np.random.SeedSequence([run.seed, run.samples, level]).generate_state(1)[0]
    start = replace(run, samples=1, state=other.state, seed=int(seed))
    moved, step = ibis.temper_sample(start, bridge, sampler, energy, whole=False)
    moved = replace(moved, samples=run.samples, seed=run.seed, level=level)
    return moved, tuple(r._replace(sample=run.samples - 1) for r in step.rejuvenations)


@dataclass(frozen=True)
class _Bridge:
    """Two levels as one target with two samples: all data at one level, and the difference to the other."""

    before: Target
    after: Target
    stop: int

    samples = 2

    def sample_prior(self, key: jax.Array, count: int) -> Numbers:
        return self.before.sample_prior(key, count)

    def log_prior(self, theta: Numbers) -> Numbers:
        return self.before.log_prior(theta)

    def limit(self, first: int) -> int:
        return first + 1

    def advance(self, state: PyTree, theta: Numbers, first: int, last: int) -> tuple[PyTree, Numbers]:
        level = self.before if first == 0 else self.after
        following, likelihood, energy = level.sweep(theta, self.stop)
        total = jnp.asarray(likelihood - energy)
        return (total, -total[None]) if first == 0 else (following, (state - total)[None])

    def sweep(self, theta: Numbers, stop: int) -> tuple[PyTree, np.ndarray, np.ndarray]:
        return sweep_by_advance(self, theta, stop)

    def describe(self, sample: int) -> str:
        return self.after.describe(self.stop - 1)

    def cost(self, stop: int) -> int:
        return stop * self.before.cost(self.stop)
