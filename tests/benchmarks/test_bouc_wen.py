"""The simulated training record is the one that the paper describes."""

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
    assert np.std(early) < 0.2 * np.std(late)


def test_the_force_is_the_sum_of_cosines() -> None:
    random = np.random.default_rng(3)
    phases = np.random.default_rng(3).uniform(0, 2 * np.pi, 2000)
    force = bouc_wen.multisine(random)
    samples = np.array([50000, 131072, 300001])
    frequencies = np.linspace(0.5, 100, 2000)
    direct = np.cos(2 * np.pi * np.outer(samples / 131072, frequencies) + phases).sum(axis=1)
    np.testing.assert_allclose(force[samples[1:]] / force[samples[1]], direct[1:] / direct[1], rtol=1e-9)


def test_the_record_is_noisy_acceleration() -> None:
    record = bouc_wen.training_record()
    assert record.samples == 12288
    assert record.dt == 1 / 4096
    true = bouc_wen.exact()
    noise = np.asarray(record.outputs["acceleration"]) - true["ddx"]
    # the standard deviation of 12288 samples is known to 0.64 %
    assert np.std(noise) == pytest.approx(0.05 * np.sqrt(np.mean(true["ddx"] ** 2)), rel=0.03)


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
    assert np.sqrt(np.mean((again - true["ddx"]) ** 2)) < 1e-3 * noise
