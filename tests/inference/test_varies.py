"""Parameters that differ between records: posteriors, evidences and predictions against quadrature."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid import InputError, dist
from tests.inference.hierarchical import (
    DT,
    MODEL,
    NOISE,
    SAMPLES,
    SHAPE,
    START,
    Exact,
    by_quadrature,
    conjugate,
    log_likelihood,
    records,
)

SAMPLER = ps.Sampler(particles=1024)


@dataclass(frozen=True, eq=False)
class Case:
    posterior: ps.Posterior
    exact: Exact
    data: list[ps.Record]

    @cached_property
    def refined(self) -> ps.Posterior:
        return self.posterior.refined(8192)


def identify(data: Any, prior: Any, varies: Any, **options: Any) -> ps.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.ModelWarning)
        return ps.identify(MODEL, data, {"k": prior}, {"y": NOISE}, START, varies=varies, sampler=SAMPLER, **options)


def absolute() -> Case:
    data = records([1.2, -0.4, 0.6], seed=1)
    exact = conjugate(data, 0.5, 1.0, stats.halfnorm(scale=0.8).pdf)
    return Case(identify(data, dist.Normal(0.5, 1.0), {"k": dist.HalfNormal(0.8)}), exact, data)


def log_normal(own: np.ndarray, common: Any, spread: np.ndarray) -> np.ndarray:
    """The density of `own` around the median `common`; scipy's takes ten times as long on these grids."""
    return np.exp(-0.5 * (np.log(own / common) / spread) ** 2) / (np.sqrt(2 * np.pi) * spread * own)


def relative() -> Case:
    data = records([1.5, 2.4], seed=2)
    exact = by_quadrature(
        data,
        np.exp(np.linspace(np.log(2) - 3.5, np.log(2) + 3.5, 241)),
        stats.lognorm(0.6, scale=2.0).pdf,
        np.exp(np.linspace(np.log(0.2) - 2.0, np.log(0.2) + 2.0, 81)),
        stats.lognorm(0.5, scale=0.2).pdf,
        np.exp(np.linspace(-9.0, 10.0, 3001)),
        log_normal,
    )
    spread = dist.LogNormal(np.log(0.2), 0.5)
    return Case(identify(data, dist.LogNormal(np.log(2.0), 0.6), {"k": spread}), exact, data)


def truncated() -> Case:
    """Of a Uniform prior with positive bounds: relative, and no value leaves them."""
    data, low, high = records([1.2, 1.9], seed=3), 0.8, 2.0

    def density(own: np.ndarray, common: np.ndarray, spread: np.ndarray) -> np.ndarray:
        below, above = (stats.norm.cdf((np.log(end) - np.log(common)) / spread) for end in (low, high))
        return log_normal(own, common, spread) / (above - below)

    exact = by_quadrature(
        data,
        np.linspace(low, high, 121),
        stats.uniform(low, high - low).pdf,
        np.exp(np.linspace(np.log(0.3) - 2.0, np.log(0.3) + 2.0, 81)),
        stats.lognorm(0.5, scale=0.3).pdf,
        np.linspace(low, high, 801),
        density,
    )
    return Case(identify(data, dist.Uniform(low, high), {"k": dist.LogNormal(np.log(0.3), 0.5)}), exact, data)


CASES = {"absolute": absolute, "relative": relative, "truncated": truncated}


QUICK = "relative"


