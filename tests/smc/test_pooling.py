"""Populations that die: refilled from the others, with an evidence that stays unbiased and an error that is honest."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from probsysid import Sampler, SamplingError
from probsysid._internal.statistics import log_mean_exp
from probsysid.smc import checkpoint, ibis
from probsysid.smc.evidence import evidence_error
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState
from probsysid.smc.metropolis import ParticleBatch
from probsysid.smc.pooling import pool
from probsysid.smc.resampling import SCHEMES
from tests.smc.conjugate import EnergyTarget

REACH = stats.norm.ppf(0.55)
"""A tenth of the prior's mass lies within, so that a population of 16 dies with a probability of 0.19."""

AT = 2
"""The sample at which particles beyond are lost."""

OUTPUTS = np.array([0.4, -0.1, 0.2, 0.15, 0.3, -0.2])
SAMPLER = Sampler(particles=128, islands=8, cross_fit=False)
WITH_DEATHS = 3
"""A seed with which four populations die."""

HALVED = Sampler(particles=128, islands=4)


def energy(theta: np.ndarray, sample: int) -> np.ndarray:
    """Noise with a standard deviation of 2, and no data outside the reach."""
    plain = 0.5 * ((OUTPUTS[sample] - theta[0]) / 2) ** 2
    return np.where((np.abs(theta[0]) < REACH) | (sample != AT), plain, np.inf)


TARGET = EnergyTarget(
    energy,
    lambda key, count: jax.random.normal(key, (1, count)),
    lambda theta: -0.5 * np.asarray(theta)[0] ** 2 - 0.5 * np.log(2 * np.pi),
    len(OUTPUTS),
)


def density(theta: float, samples: range = range(len(OUTPUTS))) -> float:
    """Prior times likelihood."""
    return float(stats.norm.pdf(theta) * np.exp(-0.5 * np.sum((OUTPUTS[list(samples)] - theta) ** 2) / 4))


EVIDENCE = integrate.quad(density, -REACH, REACH)[0]


def run_all(sampler: Sampler, seed: int, target: Any = TARGET) -> tuple[IBISState, int]:
    """The run after all samples, and the number of populations that were refilled on the way."""
    run, refilled = ibis.start(target, sampler, seed), 0
    while run.samples < target.samples:
        run, step = ibis.step(run, target, sampler)
        refilled += sum(r.refilled for r in step.rejuvenations)
    return run, refilled


@pytest.fixture(scope="module")
def runs() -> list[tuple[IBISState, int]]:
    return [run_all(SAMPLER, seed) for seed in range(400)]


def evidences(runs: list[tuple[IBISState, int]]) -> np.ndarray:
    """Relative to the truth."""
    return np.array([np.exp(log_mean_exp(run.evidence_by_population)) for run, _ in runs]) / EVIDENCE


def from_the_prior(seeds: int) -> np.ndarray:
    """Evidence up to the fatal sample, relative to the truth: the mean likelihood of the same prior draws."""
    first = range(AT + 1)
    truth = integrate.quad(lambda theta: density(theta, first), -REACH, REACH)[0]
    draws = (np.asarray(TARGET.sample_prior(jax.random.key(seed), SAMPLER.particles)) for seed in range(seeds))
    return np.array([np.mean(np.exp(-sum(energy(theta, k) for k in first))) for theta in draws]) / truth


def test_the_evidence_is_unbiased(runs: list[tuple[IBISState, int]]) -> None:
    """Over all seeds, with and without deaths: a population that died counts as zero, neither more nor less.

    Most of the variance is that of the prior draws, whose mean likelihood is unbiased as well: it is taken off.  What
    is left is the effect of proposals fitted to the particles that they move, 2e-4 here; where deaths were left out of
    the mean, it would be 0.2.
    """
    assert 0.7 < np.mean([refilled > 0 for _, refilled in runs]) < 0.9  # 1 - 0.81^8 = 0.82
    difference = evidences(runs) - from_the_prior(len(runs))
    assert difference.std() < 0.01
    assert abs(difference.mean()) < 1e-3


def test_the_error_of_the_evidence_is_honest(runs: list[tuple[IBISState, int]]) -> None:
    """Mean squared error against mean squared report: F, as for islands that never meet.

    Without the error that populations share, the report would be far too small.
    """
    squared = np.mean((evidences(runs) - 1) ** 2)
    reported = [evidence_error(run.evidence_by_population, run.shared_error) ** 2 for run, _ in runs]
    alone = [evidence_error(run.evidence_by_population) ** 2 for run, _ in runs]
    low, high = stats.f.ppf([5e-4, 1 - 5e-4], len(runs), 7 * len(runs))
    assert low < squared / np.mean(reported) < high
    assert squared / np.mean(alone) > 2 * high


