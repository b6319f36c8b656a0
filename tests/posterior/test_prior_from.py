"""A posterior as prior of the next experiment, against the closed form of two records at once."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid import dist
from probsysid.model.fingerprint import describe_prior
from probsysid.model.latent_processes import LatentProcesses
from probsysid.model.parameter_space import ParameterSpace
from probsysid.model.problem import Problem
from probsysid.model.stored_priors import PRIORS
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.settings import Setup
from tests.posterior.tiny import MODEL as LAG
from tests.posterior.tiny import PRIORS as LAG_PRIORS
from tests.posterior.tiny import tiny_posterior

NOISE, SAMPLES, DT = 0.3, 12, 0.1
DRAWS = 8_000

MODEL = ps.Model(
    coordinates={"x": 1},
    dynamics=lambda s, u, p: {"x": p.a * u.first + p.b * u.second + 0.0 * s.x},
    outputs=lambda s, u, p: {"y": s.x},
    name="two gains",
)
"""Held inputs make the state piecewise linear, which the filter follows exactly: a and b have a Gaussian posterior."""


def held(seed: int) -> dict[str, np.ndarray]:
    first = np.random.default_rng(seed).normal(size=SAMPLES)
    return {"first": first, "second": first + 0.5 * np.random.default_rng(seed + 9).normal(size=SAMPLES)}


def design(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Of the measured state: integrals of the held inputs from zero."""
    return np.stack([np.concatenate([[0.0], DT * np.cumsum(u[:-1])]) for u in inputs.values()])


def record(seed: int) -> ps.Record:
    inputs = held(seed)
    y = np.array([1.5, -0.7]) @ design(inputs) + NOISE * np.random.default_rng(seed + 99).standard_normal(SAMPLES)
    return ps.Record(inputs, {"y": y}, dt=DT, intersample="zoh")


def found(records: Any, priors: Any) -> ps.Posterior:
    """Many even draws: errors of means are those of quasi-random points."""
    first = ps.identify(
        MODEL,
        records,
        priors=priors,
        noise={"y": NOISE},
        initial={"x": 0.0},
        solver=ps.Solver(smoothness=2, substeps=1),
        sampler=ps.Sampler(particles=64),
    )
    return first.refined(DRAWS)


