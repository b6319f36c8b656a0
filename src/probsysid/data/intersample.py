"""The behaviour of an input between its samples.

A sampled input is a sequence of numbers; an ODE needs a function of time.  Each `Intersample` is one way from the first
to the second, with three methods:

* `at(times, side)`: the value at any times;
* `grid(time, substeps)`: the values inside each interval of `time`, at the steps of a solver;
* `derivatives(time, order)`: the value and its time derivatives at each of `time`.

Which one is right is a property of the experiment.  A digital-to-analogue converter holds its value (`ZeroOrderHold`);
a signal measured behind an anti-aliasing filter is band-limited (`band_limited.BandLimited`); `Linear` interpolation
needs no assumptions and is second-order accurate for any smooth signal.  Where the value or a derivative jumps, `side`
selects the limit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import chebyshev

from probsysid._internal.errors import InputError
from probsysid.data.time_axis import SAME_TIME, Times, rounding

Word = Literal["zoh", "linear", "bandlimited", "periodic"]  # what users write in `Record(intersample=...)`
Side = Literal["left", "right"]
Function = Callable[[Any], Any]  # of the time in seconds
Knots = Float[np.ndarray, "knots"]  # the times of the samples, or the samples
Points = Float[np.ndarray, "points"]  # any times, or the values there
Grid = Float[np.ndarray, "T substeps"]
Derivatives = Float[np.ndarray, "T derivative"]


class Intersample(ABC):
    """A scalar function of time, made from samples or from a Python function."""

    word: str  # a `Word`, or "callable"
    jump_order: int | None  # the lowest derivative that may jump at a sample; None if all are continuous

    def arguments(self) -> dict[str, Any]:
        """Numbers and arrays from which the constructor makes the same function."""
        raise InputError("an input that is a function of time cannot be stored")

    @abstractmethod
    def at(self, times: Points, side: Side = "right") -> Points:
        """The value at each of `times`, as the limit from the left or from the right."""

    @abstractmethod
    def grid(self, time: Times, substeps: int) -> Grid:
        """Values inside the intervals of `time`, as left limits.

        Row k >= 1 belongs to t_{k-1} + (t_k - t_{k-1}) * j / substeps, for j = 1..substeps.  Row 0 repeats
        the value at t_0.
        """

    @abstractmethod
    def derivatives(self, time: Times, order: int) -> Derivatives:
        """The value and its derivatives 1..order at each of `time`, as right limits."""


class ZeroOrderHold(Intersample):
    """Each sample is held until the next one."""

    word = "zoh"
    jump_order = 0

    def __init__(self, knots: Knots, values: Knots):
        self._knots, self._values = knots, values

    def arguments(self) -> dict[str, Any]:
        return {"knots": self._knots, "values": self._values}

    def at(self, times: Points, side: Side = "right") -> Points:
        """The last sample at or before each time; for the left limit, the last one before it."""
        return self._values[_interval(self._knots, times, side)]

    def grid(self, time: Times, substeps: int) -> Grid:
        """The sample at the start of each interval, over the whole interval."""
        return grid_by_points(self, time, substeps)

    def derivatives(self, time: Times, order: int) -> Derivatives:
        """The sample, and zeros."""
        result = np.zeros((len(time), order + 1))
        result[:, 0] = self.at(time)
        return result


class Linear(Intersample):
    """Linear interpolation.

    On a uniform time axis, slopes and values do not depend on the time at which an interval lies, to the last bit: a
    stream that receives two samples at a time computes the same numbers as the whole record.
    """

    word = "linear"
    jump_order = 1

    def __init__(self, knots: Knots, values: Knots, dt: float | None = None):
        self._knots, self._values = knots, values
        self._dt = dt
        self._lengths = np.diff(knots) if dt is None else np.full(len(knots) - 1, dt)

    def arguments(self) -> dict[str, Any]:
        return {"knots": self._knots, "values": self._values, "dt": self._dt}

    def at(self, times: Points, side: Side = "right") -> Points:
        """The weighted mean of the two neighbouring samples."""
        return np.interp(times, self._knots, self._values)

    def grid(self, time: Times, substeps: int) -> Grid:
        """Points on the line of each interval."""
        first = int(np.searchsorted(self._knots, time[0]))
        own = slice(first, first + len(time))
        if not np.array_equal(self._knots[own], time):
            return grid_by_points(self, time, substeps)
        values = self._values[own]
        result = np.empty((len(time), substeps))
        result[0] = values[0]
        result[1:] = values[:-1, None] + np.diff(values)[:, None] * (np.arange(1, substeps + 1) / substeps)
        result[1:, -1] = values[1:]
        return result

    def derivatives(self, time: Times, order: int) -> Derivatives:
        """The value, the slope of the next interval (at the last knot: of the previous one), and zeros."""
        result = np.zeros((len(time), order + 1))
        result[:, 0] = self.at(time)
        if order >= 1 and len(self._knots) > 1:
            slopes = np.diff(self._values) / self._lengths
            result[:, 1] = slopes[np.minimum(_interval(self._knots, time, "right"), len(slopes) - 1)]
        return result


class FunctionInput(Intersample):
    """A Python function of the time in seconds, assumed smooth between the samples.

    The function is called with an array of times if it accepts one, else with one time after the other.

    Derivatives at a sample are those of the polynomial through `order + 8` Chebyshev points strictly inside the
    interval that begins there, so that a corner of the function *at* a sample does no harm and the result is the right
    limit.  (At the last sample it is the interval that ends there: the function may be undefined beyond.)  Their error
    for a sine of 10 samples per period, in units of amplitude / dt^d for derivative d, measured with order 5: 4e-13,
    3e-11, 2e-9, 6e-8, 1e-6.  Fewer points lose accuracy at 5 samples per period, more increase the rounding error.
    """

    word = "callable"
    jump_order = None

    def __init__(self, function: Function, name: str, probe: Points, dt: float | None = None):
        """`probe`: times at which the function must be defined; `dt`: the step, needed if `probe` is a single time."""
        self._function = function
        self._name, self._dt = name, dt
        self._vectorised = self._takes_arrays(probe)
        self.at(probe)

    def at(self, times: Points, side: Side = "right") -> Points:
        """The value of the function; `side` has no effect."""
        values = self._array_call(times) if self._vectorised else self._scalar_calls(times)
        if not np.all(np.isfinite(values)):
            k = int(np.argmin(np.isfinite(values)))
            raise InputError(f"input {self._name!r}: the function is {values[k]} at t = {times[k]:.6g} s.")
        return values

    def grid(self, time: Times, substeps: int) -> Grid:
        """The values of the function inside the intervals."""
        return grid_by_points(self, time, substeps)

    def derivatives(self, time: Times, order: int) -> Derivatives:
        """Derivatives of the local Chebyshev interpolant."""
        result = np.empty((len(time), order + 1))
        result[:, 0] = self.at(time)
        if order == 0:
            return result
        nodes = chebyshev.chebpts1(order + 8)
        starts, steps = self._intervals(time)
        points = starts[:, None] + 0.5 * steps[:, None] * (1 + nodes)
        values = self.at(points.ravel()).reshape(points.shape)
        result[:, 1:] = values @ _end_derivatives(nodes, order, end=-1).T
        if len(time) > 1:
            result[-1, 1:] = _end_derivatives(nodes, order, end=1) @ values[-1]
        result[:, 1:] *= (2 / steps[:, None]) ** np.arange(1, order + 1)
        return result

    def _intervals(self, time: Times) -> tuple[Times, Times]:
        """Start and length of the interval used at each sample."""
        if len(time) > 1:
            steps = np.diff(time)
            return np.append(time[:-1], time[-2]), np.append(steps, steps[-1])
        if self._dt is None:
            raise InputError(f"input {self._name!r}: derivatives of a function at a single sample need dt.")
        return time, np.array([self._dt])

    def _takes_arrays(self, times: Points) -> bool:
        """Whether the function maps an array of times to an array of real numbers of the same shape."""
        several = np.resize(times, max(len(times), 2))  # an array of one element converts to a number
        try:
            values = np.asarray(self._function(several))
            return values.shape == several.shape and values.dtype.kind in "biuf"
        except Exception:  # a function of one number may raise anything when called with an array
            return False

    def _array_call(self, times: Points) -> Points:
        return np.array(self._function(times), dtype=float)

    def _scalar_calls(self, times: Points) -> Points:
        return np.array([self._scalar_call(float(t)) for t in times])

    def _scalar_call(self, time: float) -> float:
        try:
            return float(self._function(time))
        except Exception as error:
            raise InputError(f"input {self._name!r}: it fails at t = {time:.6g} s: {error}") from error


def _end_derivatives(nodes: Points, order: int, end: int) -> Float[np.ndarray, "order points"]:
    """The matrix from values at Chebyshev `nodes` to the derivatives 1..order of their interpolant at -1 or 1."""
    coefficients = np.linalg.inv(chebyshev.chebvander(nodes, len(nodes) - 1))
    rows = [chebyshev.chebval(end, chebyshev.chebder(coefficients, m)) for m in range(1, order + 1)]
    return np.stack(rows)


def _interval(knots: Knots, times: Points, side: Side) -> Int[np.ndarray, "points"]:
    """The index of the knot at which the interval of each time begins; for a time on a knot, the interval on `side`."""
    shortest = np.min(np.diff(knots)) if len(knots) > 1 else 0.0
    tolerance = SAME_TIME * shortest + rounding(knots)
    shifted = times + tolerance if side == "right" else times - tolerance
    return np.clip(np.searchsorted(knots, shifted, side=side) - 1, 0, len(knots) - 1)


def grid_by_points(signal: Intersample, time: Times, substeps: int) -> Grid:
    """`Intersample.grid` by evaluating `Intersample.at`."""
    fractions = np.arange(1, substeps + 1) / substeps
    times = time[:-1, None] + np.diff(time)[:, None] * fractions
    times[:, -1] = time[1:]  # without rounding error
    first = np.broadcast_to(signal.at(time[:1]), (1, substeps))
    return np.concatenate([first, signal.at(times.ravel(), "left").reshape(times.shape)])
