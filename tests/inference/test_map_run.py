"""`identify(..., method="map")`: exact where the posterior is Gaussian, and always labelled."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid.posterior.simulate import simulate

PARTICLES = 512
SAMPLER = ps.Sampler(particles=PARTICLES)
INTEGRATOR = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a * u.u + p.b})
NOISE, PRIOR_SD = 0.1, 2.0
PRIORS = {"a": ps.dist.Normal(0.0, PRIOR_SD), "b": ps.dist.Normal(0.0, PRIOR_SD)}


def ramp() -> ps.Record:
    """x = a times the integral of a held input, plus b t: linear in both."""
    random = np.random.default_rng(0)
    u = random.standard_normal(30)
    record = ps.Record({"u": u}, dt=0.5, intersample="zoh")
    x = design(record) @ np.array([1.0, -0.5]) + NOISE * random.standard_normal(30)
    return record.replace(outputs={"x": x})


def design(record: ps.Record) -> np.ndarray:
    u = record.inputs["u"]
    return np.stack([0.5 * np.concatenate([[0.0], np.cumsum(u[:-1])]), record.time], axis=1)


@pytest.fixture(scope="module")
def posterior() -> ps.Posterior:
    return ps.identify(INTEGRATOR, ramp(), PRIORS, {"x": NOISE}, {"x": 0.0}, sampler=SAMPLER, method="map")


def test_a_gaussian_posterior_is_exact(posterior: ps.Posterior) -> None:
    """Conjugate regression; the filter's integration error of this motion is none."""
    record, matrix = ramp(), design(ramp())
    covariance = np.linalg.inv(matrix.T @ matrix / NOISE**2 + np.eye(2) / PRIOR_SD**2)
    mean = covariance @ matrix.T @ record.outputs["x"] / NOISE**2
    marginal = NOISE**2 * np.eye(30) + PRIOR_SD**2 * matrix @ matrix.T
    evidence = stats.multivariate_normal(np.zeros(30), marginal).logpdf(record.outputs["x"])
    assert posterior.log_evidence == pytest.approx(evidence, abs=1e-3)
    assert posterior.map is not None and posterior.map.log_evidence == pytest.approx(evidence, abs=1e-3)
    sd = np.sqrt(np.diag(covariance))
    for name, exact, width in zip("ab", mean, sd, strict=True):
        assert posterior.map.values[name] == pytest.approx(exact, abs=0.002 * width)
        assert posterior.mean(name) == pytest.approx(exact, abs=4 * width / np.sqrt(PARTICLES))
        assert posterior.sd(name) == pytest.approx(width, rel=4 / np.sqrt(2 * PARTICLES))
    assert len(set(posterior.weights)) == 1
    check = posterior.sampling.laplace
    assert check is not None and check.close and check.effective > 0.99 * PARTICLES
    assert check.weighted_evidence == pytest.approx(evidence, abs=1e-3)


def test_it_is_never_called_trusted(posterior: ps.Posterior, tmp_path: Path) -> None:
    assert not posterior.sampling.trusted and posterior.sampling.usable
    assert posterior.sampling.status == "Laplace approximation"
    words = "Laplace approximation around the mode, not sampled"
    assert posterior.sampling_verdict.startswith(words) and posterior.settings.method == "map"
    posterior.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.index(words) < page.index('class="key"')
    posterior.save(tmp_path / "posterior.nc")
    again = ps.Posterior.load(tmp_path / "posterior.nc")
    assert again.sampling.laplace == posterior.sampling.laplace and again.map == posterior.map
    assert again.sampling_verdict == posterior.sampling_verdict
    assert again.settings.method == "map"


def test_refined_draws_of_it_are_not_trusted_either(posterior: ps.Posterior, tmp_path: Path) -> None:
    """Draws are fitted to what the approximation knows; nothing has looked elsewhere."""
    refined = posterior.refined(256)
    assert refined.sampling.status == "Laplace approximation" and not refined.sampling.trusted
    assert refined.sampling_verdict.startswith("Laplace approximation around the mode, refined by weighted draws")
    assert refined.sampling.laplace.draws == 256
    assert refined.sampling.laplace.weighted_evidence == refined.log_evidence
    assert refined.map == posterior.map
    refined.save(tmp_path / "refined.nc")
    assert ps.Posterior.load(tmp_path / "refined.nc").sampling == refined.sampling


@pytest.mark.parametrize("limit", [{"budget": 0.5}, {"seconds": 1e-3}])
def test_it_ends_with_its_budget_and_says_so(limit: dict[str, float]) -> None:
    """2048 prior draws, four of which count as one evaluation with the filter, are one sweep of 512 particles."""
    sampler = ps.Sampler(particles=PARTICLES, **limit)
    warnings.simplefilter("ignore", ps.ModelWarning)
    with pytest.warns(ps.SamplingWarning, match=r"came to no end.* The budget of .* was spent"):
        cut = ps.identify(INTEGRATOR, ramp(), PRIORS, {"x": NOISE}, {"x": 0.0}, sampler=sampler, method="map")
    assert not cut.sampling.usable and not cut.sampling.laplace.converged
    assert cut.settings.sweeps < 10