def exact(records: list[ps.Record]) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance of a and b, and the log evidence, from the prior N(0, 1) of each."""
    matrix = np.concatenate([design(dict(r.inputs)) for r in records], axis=1)
    data = np.concatenate([r.outputs["y"] for r in records])
    covariance = np.linalg.inv(np.eye(2) + matrix @ matrix.T / NOISE**2)
    prior = stats.multivariate_normal(np.zeros(len(data)), NOISE**2 * np.eye(len(data)) + matrix.T @ matrix)
    return covariance @ matrix @ data / NOISE**2, covariance, float(prior.logpdf(data))


@pytest.fixture(scope="module")
def first() -> ps.Posterior:
    return found(record(0), {"a": dist.Normal(0, 1), "b": dist.Normal(0, 1)})


def test_one_after_the_other_equals_both_at_once(first: ps.Posterior) -> None:
    second = found(record(1), ps.prior_from(first))
    mean, covariance, log_evidence = exact([record(0), record(1)])
    error = 1 / np.sqrt(DRAWS)
    ours = np.cov(np.stack([second.columns["a"], second.columns["b"]]), aweights=second.weights)
    for i, name in enumerate("ab"):
        sd = np.sqrt(covariance[i, i])
        assert abs(second.mean(name) - mean[i]) < 4 * np.sqrt(2) * error * sd  # of the first run and of the second
        assert abs(second.sd(name) / sd - 1) < 4 * error  # each has 1 / sqrt(2 draws)
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert abs(correlation) > 0.3  # it matters
    assert abs(ours[0, 1] / np.sqrt(ours[0, 0] * ours[1, 1]) - correlation) < 4 * np.sqrt(2) * error
    # Errors of mean and covariance of the prior: each of its two directions shifts the log evidence by less than the
    # shift in sds times the distance in sds; both records agree within three sds.
    assert abs(first.log_evidence + second.log_evidence - log_evidence) < 4 * np.sqrt(2) * 3 * error


def test_the_prior_is_the_weighted_gaussian_of_the_particles(first: ps.Posterior) -> None:
    ((names, prior),) = ps.prior_from(first).items()
    assert names == ("a", "b")
    np.testing.assert_allclose(prior.loc, [first.mean("a"), first.mean("b")])
    np.testing.assert_allclose(np.sqrt(np.diag(prior.covariance_matrix)), [first.sd("a"), first.sd("b")], rtol=1e-3)


def by_hand(theta: np.ndarray, priors: dict[Any, Any]) -> ps.Posterior:
    """A posterior with these particles."""
    problem = Problem.make(LAG, priors, {"level": dist.LogNormal(-2, 1)}, [{"h": 0.0}], None)
    weights = np.full(theta.shape[1], 1 / theta.shape[1])
    values = {name: np.asarray(value) for name, value in problem.space.values(theta).items()}
    setup = Setup((problem, ps.Solver(substeps=1)))
    return replace(tiny_posterior(), theta=theta, values=values, weights=weights, setup=setup)


SUPPORTS = {"a": dist.LogNormal(0, 1), "b": dist.Uniform(-2, 3)}


def gaussian(count: int = 4_000) -> np.ndarray:
    """Correlated coordinates of a, b and the noise level."""
    factor = np.array([[0.1, 0, 0], [0.08, 0.05, 0], [0.0, 0.0, 0.2]])
    return np.array([[0.5], [-0.3], [-2.0]]) + factor @ np.random.default_rng(3).standard_normal((3, count))


def test_supports_are_kept_and_the_density_is_that_of_the_coordinates() -> None:
    theta = gaussian()
    priors = ps.prior_from(by_hand(theta, SUPPORTS))
    space = ParameterSpace.from_priors(priors)
    drawn = np.asarray(space.sample(jax.random.key(0), 1000))
    values = space.values(drawn)
    assert np.all(values["a"] > 0) and np.all((values["b"] > -2) & (values["b"] < 3))
    expected = stats.multivariate_normal(theta[:2].mean(axis=1), np.cov(theta[:2])).logpdf(drawn.T)
    np.testing.assert_allclose(space.log_prior(drawn), expected, rtol=1e-9)


def test_storage_and_text(tmp_path: Path) -> None:
    posterior = by_hand(gaussian(), SUPPORTS)
    priors = ps.prior_from(posterior)
    again = PRIORS.decode(PRIORS.encode(priors))
    x = np.asarray(ParameterSpace.from_priors(priors).sample(jax.random.key(1), 5))
    np.testing.assert_array_equal(
        ParameterSpace.from_priors(again).log_prior(x), ParameterSpace.from_priors(priors).log_prior(x)
    )
    text = describe_prior(priors["a", "b"])
    assert text.startswith("TransformedDistribution(MultivariateNormal(loc=[ 0.501249, -0.299311]")
    assert text.endswith("support=[Positive(lower_bound=0.0), Interval(lower_bound=-2.0, upper_bound=3.0)])")
    next_one = by_hand(gaussian(), priors)
    next_one.save(tmp_path / "next.nc")
    loaded = Posterior.load(tmp_path / "next.nc")
    np.testing.assert_allclose(
        ParameterSpace.from_priors(ps.prior_from(loaded)).log_prior(x),
        ParameterSpace.from_priors(ps.prior_from(next_one)).log_prior(x),
        rtol=1e-12,
    )


def test_noise_and_known_numbers() -> None:
    posterior = by_hand(gaussian(), SUPPORTS)
    level = ps.prior_from(posterior, "noise")["level"]
    assert isinstance(level, dist.LogNormal)
    assert float(level.loc) == pytest.approx(-2.0, abs=4 * 0.2 / np.sqrt(4_000))
    fixed = by_hand(gaussian()[1:], {"a": 2.5, "b": SUPPORTS["b"]})
    assert ps.prior_from(fixed)["a"] == 2.5
    assert ps.prior_from(posterior, "process_noise") == ps.prior_from(posterior, "varies") == {}


def test_what_is_no_gaussian_is_said() -> None:
    theta = gaussian()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.prior_from(by_hand(theta, SUPPORTS))
    theta[1] = np.exp(theta[1] / 0.1)
    with pytest.warns(ps.SamplingWarning, match="the posterior of b is far from a Gaussian"):
        ps.prior_from(by_hand(theta, SUPPORTS))


def test_refusals() -> None:
    with pytest.raises(ps.InputError, match="effective particles for 2 unknowns"):
        ps.prior_from(by_hand(gaussian(4), SUPPORTS))
    with pytest.raises(ps.InputError, match=r"part is 'nois'.*Did you mean 'noise'"):
        ps.prior_from(by_hand(gaussian(), SUPPORTS), "nois")  # type: ignore[arg-type]
    with pytest.raises(ps.InputError, match="posterior is 3"):
        ps.prior_from(3)  # type: ignore[arg-type]


def test_hyperparameters_of_drifts_are_no_parameters() -> None:
    """`identify` takes them in the kernel."""
    latent = LatentProcesses.make(LAG, LAG_PRIORS, {}, {"a": ps.RandomWalk(rate=dist.HalfNormal(1.0))})
    problem = Problem.make(LAG, LAG_PRIORS, {"level": 0.1}, [{"h": 0.0}], {}, {}, latent)
    theta = np.random.default_rng(0).normal(size=(3, 64))
    given = replace(
        tiny_posterior(),
        values={"a": np.exp(theta[0]), "b": theta[1], "a.rate": np.exp(theta[2])},
        theta=theta,
        weights=np.full(64, 1 / 64),
        setup=Setup((problem, ps.Solver(substeps=1))),
        sampling=None,
    )
    assert set(ps.prior_from(given)) == {("a", "b")}
