"""Welch's spectrum against what is known of white noise and of a sinusoid."""

import numpy as np
import pytest

from probsysid.report.spectral import residual_segment, welch


def test_white_noise_has_its_variance_over_half_the_rate() -> None:
    samples, rate = 20000, 100.0
    _, density = welch(0.3 * np.random.default_rng(0).standard_normal(samples), rate, 512)
    # By Parseval the mean density is an estimate of the variance, with a relative standard error of sqrt(2 / samples).
    assert np.mean(density) == pytest.approx(0.3**2 * 2 / rate, rel=4 * np.sqrt(2 / samples))


def test_a_sinusoid_peaks_at_its_frequency_and_zero_is_left_out() -> None:
    time = np.arange(1024) / 64.0
    frequency, density = welch(5.0 + np.sin(2 * np.pi * 8.0 * time), 64.0, 256)
    assert frequency[np.argmax(density)] == 8.0
    assert (frequency[0], frequency[-1], len(frequency)) == (0.25, 32.0, 128)


def test_a_segment_is_no_longer_than_the_series() -> None:
    values = np.random.default_rng(0).standard_normal(100)
    np.testing.assert_array_equal(welch(values, 1.0, 512), welch(values, 1.0, 100))
    assert [residual_segment(samples) for samples in (10, 256, 800)] == [32, 32, 100]
