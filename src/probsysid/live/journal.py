"""The journal: every accepted sample, appended to a file and flushed to the disk before it is acknowledged.

A process killed at any moment leaves a journal that ends with a complete record, or with the beginning of one that
nobody was told about.  Records are samples, new starts, and events such as alarms.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.live.alignment import Restart, Rows

MAGIC = b"probsysid journal 1\n"
HEAD = struct.Struct("<cII")
"""Kind, length and checksum of a record."""

SAMPLES, RESTART, EVENT = b"S", b"R", b"E"


class Event(NamedTuple):
    """Something that is kept with the samples: an alarm, a mark, a new start with its priors."""

    content: dict[str, Any]


Entry = Rows | Restart | Event


class Journal:
    """An append-only file of samples."""

    def __init__(self, path: Path, channels: tuple[str, ...], dt: float):
        """Open a journal, or begin one; the half-written end that a kill may have left is cut off."""
        self.path = path
        self._about = {"channels": list(channels), "dt": dt}
        self._width = 1 + len(channels)
        fresh = not path.exists() or path.stat().st_size < len(MAGIC)
        self._file = path.open("w+b" if fresh else "r+b")
        if fresh:
            self._file.write(MAGIC)
            self._begin()
            _sync_folder(path.parent)

    def entries(self) -> Iterator[Entry]:
        """All records from the beginning; afterwards the journal can be appended to."""
        try:
            yield from self._entries()
        except InputError:
            self.close()
            raise

    def _entries(self) -> Iterator[Entry]:
        self._file.seek(0)
        if self._file.read(len(MAGIC)) != MAGIC:
            raise InputError(f"{self.path} is not a journal of a live run.")
        good, size, first = self._file.tell(), os.fstat(self._file.fileno()).st_size, True
        while (found := self._read(size)) is not None:
            kind, content = found
            if first:
                self._check(json.loads(content) if kind == EVENT else {})
            good, first = self._file.tell(), False
            yield self._entry(kind, content)
        self._file.truncate(good)
        self._file.seek(good)
        if first:  # killed before anything was written
            self._begin()

    def append(self, entries: list[Entry]) -> None:
        """Write records and wait until they are on the disk."""
        for entry in entries:
            if isinstance(entry, Rows):
                self._append(SAMPLES, np.column_stack([entry.time, entry.values]).astype("<f8").tobytes())
            elif isinstance(entry, Restart):
                self._append(RESTART, json.dumps(entry.reason).encode())
            else:
                self._append(EVENT, json.dumps(entry.content, allow_nan=False).encode())
        self._flush()

    def close(self) -> None:
        self._file.close()

    def _begin(self) -> None:
        self._append(EVENT, json.dumps({"kind": "begin", **self._about}).encode())
        self._flush()

    def _append(self, kind: bytes, content: bytes) -> None:
        self._file.write(HEAD.pack(kind, len(content), zlib.crc32(kind + content)) + content)

    def _flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self, size: int) -> tuple[bytes, bytes] | None:
        """The next record; None at the end, or where only a part of a record is left."""
        place = self._file.tell()
        head = self._file.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        kind, length, checksum = HEAD.unpack(head)
        content = self._file.read(length) if length <= size - place else b""
        if len(content) == length and zlib.crc32(kind + content) == checksum:
            return kind, content
        if place + HEAD.size + length >= size:  # the end of the file: it was being written
            return None
        self._file.seek(place)
        if not any(self._file.read()):  # a file system may have made room that was never written
            return None
        raise InputError(f"{self.path} is damaged at byte {place}; what comes after it cannot be read.")

    def _entry(self, kind: bytes, content: bytes) -> Entry:
        if kind == SAMPLES:
            rows = np.frombuffer(content, "<f8").reshape(-1, self._width)
            return Rows(rows[:, 0].copy(), rows[:, 1:].copy())
        decoded = json.loads(content)
        return Restart(decoded) if kind == RESTART else Event(decoded)

    def _check(self, found: dict[str, Any]) -> None:
        for key, value in self._about.items():
            if found.get(key) != value:
                raise InputError(
                    f"{self.path} belongs to another stream: its {key} is {found.get(key)}, here {value}. "
                    "Choose another folder with --out, or start anew with --overwrite."
                )


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
