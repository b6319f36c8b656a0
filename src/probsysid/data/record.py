"""Sampled data: named inputs and outputs on a common time axis.

    record = Record(inputs={"force": F}, outputs={"position": y}, dt=1e-3, intersample="bandlimited")
    train, test = record[:2000], record[2000:]
    train.plot("train.png")

Sample 0 is at the initial time.  NaN in an output is a missing sample.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.notebook import html
from probsysid.data.allpass import Phase, with_phases
from probsysid.data.band_limited import BandLimited
from probsysid.data.intersample import Function, FunctionInput, Intersample, Linear, Points, Side, Word, ZeroOrderHold
from probsysid.data.record_card import record_card
from probsysid.data.record_checks import (
    check_values,
    checked_channels,
    checked_samples,
    checked_time_axis,
    checked_units,
    intersample_words,
    whole_number,
)
from probsysid.data.record_plot import plot_channels
from probsysid.data.record_resample import decimated, interpolated, requested_step, uniform_times, whole_ratio
from probsysid.data.time_axis import SAME_TIME, Samples, Times, rounding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIELDS = ("time", "dt", "inputs", "outputs", "units", "name", "_signals")
"""The attributes of a record."""


class Record:
    """One experiment: named inputs and outputs, sampled at common times.  Read-only.

    Args:
        inputs: name -> samples, or a function of the time in seconds.
        outputs: name -> samples; NaN where one is missing.
        dt: the sampling step in seconds, or
        time: the time of each sample (increasing, uniform or not).
        samples: the number of samples, with `dt`, if no channel determines it.
        start: the time of sample 0, with `dt`.
        intersample: the behaviour of the inputs between samples; one word for all, or name -> word.  `"linear"` is the
            default; `"zoh"`: zero-order hold, as by a digital-to-analogue converter; `"bandlimited"`: smooth, no
            frequency above half the sampling rate, as behind an anti-aliasing filter; `"periodic"`: the same, for a
            record of one or several whole periods.  The last two need uniform sampling.  A function needs no word.
        units: name -> unit, for labels and tables.
        name: the record's name in reports.

    Attributes: `time` (T,), `dt` (None unless the sampling is uniform), `inputs`, `outputs`, `intersample`,
    `units` (read-only mappings by channel name), `name`, and the properties below.
    """

    time: Times
    dt: float | None
    inputs: Mapping[str, Samples | Function]
    outputs: Mapping[str, Samples]
    units: Mapping[str, str]
    name: str | None
    _signals: Mapping[str, Intersample]  # the inputs as functions of time; a slice keeps those of its record

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
        inputs, outputs = checked_channels("inputs", inputs), checked_channels("outputs", outputs)
        driven = {key: v if callable(v) else checked_samples(f"input {key!r}", v) for key, v in inputs.items()}
        measured = {key: checked_samples(f"output {key!r}", v) for key, v in outputs.items()}
        lengths = {f"input {key!r}": len(v) for key, v in driven.items() if not callable(v)}
        lengths |= {f"output {key!r}": len(v) for key, v in measured.items()}
        times, step = checked_time_axis(dt, time, samples, start, lengths)
        check_values(driven, measured)
        words = intersample_words(intersample, driven)
        self._store(
            time=times,
            dt=step,
            inputs=driven,
            outputs=measured,
            units=checked_units(units, {*inputs, *outputs}),
            name=name,
            _signals={key: _signal(key, value, words[key], times, step) for key, value in driven.items()},
        )

    # Contents

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
        """The names of the inputs, in the order of arrays of inputs."""
        return tuple(self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs, in the order in which they were given."""
        return tuple(self.outputs)

    @property
    def intersample(self) -> Mapping[str, str]:
        """Input name -> "zoh", "linear", "bandlimited", "periodic" or "callable"."""
        return MappingProxyType({key: signal.word for key, signal in self._signals.items()})

    @property
    def jump_order(self) -> int | None:
        """The lowest derivative of any input that may jump at a sample: 0 with "zoh", 1 with "linear".

        None if all inputs are smooth, or if there are none.
        """
        orders = (signal.jump_order for signal in self._signals.values())
        return min((order for order in orders if order is not None), default=None)

    # The inputs as functions of time

    def input_grid(self, substeps: int) -> Float[np.ndarray, "T substeps n_inputs"]:
        """The inputs inside each sampling interval, as left limits.

        Row k >= 1 belongs to the times t_{k-1} + (t_k - t_{k-1}) * j / substeps, for j = 1..substeps; with "zoh" the
        value at t_k itself is still that of sample k - 1.  Row 0 repeats the inputs at t_0.
        """
        substeps = whole_number("substeps", substeps, least=1)
        columns = [signal.grid(self.time, substeps) for signal in self._signals.values()]
        return np.stack(columns, axis=-1) if columns else np.empty((self.samples, substeps, 0))

    def input_derivatives(self, order: int) -> Float[np.ndarray, "T n_inputs derivative"]:
        """The inputs and their time derivatives 1..order at each sample, as right limits.

        "zoh": zeros.  "linear": the slope of the next interval (at the last sample: of the previous one), then zeros.
        "bandlimited" and "periodic": the derivatives of the Fourier series.  A function: those of a polynomial through
        points inside the next interval; `intersample.FunctionInput` states the accuracy.
        """
        order = whole_number("order", order, least=0)
        rows = [signal.derivatives(self.time, order) for signal in self._signals.values()]
        return np.stack(rows, axis=1) if rows else np.empty((self.samples, 0, order + 1))

    def input_at(self, times: ArrayLike, side: Side = "right") -> Float[np.ndarray, "points n_inputs"]:
        """The inputs at any times inside the record; where an input jumps, the limit from `side`."""
        if side not in get_args(Side):
            raise InputError(f"side must be 'left' or 'right', got {side!r}.")
        points = self._inside(checked_samples("times", np.atleast_1d(np.asarray(times))))
        columns = [signal.at(points, side) for signal in self._signals.values()]
        return np.stack(columns, axis=-1) if columns else np.empty((len(points), 0))

    def _inside(self, times: Points) -> Points:
        """The times, those outside by rounding moved to the ends; any others outside are an error."""
        first, last = self.time[0], self.time[-1]
        tolerance = SAME_TIME * self.duration / max(self.samples - 1, 1) + rounding(self.time)
        inside = (times >= first - tolerance) & (times <= last + tolerance)
        if not np.all(inside):
            wrong = times[~inside][0]
            raise InputError(f"the inputs are known from {first:.6g} to {last:.6g} s, not at {wrong:.6g} s.")
        return np.clip(times, first, last)

    # Derived records

    def __getitem__(self, part: slice) -> "Record":
        """`record[a:b]`: samples a to b - 1, at their original times.

        The inputs remain the functions of time of the whole record, so that slicing adds no edge effects: the grid and
        the derivatives of a slice are slices of the grid and the derivatives.
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
    ) -> "Record":
        """The record on a uniform grid from its first sample on, with step `dt`, or `factor` times its own.

        The inputs remain the same functions of time; the jumps of "zoh" and the corners of "linear" stay at the old
        sample times, even where those lie between the new ones.

        Outputs are picked, so the step must be a whole multiple of the present one: measurement noise stays white, and
        frequencies above half the new sampling rate are aliased.  `antialias=True` filters first (no phase shift, ends
        continued along a straight line): the noise is smaller and no longer quite white.  `outputs="linear"`
        interpolates between samples and so allows any step; next to a missing sample the result may be missing.
        """
        if outputs not in ("pick", "linear"):
            raise InputError(f"outputs must be 'pick' or 'linear', got {outputs!r}.")
        step = requested_step(dt, factor, self.dt)
        ratio = whole_ratio(step, self.dt)
        time = self.time[::ratio] if ratio else uniform_times(self.time, step)
        if ratio:
            measured = decimated(self.outputs, ratio, antialias)
        elif not self.outputs or (outputs == "linear" and not antialias):
            measured = interpolated(self.outputs, self.time, time)
        else:
            present = "non-uniform samples" if self.dt is None else f"samples with dt = {self.dt:.6g} s"
            raise InputError(
                f"outputs cannot be picked at dt = {step:.6g} s from {present}: use a whole multiple of it, "
                "or outputs='linear' (without antialias) to interpolate."
            )
        inputs = {key: v if callable(v) else self._signals[key].at(time) for key, v in self.inputs.items()}
        return self._with(time=time, dt=step, inputs=inputs, outputs=measured)

    def allpass(self, phase: Phase, channels: Sequence[str] | None = None) -> "Record":
        """The record with `phase`, radians by frequency in Hz, added to all sampled channels, or to those named.

            undone = record.allpass(lambda f: 0.1 * (f / 200) ** 3)  # the lag that a filter added

        Identical filters in front of the converters of input and output cancel in a linear system; what a nonlinear
        one makes of a sine lies at other frequencies and keeps their phase.  Use it on the whole record, before cutting
        it: the record counts as one period, so that a jump from its last sample to its first reaches inside from both
        ends, by as many samples as the filter delays.
        """
        return self.replace(**with_phases(self.inputs, self.outputs, self.dt, phase, channels))

    def replace(self, **changes: Any) -> "Record":
        """A copy with other `inputs`, `outputs`, `intersample`, `units` or `name`, on the same time axis.

        The inputs of a slice remain those of its whole record, unless `inputs` or `intersample` is replaced.
        """
        allowed = ("inputs", "outputs", "intersample", "units", "name")
        for key in changes:
            if key not in allowed:
                hint = did_you_mean(key, allowed)
                raise InputError(f"replace changes {', '.join(allowed)}, not {key!r}.{hint}")
        inputs = checked_channels("inputs", changes.get("inputs", self.inputs))
        outputs = checked_channels("outputs", changes.get("outputs", self.outputs))
        present = {
            "units": {key: unit for key, unit in self.units.items() if key in {*inputs, *outputs}},
            "name": self.name,
            "intersample": {  # of inputs that are samples, or a function, as before
                key: word
                for key, word in self.intersample.items()
                if key in inputs and callable(inputs[key]) == (word == "callable")
            },
        }
        rebuilt = type(self)(**{**present, **changes, "inputs": inputs, "outputs": outputs}, **self._axis())
        new_signals = "inputs" in changes or "intersample" in changes
        return rebuilt._with(time=self.time, _signals=rebuilt._signals if new_signals else self._signals)

    def _axis(self) -> dict[str, Any]:
        """The time axis as arguments of the constructor."""
        if self.dt is None:
            return {"time": self.time}
        return {"dt": self.dt, "start": self.time[0], "samples": self.samples}

    # Plots and text

    def plot(self, path: str | PathLike[str] | None = None, axes: "Sequence[Axes] | None" = None) -> "Figure":
        """One row per channel, missing outputs shaded red; into `axes` if given, saved to `path` if given."""
        return plot_channels(
            self.time, self._signals, self.outputs, label=self.label, title=self.name, path=path, axes=axes
        )

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

    def _repr_html_(self) -> str:
        return html(record_card(self))

    def label(self, channel: str) -> str:
        """The name of a channel with its unit, for axes and tables."""
        return f"{channel} [{self.units[channel]}]" if channel in self.units else channel

    def _missing(self) -> dict[str, int]:
        """The number of missing samples of each output."""
        return {key: int(np.sum(np.isnan(v))) for key, v in self.outputs.items()}

    # Read-only, but copied and pickled like any object

    def _store(self, **fields: Any) -> None:
        """Set all attributes: the only place where any is set, called once per record."""
        for key in FIELDS:
            object.__setattr__(self, key, _frozen(fields[key]))

    def _fields(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in FIELDS}

    def _with(self, **changes: Any) -> "Record":
        clone = object.__new__(type(self))
        clone._store(**{**self._fields(), **changes})
        return clone

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Record is read-only, {name!r} cannot be set: use record.replace(...).")

    def __getstate__(self) -> dict[str, Any]:
        """Read-only mappings cannot be pickled: as dictionaries."""
        return {key: dict(v) if isinstance(v, Mapping) else v for key, v in self._fields().items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._store(**state)


def _signal(name: str, value: Samples | Function, word: str, time: Times, dt: float | None) -> Intersample:
    """An input as a function of time, according to its intersample word."""
    if callable(value):
        return FunctionInput(value, name, time, dt)
    match word:
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
    # Without dt there is a single sample, hence a constant, whatever the step.
    return BandLimited(time[0], dt or 1.0, value, periodic=word == "periodic")


def _frozen(value: Any) -> Any:
    """The value, read-only if it is an array or a mapping."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    if isinstance(value, Mapping):
        return MappingProxyType({key: _frozen(entry) for key, entry in value.items()})
    return value
