"""Particles that start from any distribution, and budgets."""

import numpy as np
import pytest

from probsysid.smc import ibis
from probsysid.smc.bridge import temper_from
from probsysid.smc.budget import Budget, BudgetSpent, MeteredTarget
from probsysid.smc.options import Sampler
from probsysid.smc.proposals import MixtureDensity
from tests.smc.conjugate import Regression

PROBLEM = Regression.simulated()

ORIGINS = {"narrow": 0.3, "wide": 5.0}


@pytest.mark.parametrize("width", ORIGINS.values(), ids=ORIGINS)
def test_from_any_start_to_the_exact_posterior_and_evidence(width: float) -> None:
    """A Student-t a standard deviation aside, too narrow or too wide."""
    target, exact = PROBLEM.target(), PROBLEM.exact
    exact_mean, exact_sd = exact.mean[-1], np.sqrt(np.diag(exact.covariance[-1]))
    factor = width * np.diag(exact_sd)
    origin = MixtureDensity(np.ones(1), (exact_mean + exact_sd)[None], factor[None], 5.0)
    run, _ = temper_from(target, origin, Sampler(particles=2048), seed=0)
    weights = run.normalised_weights
    mean = run.flat_theta @ weights
    sd = np.sqrt((run.flat_theta - mean[:, None]) ** 2 @ weights)
    np.testing.assert_allclose((mean - exact_mean) / exact_sd, 0, atol=4 / np.sqrt(1000))
    np.testing.assert_allclose(sd / exact_sd, 1, atol=4 / np.sqrt(2 * 1000))
    evidence = run.evidence_by_population
    error = np.std(evidence, ddof=1) / np.sqrt(len(evidence))
    assert abs(evidence.mean() - exact.log_evidence[-1]) < 4 * error + 0.02
    _, likelihood, energy = target.sweep(run.flat_theta, target.samples)
    np.testing.assert_allclose(run.log_likelihood.ravel(), likelihood - energy, rtol=1e-9)


def test_a_budget_ends_a_run() -> None:
    target, sampler = PROBLEM.target(), Sampler(particles=64)
    budget = Budget.of(0.5, None, 64, target.samples)
    with pytest.raises(BudgetSpent):
        ibis.temper_all(ibis.start(target, sampler, 0), MeteredTarget(target, budget), sampler)
    assert budget.is_spent


def test_a_part_of_a_budget() -> None:
    budget = Budget.of(10, 100.0, 64, 5)
    budget.spend(1200)
    part = budget.part(0.5)
    assert part.evaluations == 0.5 * (10 * 64 * 5 - 1200)
    assert 49 < part.deadline - (budget.deadline - 100.0) < 51
    assert not part.is_spent
