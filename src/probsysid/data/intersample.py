"""What an input does between its samples.

A sampled input is a list of numbers; an ODE needs a function of time.  Each class here is one way from the
first to the second, and answers the same three questions:

* `at(times, side)`: the value at any times;
* `grid(time, substeps)`: the values inside each interval of `time`, where a solver takes its steps;
* `derivatives(time, order)`: the value and its time derivatives at each of `time`.

Which one is right is a property of the experiment.  A digital-to-analogue converter holds its value
(`ZeroOrderHold`); a measured signal behind an anti-aliasing filter is `BandLimited`; `Linear` asks for
nothing and is the second-order approximation of anything smooth.  Where the value or a derivative jumps,
`side` says which limit is meant.
"""

import collections.abc
from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
import scipy.fft
from jaxtyping import Complex, Float, Int
from numpy.polynomial import chebyshev

from probsysid._internal.errors import InputError

Side = Literal["left", "right"]
Function = collections.abc.Callable[[Any], Any]  # of the time in seconds
Knots = Float[np.ndarray, "knots"]  # where the samples are, or the samples
Points = Float[np.ndarray, "points"]  # any times, or the values there
Times = Float[np.ndarray, "T"]  # the time axis of a record
Samples = Float[np.ndarray, "n"]
Grid = Float[np.ndarray, "T substeps"]
Derivatives = Float[np.ndarray, "T order+1"]

# Two times closer than this part of a sampling step are the same time: far above the rounding of t_0 + k*dt,
# far below any step that a solver takes.
SAME_TIME = 1e-6
# A time vector is uniform if no sample is further than this part of a step from the uniform grid.
ON_GRID = 1e-3


class Intersample(ABC):
    """A scalar function of time, made from samples or from a Python function."""

    word: str  # the word that users write in `Record(intersample=...)`
    jump_order: int | None  # the lowest derivative that may jump at a sample; None when it is smooth

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

    def at(self, times: Points, side: Side = "right") -> Points:
        """The last sample at or before each time; before it, for the left limit."""
        return self._values[_interval(self._knots, times, side)]

    def grid(self, time: Times, substeps: int) -> Grid:
        """The sample before, over the whole interval."""
        return _grid_by_points(self, time, substeps)

    def derivatives(self, time: Times, order: int) -> Derivatives:
        """The sample, and zeros."""
        result = np.zeros((len(time), order + 1))
        result[:, 0] = self.at(time)
        return result


class Linear(Intersample):
    """Straight lines from sample to sample.

    Slopes and points of a uniform record do not depend, to the last bit, on where in time an interval lies: a stream
    that sees two samples at a time gets the numbers that the whole record gives.
    """

    word = "linear"
    jump_order = 1

    def __init__(self, knots: Knots, values: Knots, dt: float | None = None):
        self._knots, self._values = knots, values
        self._lengths = np.diff(knots) if dt is None else np.full(len(knots) - 1, dt)

    def at(self, times: Points, side: Side = "right") -> Points:
        """The weighted mean of the samples on either side."""
        return np.interp(times, self._knots, self._values)

    def grid(self, time: Times, substeps: int) -> Grid:
        """Points on the lines."""
        first = int(np.searchsorted(self._knots, time[0]))
        own = slice(first, first + len(time))
        if not np.array_equal(self._knots[own], time):
            return _grid_by_points(self, time, substeps)
        values = self._values[own]
        result = np.empty((len(time), substeps))
        result[0] = values[0]
        result[1:] = values[:-1, None] + np.diff(values)[:, None] * (np.arange(1, substeps + 1) / substeps)
        result[1:, -1] = values[1:]
        return result

    def derivatives(self, time: Times, order: int) -> Derivatives:
        """The value, the slope of the line that starts here (at the last knot: that ends here), and zeros."""
        result = np.zeros((len(time), order + 1))
        result[:, 0] = self.at(time)
        if order >= 1 and len(self._knots) > 1:
            slopes = np.diff(self._values) / self._lengths
            result[:, 1] = slopes[np.minimum(_interval(self._knots, time, "right"), len(slopes) - 1)]
        return result


