"""Iterated batch importance sampling (Chopin 2002; paper, algorithm 1).

Particles carry weights.  Each sample multiplies the weights by its likelihood; when the effective sample size falls
below a threshold, particles are resampled in proportion to their weights and moved by MCMC kernels that leave the
posterior so far invariant.  Each move filters the proposed particles over all samples so far.

A run is an `IBISState`, a plain value; `step` advances it.  All randomness comes from the seed and the sample at hand,
so that results do not depend on the portions in which samples arrive.  Parameters and weights are NumPy arrays, the
filters' states stay where the target keeps them.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from probsysid._internal.array_types import Numbers
from probsysid._internal.errors import SamplingError
from probsysid._internal.statistics import effective_sample_size, log_mean_exp
from probsysid.smc import weights as w
from probsysid.smc.evidence import ProposalEvidence
from probsysid.smc.islands import by_island
from probsysid.smc.metropolis import ParticleBatch
from probsysid.smc.options import Sampler
from probsysid.smc.pooling import pool
from probsysid.smc.rejuvenate import Rejuvenation, rejuvenate
from probsysid.smc.target import Target, sweep_by_advance

SHORTEST = 8
"""Samples processed at once right after a rejuvenation; doubled as long as the weights stay even."""

AGAIN = 1000
"""Seeds of rejuvenations after the last sample are counted from here: tempering takes fewer steps."""


class StepInfo(NamedTuple):
    """What one call of `step` did, sample by sample."""

    ess: Float[np.ndarray, "sample island"]
    evidence: Float[np.ndarray, "sample island"]
    """Log evidence of each island."""
    rejuvenations: tuple[Rejuvenation, ...] = ()
    rebased: Float[np.ndarray, " island"] | None = None
    """Log evidence of each island after the last sample, where it was re-estimated or the level changed."""


@dataclass(frozen=True)
class IBISState:
    """The state of a run between samples."""

    samples: int
    theta: Float[np.ndarray, "dimension population member"]
    state: PyTree
    log_weights: Float[np.ndarray, "population member"]
    log_likelihood: Float[np.ndarray, "population member"]
    base_evidence: Float[np.ndarray, " population"]
    """Log evidence of each population when its weights were last equal."""
    seed: int
    islands: int = 1
    """Islands that the populations belong to, two consecutive ones each or one each."""
    stride: int = SHORTEST
    work: float = 0.0
    """Particle-samples of filtering so far."""
    lost: int = 0
    """Particles whose energy stopped being finite, so far."""
    level: int = 0
    """Level of accuracy at which the target is computed (`adaptive_substeps.py`)."""
    pilot: bool = False
    """Whether it is the target's pilot that is computed (`pilot.py`)."""
    shared_error: float = 0.0
    """Standard error of the log evidence that all populations share since they were pooled (`pooling.py`)."""

    @property
    def evidence_by_population(self) -> Float[np.ndarray, " population"]:
        """Log evidence of each population."""
        return self.base_evidence + log_mean_exp(self.log_weights)

    @property
    def evidence_by_island(self) -> Float[np.ndarray, " island"]:
        """Log evidence of each island: the mean over its populations."""
        return log_mean_exp(by_island(self.evidence_by_population, self.islands))

    @property
    def flat_theta(self) -> Float[np.ndarray, "dimension particle"]:
        return self.theta.reshape(self.theta.shape[0], -1)

    @property
    def normalised_weights(self) -> Float[np.ndarray, " particle"]:
        """Weights over all populations, each counting by its evidence."""
        return w.normalise((self.base_evidence[:, None] + self.log_weights).ravel())


def start(target: Target, sampler: Sampler, seed: int, level: int = 0) -> IBISState:
    """Particles from the prior, before any sample."""
    theta = np.asarray(target.sample_prior(jax.random.key(seed), sampler.particles))
    if not np.all(np.isfinite(theta)):
        raise SamplingError("the prior gives draws that are not finite; look for extreme scales in the priors.")
    if np.any(np.isnan(target.log_prior(theta))):
        raise SamplingError("the density of the prior is not a number at draws from it; look for errors in the priors.")
    shape = (sampler.populations, sampler.population_size)
    return IBISState(
        samples=0,
        theta=theta.reshape(theta.shape[0], *shape),
        state=None,
        log_weights=np.zeros(shape),
        log_likelihood=np.zeros(shape),
        base_evidence=np.zeros(sampler.populations),
        seed=seed,
        islands=sampler.islands,
        level=level,
    )


