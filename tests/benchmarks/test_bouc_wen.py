"""The simulated training record is as described in the paper."""

import numpy as np
import pytest

from probsysid.benchmarks import bouc_wen
from probsysid.posterior.simulate import simulate


def test_the_force_is_a_ramped_multisine_of_the_right_band() -> None:
    force = bouc_wen.multisine(np.random.default_rng(0))
    assert len(force) == 3 * 131072 + 1
    assert np.max(np.abs(force)) <= 208.0
    assert np.max(np.abs(force)) > 180.0  # the peak is at full amplitude unless it falls into the ramp
    window = np.hanning(len(force))
    power = np.abs(np.fft.rfft(force * window)) ** 2
    frequency = np.fft.rfftfreq(len(force), 1 / 131072)
    assert power[frequency > 102].sum() < 1e-6 * power.sum()
    early, late = force[: 131072 // 20], force[131072:]
    # over the first 0.05 s the ramp of 0.3 s rises to 1/6, a root mean square of 1/6 / sqrt(3) = 0.1; twice that,
    # because the force itself varies over such a short time
    assert np.std(early) < 0.2 * np.std(late)


def test_the_force_is_the_sum_of_cosines() -> None:
    random = np.random.default_rng(3)
    phases = np.random.default_rng(3).uniform(0, 2 * np.pi, 2000)
    force = bouc_wen.multisine(random)
    samples = np.array([50000, 131072, 300001])
    frequencies = np.linspace(0.5, 100, 2000)
    direct = np.cos(2 * np.pi * np.outer(samples / 131072, frequencies) + phases).sum(axis=1)
    # phases of up to 2 pi 100 Hz 3 s are rounded to 1e-13 each, and a sum of 2000 may be as small as one of its terms
    np.testing.assert_allclose(force[samples[1:]] / force[samples[1]], direct[1:] / direct[1], rtol=1e-9)


def test_the_record_is_noisy_acceleration() -> None:
    record = bouc_wen.training_record()
    assert record.samples == 12288
    assert record.dt == 1 / 4096
    true = bouc_wen.exact()
    noise = np.asarray(record.outputs["acceleration"]) - true["ddx"]
    # four standard errors of the standard deviation of 12288 samples
    assert np.std(noise) == pytest.approx(0.05 * np.sqrt(np.mean(true["ddx"] ** 2)), rel=4 / np.sqrt(2 * 12288))


def test_the_record_depends_on_its_seed_alone() -> None:
    first = bouc_wen.training_record(1).outputs["acceleration"]
    bouc_wen.training_record.cache_clear()
    np.testing.assert_array_equal(bouc_wen.training_record(1).outputs["acceleration"], first)
    again = bouc_wen.training_record(bouc_wen.RECORD_SEED).outputs["acceleration"]
    np.testing.assert_array_equal(bouc_wen.training_record().outputs["acceleration"], again)


def test_the_band_limited_force_loses_nothing() -> None:
    record = bouc_wen.training_record()
    truth = {name: np.array([value]) for name, value in bouc_wen.TRUTH.items()}
    again = simulate(bouc_wen.model, truth, np.zeros((3, 1)), record, steps=4)[0]["acceleration"][0]
    true = bouc_wen.exact()
    noise = bouc_wen.noise_level(true["ddx"])
    # errors of the interpolation and of longer steps count only relative to the noise: a thousandth of it shifts log
    # likelihoods by less than 12288 * 1e-6 / 2
    assert np.sqrt(np.mean((again - true["ddx"]) ** 2)) < 1e-3 * noise
