"""Measurements drawn around outputs, each from its own distribution."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid.model.noise import NoiseForm, NoiseValues
from probsysid.posterior.noise_draws import noisy_outputs
from probsysid.posterior.simulate import Simulation

OUTPUTS = np.full((4, 2000), 3.0)


def drawn(degrees: float | None = None, time: float | None = None, **form: Any) -> np.ndarray:
    def each(value: float | None) -> Any:
        return None if value is None else np.full(len(OUTPUTS), value)

    noise = NoiseValues(each(0.2), each(degrees), each(time), NoiseForm(**form))
    return noisy_outputs(noise, OUTPUTS, np.random.default_rng(2)).ravel()


@pytest.mark.parametrize(
    ("found", "distribution"),
    [
        (drawn(time=1.0), stats.norm(3.0, 0.2)),
        (drawn(degrees=3.0), stats.t(3.0, 3.0, 0.2)),
        (drawn(log=True), stats.lognorm(0.2, scale=3.0)),
    ],
    ids=["coloured", "Student-t", "lognormal"],
)
def test_distribution(found: np.ndarray, distribution: Any) -> None:
    assert stats.kstest(found, distribution.cdf).pvalue > 0.01


def test_clipped_draws_are_at_the_bounds_as_often_as_they_should() -> None:
    found = drawn(lower=2.9, upper=3.3)
    assert found.min() == 2.9 and found.max() == 3.3
    expected = stats.norm.cdf(-0.5), stats.norm.sf(1.5)
    shares = np.mean(found == 2.9), np.mean(found == 3.3)
    np.testing.assert_allclose(shares, expected, atol=3.5 * np.sqrt(0.25 / found.size))


def test_a_quantiser_adds_its_own_variance() -> None:
    variance = np.var(drawn(step=1.0))
    expected = 0.2**2 + 1 / 12
    assert variance == pytest.approx(expected, rel=3.5 * np.sqrt(2 / OUTPUTS.size))


def test_scores_compare_a_clipped_value_with_what_the_sensor_would_have_shown() -> None:
    record = ps.Record(outputs={"y": np.array([0.5, 0.8, 0.8, -0.1])}, dt=1.0)
    outputs = {"y": np.array([[0.5, 1.2, 0.7, -0.1]])}
    simulation = Simulation(record, outputs, np.ones(1), 1, 0.0, chosen=np.arange(1), bounds={"y": (None, 0.8)})
    assert simulation.rmse().mean == pytest.approx(0.1 / 2)
    assert replace(simulation, bounds={}).rmse().mean == pytest.approx(np.sqrt((0.4**2 + 0.1**2) / 4))