def test_what_a_posterior_can_do_it_can(posterior: ps.Posterior) -> None:
    record = ramp()
    assert posterior.simulate(record).fit("x").mean > 90
    assert posterior.states().mean["x"].shape[-1] == record.samples
    assert {"mean", "sd", "q05"} <= set(posterior.table().columns)
    assert posterior.predict(record).attrs["x_coverage"] > 0.5


def test_a_bent_posterior_is_said_to_be_poor() -> None:
    """Of the product a*c alone something is known: a hyperbola, which no ellipse fits."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a * p.c * u.u - s.x})
    random = np.random.default_rng(1)
    outputs, _, _ = simulate(model, {"a": np.ones(1), "c": np.ones(1)}, np.zeros((1, 1)), ramp())
    record = ramp().replace(outputs={"x": outputs["x"][0] + 0.01 * random.standard_normal(30)})
    priors = {"a": ps.dist.Normal(0.0, 3.0), "c": ps.dist.Normal(0.0, 3.0)}
    warnings.simplefilter("ignore", ps.ModelWarning)  # draws off the hyperbola have large residuals
    with pytest.warns(ps.SamplingWarning, match="not sampled, and not to be relied on"):
        posterior = ps.identify(model, record, priors, {"x": 0.01}, {"x": 0.0}, sampler=SAMPLER, method="map")
    assert not posterior.sampling.usable and posterior.sampling.reasons


def test_no_finite_likelihood_is_a_sentence() -> None:
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a * s.x**3})
    with pytest.raises(ps.SamplingError, match="not finite at any particle or prior draw"):
        ps.identify(
            model, ramp(), {"a": ps.dist.Uniform(1e3, 2e3)}, {"x": 0.1}, {"x": 10.0}, sampler=SAMPLER, method="map"
        )


@pytest.mark.parametrize("method", ["mpa", None, 3])
def test_another_method_is_refused(method: object) -> None:
    with pytest.raises(ps.InputError, match=r"method is .*; it must be 'sample' or 'map'"):
        ps.identify(INTEGRATOR, ramp(), PRIORS, {"x": NOISE}, {"x": 0.0}, method=method)  # type: ignore[arg-type]


SQUARE = ps.Model({"x": 1}, lambda s, u, p: {"x": p.b**2 * u.u})


def squared(centre: float, width: float) -> tuple[ps.Posterior, float, float]:
    """x' = b^2 u with b near 1 or -1, of which the prior prefers the first: the approximation, the share of b > 0 and
    the log evidence by quadrature."""
    record = ramp()
    response = 0.5 * np.concatenate([[0.0], np.cumsum(record.inputs["u"][:-1])])
    y = response + NOISE * np.random.default_rng(3).standard_normal(30)
    posterior = ps.identify(
        SQUARE,
        record.replace(outputs={"x": y}),
        {"b": ps.dist.Normal(centre, width)},
        {"x": NOISE},
        {"x": 0.0},
        sampler=SAMPLER,
        method="map",
    )
    b = np.linspace(-3, 3, 60_001)
    misfit = y @ y - 2 * b**2 * (y @ response) + b**4 * (response @ response)
    logs = -0.5 * misfit / NOISE**2 - 30 * np.log(NOISE * np.sqrt(2 * np.pi)) + stats.norm(centre, width).logpdf(b)
    total = np.logaddexp.reduce(logs)
    return posterior, float(np.exp(np.logaddexp.reduce(logs[b > 0]) - total)), float(total + np.log(b[1] - b[0]))


def test_two_modes_count_by_their_masses() -> None:
    """Log density is quartic around b = 1; with a width of 0.01 Laplace's error is far below 0.01."""
    posterior, share, evidence = squared(0.3, 1.0)
    assert 0.55 < share < 0.75
    assert posterior.sampling.laplace.modes == 2 and posterior.sampling.usable
    assert posterior.log_evidence == pytest.approx(evidence, abs=0.01)
    found = float(np.mean(posterior.values["b"] > 0))
    assert found == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / PARTICLES))
    assert posterior.map.values["b"] > 0
    assert posterior.check is not None and posterior.check.substeps == 2
    assert 1 < posterior.settings.sweeps < 100


def test_a_mode_without_mass_is_left_out() -> None:
    """exp(-24) of the other: not drawn from, and not spoken of."""
    posterior, share, evidence = squared(3.0, 0.5)
    assert share > 1 - 1e-9
    assert posterior.sampling.laplace.modes == 1 and len(posterior.sampling.modes.found) == 1
    assert posterior.log_evidence == pytest.approx(evidence, abs=0.01)


def test_steps_are_as_many_as_the_approximation_needs() -> None:
    """cos(2 t) sampled every second: with two steps, a radian each, w moves by more than is negligible."""
    time = np.arange(40.0)
    record = ps.Record({}, {"x": np.cos(2 * time) + 0.05 * np.random.default_rng(2).standard_normal(40)}, dt=1.0)
    model = ps.Model({"x": 2}, lambda s, u, p: {"x": -(p.w**2) * s.x})
    wave = ps.identify(
        model,
        record,
        {"w": ps.dist.Normal(2.0, 0.3)},
        {"x": 0.05},
        {"x": 1.0, "dx": 0.0},
        sampler=ps.Sampler(particles=64),
        method="map",
    )
    assert wave.check is not None and wave.check.adequate
    assert 4 <= wave.check.substeps <= 16
    assert wave.map.values["w"] == pytest.approx(2.0, abs=4 * wave.sd("w"))
