"""The inputs between their samples, on signals whose values are known everywhere."""

import math
import time as clock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probsysid._internal.errors import InputError
from probsysid.data.band_limited import BandLimited, burg
from probsysid.data.intersample import FunctionInput, Intersample, Linear, ZeroOrderHold

KNOTS = np.array([0.0, 0.1, 0.4, 0.5, 1.0])
VALUES = np.array([1.0, 3.0, 2.0, -1.0, 0.5])


def multisine(lines: int, highest: float, seed: int):
    """A sum of `lines` sines up to `highest` cycles a second, with rms 1, and its derivatives."""
    frequency = 2 * np.pi * np.linspace(0.001, highest, lines)
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi, lines)

    def signal(times, derivative=0):
        angle = np.multiply.outer(np.asarray(times), frequency) + phase + derivative * np.pi / 2
        return np.sqrt(2 / lines) * np.cos(angle) @ frequency**derivative

    return signal


def inside(time: np.ndarray, substeps: int) -> np.ndarray:
    """The times that rows 1.. of a grid belong to."""
    return time[:-1, None] + np.diff(time)[:, None] * np.arange(1, substeps + 1) / substeps


# Hold and straight lines


def test_hold_keeps_the_last_sample():
    hold = ZeroOrderHold(KNOTS, VALUES)
    np.testing.assert_array_equal(hold.at(np.array([0.05, 0.1, 0.39, 1.0])), [1, 3, 3, 0.5])
    np.testing.assert_array_equal(hold.at(np.array([0.05, 0.1, 0.39, 1.0]), "left"), [1, 1, 3, -1])


def test_hold_takes_a_rounded_time_for_the_sample():
    knots = 0.1 * np.arange(1000)
    rounded = np.cumsum(np.full(1000, 0.1)) - 0.1  # off by up to 1e-12
    assert np.any(rounded < knots) and np.any(rounded > knots)
    hold = ZeroOrderHold(knots, np.arange(1000.0))
    np.testing.assert_array_equal(hold.at(rounded), np.arange(1000))
    np.testing.assert_array_equal(hold.at(rounded[1:], "left"), np.arange(999))


def test_hold_at_times_far_from_zero():
    """Seconds since 1970 have a spacing of 2.4e-7: the tolerance has to know."""
    knots = 1.7e9 + 1e-3 * np.arange(100)
    hold = ZeroOrderHold(knots, np.arange(100.0))
    np.testing.assert_array_equal(hold.grid(knots, 4)[1:], np.repeat(np.arange(99.0)[:, None], 4, axis=1))
    np.testing.assert_array_equal(hold.at(np.nextafter(knots, 0)), np.arange(100))


def test_hold_grid_and_derivatives():
    hold = ZeroOrderHold(KNOTS, VALUES)
    np.testing.assert_array_equal(hold.grid(KNOTS, 2), np.stack([[1, 1, 3, 2, -1], [1, 1, 3, 2, -1]], axis=1))
    np.testing.assert_array_equal(hold.derivatives(KNOTS, 2), [[value, 0, 0] for value in VALUES])


def test_linear_is_exact_on_lines():
    linear = Linear(KNOTS, 2 - 3 * KNOTS)
    np.testing.assert_allclose(linear.grid(KNOTS, 3)[1:], 2 - 3 * inside(KNOTS, 3), atol=1e-15)
    np.testing.assert_allclose(linear.derivatives(KNOTS, 2), [[2 - 3 * t, -3, 0] for t in KNOTS], atol=1e-13)


def test_linear_slope_is_that_of_the_next_interval():
    slopes = Linear(KNOTS, VALUES).derivatives(KNOTS, 1)[:, 1]
    np.testing.assert_allclose(slopes, [20, -10 / 3, -30, 3, 3], rtol=1e-14)


# Band-limited


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
    np.testing.assert_allclose(curve.at(anywhere), signal(anywhere), atol=1e-10)  # local polynomials: 1e-11
    np.testing.assert_allclose(curve.grid(time, 4)[1:], signal(inside(time, 4)), atol=1e-13)
    expected = np.stack([signal(time, d) for d in range(4)], axis=1)
    np.testing.assert_allclose(curve.derivatives(time, 3), expected, atol=1e-11)


