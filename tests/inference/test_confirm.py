"""Fresh draws that raise doubts, and the moves that follow."""

from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np
import pytest

from probsysid import Sampler
from probsysid._internal.statistics import log_mean_exp
from probsysid.inference.confirm import Pilot, check, confirm
from probsysid.smc import ibis
from probsysid.smc.adaptive_substeps import evaluate
from probsysid.smc.budget import Budget
from probsysid.smc.ibis import IBISState
from tests.smc.conjugate import EnergyTarget, Regression

WIDTH = 1.5
SAMPLER = Sampler(particles=1024, move="student")
"""Ellipsoids only: they miss the neck of a funnel."""


def log_normal(theta: np.ndarray, sd: np.ndarray | float) -> np.ndarray:
    return np.sum(-0.5 * (theta / sd) ** 2 - np.log(sd * np.ones_like(theta)) - 0.5 * np.log(2 * np.pi), axis=0)


def funnel() -> EnergyTarget:
    """Log scale v ~ N(0, WIDTH^2), four coordinates with standard deviation exp(v / 2), as the posterior of a Gaussian
    prior and 16 equal samples: the evidence is one."""

    def energy(theta: np.ndarray, sample: int) -> np.ndarray:
        density = log_normal(theta[:1], WIDTH) + log_normal(theta[1:], np.exp(np.clip(theta[:1] / 2, -300, 300)))
        return (log_normal(theta, 3.0) - density) / 16

    draw = lambda key, count: 3.0 * jax.random.normal(key, (5, count))  # noqa: E731
    return EnergyTarget(energy, draw, lambda theta: log_normal(np.asarray(theta), 3.0), 16)


def values(theta: np.ndarray) -> dict[str, np.ndarray]:
    return {f"theta{k}": value for k, value in enumerate(theta)}


def sampled(target: EnergyTarget, sampler: Sampler, seed: int) -> IBISState:
    run = ibis.start(target, sampler, seed)
    while run.samples < target.samples:
        run, _ = ibis.step(run, target, sampler)
    return run


@pytest.fixture(scope="module")
def missed() -> IBISState:
    """A run whose populations agree and have all missed the neck: 4.8 % of the mass lie below v = -2.5."""
    run = sampled(funnel(), SAMPLER, 0)
    assert run.normalised_weights @ (run.flat_theta[0] < -2.5) < 0.01
    return run


def test_what_all_populations_miss_raises_doubts(missed: IBISState) -> None:
    found = check(missed, funnel(), values, 0)
    assert min(found.ess.values()) > 25
    assert found.fresh is not None
    assert found.fresh.least_p < 0.01 or found.fresh.pareto_shape >= 0.4


def test_particles_are_moved_until_draws_confirm_them(missed: IBISState) -> None:
    sampler = Sampler(particles=1024)
    run, found, rejuvenations = confirm(missed, funnel(), sampler, values, 0, Budget(np.inf))
    assert len(rejuvenations) >= 1
    assert found.trusted
    below = run.normalised_weights @ (run.flat_theta[0] < -2.5)
    # moves accept two thirds, so that nearly every particle is a new draw: a binomial share of 0.048
    assert abs(below - 0.0478) < 4 * np.sqrt(0.0478 / 1024)
    assert abs(float(log_mean_exp(run.evidence_by_population))) < 4 * found.evidence_error


def test_nothing_is_moved_where_the_sampler_does_not_recover(missed: IBISState) -> None:
    run, _, rejuvenations = confirm(missed, funnel(), replace(SAMPLER, recover=False), values, 0, Budget(np.inf))
    assert run is missed
    assert rejuvenations == ()


def test_nothing_is_moved_without_a_budget(missed: IBISState) -> None:
    spent = Budget(1.0)
    run, found, rejuvenations = confirm(missed, funnel(), SAMPLER, values, 0, spent)
    assert run is missed and rejuvenations == ()
    assert found.fresh is not None


def test_healthy_runs_are_left_alone() -> None:
    """By chance one in 33 is moved (three probabilities below 0.01), and a Gaussian's weights have no heavy tail: more
    than four of ten with a probability below 1e-4."""
    problem = Regression.simulated()
    target, sampler = problem.target(), Sampler(particles=512)
    moved = [
        len(confirm(sampled(target, sampler, seed), target, sampler, values, seed, Budget(np.inf))[2])
        for seed in range(10)
    ]
    assert np.count_nonzero(moved) <= 4


