"""Sources of samples: files that grow, pipes, replays.

A source is anything that can be iterated over: it yields `Message`, or `(time, {"column": value})` for short, and None
from time to time while nothing comes, so that a run can be stopped.  A method `close`, if there is one, is called at
the end, and an attribute `state`, a few words, is shown.  For instance a card read with NI-DAQmx:

    def ni_daqmx(device="Dev1", rate=1000.0, block=50):
        import nidaqmx

        with nidaqmx.Task() as task:
            task.ai_channels.add_ai_voltage_chan(f"{device}/ai0:1")
            task.timing.cfg_samp_clk_timing(rate, sample_mode=nidaqmx.constants.AcquisitionType.CONTINUOUS)
            count = 0
            while True:
                force, position = np.array(task.read(block))
                time = (count + np.arange(block)) / rate
                yield Message({"force": force, "position": position}, time)
                count += block
"""

import csv
import io
import os
import select
import sys
import time as clock
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.readers.read import TextOptions, read_table
from probsysid.live.channels import Channels
from probsysid.live.messages import IDLE, Item, Malformed, Message, decode, number

AT_ONCE = 512
"""Lines that become one message."""


@runtime_checkable
class Source(Protocol):
    """A stream of samples."""

    def __iter__(self) -> Iterator[Item]: ...


class Lines:
    """Lines of a csv file with a header, into messages."""

    def __init__(self, channels: Channels, separator: str = ",", decimal: str = "."):
        self._channels = channels
        self._separator, self._decimal = separator, decimal
        self._header: list[str] | None = None

    def messages(self, lines: list[str]) -> Iterator[Message | Malformed]:
        """The samples in whole lines; the first line ever is the header."""
        rows: list[list[float]] = []
        for cells in csv.reader(io.StringIO("".join(lines)), delimiter=self._separator):
            if not any(cell.strip() for cell in cells):
                continue
            if self._header is None:
                self._header = self._named([cell.strip() for cell in cells])
                continue
            try:
                if len(cells) != len(self._header):
                    raise ValueError(f"a line with {len(cells)} cells; the header has {len(self._header)}")
                rows.append([number(cell.strip().replace(self._decimal, ".")) for cell in cells])
            except ValueError as error:
                yield Malformed(str(error))
        if rows and self._header is not None:
            columns = dict(zip(self._header, np.array(rows).T, strict=True))
            time = None if self._channels.time is None else columns[self._channels.time]
            yield Message(columns, time)

    def _named(self, header: list[str]) -> list[str]:
        missing = [name for name in self._channels.columns if name not in header]
        numbered = [str(j + 1) for j in range(len(header))]
        if missing and all(name in numbered for name in self._channels.columns):
            return numbered
        if missing:
            raise InputError(
                f"the source has no column {missing[0]!r}; its first line is: {self._separator.join(header)[:200]}."
            )
        return header


class GrowingFile:
    """A csv file to which another program appends; a line counts when it has its end."""

    def __init__(self, path: Path, channels: Channels, options: TextOptions | None = None):
        if path.is_dir():
            raise InputError(f"--source {path} is a folder; name a file, or another source.")
        given: dict[str, Any] = dict(options or {})
        self._path = path
        self._skip = int(given.get("skip") or 0)
        self._lines = Lines(channels, given.get("separator") or ",", given.get("decimal") or ".")
        self.state = f"waits for {path}"

    def __iter__(self) -> Iterator[Item]:
        while not self._path.exists():
            yield None
            clock.sleep(IDLE)
        self.state = f"reads {self._path}"
        with open(self._path, encoding="utf-8", errors="replace", newline="") as file:
            yield from self._follow(file)

    def _follow(self, file: TextIO) -> Iterator[Item]:
        left = ""
        while True:
            whole: list[str] = []
            while len(whole) < AT_ONCE and (line := file.readline()):
                left += line
                if left.endswith("\n"):
                    whole.append(left)
                    left = ""
            skipped, self._skip = self._skip, max(self._skip - len(whole), 0)
            yield from self._lines.messages(whole[skipped:])
            if not whole:
                yield None
                if os.path.getsize(self._path) < file.tell():
                    raise InputError(f"{self._path} has become shorter; a file that is followed must only grow.")
                clock.sleep(IDLE)


class Pipe:
    """Standard input: a csv header and lines, or JSON objects, one per line; the stream ends with it."""

    def __init__(self, channels: Channels, file: TextIO | None = None):
        self._channels = channels
        self._file = file or sys.stdin
        self.state = "reads standard input"

    def __iter__(self) -> Iterator[Item]:
        lines, number_of_file, buffer, first = Lines(self._channels), self._file.fileno(), b"", True
        as_objects = False
        while True:
            if not select.select([number_of_file], [], [], IDLE)[0]:
                yield None
                continue
            fresh = os.read(number_of_file, 65536)
            buffer += fresh
            whole, _, buffer = buffer.rpartition(b"\n") if fresh else (buffer, b"", b"")
            if first and whole.strip():
                as_objects, first = whole.lstrip()[:1] in (b"{", b"["), False
            if as_objects:
                for line in whole.splitlines():
                    yield from decode(line, self._channels.columns, self._channels.time)
            elif whole:
                yield from lines.messages([f"{line}\n" for line in whole.decode(errors="replace").splitlines()])
            if not fresh:
                return


class Replay:
    """A record at true speed, or at another one; speed 0 is as fast as it can be processed."""

    def __init__(self, path: Path, channels: Channels, dt: float, options: TextOptions | None = None, speed: float = 1):
        table = read_table(path, **(options or {}))
        self._columns = {}
        for channel in (*channels.inputs.values(), *channels.outputs.values()):
            self._columns[str(channel.column)] = table.numbers(channel.column)
        count = len(next(iter(self._columns.values())))
        self._time = None if channels.time is None else table.numbers(channels.time)
        self._dt, self._speed, self._count, self._path = dt, speed, count, path
        self._block = max(1, int(0.05 / dt)) if speed <= 1 else AT_ONCE
        self.state = f"replays {path}"

    def __iter__(self) -> Iterator[Item]:
        began = clock.monotonic()
        block = self._block if self._speed <= 1 else max(1, min(AT_ONCE, int(0.05 * self._speed / self._dt)))
        for first in range(0, self._count, block):
            last = min(first + block, self._count)
            while self._speed > 0 and (early := began + last * self._dt / self._speed - clock.monotonic()) > 0:
                clock.sleep(min(early, IDLE))
                yield None
            part = slice(first, last)
            time = None if self._time is None else self._time[part]
            yield Message({name: values[part] for name, values in self._columns.items()}, time)
        self.state = f"{self._path} has ended"
