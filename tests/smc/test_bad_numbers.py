"""Energies that are not numbers, particles that all agree, priors far from the data."""

from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np
import pytest

from probsysid import Sampler, SamplingError
from probsysid.smc import ibis
from tests.smc.conjugate import EnergyTarget, Regression

PROBLEM = Regression.simulated(samples=40, noise=5.0)
"""Each sample says little: particles that were lost are not made up for by the next sample's rejuvenation."""

SAMPLER = Sampler(particles=512, islands=2)


def broken(bad: Callable[[np.ndarray], np.ndarray], at: int, value: float = np.nan) -> EnergyTarget:
    """The regression, whose energy is not finite from a sample on where `bad(theta)`."""
    target = PROBLEM.target()

    def energy(theta: np.ndarray, sample: int) -> np.ndarray:
        honest = target.energy(theta, sample)
        return np.where(bad(theta), value, honest) if sample >= at else honest

    return replace(target, energy=energy)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("share", [0.3, 0.8, 0.97])
def test_lost_particles_are_counted_and_the_run_goes_on(value: float, share: float) -> None:
    """The first sample loses a share of the prior: all that is further from the truth in one coordinate."""
    first = np.asarray(PROBLEM.target().sample_prior(jax.random.key(0), SAMPLER.particles))
    centre = PROBLEM.exact.mean[-1, 0]
    reach = np.quantile(np.abs(first[0] - centre), 1 - share)
    target = broken(lambda theta: np.abs(theta[0] - centre) > reach, 0, value)
    run, sizes = ibis.start(target, SAMPLER, 0), []
    while run.samples < target.samples:
        run, step = ibis.step(run, target, SAMPLER)
        sizes.append(step.ess)
    assert run.lost == np.sum(np.abs(first[0] - centre) > reach)
    assert np.min(np.concatenate(sizes).sum(axis=1)) >= SAMPLER.ess * SAMPLER.particles
    assert np.all(np.abs(run.theta[0] - centre) <= reach)
    assert np.all(np.isfinite(run.log_likelihood))


@pytest.mark.parametrize("at", [0, 7])
@pytest.mark.parametrize("path", ["data", "likelihood"])
def test_all_particles_lost(at: int, path: str) -> None:
    sampler = replace(SAMPLER, path=path)
    target = broken(lambda theta: np.ones(theta.shape[1], dtype=bool), at)
    run = ibis.start(target, sampler, 0)
    forward = ibis.temper_all if path == "likelihood" else ibis.step
    with pytest.raises(SamplingError, match=r"all particles are lost at .* not finite there\. Likely causes: a prior"):
        while run.samples < target.samples:
            run, _ = forward(run, target, sampler)
    # what was there before the sample is still there
    assert run.samples == (at if path == "data" else 0)
    assert np.all(np.isfinite(run.log_weights))


def test_the_error_names_the_sample() -> None:
    target = broken(lambda theta: np.ones(theta.shape[1], dtype=bool), 7)
    run = ibis.start(target, SAMPLER, 0)
    with pytest.raises(SamplingError, match="lost at sample 7:") as caught:
        while True:
            run, _ = ibis.step(run, target, SAMPLER)
    assert caught.value.sample == 7


def test_one_island_lost() -> None:
    """It is refilled from the others; on request, it is an error, so that finer steps can be tried first."""
    target = PROBLEM.target()
    first = np.asarray(target.sample_prior(jax.random.key(0), SAMPLER.particles))
    mine = {tuple(vector) for vector in first[:, : SAMPLER.population_size].T}
    target = broken(lambda theta: np.array([tuple(vector) in mine for vector in theta.T]), 0)
    with pytest.raises(SamplingError, match="the particles of an island are lost at sample 0"):
        ibis.step(ibis.start(target, SAMPLER, 0), target, SAMPLER, refill=False)
    run, step = ibis.step(ibis.start(target, SAMPLER, 0), target, SAMPLER)
    assert step.rejuvenations[0].refilled == 1
    assert np.all(np.isfinite(run.log_likelihood))


@pytest.mark.parametrize("alive", [2, 3])
def test_too_few_particles_to_fit_a_proposal(alive: int) -> None:
    """Three points span no ellipsoid in three dimensions; where no walk leads away from them, that is the end."""
    target, sampler = PROBLEM.target(), replace(SAMPLER, islands=1)
    first = np.asarray(target.sample_prior(jax.random.key(0), sampler.particles))
    # one half of the island keeps one, the other the rest
    chosen = [*range(alive - 1), sampler.population_size]
    mine = {tuple(first[:, n]) for n in chosen}
    target = broken(lambda theta: np.array([tuple(vector) not in mine for vector in theta.T]), 0)
    with pytest.raises(SamplingError, match=rf"have collapsed at sample 0: {alive} different ones are left") as caught:
        ibis.step(ibis.start(target, sampler, 0), target, sampler)
    assert caught.value.sample == 0


def test_few_particles_walk_away_from_each_other() -> None:
    """Two are left for three quantities: a walk with the covariance of all prior draws diversifies them."""
    target, sampler = PROBLEM.target(), replace(SAMPLER, islands=1)
    first = np.asarray(target.sample_prior(jax.random.key(0), sampler.particles))
    lost = {tuple(vector) for vector in first.T[2:]}
    target = broken(lambda theta: np.array([tuple(vector) in lost for vector in theta.T]), 0)
    run, step = ibis.step(ibis.start(target, sampler, 0), target, sampler)
    assert step.rejuvenations[0].kind == "random walk"
    assert step.rejuvenations[0].unique > 0.5 * sampler.particles
    while run.samples < target.samples:
        run, _ = ibis.step(run, target, sampler)
    exact = PROBLEM.exact
    mean = run.flat_theta @ run.normalised_weights
    # later moves have forgotten the beginning; an effective number of 50 at the very least
    assert np.all(np.abs(mean - exact.mean[-1]) < 4 * np.sqrt(np.diag(exact.covariance[-1]) / 50))


def test_a_prior_that_is_not_finite() -> None:
    target = replace(PROBLEM.target(), draw=lambda key, count: np.full((3, count), np.inf))
    with pytest.raises(SamplingError, match="the prior gives draws that are not finite"):
        ibis.start(target, SAMPLER, 0)


def test_a_prior_far_from_the_data_is_bridged() -> None:
    """Data 1000 noise levels off: hundreds of nats between the prior's particles, brought in share by share."""
    problem = replace(PROBLEM, outputs=PROBLEM.outputs + 5000.0)
    target = problem.target()
    sampler = replace(SAMPLER, max_moves=30)
    run = ibis.start(target, sampler, 0)
    run, step = ibis.step(run, target, sampler)
    assert len(step.rejuvenations) > 1
    assert np.all(np.diff([r.share for r in step.rejuvenations]) > 0)


def test_a_prior_whose_density_is_not_a_number() -> None:
    """No particle would ever move."""
    target = replace(PROBLEM.target(), log_prior=lambda theta: np.where(np.asarray(theta)[0] > 0, np.nan, 0.0))
    with pytest.raises(SamplingError, match="the density of the prior is not a number at draws from it"):
        ibis.start(target, SAMPLER, 0)
