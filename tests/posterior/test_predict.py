"""Predictions that count everything: where they start, process noise, data some samples before."""

import numpy as np
import pytest

import probsysid as ps
from probsysid import InputError, dist

RATE, FORCE, NOISE, DT = 0.8, 0.6, 0.2, 0.25


def relaxation() -> ps.Model:
    return ps.Model({"x": 1}, lambda s, u, p: {"x": -p.a * s.x}, lambda s, u, p: {"y": s.x})


def wandering(samples: int, seed: int) -> ps.Record:
    """dx = -a x dt + s dW, measured with noise."""
    random = np.random.default_rng(seed)
    decay, kick = np.exp(-RATE * DT), np.sqrt(FORCE**2 * (1 - np.exp(-2 * RATE * DT)) / (2 * RATE))
    states = [1.0]
    for _ in range(samples - 1):
        states.append(decay * states[-1] + kick * random.standard_normal())
    return ps.Record(outputs={"y": np.array(states) + NOISE * random.standard_normal(samples)}, dt=DT)


@pytest.fixture(scope="module")
def posterior() -> ps.Posterior:
    """All constants known but for a width of 1e-6, so that exact answers are those of one Kalman filter."""
    return ps.identify(
        relaxation(),
        wandering(60, seed=0),
        {"a": dist.LogNormal(np.log(RATE), 1e-6)},
        {"y": NOISE},
        {"x": 1.0},
        process_noise={"x": FORCE},
        solver=ps.Solver(substeps=4),
        sampler=ps.Sampler(particles=256),
    )


