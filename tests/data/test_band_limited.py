"""Band-limited interpolation: exact cases, the errors that the docstring states, and speed."""

import time as clock

import numpy as np
import pytest

from probsysid.data.band_limited import BandLimited, burg
from tests.data.signals import inside, multisine


@pytest.mark.parametrize("count", [60, 61, 97])
def test_periodic_is_exact_on_its_harmonics(count):
    dt, period = 0.25, 0.25 * count
    time = 7.0 + dt * np.arange(count)
    rate = 2 * np.pi / period

    def signal(t, derivative=0):
        shift = derivative * np.pi / 2
        first, tenth = np.cos(rate * t + 0.3 + shift), np.cos(10 * rate * t + 1 + shift)
        return (derivative == 0) * 4.0 + rate**derivative * (first + 10**derivative * tenth)

    curve = BandLimited(7.0, dt, signal(time), periodic=True)
    anywhere = np.linspace(7, time[-1], 501)
    # Rounding of values up to 6; the harmonics are too low for an error of the interpolation on the finer grid.
    np.testing.assert_allclose(curve.at(anywhere), signal(anywhere), atol=1e-13)
    np.testing.assert_allclose(curve.grid(time, 4)[1:], signal(inside(time, 4)), atol=1e-13)
    expected = np.stack([signal(time, d) for d in range(4)], axis=1)
    # Rounding of 1e-15 in each of up to 97 samples, added at random, times up to (pi / dt)^3 = 2000: 2e-11.
    np.testing.assert_allclose(curve.derivatives(time, 3), expected, atol=2e-11)


def test_alternating_samples_are_a_cosine():
    """At half the sampling rate the phase is not determined; the cosine is the smallest and symmetric choice."""
    time = np.arange(8.0)
    curve = BandLimited(0.0, 1.0, np.cos(np.pi * time), periodic=True)
    np.testing.assert_allclose(curve.grid(time, 4)[1:], np.cos(np.pi * inside(time, 4)), atol=1e-14)
    anywhere = np.linspace(0, 7, 41)
    np.testing.assert_allclose(curve.at(anywhere), np.cos(np.pi * anywhere), atol=1e-11)  # 3e-12 of the range
    expected = [[(-1) ** k, 0, -((-1) ** k) * np.pi**2] for k in range(8)]
    np.testing.assert_allclose(curve.derivatives(time, 2), expected, atol=1e-13)


# Ten times the docstring's table, which is an rms over 20 windows: a single window varies.
@pytest.mark.parametrize(
    ("highest", "at_the_end", "after_10", "middle"), [(0.1, 4e-11, 5e-12, 5e-12), (0.3, 3e-6, 7e-11, 1e-11)]
)
def test_bandlimited_window_of_a_multisine(highest, at_the_end, after_10, middle):
    signal = multisine(500, highest, seed=3)
    time = 1234.5 + np.arange(1000)
    grid = BandLimited(time[0], 1.0, signal(time)).grid(time, 4)[1:]
    error = np.abs(grid - signal(inside(time, 4))).max(axis=1)
    assert error.max() < at_the_end
    assert error[10:-10].max() < after_10
    assert error[300:-300].max() < middle


def test_bandlimited_derivatives_of_a_multisine():
    """A derivative multiplies the errors of the table by up to pi per sampling step: 31 for the third."""
    signal = multisine(500, 0.3, seed=4)
    dt = 1e-2
    steps = 400.3 + np.arange(1000)
    derivatives = BandLimited(steps[0] * dt, dt, signal(steps)).derivatives(steps * dt, 3)
    for d in range(4):
        error = np.abs(derivatives[:, d] * dt**d - signal(steps, d))
        assert error[10:-10].max() < 7e-11 * np.pi**d
        assert error.max() < 3e-5 * np.pi**d  # 100 times the table: errors at the ends have the highest frequencies


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000])
def test_bandlimited_is_exact_on_lines(count):
    time = 5 + 0.1 * np.arange(count)
    curve = BandLimited(5.0, 0.1, 2 - 3 * time)
    anywhere = np.linspace(5, time[-1], 77)
    slope = -3.0 if count > 1 else 0.0
    scale = 1e-15 * (1 + np.abs(3 * time).max())  # rounding
    np.testing.assert_allclose(curve.at(anywhere), 2 - 3 * anywhere, atol=10 * scale)
    np.testing.assert_allclose(curve.grid(time, 3)[1:], 2 - 3 * inside(time, 3), atol=10 * scale)
    np.testing.assert_allclose(curve.derivatives(time, 1)[:, 1], slope, atol=10 * scale * np.pi / 0.1)  # pi / dt


@pytest.mark.parametrize("periodic", [False, True])
def test_bandlimited_fast_path_agrees_with_any_times(periodic):
    """White noise has much power at half the sampling rate, where interpolation on the finer grid is least accurate.

    The docstring of the series states 3e-12 of the range; the bound is three times that.
    """
    values = np.random.default_rng(0).standard_normal(500)
    time = 3 + 0.01 * np.arange(500)
    curve = BandLimited(3.0, 0.01, values, periodic)
    fast, slow = curve.grid(time, 5)[1:], curve.at(inside(time, 5).ravel()).reshape(-1, 5)
    np.testing.assert_allclose(fast, slow, atol=1e-11 * np.ptp(values))
    np.testing.assert_array_equal(fast[:, -1], values[1:])
    halves = curve.derivatives(3.005 + 0.01 * np.arange(499), 2)  # between the samples: the slow path
    np.testing.assert_allclose(halves[:, 0], curve.grid(time, 2)[1:, 0], atol=1e-11 * np.ptp(values))


def test_bandlimited_derivatives_between_samples():
    signal = multisine(50, 0.2, seed=5)
    time = np.arange(800.0)
    between = time[:-1] + 0.37
    derivatives = BandLimited(0.0, 1.0, signal(time)).derivatives(between, 3)
    expected = np.stack([signal(between, d) for d in range(4)], axis=1)
    # The table's error at 10 intervals from the end, for lines up to 0.3 fs, times pi per derivative.
    np.testing.assert_allclose(derivatives[10:-10], expected[10:-10], atol=7e-12 * np.pi**3)


@pytest.mark.parametrize("count", [150_000, 149_993])  # the second is prime
def test_long_records_are_quick(count):
    values = np.random.default_rng(0).standard_normal(count)
    begin = clock.perf_counter()
    BandLimited(0.0, 1e-3, values).grid(1e-3 * np.arange(count), 4)
    BandLimited(0.0, 1e-3, values, periodic=True).grid(1e-3 * np.arange(count), 4)
    assert clock.perf_counter() - begin < 2.0  # about 0.1 s on an idle machine


def test_burg_finds_a_sine():
    """A sine obeys u_k = 2 cos(w) u_{k-1} - u_{k-2}; Burg's estimate of it is biased by about 1/n."""
    count = 10_000
    coefficients = burg(np.sin(0.7 * np.arange(count)), 2)
    np.testing.assert_allclose(coefficients, [1, -2 * np.cos(0.7), 1], atol=10 / count)


def test_burg_of_silence():
    np.testing.assert_array_equal(burg(np.zeros(10), 3), [1, 0, 0, 0])