@pytest.fixture(scope="module", params=[k if k == QUICK else pytest.param(k, marks=pytest.mark.long) for k in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def test_moments_and_evidence_are_those_of_quadrature(case: Case) -> None:
    posterior, exact = case.posterior, case.exact
    assert posterior.log_evidence == pytest.approx(exact.log_evidence, abs=4 * posterior.log_evidence_error)
    assert posterior.log_evidence_error < 0.1
    assert list(posterior.values) == ["k", "k.spread", *(f"k[{r}]" for r in range(len(case.data)))]
    for name, mean in exact.mean.items():
        assert posterior.sampling is not None
        effective = min(posterior.ess, posterior.sampling.ess[name])
        assert posterior.mean(name) == pytest.approx(mean, abs=4 * exact.sd[name] / np.sqrt(effective)), name
        # the sd of an sd is sd / sqrt(2 n) for a normal distribution, more where tails are heavier
        assert posterior.sd(name) / exact.sd[name] == pytest.approx(1, abs=6 / np.sqrt(2 * effective)), name


def test_fresh_draws_agree_more_closely(case: Case) -> None:
    refined, exact = case.refined, case.exact
    # an error from the differences of eight parts: Student-t with seven degrees of freedom, one in 10 000
    largest = stats.t.isf(0.5e-4, 7) * refined.log_evidence_error
    assert refined.log_evidence == pytest.approx(exact.log_evidence, abs=largest)
    assert refined.log_evidence_error < 0.005
    for name, mean in exact.mean.items():
        assert refined.mean(name) == pytest.approx(mean, abs=0.05 * exact.sd[name]), name
        assert refined.sd(name) == pytest.approx(exact.sd[name], rel=0.05), name


def test_a_new_record_has_new_values(case: Case) -> None:
    """The variance of its measurements is that of the common value, plus the spread, plus the noise."""
    refined, exact = case.refined, case.exact
    new = ps.Record(outputs={}, dt=DT, samples=SAMPLES)
    prediction = refined.predict(new, initial=START)
    mean, sd = prediction["y"].values, prediction["y_sd"].values
    error = 1 / np.sqrt(refined.ess)
    assert np.allclose(mean, exact.new_mean * SHAPE, atol=4 * error * exact.new_sd)
    # relative error of a standard deviation: half of that of the variance, which the fourth moment gives
    drawn = refined.simulate(new, initial=START).outputs["y"][:, 0]
    squares = (drawn - refined.weights @ drawn) ** 2
    kurtosis = refined.weights @ squares**2 / (refined.weights @ squares) ** 2
    assert np.allclose(sd, np.sqrt(exact.new_sd**2 * SHAPE**2 + NOISE**2), rtol=4 * error * np.sqrt(kurtosis - 1) / 2)
    again = refined.predict(new, initial=START)
    assert np.array_equal(prediction["y"].values, again["y"].values)
    assert not np.array_equal(prediction["y"].values, refined.predict(new, initial=START, seed=1)["y"].values)


def test_new_values_go_with_their_particles(case: Case) -> None:
    """A particle's new value is as far from its own common value as its own spread says."""
    new = ps.Record(outputs={}, dt=DT, samples=SAMPLES)
    simulation = case.posterior.simulate(new, initial=START)
    drawn = simulation.outputs["y"][:, 0]
    common, spread = case.posterior.values["k"], case.posterior.values["k.spread"]
    if not np.all(drawn > 0):
        scores = (drawn - common) / spread
        assert stats.kstest(scores, "norm").pvalue > 1e-3
    elif drawn.max() > 2.0:
        scores = np.log(drawn / common) / spread
        assert stats.kstest(scores, "norm").pvalue > 1e-3
    else:
        ends = [(np.log(end) - np.log(common)) / spread for end in (0.8, 2.0)]
        levels = stats.truncnorm.cdf(np.log(drawn / common) / spread, *ends)
        assert stats.kstest(levels, "uniform").pvalue > 1e-3


def test_a_training_record_has_its_own_value(case: Case) -> None:
    for r, record in enumerate(case.data):
        own = case.posterior.values[f"k[{r}]"]
        assert np.allclose(case.posterior.simulate(record).outputs["y"][:, 0], own, rtol=1e-12)
        assert np.allclose(case.posterior.simulate(record[:10], initial=START).outputs["y"][:, 0], own, rtol=1e-12)
        elsewhere = ps.Record(outputs={}, dt=DT, samples=5)
        run = case.posterior.simulate(elsewhere, initial=START, experiment=r)
        assert np.allclose(run.outputs["y"][:, 0], own, rtol=1e-12)
    last = case.posterior.simulate(elsewhere, initial=START, experiment=-1).outputs["y"]
    assert np.array_equal(last, run.outputs["y"])
    later = ps.Record(outputs={}, time=DT * (SAMPLES - 1 + np.arange(3)))  # goes on from the first record
    forecast = case.posterior.forecast(later)
    expected = case.posterior.mean("k[0]") * np.exp(-DT * (SAMPLES - 1 + np.arange(3)))
    assert np.allclose(forecast["y"].values, expected, rtol=1e-4)


def test_the_number_of_the_experiment_is_checked(case: Case) -> None:
    with pytest.raises(InputError, match=r"experiment is 7; there are [23], counted from 0"):
        case.posterior.simulate(case.data[0], experiment=7)


def test_filtered_predictions_use_the_new_value() -> None:
    """Ahead of filtered states, which are exact here: y = k x with x known, so it is the free run."""
    posterior = identify(records([1.0], seed=4), dist.Normal(1.0, 0.1), {"k": 0.5})
    new = records([2.0], seed=5)[0]
    free, ahead = (posterior.predict(new, initial=START, ahead=k) for k in (None, 3))
    assert np.allclose(free["y"].values, ahead["y"].values, rtol=1e-3)
    assert free["y_sd"].values[0] == pytest.approx(np.sqrt(posterior.sd("k") ** 2 + 0.5**2 + NOISE**2), rel=0.1)


def test_one_record_leaves_the_spread_at_its_prior() -> None:
    """Its band on the next record counts the spread all the same, and nobody complains about it."""
    data = records([1.0], seed=6)
    posterior = identify(data, dist.LogNormal(0.0, 1.0), {"k": dist.HalfNormal(0.05)})
    table = posterior.table()
    assert list(table.index) == ["k", "k.spread", "k[0]"]
    assert np.all(table["flags"] == "")
    assert table.loc["k.spread", "mean"] == pytest.approx(0.05 * np.sqrt(2 / np.pi), rel=0.1)
    assert table.loc["k[0]", "prior"] == "LogNormal(log k, k.spread)"
    assert table.loc["k[0]", "unit"] == "V/m" and table.loc["k.spread", "unit"] == ""


def test_separate_values_are_those_of_separate_runs() -> None:
    """With the constants known but k, evidences multiply and posteriors are conjugate."""
    data = records([1.0, -2.0], seed=7)
    prior = dist.Normal(0.0, 3.0)
    posterior = identify(data, prior, {"k": "separate"})
    grid = np.linspace(-15, 15, 4001)
    total = 0.0
    assert posterior.sampling is not None
    for r, record in enumerate(data):
        density = stats.norm(0, 3).pdf(grid) * np.exp(log_likelihood(record, grid))
        evidence = np.trapezoid(density, grid)
        mean = np.trapezoid(density * grid, grid) / evidence
        sd = np.sqrt(np.trapezoid(density * (grid - mean) ** 2, grid) / evidence)
        total += np.log(evidence)
        effective = min(posterior.ess, posterior.sampling.ess[f"k[{r}]"])
        assert posterior.mean(f"k[{r}]") == pytest.approx(mean, abs=4 * sd / np.sqrt(effective))
        assert posterior.sd(f"k[{r}]") == pytest.approx(sd, rel=6 / np.sqrt(2 * effective))
    assert posterior.log_evidence == pytest.approx(total, abs=4 * posterior.log_evidence_error)
    assert list(posterior.values) == ["k[0]", "k[1]"]
    drawn = posterior.simulate(ps.Record(outputs={}, dt=DT, samples=3), initial=START).outputs["y"][:, 0]
    assert stats.kstest(drawn / 3.0, "norm").pvalue > 1e-3


@pytest.mark.long
@pytest.mark.parametrize("case", ["relative", "absolute", "truncated"], indirect=True)
def test_files_arviz_and_states_know_the_values(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "posterior.nc"
    case.posterior.save(path)
    loaded = ps.Posterior.load(path)
    assert loaded.table().equals(case.posterior.table())
    new = ps.Record(outputs={}, dt=DT, samples=SAMPLES)
    runs = [p.simulate(new, initial=START).outputs["y"] for p in (loaded, case.posterior)]
    assert np.array_equal(*runs)
    exported = case.posterior.to_arviz(draws=64)
    for group in (exported.posterior, exported.prior):
        assert {"k", "k.spread", "k[0]", "k[1]"} <= set(group)
    first, last = (np.asarray(loaded.states(r, draws=4).mean["x"]) for r in (0, -1))
    assert np.allclose(first, SHAPE, atol=1e-3) and np.allclose(last, SHAPE, atol=1e-3)


@pytest.mark.long
def test_an_online_run_is_the_batch_run() -> None:
    data = records([1.0], seed=8)[0]
    prior, varies = {"k": dist.LogNormal(0.0, 1.0)}, {"k": dist.HalfNormal(0.1)}
    small = ps.Sampler(particles=64, recover=False)  # a stream does not recover
    solver = ps.Solver(substeps=1)
    batch = ps.identify(MODEL, data, prior, {"y": NOISE}, START, varies=varies, sampler=small, solver=solver)
    online = ps.Identifier(MODEL, prior, {"y": NOISE}, START, DT, varies=varies, sampler=small, solver=solver)
    online.update({}, {"y": np.asarray(data.outputs["y"])})
    for name, values in batch.values.items():
        assert np.array_equal(online.posterior.values[name], values)


@pytest.mark.parametrize(
    ("varies", "sentence"),
    [
        ({"m": dist.HalfNormal(1.0)}, "varies names 'm'; the parameters are: k"),
        ({"k": dist.Normal(0.0, 1.0)}, r"the prior of k\.spread allows negative values"),
        ({"k": -0.1}, "varies of 'k' is -0.1; give a prior of its spread"),
        ({"k": "seperate"}, "varies of 'k' is 'seperate'; .* Did you mean 'separate'?"),
        ({"k": dist.HalfNormal(np.ones(2))}, r"the prior of k\.spread has shape \(2,\); the spread is a number"),
        (0.05, "varies is 0.05; it must map names to values"),
    ],
)
def test_bad_variations_are_refused(varies: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        identify(records([1.0], seed=9), dist.Normal(0.0, 1.0), varies)


def test_what_cannot_vary_is_refused() -> None:
    data = records([1.0], seed=9)
    with pytest.raises(InputError, match=r"varies names 'k', but it is fixed at 2\.0; give 'k' a prior of its own"):
        ps.identify(MODEL, data, {"k": 2.0}, {"y": NOISE}, START, varies={"k": 0.1})
    joint = dist.MultivariateNormal(np.zeros(2), np.eye(2))
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": -p.a * s.x}, lambda s, u, p: {"y": p.k * s.x})
    with pytest.raises(InputError, match="varies names 'k', but it has a joint prior"):
        ps.identify(model, data, {("a", "k"): joint}, {"y": NOISE}, START, varies={"k": 0.1})
    array = ps.Model(
        {"x": 1}, lambda s, u, p: {"x": -s.x}, lambda s, u, p: {"y": p.k[0] * s.x + p.k[1]}, shapes={"k": (2,)}
    )
    with pytest.raises(InputError, match="varies names 'k', which is an array"):
        ps.identify(array, data, {"k": dist.Normal(np.zeros(2), 1.0)}, {"y": NOISE}, START, varies={"k": 0.1})