def kalman(measured: np.ndarray, start: float, ahead: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of each measurement given those up to `ahead` samples before, or given the start alone."""
    decay = np.exp(-RATE * DT)
    kick = FORCE**2 * (1 - decay**2) / (2 * RATE)
    mean, variance, filtered = start, 0.0, []
    for t, value in enumerate(measured):
        if t:
            mean, variance = decay * mean, decay**2 * variance + kick
        gain = variance / (variance + NOISE**2)
        mean, variance = mean + gain * (value - mean), (1 - gain) * variance
        filtered.append((mean, variance))
    found = []
    for t in range(len(measured)):
        (mean, variance), steps = (filtered[t - ahead], ahead) if t >= ahead else ((start, 0.0), t)
        for _ in range(steps):
            mean, variance = decay * mean, decay**2 * variance + kick
        found.append((mean, np.sqrt(variance + NOISE**2)))
    means, sds = np.array(found).T
    return means, sds


@pytest.mark.parametrize("ahead", [1, pytest.param(5, marks=pytest.mark.long), 1000])
def test_as_the_kalman_filter_predicts(posterior: ps.Posterior, ahead: int) -> None:
    record = wandering(300, seed=1)
    prediction = posterior.predict(record, ahead=ahead, initial={"x": 1.0})
    mean, sd = kalman(np.asarray(record.outputs["y"]), 1.0, ahead)
    # 256 particles: means to a sixteenth of the sd without noise, sds to 4.4 %; five times that at any of 300 samples
    assert np.all(np.abs(prediction["y"].values - mean) < 5 / 16 * sd)
    assert np.all(np.abs(prediction["y_sd"].values / sd - 1) < 5 * 0.044)
    assert np.mean(prediction["y_sd"].values / sd) == pytest.approx(1, abs=0.03)
    # the ends of a band from 256 draws are off by 2 % of the probability
    inside = np.abs(np.asarray(record.outputs["y"]) - mean) < 1.645 * sd
    assert prediction.attrs["y_coverage"] == pytest.approx(np.mean(inside), abs=0.04)


def test_a_forecast_goes_on_from_the_last_state(posterior: ps.Posterior) -> None:
    whole = wandering(60, seed=0)
    later = ps.Record(outputs={}, time=whole.time[-1] + DT * np.arange(21))
    prediction = posterior.forecast(later)
    measured = np.concatenate([whole.outputs["y"], np.full(20, np.nan)])
    decay = np.exp(-RATE * DT)
    kick = FORCE**2 * (1 - decay**2) / (2 * RATE)
    mean, variance = 1.0, 0.0
    found = []
    for t, value in enumerate(measured):
        if t:
            mean, variance = decay * mean, decay**2 * variance + kick
        if np.isfinite(value):
            gain = variance / (variance + NOISE**2)
            mean, variance = mean + gain * (value - mean), (1 - gain) * variance
        found.append((mean, np.sqrt(variance + NOISE**2)))
    means, sds = np.array(found[59:]).T
    assert np.all(np.abs(prediction["y"].values - means) < 5 / 16 * sds)
    assert np.all(np.abs(prediction["y_sd"].values / sds - 1) < 5 * 0.044)


def test_a_forecast_begins_where_training_ended(posterior: ps.Posterior) -> None:
    with pytest.raises(InputError, match=r"begins at 0; a forecast begins with the last training sample \(at 14.75\)"):
        posterior.forecast(wandering(10, seed=2))


def test_the_start_stays_tied_to_the_parameters() -> None:
    """y = g x, x' = -x: gain and start are known by their product alone, which decides the prediction."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": -s.x}, lambda s, u, p: {"y": p.g * s.x})
    time = 0.1 * np.arange(60)
    values = 2 * np.exp(-time) + 0.01 * np.random.default_rng(0).standard_normal(60)
    whole = ps.Record(outputs={"y": values}, dt=0.1)
    posterior = ps.identify(
        model,
        whole[:30],
        {"g": dist.LogNormal(0.0, 0.7)},
        {"y": 0.01},
        {"x": dist.Normal(1.0, 1.0)},
        sampler=ps.Sampler(particles=256),
    )
    assert posterior.sd("g") > 0.3
    simulation = posterior.simulate(whole)
    assert simulation.start == "each particle's own initial state" and simulation.skip == 0
    assert simulation.rmse().mean < 0.012  # the noise, and what 30 samples leave open of the product


def test_a_new_record_starts_from_its_first_samples(posterior: ps.Posterior) -> None:
    record = wandering(200, seed=3).replace(outputs={"y": 40 + np.asarray(wandering(200, seed=3).outputs["y"])})
    simulation = posterior.simulate(record, initial_samples=3)
    assert simulation.start == "the state estimated from the first 3 samples" and simulation.skip == 3
    first = simulation.outputs["y"][:, 0]
    assert abs(first.mean() - 41) < 1  # not zero, and not where training began


def test_nothing_starts_at_zero_unless_told(posterior: ps.Posterior) -> None:
    bare = ps.Record(outputs={}, time=np.arange(5.0))
    with pytest.raises(InputError, match=r"no measured output .* say where it starts with initial=\{'x': ...\}"):
        posterior.simulate(bare)
    with pytest.raises(InputError, match="initial has no entry for 'x'"):
        posterior.simulate(bare, initial={})
    with pytest.raises(
        InputError,
        match=r"initial is 'estimated'; it must map .* Did you mean 'estimate'\?",
    ):
        posterior.simulate(bare, initial="estimated")


def test_without_process_noise_on_request(posterior: ps.Posterior) -> None:
    record = wandering(50, seed=4)
    quiet = posterior.simulate(record, initial={"x": 1.0}, process_noise=False).outputs["y"]
    np.testing.assert_allclose(quiet, np.exp(-RATE * record.time) * np.ones((256, 1)), rtol=1e-4)
    assert posterior.simulate(record, initial={"x": 1.0}).outputs["y"][:, -1].std() > 0.2


LEVEL, TIME = 0.3, 1.5


def coloured(samples: int) -> ps.Record:
    """x = exp(-a t), measured with coloured noise."""
    random = np.random.default_rng(4)
    memory, noise = np.exp(-DT / TIME), [LEVEL * random.standard_normal()]
    for _ in range(samples - 1):
        noise.append(memory * noise[-1] + np.sqrt(1 - memory**2) * LEVEL * random.standard_normal())
    return ps.Record(outputs={"y": np.exp(-RATE * DT * np.arange(samples)) + np.array(noise)}, dt=DT)


def test_coloured_noise_is_predicted() -> None:
    """What the noise was when a prediction began is known, and decays: one, five samples ahead, and in a forecast."""
    whole = coloured(60)
    posterior = ps.identify(
        relaxation(),
        whole[:40],
        {"a": dist.LogNormal(np.log(RATE), 1e-6)},
        {"y": ps.Noise(LEVEL, time=TIME)},
        {"x": 1.0},
        sampler=ps.Sampler(particles=256),
    )
    clean = np.exp(-RATE * whole.time)
    noise = np.asarray(whole.outputs["y"]) - clean
    for ahead in (1, 5):
        prediction = posterior.predict(whole, ahead=ahead)
        memory = np.exp(-ahead * DT / TIME)
        mean, sd = clean[ahead:] + memory * noise[:-ahead], LEVEL * np.sqrt(1 - memory**2)
        # 256 draws: means to a sixteenth of the sd, sds to 4.4 %; five times that at any of 60 samples
        assert np.all(np.abs(prediction["y"].values[ahead:] - mean) < 5 / 16 * sd)
        assert np.all(np.abs(prediction["y_sd"].values[ahead:] / sd - 1) < 5 * 0.044)
    forecast = posterior.forecast(whole[39:])
    memory = np.exp(-DT * np.arange(21) / TIME)
    mean, sd = clean[39:] + memory * noise[39], LEVEL * np.sqrt(1 - memory**2)
    assert np.all(np.abs(forecast["y"].values - mean) <= 5 / 16 * sd + 1e-5)  # the width of a's prior, and integration
    assert np.all(np.abs(forecast["y_sd"].values - sd) <= 5 * 0.044 * sd + 1e-5)
