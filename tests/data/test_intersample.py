"""Inputs between their samples, on signals whose values are known everywhere."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probsysid._internal.errors import InputError
from probsysid.data.band_limited import BandLimited
from probsysid.data.intersample import FunctionInput, Intersample, Linear, ZeroOrderHold
from tests.data.signals import inside

KNOTS = np.array([0.0, 0.1, 0.4, 0.5, 1.0])
VALUES = np.array([1.0, 3.0, 2.0, -1.0, 0.5])


# Zero-order hold and linear interpolation


def test_hold_keeps_the_last_sample():
    hold = ZeroOrderHold(KNOTS, VALUES)
    np.testing.assert_array_equal(hold.at(np.array([0.05, 0.1, 0.39, 1.0])), [1, 3, 3, 0.5])
    np.testing.assert_array_equal(hold.at(np.array([0.05, 0.1, 0.39, 1.0]), "left"), [1, 1, 3, -1])


def test_hold_identifies_a_rounded_time_with_its_sample():
    knots = 0.1 * np.arange(1000)
    rounded = np.cumsum(np.full(1000, 0.1)) - 0.1  # off by up to 1e-12
    assert np.any(rounded < knots) and np.any(rounded > knots)
    hold = ZeroOrderHold(knots, np.arange(1000.0))
    np.testing.assert_array_equal(hold.at(rounded), np.arange(1000))
    np.testing.assert_array_equal(hold.at(rounded[1:], "left"), np.arange(999))


def test_hold_at_times_far_from_zero():
    """Seconds since 1970 have a spacing of 2.4e-7, which the tolerance must exceed."""
    knots = 1.7e9 + 1e-3 * np.arange(100)
    hold = ZeroOrderHold(knots, np.arange(100.0))
    np.testing.assert_array_equal(hold.grid(knots, 4)[1:], np.repeat(np.arange(99.0)[:, None], 4, axis=1))
    np.testing.assert_array_equal(hold.at(np.nextafter(knots, 0)), np.arange(100))


def test_hold_grid_and_derivatives():
    hold = ZeroOrderHold(KNOTS, VALUES)
    np.testing.assert_array_equal(hold.grid(KNOTS, 2), np.stack([[1, 1, 3, 2, -1], [1, 1, 3, 2, -1]], axis=1))
    np.testing.assert_array_equal(hold.derivatives(KNOTS, 2), [[value, 0, 0] for value in VALUES])


def test_linear_is_exact_on_lines():
    """Up to rounding: 1e-15 in values of order 1, divided by the shortest interval, 0.1, in slopes of order 3."""
    linear = Linear(KNOTS, 2 - 3 * KNOTS)
    np.testing.assert_allclose(linear.grid(KNOTS, 3)[1:], 2 - 3 * inside(KNOTS, 3), atol=1e-15)
    np.testing.assert_allclose(linear.derivatives(KNOTS, 2), [[2 - 3 * t, -3, 0] for t in KNOTS], atol=1e-13)


def test_linear_slope_is_that_of_the_next_interval():
    slopes = Linear(KNOTS, VALUES).derivatives(KNOTS, 1)[:, 1]
    np.testing.assert_allclose(slopes, [20, -10 / 3, -30, 3, 3], rtol=1e-14)


# Functions


def test_function_of_arrays_or_of_numbers():
    times = np.linspace(0, 1, 7)
    for function in (np.sin, math.sin, lambda t: math.sin(t) if t > 0 else 0.0):
        np.testing.assert_allclose(FunctionInput(function, "u", times).at(times), np.sin(times), atol=1e-16)
    np.testing.assert_array_equal(FunctionInput(lambda t: 2, "u", times).at(times), np.full(7, 2.0))
    np.testing.assert_array_equal(FunctionInput(lambda t: 2, "u", times[:1]).at(times), np.full(7, 2.0))


def test_function_derivatives_of_a_sine():
    """Ten times the errors stated in the docstring bound those at all samples, including the last."""
    w = 2 * np.pi / 10
    time = np.arange(100.0)
    derivatives = FunctionInput(lambda t: np.cos(w * t), "u", time).derivatives(time, 5)
    for d, bound in enumerate([0, 4e-12, 3e-10, 2e-8, 6e-7, 1e-5]):
        expected = w**d * np.cos(w * time + d * np.pi / 2)
        np.testing.assert_allclose(derivatives[:, d], expected, atol=bound, rtol=1e-15)


def test_function_derivatives_of_a_polynomial_at_uneven_times():
    derivatives = FunctionInput(lambda t: 1 - 2 * t + t**3, "u", KNOTS).derivatives(KNOTS, 3)
    expected = np.stack([1 - 2 * KNOTS + KNOTS**3, 3 * KNOTS**2 - 2, 6 * KNOTS, 6 + 0 * KNOTS], axis=1)
    # Exact up to rounding, which grows by about 100 per derivative on the shortest interval, 0.1.
    np.testing.assert_allclose(derivatives, expected, atol=1e-6)
    np.testing.assert_allclose(derivatives[:, 1], expected[:, 1], atol=1e-11)


def test_function_derivatives_are_right_limits_at_a_corner():
    time = np.arange(8.0)
    # The polynomial is of degree 0 or 1: exact up to rounding, which grows by about 100 per derivative.
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
    np.testing.assert_allclose(derivatives, [[np.sin(0.5), np.cos(0.5)]], atol=1e-12)  # rounding, 1e-16 / 0.1 x 100
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


# Properties of all kinds


# Values go up to 10.  The largest error is that of band-limited signals on their finer grid: 2e-10 for the worst of
# 4000 random records of up to 30 samples.
CLOSE = 1e-9


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
    np.testing.assert_allclose(grid[:1, 0], signal.at(time[:1]), atol=CLOSE)
    np.testing.assert_allclose(grid[1:, -1], signal.at(time[1:], "left"), atol=CLOSE)
    np.testing.assert_allclose(grid[1:].ravel(), signal.at(inside(time, substeps).ravel(), "left"), atol=CLOSE)


@given(signals(), st.integers(0, 3))
def test_derivative_zero_is_the_right_limit(drawn, order):
    signal, time = drawn
    derivatives = signal.derivatives(time, order)
    assert derivatives.shape == (len(time), order + 1)
    np.testing.assert_allclose(derivatives[:, 0], signal.at(time, "right"), atol=CLOSE)