def test_alternating_samples_are_a_cosine():
    """At half the sampling rate the phase is unknown; the cosine is the shortest answer, and symmetric."""
    time = np.arange(8.0)
    curve = BandLimited(0.0, 1.0, np.cos(np.pi * time), periodic=True)
    np.testing.assert_allclose(curve.grid(time, 4)[1:], np.cos(np.pi * inside(time, 4)), atol=1e-14)
    anywhere = np.linspace(0, 7, 41)
    np.testing.assert_allclose(curve.at(anywhere), np.cos(np.pi * anywhere), atol=1e-10)
    expected = [[(-1) ** k, 0, -((-1) ** k) * np.pi**2] for k in range(8)]
    np.testing.assert_allclose(curve.derivatives(time, 2), expected, atol=1e-13)


# The docstring's table: rms over 20 windows; one window is within a factor of 10 of it.
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
    """A derivative multiplies the errors of the table by up to pi a sample: 31 for the third."""
    signal = multisine(500, 0.3, seed=4)
    dt = 1e-2
    steps = 400.3 + np.arange(1000)
    derivatives = BandLimited(steps[0] * dt, dt, signal(steps)).derivatives(steps * dt, 3)
    for d in range(4):
        error = np.abs(derivatives[:, d] * dt**d - signal(steps, d))
        assert error[10:-10].max() < 7e-11 * np.pi**d
        assert error.max() < 3e-5 * np.pi**d  # and the ends are rougher than the inside


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000])
def test_bandlimited_is_exact_on_lines(count):
    time = 5 + 0.1 * np.arange(count)
    curve = BandLimited(5.0, 0.1, 2 - 3 * time)
    anywhere = np.linspace(5, time[-1], 77)
    slope = -3.0 if count > 1 else 0.0
    scale = 1e-15 * (1 + np.abs(3 * time).max())  # rounding
    np.testing.assert_allclose(curve.at(anywhere), 2 - 3 * anywhere, atol=10 * scale)
    np.testing.assert_allclose(curve.grid(time, 3)[1:], 2 - 3 * inside(time, 3), atol=10 * scale)
    np.testing.assert_allclose(curve.derivatives(time, 1)[:, 1], slope, atol=1e4 * scale)


@pytest.mark.parametrize("periodic", [False, True])
def test_bandlimited_fast_path_agrees_with_any_times(periodic):
    """White noise has most at half the sampling rate, where interpolation on the finer grid is worst."""
    values = np.random.default_rng(0).standard_normal(500)
    time = 3 + 0.01 * np.arange(500)
    curve = BandLimited(3.0, 0.01, values, periodic)
    fast, slow = curve.grid(time, 5)[1:], curve.at(inside(time, 5).ravel()).reshape(-1, 5)
    np.testing.assert_allclose(fast, slow, atol=1e-9 * np.ptp(values))
    np.testing.assert_array_equal(fast[:, -1], values[1:])
    halves = curve.derivatives(3.005 + 0.01 * np.arange(499), 2)  # not at the samples: the slow path
    np.testing.assert_allclose(halves[:, 0], curve.grid(time, 2)[1:, 0], atol=1e-9 * np.ptp(values))


def test_bandlimited_derivatives_between_samples():
    signal = multisine(50, 0.2, seed=5)
    time = np.arange(800.0)
    between = time[:-1] + 0.37
    derivatives = BandLimited(0.0, 1.0, signal(time)).derivatives(between, 3)
    expected = np.stack([signal(between, d) for d in range(4)], axis=1)
    np.testing.assert_allclose(derivatives[10:-10], expected[10:-10], atol=1e-9)


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


# Functions


def test_function_of_arrays_or_of_numbers():
    times = np.linspace(0, 1, 7)
    for function in (np.sin, math.sin, lambda t: math.sin(t) if t > 0 else 0.0):
        np.testing.assert_allclose(FunctionInput(function, "u", times).at(times), np.sin(times), atol=1e-16)
    np.testing.assert_array_equal(FunctionInput(lambda t: 2, "u", times).at(times), np.full(7, 2.0))
    np.testing.assert_array_equal(FunctionInput(lambda t: 2, "u", times[:1]).at(times), np.full(7, 2.0))


def test_function_derivatives_of_a_sine():
    """The errors that the docstring states, with a factor of 10 to spare, at all samples, also the last."""
    w = 2 * np.pi / 10
    time = np.arange(100.0)
    derivatives = FunctionInput(lambda t: np.cos(w * t), "u", time).derivatives(time, 5)
    for d, bound in enumerate([0, 4e-12, 3e-10, 2e-8, 6e-7, 1e-5]):
        expected = w**d * np.cos(w * time + d * np.pi / 2)
        np.testing.assert_allclose(derivatives[:, d], expected, atol=bound, rtol=1e-15)


