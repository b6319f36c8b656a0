"""The samples of a stream."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from probsysid._internal.array_types import Numbers
from probsysid.data.record import Record
from probsysid.model.model import Model

Word = Literal["linear", "zoh"]

Channels = Mapping[str, np.ndarray]
"""Inputs by their names, outputs as `output:name`."""


class SampleBlock(NamedTuple):
    """Samples that have come in."""

    first: int
    """Index of the first one in the stream."""
    samples: int
    channels: dict[str, np.ndarray]

    def between(self, first: int, last: int) -> "SampleBlock":
        """Those of samples first..last-1 that are in it."""
        begin, end = np.clip([first - self.first, last - self.first], 0, self.samples)
        cut = {name: values[begin:end] for name, values in self.channels.items()}
        return SampleBlock(self.first + int(begin), int(end - begin), cut)


class GrowingRecord:
    """The samples of a stream so far: the targets that are computed from them share them."""

    def __init__(self, model: Model, dt: float, intersample: Word, first: int = 0, channels: Channels | None = None):
        """`channels` are samples to begin with, `first` the index of the first of them."""
        self.model = model
        self.dt = dt
        self.intersample = intersample
        self.first = first
        """Samples before this one are not kept."""
        self.count = first
        self._channels: dict[str, np.ndarray] = {}
        if channels:
            self.append(channels)

    @property
    def channels(self) -> dict[str, np.ndarray]:
        """The samples that are kept."""
        return self.between(self.first, self.count)

    def between(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Samples first..last-1."""
        assert self.first <= first, "these samples are not kept any more"
        return {name: values[first - self.first : last - self.first] for name, values in self._channels.items()}

    def append(self, fresh: Channels) -> None:
        """Add samples, given as arrays of one length."""
        count = len(next(iter(fresh.values())))
        for name, values in fresh.items():
            self._channels[name] = written(self._channels.get(name), self.count - self.first, values)
        self.count += count

    def record(self, first: int, last: int) -> Record:
        """Samples first..last-1 as a record."""
        values, model = self.between(first, last), self.model
        return Record(
            inputs={name: values[name] for name in model.input_names},
            outputs={name: values[f"output:{name}"] for name in model.output_names},
            dt=self.dt,
            start=first * self.dt,
            intersample=self.intersample,
        )

    def until(self, count: int) -> "GrowingRecord":
        """The samples before the given one, while others come in."""
        return GrowingRecord(self.model, self.dt, self.intersample, self.first, self.between(self.first, count))

    def since(self, first: int) -> "GrowingRecord":
        """A copy without the samples before `first`."""
        kept = {name: values.copy() for name, values in self.between(first, self.count).items()}
        return GrowingRecord(self.model, self.dt, self.intersample, first, kept)


def joined(blocks: Sequence[SampleBlock]) -> dict[str, np.ndarray]:
    """The channels of consecutive blocks."""
    return {name: np.concatenate([block.channels[name] for block in blocks]) for name in blocks[0].channels}


def written(buffer: np.ndarray | None, used: int, values: Numbers) -> np.ndarray:
    """The buffer with values written from `used` on; doubled where it is full."""
    values = np.asarray(values, dtype=float)
    if buffer is None:
        buffer = np.zeros((max(256, len(values)), *values.shape[1:]))
    while len(buffer) < used + len(values):
        buffer = np.concatenate([buffer, np.zeros_like(buffer)])
    buffer[used : used + len(values)] = values
    return buffer
