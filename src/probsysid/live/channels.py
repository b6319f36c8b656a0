"""Which column of a message is what, and in what unit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probsysid._internal.errors import did_you_mean
from probsysid.data.readers import Channel
from probsysid.live.messages import Message


@dataclass(frozen=True)
class Channels:
    """The columns of a stream's messages."""

    inputs: Mapping[str, Channel]
    outputs: Mapping[str, Channel]
    time: str | None = None
    """The column of times; None if samples come in order, one per sampling interval."""
    second: float = 1.0
    """Seconds per unit of time."""

    @classmethod
    def plain(cls, inputs: Any, outputs: Any) -> "Channels":
        """Columns named as the channels, with times in seconds in `t`."""
        return cls({name: Channel(name) for name in inputs}, {name: Channel(name) for name in outputs}, "t")

    @property
    def names(self) -> tuple[str, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def columns(self) -> tuple[str, ...]:
        """The order of columns where they have no names: time, inputs, outputs."""
        own = [str(channel.column) for channel in (*self.inputs.values(), *self.outputs.values())]
        return (*([] if self.time is None else [self.time]), *dict.fromkeys(own))

    def rows(self, message: Message) -> tuple[np.ndarray | None, np.ndarray]:
        """Times in seconds, and one row per sample: inputs, then outputs.  An output that is not there is missing.

        Raises `ValueError` with a sentence if the message cannot be used.
        """
        arrays = {str(name): _vector(name, values) for name, values in message.values.items()}
        time = None if message.time is None else _vector("time", message.time) * self.second
        lengths = {len(values) for values in arrays.values()} | (set() if time is None else {len(time)})
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        count = next(iter(lengths), 0)
        if time is not None and not np.all(np.isfinite(time)):
            raise ValueError("a time that is not a number")
        found = [self._channel(name, c, arrays, None) for name, c in self.inputs.items()]
        found += [self._channel(name, c, arrays, count) for name, c in self.outputs.items()]
        rows = np.stack(found, axis=1) if found else np.empty((count, 0))
        if np.isinf(rows).any():
            raise ValueError("an infinite value")
        return time, rows

    def _channel(self, name: str, channel: Channel, arrays: Mapping[str, np.ndarray], missing: int | None) -> Any:
        column = str(channel.column)
        if column in arrays:
            return channel.scale * arrays[column] + channel.offset
        if missing is None:
            raise ValueError(f"there is no column {column!r} for the input {name!r}.{did_you_mean(column, arrays)}")
        return np.full(missing, np.nan)


def _vector(name: Any, values: Any) -> np.ndarray:
    try:
        found = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {str(values)[:40]!r}, not a number") from None
    if found.ndim != 1:
        raise ValueError(f"{name} has {found.ndim} dimensions")
    return found
