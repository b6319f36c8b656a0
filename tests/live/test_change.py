"""The detector keeps its word: the mean time between false alarms is no less than stated."""

import numpy as np
import pytest

from probsysid.live.change import ORDER, Detector, Predictable


def time_to_alarm(detector: Detector, whites: np.ndarray) -> int | None:
    for k, white in enumerate(whites):
        if detector.add(k, 0, float(white)):
            return k + 1
    return None


def test_every_likelihood_ratio_has_mean_one() -> None:
    """Of which the martingale is made; by quadrature, since the ratios' variance is infinite."""
    random, detector = np.random.default_rng(0), Detector(1, 100.0)
    for k, white in enumerate(2 * random.standard_normal(50)):
        detector.add(k, 0, float(white))
    grid = np.linspace(-60, 60, 4001)
    ratios = np.array([detector._ratios(0, z) for z in grid])
    means = np.trapezoid(np.exp(ratios - 0.5 * grid[:, None] ** 2) / np.sqrt(2 * np.pi), grid, axis=0)
    np.testing.assert_allclose(means, 1.0, rtol=1e-9)


def test_the_sum_is_that_of_shiryaev_and_roberts() -> None:
    whites = np.random.default_rng(3).standard_normal(6)
    detector, sums = Detector(1, 1.0), np.zeros(10)
    for k, white in enumerate(whites):
        sums = (1 + sums) * np.exp(detector._ratios(0, white))
        detector.add(k, 0, float(white))
    np.testing.assert_allclose(np.exp(detector.level), sums.mean(), rtol=1e-12)


def test_false_alarms_are_no_more_frequent_than_stated() -> None:
    interval, random = 200.0, np.random.default_rng(1)
    times = []
    for _ in range(40):
        found = time_to_alarm(Detector(1, interval), random.standard_normal(1500))
        times.append(1500 if found is None else found)  # cut off, so the mean is only larger
    # times are about exponential: a standard error of a sixth of the mean
    assert np.mean(times) * (1 + 4 / np.sqrt(40)) > interval


@pytest.mark.parametrize("kind", ["wider", "oscillating", "shifted"])
def test_a_change_is_seen_soon(kind: str) -> None:
    random = np.random.default_rng(2)
    calm, after = random.standard_normal(1000), random.standard_normal(400)
    index = np.arange(400)
    changed = {
        "wider": 2 * after,
        "oscillating": after + 2 * np.sin(0.7 * index),
        "shifted": after + 2,
    }[kind]
    detector = Detector(1, 1e6)
    assert time_to_alarm(detector, calm) is None
    found = None
    for k, white in enumerate(changed):
        if detector.add(1000 + k, 0, float(white)):
            found = k + 1
            break
    # the log likelihood ratio per residual is at least 0.4 once fitted, the threshold 14, and a fit takes some tens
    assert found is not None and found < 80
    assert abs(detector.onset - 1000) < 60


def test_nothing_measured_tells_nothing() -> None:
    detector = Detector(1, 100.0)
    before = detector.level
    assert not detector.add(0, 0, float("nan"))
    assert detector.level == before


def test_the_fit_predicts_an_oscillation() -> None:
    fit, errors = Predictable((200.0,)), []
    for k in range(400):
        value = 2 * np.sin(0.5 * k)
        errors.append(value - fit.predict()[0])
        fit.learn(value)
    assert np.std(errors[-100:]) < 0.3  # shrunk, so not exact
    assert fit._past.shape == (ORDER,)
