"""Fresh draws from a posterior that has been found, against a closed form."""

import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid import dist, refine
from probsysid.smc.proposals import StudentMixture

NOISE, SAMPLES = 0.5, 20
TIME = 0.1 * np.arange(SAMPLES)
DATA = 0.4 + 1.3 * TIME + NOISE * np.random.default_rng(0).standard_normal(SAMPLES)

LINE = ps.Model(
    coordinates={"x": 1},
    dynamics=lambda s, u, p: {"x": p.slope + 0.0 * s.x},
    outputs=lambda s, u, p: {"y": s.x},
    name="straight line",
)
"""Solved without error by any prior that holds straight lines: slope and start have a Gaussian posterior."""


def exact() -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance of slope and start, and the log evidence."""
    design = np.stack([TIME, np.ones(SAMPLES)])
    precision = np.eye(2) + design @ design.T / NOISE**2
    covariance = np.linalg.inv(precision)
    prior = stats.multivariate_normal(np.zeros(SAMPLES), NOISE**2 * np.eye(SAMPLES) + design.T @ design)
    return covariance @ design @ DATA / NOISE**2, covariance, float(prior.logpdf(DATA))


@pytest.fixture(scope="module", params=[pytest.param(1, marks=pytest.mark.long), "auto"])
def found(request: pytest.FixtureRequest) -> ps.Posterior:
    return ps.identify(
        LINE,
        ps.Record(outputs={"y": DATA}, dt=0.1),
        priors={"slope": dist.Normal(0, 1)},
        noise={"y": NOISE},
        initial={"x": dist.Normal(0, 1)},
        solver=ps.Solver(smoothness=2, substeps=request.param),
        sampler=ps.Sampler(particles=64),
    )


def test_moments_and_evidence_are_exact(found: ps.Posterior) -> None:
    refined = found.refined(16_000)
    mean, covariance, log_evidence = exact()
    error = 1 / np.sqrt(refined.ess)
    assert refined.ess > 0.5 * 16_000
    for i, name in enumerate(n for n in ("slope", "initial.x") if n in refined.columns):
        sd = np.sqrt(covariance[i, i])
        assert abs(refined.mean(name) - mean[i]) < 4 * error * sd
        assert abs(refined.sd(name) / sd - 1) < 4 * error / np.sqrt(2)
    assert refined.log_evidence_error < 0.02
    assert abs(refined.log_evidence - log_evidence) < 4 * refined.log_evidence_error


def test_it_is_a_posterior_like_any_other(found: ps.Posterior) -> None:
    refined = found.refined(100)
    assert refined.settings["particles"] == len(refined.weights) == refined.theta.shape[1] == 104
    assert refined.weights.sum() == pytest.approx(1)
    assert set(refined.table().index) == set(found.table().index)
    assert refined.settings["sweeps"] * 104 > found.settings["sweeps"] * 64 + 104
    again = refined.refined(100, seed=1)
    assert len(again.weights) == 104
    assert not np.array_equal(again.theta, refined.theta)
    np.testing.assert_array_equal(found.refined(100).weights, refined.weights)


def test_what_is_too_far_from_the_posterior_is_refused(found: ps.Posterior, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = StudentMixture(np.ones(1), found.theta.mean(axis=1)[None], 1e-2 * np.eye(len(found.theta))[None], None)
    monkeypatch.setattr(refine, "_close_to", lambda *_: narrow)
    with pytest.raises(ps.SamplingError, match="Pareto shape"):
        found.refined(2000)


@pytest.mark.parametrize("draws", [0, 63, 100.5, "many"])
def test_draws_are_checked(found: ps.Posterior, draws: object) -> None:
    with pytest.raises(ps.InputError, match="draws is"):
        found.refined(draws)  # type: ignore[arg-type]
