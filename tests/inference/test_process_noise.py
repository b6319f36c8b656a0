"""Whole runs with process noise: on the pilot, and exact where the posterior is."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid import dist

# x' = a - x + s w from 0, measured with noise: Gaussian in a and in everything else

DT, SAMPLES, NOISE, LEVEL, PRIOR_SD = 0.25, 40, 0.1, 0.3, 2.0
RELAXATION = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a - s.x})
SAMPLER = ps.Sampler(particles=256)


def design_and_covariance() -> tuple[np.ndarray, np.ndarray]:
    """Of the outputs: what a does, and what the force and the noise do (Ornstein and Uhlenbeck)."""
    time = DT * np.arange(SAMPLES)
    apart, earlier = np.abs(np.subtract.outer(time, time)), np.minimum.outer(time, time)
    force = LEVEL**2 / 2 * (np.exp(-apart) - np.exp(-apart - 2 * earlier))
    return 1 - np.exp(-time), force + NOISE**2 * np.eye(SAMPLES)


def relaxation_record() -> ps.Record:
    design, covariance = design_and_covariance()
    outputs = np.random.default_rng(1).multivariate_normal(1.5 * design, covariance)
    return ps.Record({}, {"x": outputs}, dt=DT)


def relaxation_run(**settings: Any) -> ps.Posterior:
    priors = {"a": dist.Normal(0.0, PRIOR_SD)}
    return ps.identify(
        RELAXATION, relaxation_record(), priors, {"x": NOISE}, {"x": 0.0}, process_noise={"x": LEVEL}, **settings
    )


def conjugate() -> tuple[float, float, float]:
    """Mean and standard deviation of a, and the log evidence."""
    design, covariance = design_and_covariance()
    outputs = relaxation_record().outputs["x"]
    precision = design @ np.linalg.solve(covariance, design) + 1 / PRIOR_SD**2
    mean = design @ np.linalg.solve(covariance, outputs) / precision
    marginal = covariance + PRIOR_SD**2 * np.outer(design, design)
    return mean, precision**-0.5, stats.multivariate_normal(np.zeros(SAMPLES), marginal).logpdf(outputs)


def test_a_run_on_the_pilot_has_the_conjugate_posterior_and_evidence() -> None:
    """Means and variances to the error of the effective particles, the evidence to the error that the run reports, both
    times four."""
    course: list[bool] = []
    found = relaxation_run(sampler=SAMPLER, notice=lambda run, _: course.append(run.pilot))
    assert course[-1] and sum(course) > len(course) / 2
    mean, sd, evidence = conjugate()
    size = found.sampling.ess["a"]
    assert size > 50
    assert abs(found.mean("a") - mean) < 4 * sd / np.sqrt(size)
    assert abs(np.log(found.sd("a") / sd)) < 4 / np.sqrt(2 * size)
    assert 0 < found.log_evidence_error < 0.1
    assert abs(found.log_evidence - evidence) < 4 * found.log_evidence_error
    assert found.sampling.modes is not None and not found.sampling.modes.skipped
    assert len(found.sampling.modes.found) == 1


def test_laplaces_approximation_is_exact() -> None:
    """To the filter's integration error and the differences by which modes are found."""
    found = relaxation_run(sampler=SAMPLER, method="map")
    mean, sd, evidence = conjugate()
    assert found.map is not None and found.map.values["a"] == pytest.approx(mean, abs=0.01 * sd)
    assert found.log_evidence == pytest.approx(evidence, abs=2e-3)


# A nonlinear equation with everything unknown: x' = u - k x^2 + s w

SATURATING = ps.Model({"x": 1}, lambda s, u, p: {"x": u.u - p.k * s.x**2})
PRIORS = {"k": dist.LogNormal(0.0, 0.7)}
UNKNOWN_NOISE = {"x": dist.LogNormal(np.log(0.05), 0.7)}
FORCE = {"x": dist.LogNormal(np.log(0.2), 0.7)}


def saturating_record() -> ps.Record:
    """Euler and Maruyama, 100 steps per sample."""
    random, fine, samples = np.random.default_rng(3), 100, 60
    u = random.uniform(0.5, 2.0, samples)
    x, outputs = 1.0, []
    for held in u:
        outputs.append(x)
        for _ in range(fine):
            x += 0.4 / fine * (held - x**2) + 0.2 * np.sqrt(0.4 / fine) * random.normal()
    measured = np.array(outputs) + 0.05 * random.normal(size=samples)
    return ps.Record({"u": u}, {"x": measured}, dt=0.4, intersample="zoh")


@pytest.mark.long
def test_the_pilot_makes_no_difference_with_process_noise() -> None:
    """As `test_automatic.test_the_pilot_makes_no_difference`."""
    with_pilot, alone = (
        ps.identify(
            SATURATING,
            saturating_record(),
            PRIORS,
            UNKNOWN_NOISE,
            {"x": 1.0},
            process_noise=FORCE,
            solver=ps.Solver(pilot=pilot),
            sampler=SAMPLER,
        )
        for pilot in (True, False)
    )
    assert with_pilot.settings.sweeps < 0.6 * alone.settings.sweeps
    for name in ("k", "noise.x", "process_noise.x"):
        size = min(with_pilot.sampling.ess[name], alone.sampling.ess[name])
        assert size > 50
        assert abs(with_pilot.mean(name) - alone.mean(name)) < 4 * np.sqrt(2 / size) * alone.sd(name)
        assert abs(np.log(with_pilot.sd(name) / alone.sd(name))) < 4 / np.sqrt(size)
    errors = np.hypot(with_pilot.log_evidence_error, alone.log_evidence_error)
    assert abs(with_pilot.log_evidence - alone.log_evidence) < 4 * errors
