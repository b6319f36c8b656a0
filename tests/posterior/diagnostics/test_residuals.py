"""One-step prediction errors: white where model and noise are right, and called out where they are not."""

import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import scipy.stats

import probsysid as ps
from probsysid.model.problem import Problem
from probsysid.parallel.threads import Threads
from probsysid.posterior.diagnostics.residuals import analyse
from probsysid.targets.batch_target import BatchTarget
from tests import duffing

SAMPLES = 200


@pytest.fixture(scope="module")
def record() -> ps.Record:
    return duffing.measure(SAMPLES)


def identified(record: ps.Record, **changes: Any) -> ps.Posterior:
    return ps.identify(duffing.model, record, **duffing.options(**changes))


@pytest.fixture(scope="module")
def posterior(record: ps.Record) -> ps.Posterior:
    missing = np.array(record.outputs["position"])
    missing[50:60] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return identified(record.replace(outputs={"position": missing}))


def test_a_right_model_leaves_white_noise(posterior: ps.Posterior) -> None:
    residuals = posterior.residuals("position")
    count = len(residuals.values)
    assert count == SAMPLES - 11  # the first and the missing ones
    assert np.isnan(posterior.errors[0][50:60]).all()
    # a standard deviation of that many standard normals, and a probability that is uniform
    assert abs(residuals.spread - 1) < 4 / np.sqrt(2 * count)
    assert residuals.probability > 1e-3
    assert posterior.doubts == ()


@pytest.mark.long
def test_they_are_those_of_the_smoother(posterior: ps.Posterior) -> None:
    """The smoother's forward pass is another program; every particle with its weight."""
    states = posterior.states(draws=400)
    mean, spread = states.innovations["position"].mean(axis=0), states.innovations["position"].std(axis=0)
    found = posterior.errors[0][:, 0]
    seen = np.isfinite(found)
    # 400 draws of 128 particles: the mean of the draws is that close to the weighted mean
    assert np.all(np.abs(mean[seen] - found[seen]) < 5 * spread[seen] / np.sqrt(400) + 1e-9)


def test_saved_and_loaded(posterior: ps.Posterior, tmp_path: Path) -> None:
    posterior.save(tmp_path / "p.nc")
    again = ps.Posterior.load(tmp_path / "p.nc")
    np.testing.assert_array_equal(again.errors[0], posterior.errors[0])
    assert again.residuals().probability == posterior.residuals().probability
    assert again.doubts == ()


def test_a_lost_particle_does_no_harm(record: ps.Record) -> None:
    given = duffing.options()
    problem = Problem.make(duffing.model, given["priors"], given["noise"], [given["initial"]], None)
    experiment = BatchTarget(problem, given["solver"], (record,), 128, Threads(1))
    theta = np.array(experiment.sample_prior(jax.random.key(0), 128))
    theta[:, 0] = np.nan
    weights = np.full(128, 1 / 127)
    weights[0] = 0.0
    (errors,) = experiment.one_step_errors(theta, weights)
    assert np.isfinite(errors[1:]).all()


def test_a_missing_term_is_called_out(record: ps.Record) -> None:
    priors = {**duffing.PRIORS, "k3": 1e-6}
    with pytest.warns(
        ps.ModelWarning, match=r"errors of 'position' are not white .* x\*\*3 is missing .* steps are fixed"
    ):
        posterior = identified(record, priors=priors)
    assert len(posterior.doubts) == 1
    assert not posterior.residuals().white


def test_a_noise_level_fixed_too_low_is_called_out(record: ps.Record) -> None:
    with pytest.warns(ps.ModelWarning, match=r"noise .* fixed at 0.002.* be inferred"):
        identified(record, noise={"position": duffing.NOISE / 10})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("velocity",), "there is no output 'velocity'; the model has: position"),
        (("position", 1), "record is 1; there are 1, counted from 0"),
    ],
)
def test_refusals(posterior: ps.Posterior, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ps.InputError, match=message):
        posterior.residuals(*arguments)


def test_correlation_and_probability_are_those_of_the_textbook() -> None:
    """Ljung-Box: n (n + 2) sum r_k^2 / (n - k), against chi-squared; r from shifted products of the centred errors."""
    errors = np.convolve(np.random.default_rng(4).normal(size=303), [1.0, 0.2, -0.1], mode="valid") + 0.3
    found = analyse(errors)
    centred = errors - errors.mean()
    products = np.correlate(centred, centred, mode="full")[len(errors) - 1 :]
    expected = products[1:41] / products[0]
    np.testing.assert_allclose(found.correlation, expected, rtol=1e-10, atol=1e-14)
    statistic = 301 * 303 * np.sum(expected**2 / (301 - np.arange(1, 41)))
    np.testing.assert_allclose(found.probability, scipy.stats.chi2(40).sf(statistic), rtol=1e-10)
