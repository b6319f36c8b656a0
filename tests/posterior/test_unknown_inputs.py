"""Moments and spectra of unknown inputs and drifts."""

import numpy as np
import pytest

import probsysid as ps
from probsysid.model.latent_processes import LatentProcess
from probsysid.posterior.states import DrawnStates
from probsysid.posterior.unknown_inputs import UnknownInputs, moments

DRAWS, SAMPLES = 4000, 2


def drawn(components: int, names: tuple[str, ...]) -> DrawnStates:
    """Components with means j + 1 and standard deviations 0.1 (j + 1), and independent draws of them."""
    mean = np.broadcast_to(np.arange(1.0, components + 1)[:, None], (SAMPLES, components, DRAWS))
    path = mean * (1 + 0.1 * np.random.default_rng(0).normal(size=mean.shape))
    values = {"k": np.full(DRAWS, 3.0), "force.constant.value": np.full(DRAWS, 0.5)}
    values |= {
        f"force.{kind}.{name}": np.ones(DRAWS) for kind in ("matern", "matern_2") for name in ("scale", "length")
    }
    values |= {"force.scale": np.ones(DRAWS), "force.length": np.ones(DRAWS), "k.rate": np.ones(DRAWS)}
    values |= {"k.start": np.zeros(DRAWS)}
    record = ps.Record({}, {"y": np.zeros(SAMPLES)}, dt=1.0)
    return DrawnStates(names, values, mean, 0.1 * mean, path, record)


def test_a_single_coordinate_has_the_moments_of_its_component() -> None:
    process = LatentProcess("force", ps.Matern(1.5, 1.0, 1.0))
    mean, sd, paths = moments(drawn(3, ("x", "force", "dforce")), process)
    np.testing.assert_allclose(mean, 2.0, rtol=1e-14)
    np.testing.assert_allclose(sd, 0.2, rtol=1e-12)
    assert paths.shape == (DRAWS, SAMPLES)


def test_a_sum_has_the_moments_of_its_paths() -> None:
    """3 + 4 + 1/2 with standard deviations 0.3 and 0.4: 0.5, known to 1 / sqrt(8000) of it, here 4 times that."""
    process = LatentProcess("force", ps.Matern(0.5, 1.0, 1.0) + ps.Matern(0.5, 1.0, 1.0) + ps.Constant(1.0))
    mean, sd, _ = moments(drawn(4, ("x", "dx", "force_1", "force_2")), process)
    np.testing.assert_allclose(sd, 0.5, rtol=4 / np.sqrt(2 * DRAWS))
    np.testing.assert_allclose(mean, 7.5, atol=4 * 0.5 / np.sqrt(DRAWS))


def test_a_drift_of_a_positive_parameter_is_lognormal() -> None:
    process = LatentProcess("k", ps.RandomWalk(1.0), drift=True, relative=True)
    mean, sd, _ = moments(drawn(1, ("k_drift",)), process)
    np.testing.assert_allclose(mean, 3 * np.exp(1 + 0.1**2 / 2), rtol=1e-12)
    np.testing.assert_allclose(sd, mean * np.sqrt(np.expm1(0.1**2)), rtol=1e-12)


def test_a_spectrum_has_the_power_of_the_paths() -> None:
    """White paths of variance 4 at 10 Hz: a density of 4 / 5 up to 5 Hz.  A median over 500 paths of averages over some
    7 segments lies 5 % below the mean."""
    time = np.arange(256) * 0.1
    paths = 2 * np.random.default_rng(0).normal(size=(500, 256))
    found = UnknownInputs(time, {"f": 0 * time}, {"f": 0 * time}, {"f": paths}, {"f": np.sin(time)})
    frequency, median, low, high = found.spectrum("f")
    assert frequency[-1] == 5.0 and np.all(low < median) and np.all(median < high)
    assert np.mean(median[1:-1]) == pytest.approx(0.8 * 0.93, rel=0.06)
    assert found.nmse("f") == pytest.approx(100 * np.mean(np.sin(time) ** 2) / np.var(np.sin(time)))


def test_what_cannot_be_said_is_said() -> None:
    time = np.arange(20) ** 2.0
    found = UnknownInputs(time, {"f": time}, {"f": time}, {"f": time[None]})
    with pytest.raises(ps.InputError, match="equally spaced"):
        found.spectrum("f")
    with pytest.raises(ps.InputError, match="has no input 'f' to compare with"):
        found.nmse("f")


def test_the_band_of_a_positive_parameter_is_positive() -> None:
    """Quantiles of a log-normal distribution: exp(-1.645 s) and exp(1.645 s), although its mean is half its sd."""
    s = np.sqrt(np.log(5.0))
    found = UnknownInputs(
        np.zeros(1), {"k": np.exp([s**2 / 2])}, {"k": 2 * np.exp([s**2 / 2])}, {}, positive=frozenset("k")
    )
    np.testing.assert_allclose(np.log(found.band("k")), [[-1.6448536 * s], [1.6448536 * s]], rtol=1e-7)


def test_the_time_of_a_change_is_that_of_the_step() -> None:
    """Steps of -10 % at times whose quantiles are known, under noise that is small against them."""
    time = np.arange(100.0)
    begins = np.arange(30, 71)
    random = np.random.default_rng(0)
    paths = 4.0 - 0.4 * (time >= begins[:, None]) + 0.01 * random.normal(size=(len(begins), 100))
    found = UnknownInputs(time, {}, {}, {"k": paths}, positive=frozenset("k")).change("k")
    np.testing.assert_allclose([found.earliest, found.time, found.latest], [31.5, 49.5, 67.5])
    assert found.size == pytest.approx(-0.1, abs=4 * 0.01 / 4.0) and found.least < found.size < found.most
    assert found.sentence.startswith("it changes most at 49.5 s (31.5 to 67.5 s), by -")
    with pytest.raises(ps.InputError, match="a change needs three"):
        UnknownInputs(time[:2], {}, {}, {"k": paths[:, :2]}).change("k")
