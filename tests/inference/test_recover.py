"""Runs that are not to be trusted act before they give up, within a budget."""

import warnings

import numpy as np
import pytest

import probsysid as ps
from probsysid.posterior.simulate import simulate

MODEL = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a * (p.b**2 * u.u - s.x)})
PRIORS = {"a": ps.dist.LogNormal(0.0, 1.0), "b": ps.dist.Normal(0.0, 2.0)}
NOISE = {"x": ps.dist.LogNormal(-3.0, 1.0)}


@pytest.fixture(scope="module")
def record() -> ps.Record:
    """A gain b^2 = 2.25, whose sign of b nobody knows."""
    random = np.random.default_rng(0)
    inputs = ps.Record({"u": np.repeat(random.standard_normal(15), 8)}, dt=0.1)
    truth = {"a": np.array([1.0]), "b": np.array([1.5])}
    outputs, _, _ = simulate(MODEL, truth, np.zeros((1, 1)), inputs)
    return inputs.replace(outputs={"x": outputs["x"][0] + 0.05 * random.standard_normal(inputs.samples)})


def identify(record: ps.Record, seed: int = 0, solver: ps.Solver = ps.Solver(), **settings: object) -> ps.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.SamplingWarning)
        warnings.simplefilter("ignore", ps.ModelWarning)
        sampler = ps.Sampler(**{"particles": 256, **settings})
        return ps.identify(MODEL, record, PRIORS, NOISE, {"x": 0.0}, sampler=sampler, solver=solver, seed=seed)


@pytest.fixture(scope="module")
def reference(record: ps.Record) -> ps.Posterior:
    posterior = identify(record, seed=7, particles=4096)
    assert posterior.sampling.trusted
    return posterior


def test_a_run_without_budget_goes_on_from_the_modes(record: ps.Record, reference: ps.Posterior) -> None:
    """Fifteen sweeps for the particles that follow the data: without a pilot they do not get to its end."""
    posterior = identify(record, particles=1024, budget=30.0, solver=ps.Solver(pilot=False))
    assert posterior.sampling.trusted, posterior.sampling_verdict
    assert "started from 2 modes (the samples were processed up to" in posterior.sampling.course
    share = float(posterior.weights @ (posterior.values["b"] > 0))
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(posterior.sampling.ess["b"])
    for name in ("a", "noise.x"):
        mean, sd = (posterior.table().loc[name, column] for column in ("mean", "sd"))
        error = sd * np.hypot(1 / np.sqrt(posterior.sampling.ess[name]), 1 / np.sqrt(reference.sampling.ess[name]))
        assert abs(mean - reference.table().loc[name, "mean"]) < 4 * error
    error = np.hypot(posterior.log_evidence_error, reference.log_evidence_error)
    assert abs(posterior.log_evidence - reference.log_evidence) < 4 * error


def test_a_run_that_may_not_recover_says_how_far_it_came(record: ps.Record) -> None:
    posterior = identify(record, budget=2.0, recover=False)
    assert not posterior.sampling.trusted
    assert "the budget of 2 sweeps was spent at sample" in posterior.sampling.course


def test_too_few_particles_say_so(record: ps.Record) -> None:
    posterior = identify(record, particles=16, budget=2.0)
    assert not posterior.sampling.trusted
    assert "not to be trusted" in posterior.sampling_verdict


def test_a_deadline_is_kept(record: ps.Record) -> None:
    posterior = identify(record, seconds=1e-6)
    assert not posterior.sampling.trusted
    assert np.isfinite(posterior.log_evidence)
    assert posterior.weights.sum() == pytest.approx(1)