def test_the_posterior_is_right(runs: list[tuple[IBISState, int]]) -> None:
    means = np.array([run.flat_theta[0] @ run.normalised_weights for run, _ in runs])
    exact = integrate.quad(lambda theta: theta * density(theta), -REACH, REACH)[0] / EVIDENCE
    assert abs(means.mean() - exact) < 3 * means.std(ddof=1) / np.sqrt(len(means))
    assert all(np.all(np.abs(run.theta) < REACH) for run, _ in runs)


def test_halves_of_islands_are_refilled() -> None:
    """Proposals re-estimate their evidence, which forgets the error that they shared."""
    found = [run_all(HALVED, seed) for seed in range(200)]
    relative = evidences(found)
    assert np.mean([refilled > 0 for _, refilled in found]) > 0.5
    assert relative.std() < 0.1  # a tenth of what the product has
    assert abs(relative.mean() - 1) < 3 * relative.std(ddof=1) / np.sqrt(len(found))
    assert np.mean([run.shared_error == 0 for run, refilled in found if refilled]) > 0.9


def test_state_stays_with_its_particle() -> None:
    run, refilled = run_all(SAMPLER, WITH_DEATHS)
    assert refilled
    total = sum(energy(run.flat_theta, k) for k in range(len(OUTPUTS)))
    np.testing.assert_allclose(np.asarray(run.state)[0], total, rtol=1e-12)  # sums of 6 numbers in another order
    np.testing.assert_allclose(-run.log_likelihood.ravel(), total, rtol=1e-12)


def test_portions_and_checkpoints_do_not_matter(tmp_path: Path) -> None:
    """Samples one by one, saved and loaded in between: the bits of one run over all."""
    whole, refilled = run_all(SAMPLER, WITH_DEATHS)
    assert refilled
    single, history, path = ibis.start(TARGET, SAMPLER, WITH_DEATHS), History(SAMPLER.islands), tmp_path / "run"
    for count in range(1, TARGET.samples + 1):
        arrived = replace(TARGET, samples=count)
        while single.samples < count:
            single, step = ibis.step(single, arrived, SAMPLER)
            history.add(step)
        path.write_bytes(checkpoint.pack(single, history, ""))
        single, history, _ = checkpoint.unpack(path, "")
    for name in ("theta", "log_weights", "log_likelihood", "base_evidence", "shared_error"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(single, name))
    assert sum(r.refilled for r in history.rejuvenations) == refilled


def test_only_the_loss_of_all_is_an_error() -> None:
    target = replace(TARGET, energy=lambda theta, sample: np.full(theta.shape[1], np.inf if sample == AT else 0.0))
    with pytest.raises(SamplingError, match="all particles are lost at sample 2"):
        run_all(SAMPLER, 0, target)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_copies_by_weight_and_evidence(scheme: str) -> None:
    """Expected copies of each particle: its weight within the population, times the population's evidence."""
    logs = np.array([[0.0, -1.0, -np.inf, 0.5], [-np.inf] * 4, [0.2, 0.1, -0.3, 0.0]])
    base = np.array([1.0, 0.0, -0.5])
    place = np.arange(12.0).reshape(3, 4)
    batch = ParticleBatch(place[None], place, place, place.reshape(1, -1))
    copies, rounds = np.zeros(12), 2000
    for seed in range(rounds):
        pooled = pool(batch, logs, base, SCHEMES[scheme], np.random.default_rng(seed))
        copies += np.bincount(pooled.batch.theta.astype(int).ravel(), minlength=12)
        for part in (pooled.batch.likelihood, pooled.batch.energy, pooled.batch.state.reshape(3, 4)):
            np.testing.assert_array_equal(part, pooled.batch.theta[0])
    weights = np.exp(base[:, None] + logs).ravel()
    expected = 12 * weights / weights.sum()
    # the number of copies varies by at most that of independent draws
    assert np.all(np.abs(copies / rounds - expected) <= 4 * np.sqrt(expected / rounds))
    assert pooled.log_evidence == pytest.approx(np.log(np.mean(weights)))
    by_population = weights.reshape(3, 4).mean(axis=1)
    assert pooled.error == pytest.approx(by_population.std(ddof=1) / by_population.mean() / np.sqrt(3))