def test_function_derivatives_of_a_polynomial_at_uneven_times():
    derivatives = FunctionInput(lambda t: 1 - 2 * t + t**3, "u", KNOTS).derivatives(KNOTS, 3)
    expected = np.stack([1 - 2 * KNOTS + KNOTS**3, 3 * KNOTS**2 - 2, 6 * KNOTS, 6 + 0 * KNOTS], axis=1)
    # Exact but for rounding, which grows by about 100 a derivative on the shortest interval, 0.1.
    np.testing.assert_allclose(derivatives, expected, atol=1e-6)
    np.testing.assert_allclose(derivatives[:, 1], expected[:, 1], atol=1e-11)


def test_function_derivatives_are_right_limits_at_a_corner():
    time = np.arange(8.0)
    slopes = FunctionInput(lambda t: np.abs(t - 3), "u", time).derivatives(time, 1)[:, 1]
    np.testing.assert_allclose(slopes, [-1, -1, -1, 1, 1, 1, 1, 1], atol=1e-12)
    jump = FunctionInput(lambda t: np.where(t >= 3, 5.0, 1.0), "u", time).derivatives(time, 2)
    np.testing.assert_allclose(jump[:, 1:], 0, atol=1e-10)


def test_function_is_not_called_outside_the_record():
    time = np.linspace(0, 1, 11)
    signal = FunctionInput(lambda t: math.sqrt(t) + math.sqrt(1 - t) if 0 <= t <= 1 else math.nan, "u", time)
    assert np.all(np.isfinite(signal.derivatives(time, 3)))
    assert np.all(np.isfinite(signal.grid(time, 3)))


def test_function_at_a_single_sample():
    one = np.array([0.5])
    derivatives = FunctionInput(np.sin, "u", one, 0.1).derivatives(one, 1)
    np.testing.assert_allclose(derivatives, [[np.sin(0.5), np.cos(0.5)]], atol=1e-12)
    with pytest.raises(InputError, match=r"'u'.*single sample"):
        FunctionInput(np.sin, "u", one).derivatives(one, 1)


def test_function_errors():
    times = np.array([0.0, 1.0, 2.0])
    with pytest.raises(InputError, match="input 'force': the function is inf at t = 1 s"):
        FunctionInput(lambda t: np.where(t == 1, np.inf, t), "force", times)
    with pytest.raises(InputError, match=r"input 'force': it fails at t = 0 s: .*division by zero"):
        FunctionInput(lambda t: 1 / t if isinstance(t, float) else None, "force", times)
    with pytest.raises(InputError, match="input 'force': it fails at t = 0 s"):
        FunctionInput(lambda t: t + 1j, "force", times)


# All of them


@st.composite
def signals(draw: st.DrawFn) -> tuple[Intersample, np.ndarray]:
    values = np.array(draw(st.lists(st.floats(-10, 10), min_size=2, max_size=30)))
    time = draw(st.floats(-5, 5)) + draw(st.floats(0.01, 10)) * np.arange(len(values))
    dt = (time[-1] - time[0]) / (len(time) - 1)
    kinds = [
        lambda: ZeroOrderHold(time, values),
        lambda: Linear(time, values),
        lambda: BandLimited(time[0], dt, values),
        lambda: BandLimited(time[0], dt, values, periodic=True),
        lambda: FunctionInput(np.sin, "u", time),
    ]
    return draw(st.sampled_from(kinds))(), time


@given(signals(), st.integers(1, 5))
def test_grid_agrees_with_left_limits(drawn, substeps):
    signal, time = drawn
    grid = signal.grid(time, substeps)
    assert grid.shape == (len(time), substeps)
    np.testing.assert_array_equal(grid[0], np.full(substeps, grid[0, 0]))
    np.testing.assert_allclose(grid[:1, 0], signal.at(time[:1]), atol=1e-8)
    np.testing.assert_allclose(grid[1:, -1], signal.at(time[1:], "left"), atol=1e-8)
    np.testing.assert_allclose(grid[1:].ravel(), signal.at(inside(time, substeps).ravel(), "left"), atol=1e-8)


@given(signals(), st.integers(0, 3))
def test_derivative_zero_is_the_right_limit(drawn, order):
    signal, time = drawn
    derivatives = signal.derivatives(time, order)
    assert derivatives.shape == (len(time), order + 1)
    np.testing.assert_allclose(derivatives[:, 0], signal.at(time, "right"), atol=1e-8)
