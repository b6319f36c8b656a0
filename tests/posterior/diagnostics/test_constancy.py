"""The odds of a constant against a drift, from draws of posteriors that quadrature knows."""

from dataclasses import replace

import numpy as np
import pytest
from numpyro.distributions import Distribution

import probsysid as ps
from probsysid import dist
from probsysid.model.latent_processes import LatentProcesses
from probsysid.model.problem import Problem
from probsysid.posterior.diagnostics.constancy import Constancy, constant_odds
from probsysid.posterior.diagnostics.traffic_lights import traffic_lights
from probsysid.posterior.settings import Setup
from tests.posterior.tiny import MODEL, PARTICLES, PRIORS, tiny_posterior

DRAWS, ERROR = 2000, 0.02
LOGS = np.linspace(-25.0, 5.0, 6001)


def increments(rate: float, count: int = 40) -> np.ndarray:
    return np.random.default_rng(5).normal(size=count) * np.hypot(rate, ERROR)


def log_likelihood(rate: np.ndarray, data: np.ndarray) -> np.ndarray:
    total = rate**2 + ERROR**2
    return -0.5 * len(data) * np.log(total) - 0.5 * np.sum(data**2) / total


def exact_and_draws(prior: Distribution, data: np.ndarray) -> tuple[float, np.ndarray]:
    """Log odds by quadrature, and draws by the inverse of the distribution function."""
    rates = np.exp(LOGS)
    log_density = np.asarray(prior.log_prob(rates)) + LOGS + log_likelihood(rates, data)
    top = log_density.max()
    masses = np.exp(log_density - top)
    evidence = top + np.log(masses.sum() * (LOGS[1] - LOGS[0]))
    levels = (np.arange(DRAWS) + 0.5) / DRAWS
    draws = np.exp(np.interp(levels, np.cumsum(masses) / masses.sum(), LOGS))
    return float(log_likelihood(np.zeros(1), data)[0] - evidence), draws


@pytest.mark.parametrize("prior", [dist.HalfNormal(0.05), dist.LogNormal(-4.0, 1.0)])
@pytest.mark.parametrize("rate", [0.0, 0.01])
def test_the_odds_near_the_boundary_are_those_of_quadrature(prior: Distribution, rate: float) -> None:
    """2000 draws in place of the whole posterior: a density at the end of its range to some 4 / sqrt(2000 * 0.1)."""
    exact, draws = exact_and_draws(prior, increments(rate))
    found = constant_odds(draws, np.full(DRAWS, 1 / DRAWS), prior)
    assert found == pytest.approx(exact, abs=4 / np.sqrt(0.1 * DRAWS))


def test_the_odds_far_from_the_boundary_are_beyond_doubt() -> None:
    """No draw is near zero: the form is extrapolated, here over a factor of e^-46."""
    prior = dist.HalfNormal(0.05)
    exact, draws = exact_and_draws(prior, increments(0.06))
    found = constant_odds(draws, np.full(DRAWS, 1 / DRAWS), prior)
    assert exact < -20 and found < -7


def test_verdicts_are_sentences() -> None:
    assert Constancy("k", "k.rate", np.log(14.0), 0.004).sentence == (
        "k is constant as far as the data tell: odds of 14 to 1 against a drift; "
        "k.rate is below 0.004 with 95 % probability"
    )
    assert Constancy("k", "k.rate", -30.0, 0.02).sentence == "k drifts: odds of more than 1000 to 1 against a constant"
    assert Constancy("k", "k.rate", -0.7, 0.02).sentence.startswith("whether k drifts is open: odds of 2 to 1 for a ")


def test_a_drift_has_a_mark_and_a_light() -> None:
    """Rates of a wide posterior under a prior that is as wide: open; piled up at zero: constant."""
    latent = LatentProcesses.make(MODEL, PRIORS, {}, {"a": ps.RandomWalk(rate=dist.HalfNormal(1.0))})
    problem = Problem.make(MODEL, PRIORS, {"level": 0.1}, [{"h": 0.0}], {}, {}, latent)
    given = replace(tiny_posterior(), setup=Setup((problem, ps.Solver(substeps=1))))
    for size, light, mark in ((1.0, "doubtful", "open whether a drifts"), (1e-3, "good", "a is constant (")):
        rates = size * np.abs(np.random.default_rng(0).normal(size=PARTICLES))
        posterior = replace(given, values={**given.values, "a.rate": rates})
        assert posterior.table()["flags"]["a.rate"].startswith(mark)
        (verdict,) = traffic_lights(posterior)[3:]
        assert (verdict.subject, verdict.light) == ("drift of a", light)
