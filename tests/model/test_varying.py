"""The distribution of a varying parameter's values on records, and the layout of its coordinates."""

import jax
import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid import dist
from probsysid.model.problem import Problem
from probsysid.model.varying import VaryingParameter

MODEL = ps.Model({"x": 1}, lambda s, u, p: {"x": -p.a * s.x}, lambda s, u, p: {"y": p.k * s.x})


def problem(prior: dist.Distribution, spread: object, records: int = 3) -> Problem:
    priors = {"a": dist.LogNormal(0.0, 1.0), "k": prior}
    return Problem.make(MODEL, priors, {"y": 0.1}, [{"x": 1.0}] * records, None, {"k": spread})


@pytest.mark.parametrize(
    ("prior", "common", "spread", "expected"),
    [
        (dist.Normal(0.0, 3.0), -1.0, 0.7, stats.norm(-1.0, 0.7)),
        (dist.LogNormal(0.0, 1.0), 2.0, 0.3, stats.lognorm(0.3, scale=2.0)),
        (dist.Gamma(2.0, 1.0), 2.0, 0.05, stats.lognorm(0.05, scale=2.0)),
        (dist.Uniform(-1.0, 1.0), 0.9, 0.4, stats.truncnorm(-1.9 / 0.4, 0.1 / 0.4, 0.9, 0.4)),
        (dist.TruncatedNormal(0.0, 1.0, high=1.0), 0.9, 0.4, stats.truncnorm(-np.inf, 0.1 / 0.4, 0.9, 0.4)),
        (dist.TruncatedNormal(0.0, 1.0, low=-1.0), -0.9, 0.4, stats.truncnorm(-0.1 / 0.4, np.inf, -0.9, 0.4)),
    ],
)
def test_the_quantiles_are_those_of_the_stated_distribution(
    prior: dist.Distribution, common: float, spread: float, expected: stats.rv_continuous
) -> None:
    """A deviation at a level of the standard normal is the value at that level, far into the tails."""
    varying = VaryingParameter.of("k", prior, 0.1, 1)
    varying = VaryingParameter(varying.name, 1, varying.relative, None, varying.lower, varying.upper)
    deviations = np.array([-6.0, -3.0, -0.5, 0.0, 0.5, 3.0, 6.0])
    found = np.asarray(varying.value({"k": common, "k.spread": spread}, deviations))
    below = np.where(deviations < 0, expected.ppf(stats.norm.cdf(deviations)), expected.isf(stats.norm.sf(deviations)))
    assert np.allclose(found, below, rtol=1e-8)


def test_a_spread_far_wider_than_the_bounds_fills_them_evenly() -> None:
    varying = VaryingParameter.of("k", dist.Uniform(-1.0, 1.0), 1e4, 1)
    levels = np.array([0.01, 0.3, 0.9])
    found = np.asarray(varying.value({"k": 0.5}, stats.norm.ppf(levels)))
    assert np.allclose(found, 2 * levels - 1, atol=1e-6)


def test_a_particle_without_weight_may_have_any_spread() -> None:
    """Zero times its value is zero, whatever a proposal has come up with."""
    varying = VaryingParameter.of("k", dist.LogNormal(0.0, 1.0), 1e6, 1)
    assert np.all(np.isfinite(np.asarray(varying.value({"k": 1e3}, np.array([-50.0, 50.0]))) ** 2))


def test_prior_draws_have_the_hierarchical_covariance() -> None:
    space = problem(dist.Normal(1.0, 2.0), 0.5).space
    assert space.names == ("a", "k", "k[0]", "k[1]", "k[2]")
    values = space.values(space.sample(jax.random.key(0), 20000))
    covariance = np.cov([np.asarray(values[name]) for name in space.names[1:]])
    expected = 4.0 + np.diag([0.0, 0.25, 0.25, 0.25])
    assert np.allclose(covariance, expected, atol=5 * 4.25 * np.sqrt(2 / 20000))


def test_each_record_gets_its_own_value() -> None:
    given = problem(dist.LogNormal(0.0, 1.0), dist.HalfNormal(0.1))
    values = {name: float(i) for i, name in enumerate(given.space.names)}
    for record in range(3):
        assert given.particle(values, record).parameters["k"] == values[f"k[{record}]"]
    separate = problem(dist.LogNormal(0.0, 1.0), "separate")
    assert separate.space.names == ("a", "k[0]", "k[1]", "k[2]")
    assert separate.particle({"a": 1.0, "k[0]": 2.0, "k[1]": 3.0, "k[2]": 4.0}, 1).parameters["k"] == 3.0


def test_without_variation_nothing_changes() -> None:
    priors = {"a": dist.LogNormal(0.0, 1.0), "k": dist.Normal(0.0, 1.0)}
    plain = Problem.make(MODEL, priors, {"y": 0.1}, [{"x": 1.0}], None)
    assert plain.space.varying == () and [site.name for site in plain.space.sites] == ["a", "k"]


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (dist.Uniform(0.5, 2.0), "LogNormal(log k, 0.1) within 0.5 and 2"),
        (dist.Uniform(0.0, 2.0), "LogNormal(log k, 0.1) below 2"),
        (dist.TruncatedNormal(0.0, 1.0, low=-1.0), "Normal(k, 0.1) above -1"),
        (dist.Normal(0.0, 1.0), "Normal(k, 0.1)"),
    ],
)
def test_it_is_described(prior: dist.Distribution, words: str) -> None:
    assert VaryingParameter.of("k", prior, 0.1, 2).describe() == words
