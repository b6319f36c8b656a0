"""Fresh draws from a posterior that has been found, against a closed form."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid import dist
from probsysid.parallel.threads import Threads
from probsysid.posterior import importance_sampling
from probsysid.posterior.diagnostics.mode_check import LostMode, MAPEstimate, ModeCheck
from probsysid.posterior.qmc import quasi_random
from probsysid.smc.proposals import MixtureDensity

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
    assert refined.ess > 0.9 * 16_000
    for i, name in enumerate(n for n in ("slope", "initial.x") if n in refined.columns):
        sd = np.sqrt(covariance[i, i])
        assert abs(refined.mean(name) - mean[i]) < 4 * error * sd
        assert abs(refined.sd(name) / sd - 1) < 4 * error / np.sqrt(2)
    assert refined.log_evidence_error < 0.002  # independent draws of that efficiency have 0.0026
    assert abs(refined.log_evidence - log_evidence) < 4 * refined.log_evidence_error


def test_draws_are_trusted_as_far_as_the_particles_were(found: ps.Posterior) -> None:
    """Parts of the draws always agree: they come from one distribution, which was fitted to the particles."""
    check = found.sampling
    assert found.refined(128).sampling.trusted == check.trusted
    assert found.refined(128).sampling.modes == check.modes
    doubted = replace(found, sampling=replace(check, evidence_spread=50.0)).refined(128)
    assert not doubted.sampling.trusted and "log evidences of the populations differ" in doubted.sampling_verdict
    assert not doubted.refined(128).sampling.trusted
    elsewhere = MAPEstimate({"slope": 9.0}, 0.0, 0.0)
    lost = replace(check, modes=ModeCheck(lost=(LostMode(elsewhere, 0.5, 0.0),)))
    assert "slope = 9" in replace(found, sampling=lost).refined(128).sampling_verdict
    assert not replace(found, sampling=None).refined(128).sampling.trusted


@pytest.mark.long
def test_evidence_is_unbiased_and_its_error_right(found: ps.Posterior) -> None:
    repeats, log_evidence = 50, exact()[2]
    refined = [found.refined(128, seed=seed) for seed in range(repeats)]
    ratios = np.exp([r.log_evidence - log_evidence for r in refined])
    reported = np.sqrt(np.mean([r.log_evidence_error**2 for r in refined]))
    assert abs(np.mean(ratios) - 1) < 4 * reported / np.sqrt(repeats)
    # a variance from n values is known to sqrt(2 / n) of itself, a root mean square to 0.1; the errors, from 8 parts
    # each, are known better, all together
    assert abs(np.sqrt(np.mean((ratios - 1) ** 2)) / reported - 1) < 0.4


def test_efficiency_of_another_distribution_is_foreseen() -> None:
    """For N(0, 1) and draws from N(0, s^2) it is sqrt(2 - 1 / s^2) / s."""
    random = np.random.default_rng(0)
    wide, wider = (MixtureDensity(np.ones(1), np.zeros((1, 1)), np.full((1, 1, 1), s), None) for s in (1.5, 2.5))
    theta = quasi_random(wide, random, 4096)
    trial = importance_sampling.ImportanceSample(theta, 7.0 - 0.5 * theta[0] ** 2, wide.log_density(theta))
    # means of bounded weights over 4096 draws, were they independent: a hundredth or two
    assert trial.efficiency == pytest.approx(np.sqrt(2 - 1 / 1.5**2) / 1.5, rel=0.02)
    assert trial.efficiency_of(wide) == pytest.approx(trial.efficiency, rel=1e-12)
    assert trial.efficiency_of(wider) == pytest.approx(np.sqrt(2 - 1 / 2.5**2) / 2.5, rel=0.02)


def test_draws_that_overflow_do_not_spoil_means() -> None:
    """A tenth of the draws of a noise level, whose logarithm is sampled, are hundreds of standard deviations out."""
    found = ps.identify(
        LINE,
        ps.Record(outputs={"y": DATA}, dt=0.1),
        priors={"slope": dist.Normal(0, 1)},
        noise={"y": dist.LogNormal(np.log(NOISE), 0.5)},
        initial={"x": 0.4},
        solver=ps.Solver(smoothness=2, substeps=1),
        sampler=ps.Sampler(particles=64, recover=False),
    )
    mean, factor = found.theta @ found.weights, np.linalg.cholesky(np.cov(found.theta, aweights=found.weights))
    wide = MixtureDensity(
        np.array([0.9, 0.1]), np.stack([mean, mean]), np.stack([1.5 * factor, 1000 * np.eye(2)]), None
    )
    fits = {"first_fit": lambda *_: wide, "second_fit": lambda *_: wide}
    refined = importance_sampling.refine(found, 1024, 0, Threads(1), **fits)
    assert np.mean(refined.weights == 0) > 0.01
    assert np.all(np.isfinite(refined.theta))
    assert all(np.all(np.isfinite(column)) for column in refined.columns.values())
    assert np.isfinite(refined.table()["mean"]).all()
    assert abs(refined.mean("noise.y") - found.mean("noise.y")) < found.sd("noise.y")


def test_it_is_a_posterior_like_any_other(found: ps.Posterior) -> None:
    refined = found.refined(100)
    assert refined.settings.particles == len(refined.weights) == refined.theta.shape[1] == 104
    assert refined.weights.sum() == pytest.approx(1)
    assert set(refined.table().index) == set(found.table().index)
    assert refined.settings.sweeps * 104 > found.settings.sweeps * 64 + 104
    again = refined.refined(100, seed=1)
    assert len(again.weights) == 104
    assert not np.array_equal(again.theta, refined.theta)
    np.testing.assert_array_equal(found.refined(100).weights, refined.weights)


def narrow(found: ps.Posterior) -> MixtureDensity:
    """A distribution so narrow that the weights of its draws have no variance."""
    size = len(found.theta)
    return MixtureDensity(np.ones(1), found.theta.mean(axis=1)[None], 1e-2 * np.eye(size)[None], None)


def test_what_is_too_far_from_the_posterior_is_refused(found: ps.Posterior) -> None:
    fits = {"first_fit": lambda *_: narrow(found), "second_fit": lambda *_: narrow(found)}
    with pytest.raises(ps.SamplingError, match="Pareto shape"):
        importance_sampling.refine(found, 8000, 0, Threads(1), **fits)


def test_heavy_weights_are_mended_by_wider_tails(found: ps.Posterior) -> None:
    refined = importance_sampling.refine(found, 8000, 0, Threads(1), first_fit=lambda *_: narrow(found))
    assert refined.ess > 0.2 * 8000  # the narrow draws have a share in the fit; they alone leave 0.01
    assert abs(refined.log_evidence - exact()[2]) < 4 * refined.log_evidence_error
    assert refined.settings.sweeps * 8000 >= found.settings.sweeps * 64 + 2 * 8000


@pytest.mark.parametrize("draws", [0, 63, 100.5, "many"])
def test_draws_are_checked(found: ps.Posterior, draws: object) -> None:
    with pytest.raises(ps.InputError, match="draws is"):
        found.refined(draws)  # type: ignore[arg-type]