def step(
    run: IBISState, target: Target, sampler: Sampler, stop: int | None = None, *, refill: bool = True
) -> tuple[IBISState, StepInfo]:
    """Process further samples: at most up to the next rejuvenation, or to `stop`."""
    first = run.samples
    last = min(target.limit(first), target.samples, first + run.stride, target.samples if stop is None else stop)
    state, rows = target.advance(run.state, run.flat_theta, first, last)
    energies = np.asarray(rows)[: last - first]
    weighted = w.weigh(run.log_weights, energies)
    run = replace(run, work=run.work + energies.size)
    even = w.ess_fraction(weighted.ess, sampler.population_size)
    low = np.flatnonzero(even < sampler.ess)
    if not len(low):
        return _commit(run, weighted, energies, state, stride=2 * run.stride)
    at = int(low[0])
    if at + 1 < last - first:
        state, _ = target.advance(run.state, run.flat_theta, first, first + at + 1)
        run = replace(run, work=run.work + (at + 1) * sampler.particles)
    before = w.ReweightedBlock(*(values[:at] for values in weighted))
    run, info = _commit(run, before, energies[:at], state, stride=SHORTEST)
    whole = bool(even[at] >= sampler.bridge * sampler.ess)
    energy = energies[at].reshape(run.log_weights.shape)
    run, final = temper_sample(run, target, sampler, energy, whole=whole, refill=refill)
    return run, _joined(info, final)


