"""Records from the columns of a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.data.intersample import Word
from probsysid.data.readers.read import TextOptions, read_table
from probsysid.data.readers.sample_times import SECONDS, Jitter, Sampling, sample_times
from probsysid.data.readers.table import Table
from probsysid.data.record import Record


@dataclass(frozen=True)
class Channel:
    """The source of a channel: `scale * column + offset`, in `unit`."""

    column: str | int
    unit: str = ""
    scale: float = 1.0
    offset: float = 0.0
    intersample: Word = "linear"
    """The behaviour between samples, for inputs only."""


Column = Channel | str | int
"""A channel, or only the name or number of its column."""


def read_record(
    source: str | Path | Table,
    *,
    inputs: Mapping[str, Column] | None = None,
    outputs: Mapping[str, Column] | None = None,
    time: str | int | None = None,
    dt: float | None = None,
    time_unit: str = "s",
    jitter: Jitter = "auto",
    intersample: Word | Mapping[str, Word] | None = None,
    name: str | None = None,
    **options: Unpack[TextOptions],
) -> tuple[Record, tuple[str, ...]]:
    """A record from a file, and notes on its time axis.

    Args:
        source: the file, or a table read from one.
        inputs: channel name -> the name or number of a column, or a `Channel` with unit and scale.
        outputs: the same.
        time: the column of sample times, or
        dt: the step in seconds.
        time_unit: of the time column: s, ms, us, ns, min or h.
        jitter: "remove" makes the times uniform, "keep" keeps them, "auto" decides by how far they are from uniform.
        intersample: of all inputs, or by name, as for `Record`; in place of what their `Channel` says.
        name: the record's name in reports.
        options: for text files: separator, decimal, encoding, skip.
    """
    _check_options(options)
    table = source if isinstance(source, Table) else read_table(source, **options)
    driving, measured = _channels(inputs), _channels(outputs)
    words = dict.fromkeys(driving, intersample) if isinstance(intersample, str) else dict(intersample or {})
    channels = {**driving, **measured}
    if (time is None) == (dt is None):
        raise InputError(f"{table.path}: give either the time column or dt, not {'both' if dt else 'neither'}.")
    if time_unit not in SECONDS:
        raise InputError(f"{table.path}: time_unit is {time_unit!r}; known are: {', '.join(SECONDS)}.")
    sampling = Sampling(np.empty(0), dt) if time is None else sample_times(table, time, time_unit, jitter)
    values = _checked_values(table, channels, measured, None if time is None else len(sampling.time))
    try:
        record = Record(
            {key: values[key] for key in driving},
            {key: values[key] for key in measured},
            **_axis(sampling),
            intersample={key: channel.intersample for key, channel in driving.items()} | words,
            units={key: c.unit for key, c in channels.items() if c.unit},
            name=name or table.path.name,
        )
    except InputError as error:
        raise InputError(f"{table.path}: {error}") from None
    return record, sampling.notes


def _check_options(options: Mapping[str, object]) -> None:
    """Raise for an option that there is not, with the place where it belongs."""
    known = TextOptions.__annotations__
    for name in options:
        if name in ("unit", "units", "scale", "offset"):
            key = name.rstrip("s")
            raise InputError(f"{name} belongs to a channel, as in inputs={{'force': Channel('F', {key}=...)}}.")
        if name not in known:
            taken = (*("inputs", "outputs", "time", "dt", "time_unit", "jitter", "intersample", "name"), *known)
            raise InputError(f"read_record takes no {name}; it takes: {', '.join(taken)}.{did_you_mean(name, taken)}")


def _channels(given: Mapping[str, Column] | None) -> dict[str, Channel]:
    return {key: c if isinstance(c, Channel) else Channel(c) for key, c in (given or {}).items()}


def _checked_values(
    table: Table, channels: Mapping[str, Channel], measured: Mapping[str, Channel], count: int | None
) -> dict[str, np.ndarray]:
    """The values of each channel, `count` of them if the time has so many; only measured ones may be missing."""
    values = {key: c.scale * table.numbers(c.column) + c.offset for key, c in channels.items()}
    _check_lengths(table, values, channels, count)
    for key, channel in channels.items():
        _check_known(table, channel, values[key], missing_allowed=key in measured)
    return values


def _axis(sampling: Sampling) -> dict[str, Any]:
    """The time axis as arguments of `Record`."""
    if sampling.dt is None:
        return {"time": sampling.time}
    return {"dt": sampling.dt} | ({"start": float(sampling.time[0])} if len(sampling.time) else {})


def _check_lengths(
    table: Table, values: Mapping[str, np.ndarray], channels: Mapping[str, Channel], count: int | None
) -> None:
    """Raise if lengths differ, as variables of a .mat file may and columns of a table cannot."""
    reference = "the time" if count is not None else None
    for name, array in values.items():
        if count is None:
            count, reference = len(array), f"{channels[name].column!r}"
        if len(array) != count:
            raise InputError(
                f"{table.path}: {channels[name].column!r} has {len(array)} samples, but {reference} has {count}."
            )


def _check_known(table: Table, channel: Channel, values: np.ndarray, *, missing_allowed: bool) -> None:
    """Raise for the first value that a record would refuse, with its place in the file."""
    wrong = np.isinf(values) if missing_allowed else ~np.isfinite(values)
    if np.any(wrong):
        k = int(np.argmax(wrong))
        found = "no value" if np.isnan(values[k]) else f"{values[k]}"
        advice = "leave the cell empty if it is missing" if missing_allowed else "an input must be known throughout"
        raise InputError(
            f"{table.path}: {table.kind} {str(channel.column)!r} has {found} at {table.place(k)}; {advice}."
        )
