"""Sampled data: named inputs and outputs on a common time axis.

    record = Record(inputs={"force": F}, outputs={"position": y}, dt=1e-3, intersample="bandlimited")
    train, test = record[:2000], record[2000:]
    train.plot("train.png")

Sample 0 is at the initial time.  NaN in an output is a missing sample.
"""

import keyword
import operator
from collections.abc import Mapping, Sequence
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, get_args

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.data.intersample import (
    ON_GRID,
    SAME_TIME,
    BandLimited,
    Function,
    FunctionInput,
    Intersample,
    Linear,
    Side,
    ZeroOrderHold,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Word = Literal["zoh", "linear", "bandlimited", "periodic"]
Channel = Float[np.ndarray, "T"]


class Record:
    """One experiment: named inputs and outputs, sampled at common times.  Read-only.

    Args:
        inputs: name -> samples, or a function of the time in seconds.
        outputs: name -> samples; NaN where one is missing.
        dt: the sampling step in seconds, or
        time: the time of each sample (increasing, uniform or not).
        samples: how many, with `dt`, when no channel tells.
        start: the time of sample 0, with `dt`.
        intersample: what the inputs do between samples; one word for all, or name -> word.  `"linear"` is the
            default; `"zoh"`: held, as a digital-to-analogue converter does; `"bandlimited"`: smooth, no frequency
            above half the sampling rate, as behind an anti-aliasing filter; `"periodic"`: the same, and the
            record is one or several whole periods.  The last two need uniform sampling.  A function needs no
            word.
        units: name -> unit, for labels and tables.
        name: how reports call the record.

    Attributes: `time` (T,), `dt` (None unless the sampling is uniform), `inputs`, `outputs`, `intersample`,
    `units` (read-only mappings by channel name), `name`, and the properties below.
    """

    time: Channel
    dt: float | None
    inputs: Mapping[str, Channel | Function]
    outputs: Mapping[str, Channel]
    units: Mapping[str, str]
    name: str | None
    _signals: Mapping[str, Intersample]  # the inputs as functions of time; a slice keeps its record's

    def __init__(
        self,
        inputs: Mapping[str, ArrayLike | Function] | None = None,
        outputs: Mapping[str, ArrayLike] | None = None,
        *,
        dt: float | None = None,
        time: ArrayLike | None = None,
        samples: int | None = None,
        start: float = 0.0,
        intersample: Word | Mapping[str, Word] = "linear",
        units: Mapping[str, str] | None = None,
        name: str | None = None,
    ):
        inputs, outputs = _channels("inputs", inputs), _channels("outputs", outputs)
        driven = {key: v if callable(v) else _samples(f"input {key!r}", v) for key, v in inputs.items()}
        measured = {key: _samples(f"output {key!r}", v) for key, v in outputs.items()}
        lengths = {f"input {key!r}": len(v) for key, v in driven.items() if not callable(v)}
        lengths |= {f"output {key!r}": len(v) for key, v in measured.items()}
        times, step = _time_axis(dt, time, samples, start, lengths)
        _check_values(driven, measured)
        words = _words(intersample, driven)
        self._set(
            time=times,
            dt=step,
            inputs=driven,
            outputs=measured,
            units=_units(units, {*inputs, *outputs}),
            name=name,
            _signals={key: _signal(key, value, words[key], times, step) for key, value in driven.items()},
        )

    # What it holds

    @property
    def samples(self) -> int:
        """The number of samples, T."""
        return len(self.time)

    def __len__(self) -> int:
        return self.samples

    @property
    def duration(self) -> float:
        """Seconds from the first sample to the last."""
        return float(self.time[-1] - self.time[0])

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs, in the order in which arrays of inputs hold them."""
        return tuple(self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs, in the order in which they were given."""
        return tuple(self.outputs)

    @property
    def intersample(self) -> Mapping[str, str]:
        """Input name -> "zoh", "linear", "bandlimited", "periodic" or "callable"."""
        return MappingProxyType({key: signal.word for key, signal in self._signals.items()})

    @property
    def jump_order(self) -> int | None:
        """The lowest derivative of any input that may jump at a sample: 0 with "zoh", 1 with "linear".

        None if all inputs are smooth, or there are none.
        """
        orders = (signal.jump_order for signal in self._signals.values())
        return min((order for order in orders if order is not None), default=None)

    # The inputs as functions of time

    def input_grid(self, substeps: int) -> Float[np.ndarray, "T substeps n_inputs"]:
        """The inputs inside each sampling interval, as left limits.

        Row k >= 1 holds t_{k-1} + (t_k - t_{k-1}) * j / substeps, for j = 1..substeps; with "zoh" the value
        at t_k itself is still that of sample k - 1.  Row 0 repeats the inputs at t_0.
        """
        substeps = _whole_number("substeps", substeps, least=1)
        columns = [signal.grid(self.time, substeps) for signal in self._signals.values()]
        return np.stack(columns, axis=-1) if columns else np.empty((self.samples, substeps, 0))

    def input_derivatives(self, order: int) -> Float[np.ndarray, "T n_inputs order+1"]:
        """The inputs and their time derivatives 1..order at each sample, as right limits.

        "zoh": zeros.  "linear": the slope to the next sample (at the very last one: from the sample before),
        then zeros.  "bandlimited" and "periodic": the derivatives of the Fourier series.  A function: those
        of a polynomial through points inside the next interval; `intersample.FunctionInput` states the accuracy.
        """
        order = _whole_number("order", order, least=0)
        rows = [signal.derivatives(self.time, order) for signal in self._signals.values()]
        return np.stack(rows, axis=1) if rows else np.empty((self.samples, 0, order + 1))

    def input_at(self, times: ArrayLike, side: Side = "right") -> Float[np.ndarray, "points n_inputs"]:
        """The inputs at any times inside the record; where one jumps, the limit from `side`."""
        if side not in get_args(Side):
            raise InputError(f"side must be 'left' or 'right', got {side!r}.")
        points = self._inside(_samples("times", np.atleast_1d(np.asarray(times))))
        columns = [signal.at(points, side) for signal in self._signals.values()]
        return np.stack(columns, axis=-1) if columns else np.empty((len(points), 0))

    def _inside(self, times: Channel) -> Channel:
        """The times; what rounding put outside is moved to the end, what is truly outside is an error."""
        first, last = self.time[0], self.time[-1]
        tolerance = SAME_TIME * self.duration / max(self.samples - 1, 1) + _rounding(self.time)
        inside = (times >= first - tolerance) & (times <= last + tolerance)
        if not np.all(inside):
            wrong = times[~inside][0]
            raise InputError(f"the inputs are known from {first:.6g} to {last:.6g} s, not at {wrong:.6g} s.")
        return np.clip(times, first, last)

    # Other records made from this one

    def __getitem__(self, part: slice) -> Self:
        """`record[a:b]`: samples a to b - 1, at the times they had.

        The inputs stay the functions of time that they were in the whole record, so slicing adds no edges:
        the grid and the derivatives of a slice are slices of the grid and the derivatives.
        """
        if not isinstance(part, slice):
            raise InputError(f"a record is cut with a slice such as record[0:1000], got record[{part!r}].")
        if part.step not in (None, 1):
            raise InputError(f"a slice of a record has step 1, got {part.step}; use resample(factor=...).")
        first, last, _ = part.indices(self.samples)
        if first >= last:
            bounds = ":".join("" if bound is None else str(bound) for bound in (part.start, part.stop))
            raise InputError(f"record[{bounds}] is empty: the record has {self.samples} samples.")
        return self._with(
            time=self.time[first:last],
            inputs={key: v if callable(v) else v[first:last] for key, v in self.inputs.items()},
            outputs={key: v[first:last] for key, v in self.outputs.items()},
        )

    def resample(
        self,
        dt: float | None = None,
        *,
        factor: float | None = None,
        outputs: Literal["pick", "linear"] = "pick",
        antialias: bool = False,
    ) -> Self:
        """The record on a uniform grid from its first sample on, with step `dt`, or `factor` times its own.

        The inputs stay the functions of time that they are; with "zoh" and "linear" their jumps and corners
        stay at the old sample times, even where those lie between the new ones.

        Outputs are picked, so the step has to be a whole multiple of the present one: measurement noise stays
        white, and what lies above the new half rate is folded down.  `antialias=True` filters first (no phase
        shift, edges continued along a straight line): the noise is smaller and no longer quite white.
        `outputs="linear"` interpolates between samples and so allows any step; next to a missing sample the
        result may be missing.
        """
        if outputs not in ("pick", "linear"):
            raise InputError(f"outputs must be 'pick' or 'linear', got {outputs!r}.")
        step = self._new_step(dt, factor)
        ratio = _whole_ratio(step, self.dt)
        time = self.time[::ratio] if ratio else self._uniform_times(step)
        if ratio:
            picked = self._picked_outputs(ratio, antialias)
        elif not self.outputs or (outputs == "linear" and not antialias):
            picked = {key: np.interp(time, self.time, v) for key, v in self.outputs.items()}
        else:
            present = "non-uniform samples" if self.dt is None else f"samples with dt = {self.dt:.6g} s"
            raise InputError(
                f"outputs cannot be picked at dt = {step:.6g} s from {present}: use a whole multiple of it, "
                "or outputs='linear' (without antialias) to interpolate."
            )
        inputs = {key: v if callable(v) else self._signals[key].at(time) for key, v in self.inputs.items()}
        return self._with(time=time, dt=step, inputs=inputs, outputs=picked)

    def _new_step(self, dt: float | None, factor: float | None) -> float:
        if dt is not None and factor is None:
            return _positive("dt", dt)
        if dt is not None or factor is None:
            raise InputError(f"resample needs either dt or factor, got {dt = } and {factor = }.")
        if self.dt is None:
            raise InputError("resample(factor=...) needs uniform sampling; use resample(dt).")
        return _positive("factor", factor) * self.dt

    def _uniform_times(self, step: float) -> Channel:
        count = int(np.floor(self.duration / step + SAME_TIME)) + 1
        return np.minimum(self.time[0] + step * np.arange(count), self.time[-1])

    def _picked_outputs(self, ratio: int, antialias: bool) -> dict[str, Channel]:
        if not antialias:
            return {key: v[::ratio] for key, v in self.outputs.items()}
        for key, count in self._missing().items():
            if count:
                raise InputError(f"output {key!r} has {count} missing samples: antialias cannot filter it.")
        return {key: _lowpassed(v, ratio) for key, v in self.outputs.items()}

    def replace(self, **changes: Any) -> Self:
        """A copy with other `inputs`, `outputs`, `intersample`, `units` or `name`, on the same time axis.

        The inputs of a slice still know what lies outside the slice, unless `inputs` or `intersample` is
        replaced.
        """
        allowed = ("inputs", "outputs", "intersample", "units", "name")
        for key in changes:
            if key not in allowed:
                hint = did_you_mean(key, allowed)
                raise InputError(f"replace changes {', '.join(allowed)}, not {key!r}.{hint}")
        inputs = _channels("inputs", changes.get("inputs", self.inputs))
        outputs = _channels("outputs", changes.get("outputs", self.outputs))
        present = {
            "units": {key: unit for key, unit in self.units.items() if key in {*inputs, *outputs}},
            "name": self.name,
            "intersample": {  # what still fits
                key: word
                for key, word in self.intersample.items()
                if key in inputs and callable(inputs[key]) == (word == "callable")
            },
        }
        fresh = type(self)(**{**present, **changes, "inputs": inputs, "outputs": outputs}, **self._axis())
        rebuilt = "inputs" in changes or "intersample" in changes
        return fresh._with(time=self.time, _signals=fresh._signals if rebuilt else self._signals)

    def _axis(self) -> dict[str, Any]:
        """The time axis as arguments of the constructor."""
        if self.dt is None:
            return {"time": self.time}
        return {"dt": self.dt, "start": self.time[0], "samples": self.samples}

    # Pictures and words

    def plot(self, path: str | PathLike[str] | None = None, axes: "Sequence[Axes] | None" = None) -> "Figure":
        """One row a channel, missing outputs shaded red; into `axes` if given, saved to `path` if given."""
        from matplotlib import pyplot

        rows = len(self.inputs) + len(self.outputs)
        if rows == 0:
            raise InputError("there is nothing to plot: the record has no channels.")
        own = axes is None
        if axes is None:
            _, grid = pyplot.subplots(
                rows, squeeze=False, sharex=True, figsize=(9, 1 + 1.6 * rows), layout="constrained"
            )
            axes = list(grid[:, 0])
        if len(axes) != rows:
            raise InputError(f"the record has {rows} channels to plot, but {len(axes)} axes were given.")
        _draw(self, axes)
        figure = axes[0].get_figure(root=True)
        assert figure is not None, "axes that are drawn into belong to a figure"
        figure.align_ylabels(axes)
        if path is not None:
            figure.savefig(path, dpi=150)
            if own:
                pyplot.close(figure)
        return figure

    def __repr__(self) -> str:
        sampling = "non-uniform" if self.dt is None else f"dt={self.dt:.6g} s"
        parts = [f"{self.samples} samples", sampling]
        if self.inputs:
            named = (f"{self.label(key)} ({word})" for key, word in self.intersample.items())
            parts.append("inputs: " + ", ".join(named))
        if self.outputs:
            named = (self.label(k) + (f" ({n} missing)" if n else "") for k, n in self._missing().items())
            parts.append("outputs: " + ", ".join(named))
        return f"Record({'' if self.name is None else repr(self.name) + ', '}{'; '.join(parts)})"

    def label(self, channel: str) -> str:
        """The channel's name with its unit, for axes and tables."""
        return f"{channel} [{self.units[channel]}]" if channel in self.units else channel

    def _missing(self) -> dict[str, int]:
        """How many samples of each output are missing."""
        return {key: int(np.sum(np.isnan(v))) for key, v in self.outputs.items()}

    # Read-only, and still to be copied and pickled

    def _set(self, **fields: Any) -> None:
        self.__dict__.update({key: _frozen(value) for key, value in fields.items()})

    def _with(self, **changes: Any) -> Self:
        clone = object.__new__(type(self))
        clone._set(**{**self.__dict__, **changes})
        return clone

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a Record is read-only, {name!r} cannot be set: use record.replace(...).")

    def __getstate__(self) -> dict[str, Any]:
        return {key: dict(v) if isinstance(v, Mapping) else v for key, v in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**state)


# Checks of what the user gives


def _channels(kind: str, given: Any) -> dict[str, Any]:
    """The channels as a dict, under names that work as attributes in a model."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        what = type(given).__name__
        raise InputError(f"{kind} must map names to samples, as in {{'force': F}}, got a {what}.")
    for name in given:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise InputError(f"{kind}: a name must be a Python identifier and no keyword, got {name!r}.")
    return dict(given)


_NOT_NUMBERS = {"c": "complex numbers", "U": "text", "S": "text", "M": "dates", "m": "time differences"}


def _samples(label: str, given: Any) -> Channel:
    """A float64 copy of one channel."""
    if np.ma.isMA(given):
        given = np.ma.filled(given.astype(float), np.nan)
    array = np.asarray(given)
    if array.dtype.kind not in "biufO":
        what = _NOT_NUMBERS.get(array.dtype.kind, "no numbers")
        example = array.ravel()[0] if array.size else array.dtype
        raise InputError(f"{label} holds {what} ({example!s}), expected real numbers.")
    if array.ndim != 1:
        raise InputError(f"{label} has shape {array.shape}, expected one dimension, one number a sample.")
    if array.size == 0:
        raise InputError(f"{label} is empty, expected at least one sample.")
    try:
        return np.array(array, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{label} holds something that is not a number: {error}.") from error


def _check_values(inputs: Mapping[str, Any], outputs: Mapping[str, Channel]) -> None:
    """Inputs are known everywhere; outputs may be missing, not infinite."""
    for name, values in inputs.items():
        if not callable(values) and not np.all(np.isfinite(values)):
            k = int(np.argmin(np.isfinite(values)))
            raise InputError(f"input {name!r} is {values[k]} at sample {k}: inputs must be known throughout.")
    for name, values in outputs.items():
        if np.any(np.isinf(values)):
            k = int(np.argmax(np.isinf(values)))
            raise InputError(f"output {name!r} is {values[k]} at sample {k}: write NaN if missing.")


def _time_axis(
    dt: float | None, time: ArrayLike | None, samples: int | None, start: float, lengths: Mapping[str, int]
) -> tuple[Channel, float | None]:
    """The time of each sample and the uniform step, if there is one; the lengths of all channels checked."""
    if (dt is None) == (time is None):
        raise InputError(f"a record needs either dt or time, got {'neither' if dt is None else 'both'}.")
    if time is not None and (samples is not None or start != 0.0):
        raise InputError(f"samples and start go with dt, not with time: got {samples = }, {start = }.")
    if time is not None:
        times = _samples("time", time)
        reference, count = "time", len(times)
    elif samples is not None:
        reference, count = "the record", _whole_number("samples", samples, least=1)
    elif lengths:
        reference, count = next(iter(lengths.items()))
    else:
        raise InputError("a record without sampled channels needs time, or dt and samples.")
    for label, length in lengths.items():
        if length != count:
            raise InputError(f"{label} has {length} samples, but {reference} has {count}.")
    if dt is None:
        _check_increasing(times)
        return times, uniform_step(times)
    step = _positive("dt", dt)
    times = _finite("start", start) + step * np.arange(count)
    _check_increasing(times)
    return times, step


def _check_increasing(time: Channel) -> None:
    if not np.all(np.isfinite(time)):
        k = int(np.argmin(np.isfinite(time)))
        raise InputError(f"time[{k}] is {time[k]}, expected seconds.")
    if not np.all(np.diff(time) > 0):
        k = int(np.argmin(np.diff(time) > 0)) + 1
        before, after = time[k - 1], time[k]
        raise InputError(f"time must increase, but time[{k}] = {after} follows time[{k - 1}] = {before}.")


def uniform_step(time: Channel) -> float | None:
    """The sampling step, or None when one step is off by more than 1e-6 of it, or a sample by 1e-3."""
    if len(time) < 2:
        return None
    step = float(time[-1] - time[0]) / (len(time) - 1)
    jitter = np.max(np.abs(np.diff(time) - step))
    drift = np.max(np.abs(time - time[0] - step * np.arange(len(time))))
    return step if jitter <= SAME_TIME * step + _rounding(time) and drift <= ON_GRID * step else None


def _rounding(time: Channel) -> float:
    """What floating point leaves of a difference of two times."""
    return float(4 * np.spacing(np.max(np.abs(time))))


def _units(given: Mapping[str, str] | None, channels: set[str]) -> dict[str, str]:
    for name in given or {}:
        if name not in channels:
            raise InputError(f"units: there is no channel {name!r}.{did_you_mean(name, channels)}")
    return dict(given or {})


def _words(given: Any, inputs: Mapping[str, Any]) -> dict[str, str]:
    """The intersample word of each input."""
    if not isinstance(given, Mapping):
        _check_word("intersample", given, get_args(Word))
        given = {name: given for name, value in inputs.items() if not callable(value)}
    for name, word in given.items():
        if name not in inputs:
            raise InputError(f"intersample: there is no input {name!r}.{did_you_mean(name, inputs)}")
        valid = ("callable",) if callable(inputs[name]) else get_args(Word)
        _check_word(f"intersample of {name!r}", word, valid)
    usual = {name: "callable" if callable(value) else "linear" for name, value in inputs.items()}
    return usual | dict(given)


# The words of MATLAB's iddata; "foh" would be taken for a misspelt "zoh".
_MATLAB_WORDS = {"foh": "linear", "bl": "bandlimited"}


def _check_word(label: str, word: Any, valid: tuple[str, ...]) -> None:
    if word not in valid:
        hint = did_you_mean(_MATLAB_WORDS.get(word, word), valid)
        raise InputError(f"{label} must be one of {', '.join(valid)}, got {word!r}.{hint}")


def _signal(name: str, value: Any, word: str, time: Channel, dt: float | None) -> Intersample:
    """The input as a function of time: here words become objects."""
    match word:
        case "callable":
            return FunctionInput(value, name, time, dt)
        case "zoh":
            return ZeroOrderHold(time, value)
        case "linear":
            return Linear(time, value, dt)
    if dt is None and len(time) > 1:
        steps = np.diff(time)
        raise InputError(
            f"input {name!r}: intersample={word!r} needs uniform sampling, but the steps of time go from "
            f"{np.min(steps):.8g} to {np.max(steps):.8g} s; pass dt instead of time if that is only rounding."
        )
    # Without dt there is a single sample, so a constant: any step will do.
    return BandLimited(time[0], dt or 1.0, value, periodic=word == "periodic")


def _positive(label: str, given: Any) -> float:
    number = _finite(label, given)
    if number <= 0:
        raise InputError(f"{label} must be positive, got {given!r}.")
    return number


def _finite(label: str, given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"{label} must be a finite number, got {given!r}.")
    return number


def _whole_number(label: str, given: Any, least: int) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(f"{label} must be a whole number, {least} or more, got {given!r}.")
    return number


def _whole_ratio(step: float, dt: float | None) -> int | None:
    """How many old steps a new one is, or None when it is not a whole number of them."""
    ratio = 0 if dt is None else round(step / dt)
    return ratio if dt is not None and ratio >= 1 and abs(step / dt - ratio) <= SAME_TIME * ratio else None


def _frozen(value: Any) -> Any:
    """The same, read-only: arrays, and dicts of them."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    if isinstance(value, Mapping):
        return MappingProxyType({key: _frozen(entry) for key, entry in value.items()})
    return value


def _lowpassed(values: Channel, ratio: int) -> Channel:
    """Every `ratio`-th sample of the values without what lies above the new half rate."""
    from scipy.signal import resample_poly  # half a second to import, and rarely needed

    return resample_poly(values, 1, ratio, padtype="line")


# Drawing

_FINE = 4000  # points that show the curve between samples; more are not seen at the width of a page
_MARKED = 200  # up to so many samples, each gets a dot


def _draw(record: Record, axes: "Sequence[Axes]") -> None:
    """All channels, inputs first."""
    for ax, name in zip(axes, record.inputs, strict=False):
        _draw_input(ax, record, name)
    for ax, name in zip(axes[len(record.inputs) :], record.outputs, strict=True):
        _draw_output(ax, record, name)
    for ax in axes:
        ax.margins(x=0.01)
        ax.grid(alpha=0.3)
    axes[-1].set_xlabel("time [s]")
    if record.name is not None:
        axes[0].set_title(record.name)


def _draw_input(ax: "Axes", record: Record, name: str) -> None:
    """The samples, and the curve between them."""
    signal, time = record._signals[name], record.time
    if signal.jump_order == 0:
        ax.step(time, signal.at(time), where="post", color="tab:orange", linewidth=1)
    else:
        substeps = max(1, min(16, _FINE // len(time)))
        position = np.arange(substeps * (len(time) - 1) + 1) / substeps
        fine = np.interp(position, np.arange(len(time)), time)
        ax.plot(fine, signal.at(fine), color="tab:orange", linewidth=1)
    if len(time) <= _MARKED:
        ax.plot(time, signal.at(time), ".", color="tab:orange", markersize=4)
    _annotate(ax, record.label(name), f"input, {signal.word}")


def _draw_output(ax: "Axes", record: Record, name: str) -> None:
    """The samples, and red bars where they are missing."""
    values, time = record.outputs[name], record.time
    missing = np.isnan(values)
    ax.plot(time, values, color="tab:blue", linewidth=1)
    if len(time) <= _MARKED or np.any(missing):  # a sample between missing ones has no line
        ax.plot(time, values, ".", color="tab:blue", markersize=4 if len(time) <= _MARKED else 1)
    if np.any(missing):
        whole_height = ax.get_xaxis_transform()
        ax.broken_barh(_runs(missing, time), (0, 1), transform=whole_height, color="tab:red", alpha=0.25)
    _annotate(ax, record.label(name), f"output, {np.sum(missing)} missing" if np.any(missing) else "output")


def _annotate(ax: "Axes", label: str, note: str) -> None:
    """Name and unit at the side, a remark above the right corner."""
    ax.set_ylabel(label)
    ax.set_title(note, loc="right", fontsize="small")


def _runs(mask: np.ndarray, time: Channel) -> list[tuple[float, float]]:
    """Begin and width of each run of true samples, half an interval wider on both sides."""
    edges = np.concatenate([time[:1], (time[1:] + time[:-1]) / 2, time[-1:]])
    change = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(edges[first], edges[last] - edges[first]) for first, last in change.reshape(-1, 2)]