def temper_all(run: IBISState, target: Target, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """Temper the likelihood of all samples at once, as if they were one sample."""
    everything = _OneSample(target)
    state, energies = everything.advance(None, run.flat_theta, 0, 1)
    run = replace(run, state=state, work=run.work + target.samples * sampler.particles)
    energy = np.asarray(energies)[0].reshape(run.log_weights.shape)
    run, info = temper_sample(run, everything, sampler, energy, whole=False)
    return replace(run, samples=target.samples), info


def _commit(
    run: IBISState, weighted: w.ReweightedBlock, energies: np.ndarray, state: PyTree, stride: int
) -> tuple[IBISState, StepInfo]:
    """The run after some samples without rejuvenation."""
    info = _step_info(run, weighted.ess, run.base_evidence + weighted.log_mean)
    count = len(energies)
    if count:
        path = np.concatenate([run.log_likelihood.reshape(1, -1), w.finite_or_lost(energies)])
        run = replace(
            run,
            log_weights=weighted.log_weights[-1],
            log_likelihood=np.subtract.reduce(path).reshape(run.log_likelihood.shape),
            lost=run.lost + int(weighted.lost.sum()),
        )
    return replace(run, samples=run.samples + count, state=state, stride=stride), info


def _step_info(run: IBISState, ess: np.ndarray, evidence: np.ndarray) -> StepInfo:
    """From (sample, population) to (sample, island): effective sample sizes add up, evidences average."""
    return StepInfo(by_island(ess, run.islands).sum(axis=-1), log_mean_exp(by_island(evidence, run.islands)))


def _joined(first: StepInfo, second: StepInfo) -> StepInfo:
    return StepInfo(
        np.concatenate([first.ess, second.ess]),
        np.concatenate([first.evidence, second.evidence]),
        first.rejuvenations + second.rejuvenations,
        second.rebased,
    )


def temper_sample(
    run: IBISState, target: Target, sampler: Sampler, energy: np.ndarray, *, whole: bool, refill: bool = True
) -> tuple[IBISState, StepInfo]:
    """Process one sample that makes the weights too uneven: whole, followed by a rejuvenation, or by tempering.

    On entry the run's weights are those before the sample, its filter state the one after it.  A population without
    particles is refilled from the others, or raises a `SamplingError`.
    """
    sample = run.samples
    energy = w.finite_or_lost(energy)
    lost = int(np.sum(np.isinf(energy) & np.isfinite(run.log_weights)))
    batch = ParticleBatch(run.theta, run.log_likelihood, energy, run.state)
    done = 0.0
    rejuvenations: list[Rejuvenation] = []
    summed = run.base_evidence
    while done < 1.0:
        rest = 1.0 - done
        share = rest if whole else min(w.temper(run.log_weights, batch.energy, sampler.ess), rest)
        run = replace(run, log_weights=run.log_weights - w.tempered(batch.energy, share))
        dead = _dead(run.log_weights, share, target.describe(sample), sample, refill=refill)
        done = 1.0 if share >= rest else done + share
        # where most particles were lost, the ESS may be below the threshold before any of the sample is weighed in
        few = w.ess_fraction(effective_sample_size(run.log_weights), sampler.population_size) < sampler.ess
        if done < 1.0 or whole or few:
            seeds = (run.seed, 1 + sample, len(rejuvenations))
            summed = summed + log_mean_exp(run.log_weights)
            everyone, sizes = batch.theta, effective_sample_size(run.log_weights)
            if dead:
                run, batch = _refilled(run, batch, sampler, seeds)
                summed = np.full_like(summed, log_mean_exp(summed))
            batch, info, proposals = rejuvenate(
                batch, run.log_weights, target, sampler, sample, done, seeds, everyone=everyone
            )
            rejuvenations.append(info._replace(ess=float(sizes.sum()), refilled=dead))
            run = _rejuvenated(run, proposals, sampler, info.work)
    run = replace(
        run,
        samples=sample + 1,
        theta=batch.theta,
        state=batch.state,
        log_likelihood=batch.likelihood - batch.energy,
        lost=run.lost + lost,
    )
    product = summed + log_mean_exp(run.log_weights)
    if rejuvenations:
        correction = float(log_mean_exp(run.evidence_by_population) - log_mean_exp(product))
        rejuvenations[-1] = rejuvenations[-1]._replace(correction=correction)
    final = _step_info(run, effective_sample_size(run.log_weights)[None], product[None])
    return run, final._replace(rejuvenations=tuple(rejuvenations), rebased=run.evidence_by_island)


def _rejuvenated(run: IBISState, proposals: ProposalEvidence, sampler: Sampler, work: float) -> IBISState:
    """The run with equal weights and the better estimate of the evidence."""
    product = run.evidence_by_population
    found = proposals.better_than(product, run.shared_error) if sampler.halves == 2 else product
    return replace(
        run,
        base_evidence=found,
        log_weights=np.zeros_like(run.log_weights),
        work=run.work + work,
        shared_error=run.shared_error if found is product else 0.0,
    )


def move_again(run: IBISState, target: Target, sampler: Sampler, turn: int) -> tuple[IBISState, Rejuvenation]:
    """Resample and move the particles once more, at the posterior given all samples so far; `turn` tells apart several
    such rejuvenations."""
    batch = ParticleBatch(run.theta, run.log_likelihood, np.zeros_like(run.log_likelihood), run.state)
    seeds = (run.seed, run.samples, AGAIN + turn)
    batch, info, proposals = rejuvenate(batch, run.log_weights, target, sampler, run.samples - 1, 1.0, seeds)
    before = float(log_mean_exp(run.evidence_by_population))
    run = _rejuvenated(run, proposals, sampler, info.work)
    run = replace(run, theta=batch.theta, state=batch.state, log_likelihood=batch.likelihood - batch.energy)
    return run, info._replace(correction=float(log_mean_exp(run.evidence_by_population)) - before)


def _refilled(
    run: IBISState, batch: ParticleBatch, sampler: Sampler, seeds: tuple[int, ...]
) -> tuple[IBISState, ParticleBatch]:
    """The run and its particles after all populations were pooled."""
    pooled = pool(batch, run.log_weights, run.base_evidence, sampler.scheme, np.random.default_rng([*seeds, 3]))
    run = replace(
        run,
        log_weights=np.zeros_like(run.log_weights),
        base_evidence=np.full_like(run.base_evidence, pooled.log_evidence),
        shared_error=float(np.hypot(run.shared_error, pooled.error)),
    )
    return run, pooled.batch


def _dead(log_weights: np.ndarray, share: float, where: str, sample: int, *, refill: bool) -> int:
    """The number of populations without a particle; raises, with the likely cause, if none has one."""
    alive = w.alive(log_weights)
    if not alive.any():
        raise SamplingError(
            f"all particles are lost at {where}: the energy of every one is not finite there. Likely causes: a prior "
            "that reaches where the model is unstable or undefined, a step too long for the model, an outlier in the "
            "data there or just before at a noise level fixed far below it, or units that do not fit.",
            sample,
        )
    if share <= 0 or not (alive.all() or refill):
        raise SamplingError(
            f"the particles of an island are lost at {where}. Likely causes: a prior with hardly any mass where the "
            "data are, too few particles, or a noise level fixed far too low.",
            sample,
        )
    return int(np.sum(~alive))


@dataclass(frozen=True)
class _OneSample:
    """All samples of a target taken as one."""

    target: Target

    samples = 1

    def sample_prior(self, key: jax.Array, count: int) -> Numbers:
        return self.target.sample_prior(key, count)

    def log_prior(self, theta: Numbers) -> Numbers:
        return self.target.log_prior(theta)

    def limit(self, first: int) -> int:
        return 1

    def advance(self, state: PyTree, theta: Numbers, first: int, last: int) -> tuple[PyTree, Numbers]:
        state, likelihood, energy = self.target.sweep(theta, self.target.samples)
        return state, jnp.asarray(energy - likelihood)[None]

    def sweep(self, theta: Numbers, stop: int) -> tuple[PyTree, np.ndarray, np.ndarray]:
        return sweep_by_advance(self, theta, stop)

    def describe(self, sample: int) -> str:
        return "the whole record"

    def cost(self, stop: int) -> int:
        return self.target.cost(self.target.samples)
