"""What one gets from a posterior: tables, simulations, states, files."""

import arviz as az
import jax
import jax.monitoring
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import probsysid as ps
from probsysid import dist
from probsysid.posterior.draws import draw_indices
from probsysid.posterior.simulate import simulate
from tests import duffing

SAMPLES = 200


@pytest.fixture(scope="module")
def record() -> ps.Record:
    return duffing.measure(SAMPLES)


@pytest.fixture(scope="module")
def posterior(record: ps.Record) -> ps.Posterior:
    return ps.identify(duffing.model, record, **duffing.options(sampler=ps.Sampler(particles=512)))


def test_truth_is_where_the_posterior_says(posterior: ps.Posterior) -> None:
    # 5 quantities: beyond 4 sd by chance once in 3000 data sets
    truth = {**duffing.TRUTH, "noise.position": duffing.NOISE}
    for name, value in truth.items():
        assert abs(posterior.mean(name) - value) < 4 * posterior.sd(name)


def test_table(posterior: ps.Posterior) -> None:
    table = posterior.table()
    assert table.index.name == "parameter"
    assert list(table.index) == [*duffing.options()["priors"], "noise.position"]  # as given, not as JAX sorts them
    assert list(table.columns) == ["mean", "sd", "q05", "q95", "r_hat", "ess", "unit", "prior", "flags"]
    assert table.loc["m", "unit"] == "kg"
    assert table.loc["noise.position", "unit"] == "m"
    assert table.loc["m", "prior"] == "LogNormal(loc=0, scale=0.3)"
    assert (table["q05"] < table["mean"]).all()
    assert (table["mean"] < table["q95"]).all()
    assert (table["flags"] == "").all() and not posterior.identifiability.sentences


def test_moments_and_quantiles_are_those_of_resampled_draws(posterior: ps.Posterior) -> None:
    draws = posterior.columns["k"][draw_indices(posterior.weights, 200_000)]
    spread = posterior.sd("k")
    # systematic resampling of that many copies changes a mean by at most the largest gap in weight, 1 / 200000
    assert abs(draws.mean() - posterior.mean("k")) < 1e-2 * spread
    assert abs(draws.std() / spread - 1) < 1e-2
    # neighbouring particles are about 4 sd / 512 apart in the middle, a little more at 5 %
    assert abs(np.quantile(draws, 0.05) - posterior.quantile("k", 0.05)) < 0.05 * spread


def test_log_predictive_adds_up_to_the_evidence(posterior: ps.Posterior) -> None:
    assert posterior.history.log_predictive.shape == (SAMPLES,)
    np.testing.assert_allclose(posterior.history.log_predictive.sum(), posterior.log_evidence, rtol=1e-12)
    assert 0 < posterior.log_evidence_error < 1


def test_the_error_of_the_evidence_comes_from_all_populations(posterior: ps.Posterior) -> None:
    by_population = posterior.evidence_by_population
    assert len(by_population) == ps.Sampler(particles=512).populations == 8
    relative = np.exp(by_population - by_population.max())
    assert posterior.log_evidence_error == pytest.approx(relative.std(ddof=1) / relative.mean() / np.sqrt(8), rel=1e-9)


def test_round_trip_through_a_file(posterior: ps.Posterior, record: ps.Record, tmp_path) -> None:
    posterior.save(tmp_path / "posterior.nc")
    loaded = ps.Posterior.load(tmp_path / "posterior.nc")
    np.testing.assert_array_equal(loaded.theta, posterior.theta)
    assert loaded.log_evidence == posterior.log_evidence
    assert loaded.history.rejuvenations == posterior.history.rejuvenations
    assert loaded.table().equals(posterior.table())
    again, before = loaded.simulate(record[:20], particles=8), posterior.simulate(record[:20], particles=8)
    np.testing.assert_allclose(again.outputs["position"], before.outputs["position"], rtol=1e-12)


def test_a_wrong_file_is_named(tmp_path) -> None:
    (tmp_path / "other.nc").write_bytes(b"nothing")
    with pytest.raises(ps.InputError, match=r"other\.nc is not a saved posterior"):
        ps.Posterior.load(tmp_path / "other.nc")


def test_arviz(posterior: ps.Posterior) -> None:
    data = posterior.to_arviz(draws=400)
    assert {"posterior", "prior", "sample_stats", "log_likelihood", "observed_data"} <= set(data.groups())
    assert data.posterior["m"].shape == (8, 50)  # a chain for each population
    assert data.posterior["m"].attrs["units"] == "kg"
    assert data.log_likelihood["sample"].shape == (1, 256, SAMPLES)
    # populations count alike; 50 systematic draws of 64 weighted particles each: off by less than a tenth of the sd
    weights, values = posterior.weights.reshape(8, -1), posterior.values["k"].reshape(8, -1)
    expected = np.mean(np.sum(weights * values, axis=1) / np.sum(weights, axis=1))
    summary = az.summary(data, kind="stats", round_to="none")
    assert abs(summary.loc["k", "mean"] - expected) < 0.1 * posterior.sd("k")
    assert np.all(np.isfinite(data.log_likelihood["sample"]))