class BandLimited(Intersample):
    """The smooth curve through uniform samples that holds no frequency above half the sampling rate `fs`.

    With `periodic=True` the samples are one or several whole periods, and the curve is their Fourier series:
    exact if the signal repeats itself and stays below fs/2.

    Otherwise the ends have to be invented, because the Fourier series of a record that does not close is poor
    near its ends.  The straight line through the first and the last sample is set aside; what is left is
    continued at either end by linear prediction (`_continuation`) and faded to zero, and the series of the
    whole is used.

    Measured on windows of 1000 samples cut from multisines of 500 lines, without regard to their periods: the
    largest error in an interval, its rms over 20 windows, divided by the rms of the signal.

    =====================  =================  =======  =======  =======  =======  =======
    intervals from the end                          0        2       10      100      499
    =====================  =================  =======  =======  =======  =======  =======
    lines up to 0.3 fs     odd extension        9e-02    2e-02    1e-03    1e-05    7e-07
    lines up to 0.1 fs     linear prediction    4e-12    5e-13    4e-13    4e-13    3e-13
    lines up to 0.3 fs     linear prediction    3e-07    3e-09    7e-12    2e-12    9e-13
    lines up to 0.45 fs    linear prediction    2e-02    2e-03    2e-05    2e-07    3e-08
    =====================  =================  =======  =======  =======  =======  =======

    (Odd extension, the usual sine series, is what linear prediction replaced.)  With noise on the samples the
    noise decides: 1e-3 of it, with lines up to 0.3 fs, leaves 5e-3 in the first interval and 1.5e-3 inside.
    """

    jump_order = None

    def __init__(self, start: float, dt: float, values: Knots, periodic: bool = False):
        self.word = "periodic" if periodic else "bandlimited"
        self._start, self._dt, self._values = start, dt, values
        if periodic:
            self._level, self._slope = 0.0, 0.0
            self._series = _FourierSeries(values)
        else:
            self._level = values[0]
            self._slope = (values[-1] - values[0]) / max(len(values) - 1, 1)
            self._series = _FourierSeries(_closed(values - self._line(np.arange(len(values)))))

    def at(self, times: Points, side: Side = "right") -> Points:
        """The value at each time; both limits are the same."""
        return self._between(times, derivative=0)

    def grid(self, time: Times, substeps: int) -> Grid:
        """All intervals at once, by one shift of the series for each substep."""
        own = self._own_samples(time)
        if own is None:
            return _grid_by_points(self, time, substeps)
        result = np.empty((len(time), substeps))
        result[0] = self._values[own][0]
        result[1:, -1] = self._values[own][1:]
        for j in range(1, substeps):
            result[1:, j - 1] = self._shifted(j / substeps)[own][:-1]
        return result

    def derivatives(self, time: Times, order: int) -> Derivatives:
        """The derivatives of the series."""
        own = self._own_samples(time)
        if own is None:
            return np.stack([self._between(time, derivative) for derivative in range(order + 1)], axis=1)
        higher = [self._shifted(0.0, derivative)[own] for derivative in range(1, order + 1)]
        return np.stack([self._values[own], *higher], axis=1)

    def _own_samples(self, time: Times) -> slice | None:
        """The run of samples that `time` is, or None when it is another grid."""
        positions = (time - self._start) / self._dt
        first = round(float(positions[0]))
        last = first + len(time)
        same = np.all(np.abs(positions - np.arange(first, last)) <= ON_GRID)
        return slice(first, last) if same and first >= 0 and last <= len(self._values) else None

    def _shifted(self, offset: float, derivative: int = 0) -> Knots:
        """The derivative at every sample time plus `offset` steps."""
        count = len(self._values)
        series = self._series.shifted(offset, derivative)[:count]
        return (series + self._line(np.arange(count) + offset, derivative)) / self._dt**derivative

    def _between(self, times: Points, derivative: int) -> Points:
        """The derivative at any times."""
        positions = (times - self._start) / self._dt
        series = self._series.between(positions, derivative)
        return (series + self._line(positions, derivative)) / self._dt**derivative

    def _line(self, positions: np.ndarray, derivative: int = 0) -> Any:
        """The straight line that the series leaves out, at positions counted in samples."""
        return [self._level + self._slope * positions, self._slope, 0.0][min(derivative, 2)]


