"""What the data do not identify, on a run of x' = b*c*u - x and on posteriors made from it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

import probsysid as ps
from probsysid import dist
from probsysid.model.latent_processes import LatentProcesses
from probsysid.model.problem import Problem
from probsysid.posterior.diagnostics.identifiability import at_prior
from probsysid.posterior.settings import Setup
from tests.posterior.tiny import tiny_posterior

SAMPLES, DT, NOISE, GAIN = 60, 0.1, 0.02, 2.0


@pytest.fixture(scope="module")
def posterior() -> ps.Posterior:
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": p.b * p.c * u.u - s.x})
    time = DT * np.arange(SAMPLES)
    u = np.sign(np.sin(1.3 * time))
    x = np.zeros(SAMPLES)
    for i in range(SAMPLES - 1):
        x[i + 1] = x[i] * np.exp(-DT) + GAIN * u[i] * (1 - np.exp(-DT))
    noisy = x + NOISE * np.random.default_rng(0).standard_normal(SAMPLES)
    record = ps.Record(inputs={"u": u}, outputs={"x": noisy}, dt=DT, intersample="zoh")
    priors = {"b": dist.LogNormal(0, 1), "c": dist.LogNormal(0, 1)}
    return ps.identify(
        model, record, priors, {"x": dist.LogNormal(-4, 1)}, {"x": 0.0}, sampler=ps.Sampler(particles=256)
    )


def normal(count: int, mean: float = 0.0, sd: float = 1.0, seed: int = 0) -> np.ndarray:
    return mean + sd * np.random.default_rng(seed).standard_normal(count)


def with_values(posterior: ps.Posterior, **columns: np.ndarray) -> ps.Posterior:
    """The same with other values, equally weighted and never compared between populations."""
    count = len(posterior.weights)
    changed = {**posterior.values, **columns}
    return replace(posterior, values=changed, weights=np.full(count, 1 / count), sampling=None)


def test_only_the_product_is_known(posterior: ps.Posterior) -> None:
    (found,) = posterior.identifiability.combinations
    assert found.formula == "b*c"
    assert abs(found.mean - GAIN) < 4 * found.sd
    # linear regression of known noise: the sd of the gain is NOISE over the norm of the response to a unit gain
    product = posterior.values["b"] * posterior.values["c"]
    assert found.mean == pytest.approx(posterior.weights @ product)
    assert 0.001 * GAIN < found.sd < 0.005 * GAIN
    assert posterior.sd("b") > 0.5 and posterior.sd("c") > 0.5
    (sentence,) = posterior.identifiability.sentences
    assert sentence.startswith("only b*c is known: ") and "b alone: " in sentence and "c alone: " in sentence


def test_flags_name_the_formula(posterior: ps.Posterior) -> None:
    flags = posterior.table()["flags"]
    assert flags["b"] == "tied to c (only b*c is known)"
    assert flags["c"] == "tied to b (only b*c is known)"
    assert flags["noise.x"] == ""


def test_a_tie_without_a_formula_shows_the_correlation_of_logarithms(posterior: ps.Posterior) -> None:
    """b * c^0.77 is known.  The correlation of the values themselves is weak: the ridge is a hyperbola."""
    count = len(posterior.weights)
    c = np.exp(normal(count))
    tied = with_values(posterior, b=2 * c**-0.77 * np.exp(0.01 * normal(count, seed=1)), c=c)
    assert abs(np.corrcoef(tied.values["b"], c)[0, 1]) < 0.9
    assert tied.identifiability.combinations == ()
    assert tied.table()["flags"]["b"] == "tied to c (-1.00)"


def test_at_prior_needs_location_and_width(posterior: ps.Posterior) -> None:
    count = len(posterior.weights)
    quantiles = ndtri((np.arange(count) + 0.5) / count)
    c = np.exp(0.05 * normal(count))  # learnt
    expected = {(0.0, 1.0): "at prior", (1.0, 1.0): "", (0.0, 0.5): "", (-1.0, 0.9): ""}
    for (mean, sd), flag in expected.items():
        changed = with_values(posterior, b=np.exp(mean + sd * quantiles), c=c)
        assert changed.table()["flags"]["b"] == flag, (mean, sd)
        assert changed.table()["flags"]["c"] == ""


def test_all_at_prior(posterior: ps.Posterior) -> None:
    count = len(posterior.weights)
    changed = with_values(posterior, b=np.exp(normal(count)), c=np.exp(normal(count, seed=1)))
    assert list(changed.table()["flags"][["b", "c"]]) == ["at prior", "at prior"]
    assert changed.identifiability.sentences == ()


@pytest.mark.parametrize("effective", [25, 100, 1000])
def test_sampling_error_is_not_learning(effective: int) -> None:
    """Of 400 samples from the prior, two have a mean or an sd beyond three standard errors: at most 2 + 4 sqrt(2)."""
    weights = np.full(effective, 1 / effective)
    missed = sum(not at_prior(normal(effective, seed=s), weights, effective) for s in range(400))
    assert missed <= 8
    # an sd of 0.3 has a standard error of 0.04 with 25 particles, seven of them below 1 - 3 / sqrt(50)
    assert not any(at_prior(normal(effective, 0.0, 0.3, seed=s), weights, effective) for s in range(400))


def test_at_bound_is_nearer_than_the_prior(posterior: ps.Posterior) -> None:
    """A log-normal that moved up has as much near zero, for its width, as any other; less than its prior."""
    count = len(posterior.weights)
    piled = with_values(posterior, b=np.exp(normal(count, 1.0)), c=0.01 * np.abs(normal(count, seed=1)))
    assert list(piled.table()["flags"][["b", "c"]]) == ["", "at bound"]


def test_few_particles_say_nothing(posterior: ps.Posterior) -> None:
    weights = np.zeros(len(posterior.weights))
    weights[:5] = 0.2
    assert replace(posterior, weights=weights).identifiability.combinations == ()


def test_without_its_problem_a_posterior_has_correlations_only(posterior: ps.Posterior) -> None:
    bare = replace(posterior, setup=type(posterior.setup)())
    assert bare.identifiability.combinations == ()
    assert bare.table()["flags"]["b"] == "tied to c (-1.00)"


def test_mass_and_the_scale_of_an_unknown_force_are_a_formula_with_advice() -> None:
    """m x'' + c x' + k x = f with an unknown f: all of them times a factor move in the same way."""
    model = ps.Model({"x": 2}, lambda s, u, p: {"x": (u.force - p.c * s.dx - s.x) / p.m}, lambda s, u, p: {"y": s.x})
    wide = dist.LogNormal(0, 1)
    priors = {"m": wide, "c": 0.1}
    latent = LatentProcesses.make(model, priors, {"force": ps.Matern(0.5, scale=wide, length=1.0)}, {})
    problem = Problem.make(model, priors, {"y": 0.1}, [{"x": 0.0, "dx": 0.0}], {}, {}, latent)
    mass = np.exp(normal(2000))
    posterior = replace(
        tiny_posterior(),
        values={"m": mass, "force.scale": 2 * mass * np.exp(0.05 * normal(2000, seed=1))},
        theta=np.zeros((2, 2000)),
        weights=np.full(2000, 1 / 2000),
        setup=Setup((problem, ps.Solver(substeps=1))),
        sampling=None,
    )
    (sentence,) = posterior.identifiability.sentences
    assert sentence.startswith("only force.scale/m is known: 2.00")
    assert sentence.endswith(
        "; a narrower prior for force.scale or m, or force measured during a part of the record, would tell them apart"
    )
    assert posterior.table()["flags"]["m"] == "at prior; tied to force.scale (only force.scale/m is known)"