@pytest.mark.parametrize("intersample", ["zoh", "linear", "bandlimited"])
def test_simulation_against_an_adaptive_integrator(intersample: str) -> None:
    record = duffing.measure(40, intersample=intersample)
    outputs, _, error = simulate(
        duffing.model, {k: np.array([v]) for k, v in duffing.TRUTH.items()}, np.array([[0.1], [0.0]]), record
    )
    state, path, t = np.array([0.1, 0.0]), [0.1], duffing.TRUTH
    for k in range(record.samples - 1):
        a, b = record.time[k], record.time[k + 1]

        def rate(time, x, a=a, b=b):
            side = "right" if time < b - 1e-12 else "left"
            force = record.input_at([np.clip(time, a, b)], side=side)[0, 0]
            return [x[1], (force - t["c"] * x[1] - t["k"] * x[0] - t["k3"] * x[0] ** 3) / t["m"]]

        state = solve_ivp(rate, (a, b), state, method="DOP853", rtol=1e-10, atol=1e-12).y[:, -1]
        path.append(state[0])
    # the simulator stops refining at a change of 1e-6 of the range, and its error is then 15 times less
    scale = np.max(np.abs(path))
    assert np.max(np.abs(outputs["position"][0] - path)) < 1e-6 * scale
    assert error < 1e-6


def test_scores(posterior: ps.Posterior, record: ps.Record) -> None:
    simulation = posterior.simulate(record, skip=20)
    measured = record.outputs["position"][20:]
    by_hand = np.sqrt(np.mean((simulation.outputs["position"][:, 20:] - measured) ** 2, axis=1))
    scores = simulation.rmse()
    np.testing.assert_allclose(scores.values, by_hand, rtol=1e-12)
    assert scores.min <= scores.mean <= scores.max
    np.testing.assert_allclose(simulation.nrmse().values, by_hand / np.std(measured), rtol=1e-12)
    np.testing.assert_allclose(simulation.fit().values, 100 * (1 - by_hand / np.std(measured)), rtol=1e-12)


@pytest.mark.long
def test_states_cover_the_truth_and_innovations_are_white(posterior: ps.Posterior, record: ps.Record) -> None:
    states = posterior.states(draws=30)
    exact, _, _ = simulate(
        ps.Model(duffing.model.coordinates, duffing.model.dynamics, lambda s, u, p: {"x": s.x, "dx": s.dx}),
        {k: np.array([v]) for k, v in duffing.TRUTH.items()},
        np.zeros((2, 1)),
        record,
        8,
    )
    for name in ("x", "dx"):
        z = ((states.mean[name] - exact[name][0])[1:]) / states.sd[name][1:]  # the start is known
        # errors of neighbouring states are strongly correlated: of about ten independent stretches none beyond 4 sd
        assert np.max(np.abs(z)) < 4
        assert states.paths[name].shape == (30, SAMPLES)
    white = states.innovations["position"].mean(axis=0)
    # standard deviation of 200 standard normals: 1 +- 0.05; lag-one correlation: 0 +- 0.07
    assert abs(np.std(white) - 1) < 4 * 0.05
    assert abs(np.corrcoef(white[1:], white[:-1])[0, 1]) < 4 * 0.07


def test_predicted_bands_hold_new_data(posterior: ps.Posterior) -> None:
    """A new record from rest, as the prediction assumes."""
    record = duffing.measure(SAMPLES, seed=5)
    prediction = posterior.predict(record, level=0.9)
    inside = (record.outputs["position"] > prediction["position_low"]) & (
        record.outputs["position"] < prediction["position_high"]
    )
    # 200 samples, errors from noise mostly: 0.9 +- 0.021
    assert abs(float(inside.mean()) - 0.9) < 4 * 0.021


def test_flags() -> None:
    """y = a + b: only the sum is known; c is not in the data at all; d is fixed."""
    model = ps.Model(
        {"x": 1},
        lambda s, u, p: {"x": -s.x + p.a + p.b + 0 * p.c + p.d},
    )
    random = np.random.default_rng(0)
    time = 0.1 * np.arange(60)
    record = ps.Record(outputs={"x": 2 * (1 - np.exp(-time)) + 0.01 * random.standard_normal(60)}, dt=0.1)
    posterior = ps.identify(
        model,
        record,
        {"a": dist.Normal(1, 1), "b": dist.Normal(1, 1), "c": dist.Normal(0, 1), "d": 0.0},
        {"x": dist.LogNormal(-3, 1)},
        {"x": 0.0},
        sampler=ps.Sampler(particles=256),
    )
    flags = posterior.table()["flags"]
    assert flags["a"] == "tied to b (only a + b is known)"
    assert flags["b"] == "tied to a (only a + b is known)"
    assert flags["c"] == "at prior"
    assert "d" not in flags.index


@pytest.mark.long
def test_several_records_share_parameters() -> None:
    records = [duffing.measure(60, seed=s) for s in (1, 2)]
    together = ps.identify(duffing.model, records, **duffing.options())
    alone = ps.identify(duffing.model, records[0], **duffing.options())
    assert together.history.ess.shape[0] == 120
    # twice the data: the sd falls by about sqrt(2), here seen within a factor
    assert together.sd("k") < alone.sd("k")
    assert abs(together.mean("k") - 1.0) < 4 * together.sd("k")
    with pytest.raises(ps.InputError, match="initial has 1 entries for 2 records"):
        ps.identify(duffing.model, records, **duffing.options(initial=[duffing.INITIAL]))


def test_nothing_compiles_as_time_goes_on() -> None:
    """The compilations of a run do not depend on its length or its rejuvenations."""
    events: list[str] = []

    def listener(name: str, **_: object) -> None:
        events.append(name)

    def compilations(record: ps.Record) -> int:
        events.clear()
        posterior = ps.identify(duffing.model, record, **duffing.options())
        rejuvenations.append(len(posterior.history.table()))
        return sum("compile" in name and "requests" in name for name in events)

    rejuvenations: list[int] = []
    jax.monitoring.register_event_listener(listener)
    try:
        record = duffing.measure(1500)
        compilations(record[:300])  # what is shared between runs compiles here
        short, long = compilations(record[:300]), compilations(record)
    finally:
        jax.monitoring.unregister_event_listener(listener)
    assert rejuvenations[2] > rejuvenations[1]
    assert short == long
