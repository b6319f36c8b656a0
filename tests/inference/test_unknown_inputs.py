"""Unknown inputs and drifts, inferred: against quadrature of exact likelihoods."""

from functools import cache

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import norm

import probsysid as ps
from probsysid import dist
from probsysid.inference.problem_arguments import with_measured_inputs

DT, NOISE, LENGTH, SAMPLES = 0.25, 0.05, 1.0, 80
MODEL = ps.Model({"x": 1}, lambda s, u, p: {"x": u.force - s.x}, lambda s, u, p: {"y": s.x})


def simulated() -> tuple[np.ndarray, np.ndarray]:
    """The force at the samples, and the measured x, by exact steps of a hundredth of a sample."""
    random, step = np.random.default_rng(3), DT / 100
    memory = np.exp(-step / LENGTH)
    x, f, rows = 0.0, random.normal(), []
    for _ in range(SAMPLES):
        rows.append((f, x))
        for _ in range(100):
            x += step * (f - x)
            f = memory * f + np.sqrt(1 - memory**2) * random.normal()
    forces, states = np.array(rows).T
    return forces, states + NOISE * random.normal(size=SAMPLES)


FORCES, OUTPUTS = simulated()


def log_likelihood(scale: float) -> float:
    """By the Kalman filter on (x, force), exactly discretised."""
    a = np.array([[-1.0, 1.0], [0.0, -1 / LENGTH]])
    block = expm(np.block([[-a, np.diag([0.0, 2 * scale**2 / LENGTH])], [np.zeros((2, 2)), a.T]]) * DT)
    transition = block[2:, 2:].T
    mean, covariance, total = np.zeros(2), np.diag([0.0, scale**2]), 0.0
    for k, y in enumerate(OUTPUTS):
        if k:
            mean, covariance = transition @ mean, transition @ (covariance @ transition.T + block[:2, 2:])
        spread = np.sqrt(covariance[0, 0] + NOISE**2)
        total += norm.logpdf(y, mean[0], spread)
        gain = covariance[:, 0] / spread**2
        mean, covariance = mean + gain * (y - mean[0]), covariance - np.outer(gain, covariance[0])
    return total


@cache
def posterior() -> ps.Posterior:
    record = ps.Record({"force": FORCES}, {"y": OUTPUTS}, dt=DT)
    kernel = ps.Matern(0.5, scale=dist.LogNormal(0.0, 0.7), length=LENGTH)
    sampler = ps.Sampler(particles=512)
    return ps.identify(MODEL, record, {}, {"y": NOISE}, {"x": 0.0}, unknown={"force": kernel}, sampler=sampler)


@pytest.mark.long
def test_the_scale_of_a_force_and_the_evidence_are_those_of_quadrature() -> None:
    """512 particles, at least 200 effective: the mean to 4 sd / sqrt(200), the sd to 4 / sqrt(400), the evidence to 4
    of its own errors and the integration's 1e-2."""
    logs = np.linspace(-1.5, 1.5, 121)
    exact = np.array([log_likelihood(np.exp(value)) for value in logs]) + norm.logpdf(logs, 0.0, 0.7)
    weights = np.exp(exact - exact.max())
    evidence = exact.max() + np.log(weights.sum() * (logs[1] - logs[0]))
    weights /= weights.sum()
    mean = weights @ np.exp(logs)
    sd = np.sqrt(weights @ (np.exp(logs) - mean) ** 2)
    found = posterior()
    assert found.ess > 200
    assert found.mean("force.scale") == pytest.approx(mean, abs=4 * sd / np.sqrt(200))
    assert found.sd("force.scale") == pytest.approx(sd, rel=4 / np.sqrt(400))
    assert found.log_evidence == pytest.approx(evidence, abs=4 * found.log_evidence_error + 0.01)


@pytest.mark.long
def test_the_force_is_found_and_kept(tmp_path: object) -> None:
    """80 samples in a band of 90 %, of which a third count as independent: 4 standard errors of 6 %."""
    found = posterior().inputs(draws=30)
    assert found.coverage("force") > 0.9 - 4 * 0.06 and found.nmse("force") < 50
    np.testing.assert_allclose(found.truth["force"], FORCES)
    path = f"{tmp_path}/posterior.nc"
    posterior().save(path)
    again = ps.Posterior.load(path).inputs(draws=30)
    np.testing.assert_allclose(again.mean["force"], found.mean["force"], rtol=1e-10, atol=1e-12)


@pytest.mark.long
def test_predictions_draw_the_force_anew() -> None:
    """The variance of x in free run: that of a force of unit variance through x' = f - x, both with a time constant of
    1 s, is 1/2 in the steady state; 512 draws at the end of the record, 4 standard errors of the variance."""
    simulation = posterior().simulate(ps.Record({}, {"y": OUTPUTS}, dt=DT), seed=1)
    scale2 = float(posterior().weights @ posterior().columns["force.scale"] ** 2)
    late = simulation.outputs["y"][:, 40:]
    variance = float(np.mean(simulation.weights @ late**2))
    assert variance == pytest.approx(0.5 * scale2, rel=4 * np.sqrt(2 / 512))
    still = posterior().simulate(ps.Record({}, {"y": OUTPUTS}, dt=DT), process_noise=False)
    np.testing.assert_allclose(still.outputs["y"], 0.0, atol=1e-12)


def test_a_posterior_without_unknown_inputs_has_none() -> None:
    with pytest.raises(ps.InputError, match="neither unknown inputs nor drifts"):
        ps.Posterior.inputs(_Plain())  # type: ignore[arg-type]


class _Plain:
    """A posterior without unknown inputs, as far as `inputs` looks."""

    class setup:
        class problem:
            latent = ()


def test_an_input_with_a_noise_is_measured() -> None:
    """It becomes an output, unless it is one already or there is no noise."""
    kernel = {"force": ps.Matern(0.5, scale=1.0, length=1.0)}
    record = ps.Record({"force": FORCES}, {"y": OUTPUTS}, dt=DT)
    (found,) = with_measured_inputs((record,), kernel, {"y": NOISE, "force": 0.1})
    np.testing.assert_array_equal(found.outputs["force"], FORCES)
    assert with_measured_inputs((record,), kernel, {"y": NOISE}) == (record,)
    partly = record.replace(outputs={"y": OUTPUTS, "force": np.where(FORCES > 0, FORCES, np.nan)})
    assert with_measured_inputs((partly,), kernel, {"force": 0.1}) == (partly,)
