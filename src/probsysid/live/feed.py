"""What the page shows, in bounded memory: the newest samples in full, and the whole run thinned.

Written by the engine, read by every open page; each page asks for what is new since it last looked.
"""

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

NEWEST = 1500
"""Samples that are shown in full."""

POINTS = 1000
"""Of the whole run; when there are twice as many, every other one is dropped."""


class Fresh(NamedTuple):
    """Rows since the last look."""

    columns: dict[str, np.ndarray]
    position: int
    """To be given at the next look."""
    replace: bool
    """Whether they replace all that is shown."""


class Newest:
    """The newest rows."""

    def __init__(self, names: tuple[str, ...], size: int = NEWEST):
        self._names = names
        self._rows = np.full((size, len(names)), np.nan)
        self._written = 0

    def add(self, rows: np.ndarray) -> None:
        size = len(self._rows)
        self._written += max(len(rows) - size, 0)
        rows = rows[-size:]
        places = (self._written + np.arange(len(rows))) % size
        self._rows[places] = rows
        self._written += len(rows)

    def since(self, position: int) -> Fresh:
        size = len(self._rows)
        first = max(position, self._written - size, 0)
        rows = self._rows[np.arange(first, self._written) % size]
        return Fresh(dict(zip(self._names, rows.T, strict=True)), self._written, position < self._written - size)


class Thinned:
    """All of the run, with ever more time between rows."""

    def __init__(self, names: tuple[str, ...], points: int = POINTS):
        self._names, self._points = names, points
        self._rows: list[np.ndarray] = []
        self._stride, self._offered, self._version = 1, 0, 0

    def add(self, row: np.ndarray) -> None:
        self._offered += 1
        if self._offered % self._stride:
            return
        self._rows.append(row)
        if len(self._rows) >= 2 * self._points:
            self._rows = self._rows[1::2]
            self._stride *= 2
            self._version += 1

    def since(self, position: int) -> Fresh:
        """A position is a version and a number of rows in one."""
        version, seen = divmod(position, 10**6)
        known = version == self._version and seen <= len(self._rows)
        rows = np.array(self._rows[seen if known else 0 :]).reshape(-1, len(self._names))
        return Fresh(
            dict(zip(self._names, rows.T, strict=True)), self._version * 10**6 + len(self._rows), not known and seen > 0
        )


class Feed:
    """Everything that pages show."""

    def __init__(self, samples: tuple[str, ...], numbers: tuple[str, ...]):
        self._lock = threading.Lock()
        self._samples = Newest(samples)
        self._numbers = Thinned(numbers)
        self._status: dict[str, Any] = {}
        self._densities: Mapping[str, Any] = {}
        self._events: list[dict[str, Any]] = []

    def add_samples(self, rows: np.ndarray) -> None:
        with self._lock:
            self._samples.add(rows)

    def add_numbers(self, row: np.ndarray, status: dict[str, Any], densities: Mapping[str, Any]) -> None:
        with self._lock:
            self._numbers.add(row)
            self._status, self._densities = status, densities

    def set_status(self, status: dict[str, Any]) -> None:
        with self._lock:
            self._status = status

    def add_event(self, event: dict[str, Any]) -> None:
        with self._lock:
            self._events = [*self._events, event][-200:]

    def samples_since(self, position: int) -> Fresh:
        with self._lock:
            return self._samples.since(position)

    def numbers_since(self, position: int) -> Fresh:
        with self._lock:
            return self._numbers.since(position)

    @property
    def status(self) -> dict[str, Any]:
        with self._lock:
            return dict(self._status)

    @property
    def densities(self) -> Mapping[str, Any]:
        """By quantity: edges of bins and the share in each."""
        with self._lock:
            return self._densities

    @property
    def events(self) -> list[dict[str, Any]]:
        with self._lock:
            return self._events