def test_moving_again_leaves_the_posterior_as_it_is() -> None:
    """Means, variances and evidence of a linear regression, over 20 seeds, before and after."""
    problem = Regression.simulated()
    target, sampler, exact = problem.target(), Sampler(particles=512), problem.exact
    sd = np.sqrt(np.diag(exact.covariance[-1]))
    means, variances, evidences = [], [], []
    for seed in range(20):
        before = sampled(target, sampler, seed)
        run, info = ibis.move_again(before, target, sampler, 0)
        assert run.work > before.work and info.work == run.work - before.work
        assert np.all(run.log_weights == 0)
        white = (run.flat_theta - exact.mean[-1][:, None]) / sd[:, None]
        means.append(white.mean(axis=1))
        variances.append(np.mean(white**2, axis=1))
        evidences.append(float(log_mean_exp(run.evidence_by_population)) - exact.log_evidence[-1])
        total = (
            np.asarray(target.sweep(run.flat_theta, target.samples)[1])
            - target.sweep(run.flat_theta, target.samples)[2]
        )
        np.testing.assert_allclose(run.log_likelihood.ravel(), total, rtol=1e-12)
    for found, expected in ((means, 0.0), (variances, 1.0), (np.exp(evidences), 1.0)):
        error = np.std(found, axis=0, ddof=1) / np.sqrt(20)
        assert np.all(np.abs(np.mean(found, axis=0) - expected) < 4 * error)


class Counted:
    """A target that counts its sweeps."""

    def __init__(self, target: EnergyTarget) -> None:
        self.target, self.sweeps = target, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def sweep(self, theta: Any, stop: int) -> Any:
        self.sweeps += 1
        return self.target.sweep(theta, stop)


def tilted(by: float) -> EnergyTarget:
    """The funnel with its log scale shifted: log densities differ by a term linear in the first coordinate."""
    whole = funnel()

    def energy(theta: np.ndarray, sample: int) -> np.ndarray:
        return whole.energy(theta, sample) - by * theta[0] / 16

    return EnergyTarget(energy, whole.draw, whole.log_prior, whole.samples)


def test_draws_are_compared_on_a_pilot_that_is_close(missed: IBISState) -> None:
    """The target is not evaluated at all, and what the particles miss shows all the same.  A tilt by 0.1 along a
    coordinate with a standard deviation of 1.5 costs 2 % of the effective number, one by 0.5 would cost 43 %."""
    target, pilot = Counted(funnel()), Counted(tilted(0.1))
    found = check(missed, target, values, 0, Pilot(pilot))
    assert target.sweeps == 0 and pilot.sweeps >= 2
    assert found.fresh is not None and (found.fresh.least_p < 0.01 or found.fresh.pareto_shape >= 0.4)
    assert found.ess == check(missed, funnel(), values, 0).ess


def test_healthy_particles_are_confirmed_on_a_tilted_pilot() -> None:
    """A pilot's evidence and means are others: only exact weights between the two make them agree."""
    problem = Regression.simulated()
    target, sampler = problem.target(), Sampler(particles=1024)
    run = sampled(target, sampler, 1)
    sd = np.sqrt(problem.exact.covariance[-1][0, 0])

    def energy(theta: np.ndarray, sample: int) -> np.ndarray:
        return target.energy(theta, sample) - (0.15 / sd * theta[0] + 3.0) / target.samples

    pilot = EnergyTarget(energy, target.draw, target.log_prior, target.samples)
    found = check(run, Counted(target), values, 1, Pilot(pilot))
    # three probabilities: 1e-4 by chance in one of 3000 runs; a shift of the log evidence by 3 would be 100 errors
    assert found.fresh is not None and found.fresh.least_p > 1e-4 and found.trusted


def test_the_run_on_the_pilot_is_used_where_it_has_the_same_particles(missed: IBISState) -> None:
    """What is known of the particles on the pilot is not computed again, and what is found is the same."""
    pilot = Counted(tilted(0.1))
    expected = check(missed, funnel(), values, 0, Pilot(pilot))
    assert expected.fresh is not None
    computed = evaluate(missed, pilot).likelihood
    explored = replace(
        missed, log_weights=missed.log_weights + computed - missed.log_likelihood, log_likelihood=computed
    )
    sweeps, pilot.sweeps = pilot.sweeps - 1, 0
    found = check(missed, funnel(), values, 0, Pilot(pilot, explored))
    assert found.fresh is not None and pilot.sweeps == sweeps - 1
    assert asdict(found.fresh) == pytest.approx(asdict(expected.fresh))
    elsewhere = replace(explored, theta=explored.theta + 1, log_likelihood=0 * computed)
    assert check(missed, funnel(), values, 0, Pilot(pilot, elsewhere)) == expected


def test_a_pilot_that_is_not_close_is_not_used(missed: IBISState) -> None:
    pilot = Counted(tilted(0.5))
    found = check(missed, funnel(), values, 0, Pilot(pilot))
    assert pilot.sweeps == 1
    assert found == check(missed, funnel(), values, 0)


def test_few_particles_are_compared_with_more_draws() -> None:
    """64 particles, 512 draws: eight sweeps of the 64, from each of two fits."""
    target = Regression.simulated().target()
    run = sampled(target, Sampler(particles=64), 0)
    counted = Counted(target)
    check(run, counted, values, 0)
    assert counted.sweeps == 512 // 64


def test_particles_to_which_nothing_can_be_fitted_are_not_confirmed(missed: IBISState) -> None:
    """All alike in one coordinate, in all populations: nothing else would say so."""
    theta = missed.theta.copy()
    theta[2] = 0.5
    found = check(replace(missed, theta=theta), funnel(), values, 0)
    assert found.fresh is not None and not found.fresh.reliable and not found.trusted