class FunctionInput(Intersample):
    """A Python function of the time in seconds, taken as smooth between the samples.

    The function gets an array of times if it can work with one, else one time after the other.

    Derivatives at a sample come from the polynomial through `order + 8` Chebyshev points strictly inside the
    interval that begins there, so that a corner of the function *at* a sample does no harm and the result is
    the right limit.  (At the last sample it is the interval that ends there: the function may not be defined
    beyond.)  Their error for a sine of 10 samples a period, in units of amplitude / dt^d for derivative d,
    measured with order 5: 4e-13, 3e-11, 2e-9, 6e-8, 1e-6.  Fewer points cost accuracy at 5 samples a period,
    more cost rounding.
    """

    word = "callable"
    jump_order = None

    def __init__(self, function: Function, name: str, probe: Points, dt: float | None = None):
        """`probe`: times at which the function has to work; `dt`: the step if there is only one of them."""
        self._function = function
        self._name, self._dt = name, dt
        self._vectorised = self._takes_arrays(probe)
        self.at(probe)

    def at(self, times: Points, side: Side = "right") -> Points:
        """The function's value, whichever the side."""
        values = self._array_call(times) if self._vectorised else self._scalar_calls(times)
        if not np.all(np.isfinite(values)):
            k = int(np.argmin(np.isfinite(values)))
            raise InputError(f"input {self._name!r}: the function is {values[k]} at t = {times[k]:.6g} s.")
        return values

    def grid(self, time: Times, substeps: int) -> Grid:
        """The function inside the intervals."""
        return _grid_by_points(self, time, substeps)

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

    def _intervals(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Begin and length of the interval used at each sample."""
        if len(time) > 1:
            steps = np.diff(time)
            return np.append(time[:-1], time[-2]), np.append(steps, steps[-1])
        if self._dt is None:
            raise InputError(f"input {self._name!r}: derivatives of a function at a single sample need dt.")
        return time, np.array([self._dt])

    def _takes_arrays(self, times: np.ndarray) -> bool:
        """Whether the function turns an array of times into as many real numbers."""
        several = np.resize(times, max(len(times), 2))  # an array of one element passes for a number
        try:
            values = np.asarray(self._function(several))
            return values.shape == several.shape and values.dtype.kind in "biuf"
        except Exception:  # whatever a function of one number raises when it gets an array
            return False

    def _array_call(self, times: np.ndarray) -> Points:
        return np.array(self._function(times), dtype=float)

    def _scalar_calls(self, times: np.ndarray) -> Points:
        return np.array([self._scalar_call(float(t)) for t in times])

    def _scalar_call(self, time: float) -> float:
        try:
            return float(self._function(time))
        except Exception as error:
            raise InputError(f"input {self._name!r}: it fails at t = {time:.6g} s: {error}") from error


class _FourierSeries:
    """The trigonometric interpolant of one period of samples; positions and derivatives count in samples."""

    # Measured on white noise, the worst case, against `shifted`: 3e-12 of the range (4th derivative: 7e-12).
    _OVERSAMPLING = 8
    _POINTS = 14

    def __init__(self, samples: Samples):
        self._length = len(samples)
        self._spectrum: Complex[np.ndarray, "n//2+1"] = scipy.fft.rfft(samples)
        self._frequency = 2 * np.pi * np.arange(len(self._spectrum)) / self._length

    def shifted(self, offset: float, derivative: int = 0) -> Samples:
        """The derivative at 0 + offset, 1 + offset, ...

        The component at half the sampling rate, if there is one, is a cosine: `irfft` keeps the real part of
        its coefficient, which is what the shift and the derivative of a cosine leave at the samples.
        """
        turned = self._derived(derivative) * np.exp(1j * self._frequency * offset)
        return scipy.fft.irfft(turned, self._length)

    def between(self, positions: Points, derivative: int = 0) -> Points:
        """The derivative anywhere: samples on a finer grid, and the polynomial through the nearest ones."""
        fine = self._fine(derivative)
        fine_positions = positions * self._OVERSAMPLING
        first = np.floor(fine_positions).astype(int) - (self._POINTS // 2 - 1)
        distance = fine_positions - first
        numerator, denominator = np.zeros(len(positions)), np.zeros(len(positions))
        for node, weight in enumerate(_barycentric_weights(self._POINTS)):
            gap = distance - node
            share = weight / np.where(gap == 0, 1e-30, gap)  # on a node, its share outweighs all others
            numerator += share * fine[(first + node) % len(fine)]
            denominator += share
        return numerator / denominator

    def _fine(self, derivative: int) -> Float[np.ndarray, "fine"]:
        """The derivative on the finer grid."""
        spectrum = self._derived(derivative)
        if self._length % 2 == 0:
            spectrum[-1] /= 2  # half the sampling rate: one cosine, shared by frequencies fs/2 and -fs/2
        return self._OVERSAMPLING * scipy.fft.irfft(spectrum, self._OVERSAMPLING * self._length)

    def _derived(self, derivative: int) -> Complex[np.ndarray, "n//2+1"]:
        return self._spectrum * (1j**derivative * self._frequency**derivative)


def _barycentric_weights(count: int) -> list[float]:
    """Barycentric weights of Lagrange interpolation at 0, 1, .., count - 1: alternating binomials."""
    row = [1.0]
    for k in range(1, count):
        row.append(-row[-1] * (count - k) / k)
    return row


def _end_derivatives(nodes: Points, order: int, end: int) -> Float[np.ndarray, "order points"]:
    """Matrix from values at Chebyshev `nodes` to the derivatives 1..order of their interpolant at -1 or 1."""
    coefficients = np.linalg.inv(chebyshev.chebvander(nodes, len(nodes) - 1))
    rows = [chebyshev.chebval(end, chebyshev.chebder(coefficients, m)) for m in range(1, order + 1)]
    return np.stack(rows)


def _interval(knots: Knots, times: Points, side: Side) -> Int[np.ndarray, "points"]:
    """Index of the knot that begins the interval of each time; a time on a knot belongs to its `side`."""
    shortest = np.min(np.diff(knots)) if len(knots) > 1 else 0.0
    tolerance = SAME_TIME * shortest + 4 * np.spacing(np.max(np.abs(knots)))
    shifted = times + tolerance if side == "right" else times - tolerance
    return np.clip(np.searchsorted(knots, shifted, side=side) - 1, 0, len(knots) - 1)


def _grid_by_points(signal: Intersample, time: Times, substeps: int) -> Grid:
    """`grid` by way of `at`."""
    fractions = np.arange(1, substeps + 1) / substeps
    times = time[:-1, None] + np.diff(time)[:, None] * fractions
    times[:, -1] = time[1:]  # free of rounding
    first = np.broadcast_to(signal.at(time[:1]), (1, substeps))
    return np.concatenate([first, signal.at(times.ravel(), "left").reshape(times.shape)])


# Linear prediction at the ends of a record.  Measured on the multisines in the docstring of `BandLimited`:
# orders 16, 32, 64 and 100 leave 9e-4, 1e-5, 5e-7 and 3e-7 in the first interval; a shorter margin leaks
# further inside; a stretch of 400 rather than 1000 samples serves a chirp better and the rest as well.
_PREDICTION_ORDER = 100
_PREDICTION_STRETCH = 400
_MARGIN = 200


def _closed(residual: Samples) -> Float[np.ndarray, "period"]:
    """One smooth period that begins with `residual`: continued at both ends and faded to zero.

    Its length is one of which the fast Fourier transform is fast.
    """
    count = len(residual)
    period = np.zeros(scipy.fft.next_fast_len(count + 2 * _MARGIN, real=True))
    period[:count] = residual
    period[count : count + _MARGIN] = _continuation(residual)
    period[len(period) - _MARGIN :] = _continuation(residual[::-1])[::-1]
    return period


def _continuation(samples: Samples) -> Float[np.ndarray, "margin"]:
    """What comes after the last sample, by linear prediction, faded out."""
    from scipy.signal import lfilter, lfiltic  # half a second to import

    stretch = samples[-_PREDICTION_STRETCH:]
    order = min(_PREDICTION_ORDER, len(stretch) // 2)
    if order == 0:
        return np.zeros(_MARGIN)
    denominator = burg(stretch, order)
    memory = lfiltic([1.0], denominator, stretch[::-1])
    predicted, _ = lfilter([1.0], denominator, np.zeros(_MARGIN), zi=memory)
    return predicted * _fade(_MARGIN)


def burg(samples: Samples, order: int) -> Float[np.ndarray, "order+1"]:
    """The autoregressive model 1, a_1, .., a_order with the least forward and backward prediction error.

    Burg's recursion: always stable, and without the window effects of the autocorrelation method, so that
    sines are continued as sines.
    """
    coefficients = np.ones(1)
    forward, backward = samples[1:], samples[:-1]
    for _ in range(order):
        energy = forward @ forward + backward @ backward
        reflection = -2 * (forward @ backward) / energy if energy > 0 else 0.0
        padded = np.append(coefficients, 0.0)
        coefficients = padded + reflection * padded[::-1]
        forward, backward = (forward + reflection * backward)[1:], (backward + reflection * forward)[:-1]
    return coefficients


def _fade(count: int) -> Float[np.ndarray, "count"]:
    """A smooth way (all derivatives) from 1 before the first to 0 after the last."""
    s = np.arange(1, count + 1) / (count + 1)
    return 1 / (1 + np.exp(1 / (1 - s) - 1 / s))
