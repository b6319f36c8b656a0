"""Put samples on the grid of sampling intervals: in order, each once, none invented.

A sample's place is the number of sampling intervals since the one before it, rounded, so that a sensor's clock may
drift.  Samples that come too early wait for those before them, for at most `patience` samples; what has not come by
then is a gap.
"""

from collections import deque
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

Gaps = Literal["missing", "hold", "restart"]
"""What a gap becomes: missing outputs, where there are no inputs; the same with inputs carried over it as they are
between samples; or a new start."""

OFF_GRID = 0.25
"""Fraction of a sampling interval by which a time may be off; beyond it the sample is counted."""

CLOCK_RESET = 50
"""Samples in a row with times of the past and new values: then the sender's clock has been set back."""

REMEMBERED = 65_536
"""Samples whose values are kept, to tell a repetition from a clock that was set back."""

LONGEST_GAP = 10_000
"""Samples; a longer gap is a new start."""


@dataclass
class Counts:
    """What has happened to the samples of a stream."""

    accepted: int = 0
    gaps: int = 0
    gap_samples: int = 0
    late: int = 0
    """Came after their place had been given up."""
    duplicate: int = 0
    reordered: int = 0
    off_grid: int = 0
    malformed: int = 0
    restarts: int = 0
    last_problem: str = ""

    def as_dict(self) -> dict[str, int | str]:
        return {item.name: getattr(self, item.name) for item in fields(self)}


class Rows(NamedTuple):
    """Consecutive samples: their times, and inputs followed by outputs."""

    time: Float[np.ndarray, " sample"]
    values: Float[np.ndarray, "sample channel"]


class Restart(NamedTuple):
    """The next sample begins a new segment."""

    reason: str


Released = Rows | Restart


@dataclass
class Alignment:
    """Samples as they come, into consecutive ones."""

    dt: float
    inputs: int
    gaps: Gaps = "restart"
    patience: int = 64
    linear: tuple[bool, ...] = ()
    """By input: whether it is linear between samples; else it is held."""
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._next = 0
        """Place of the next sample in the segment."""
        self._reference: tuple[int, float] | None = None
        """Place and time of the newest sample that came in its turn."""
        self._waiting: dict[int, tuple[float, np.ndarray, int]] = {}
        self._filled: deque[int] = deque(maxlen=REMEMBERED)
        self._past: deque[np.ndarray] = deque(maxlen=REMEMBERED)
        self._stale: list[tuple[float, np.ndarray, int]] = []
        self._message = 0

    def add(
        self, time: Float[np.ndarray, " sample"] | None, values: Float[np.ndarray, "sample channel"], message: int = 0
    ) -> list[Released]:
        """Samples of a message that has come; returns what is complete now."""
        self._message = message
        released: list[Released] = []
        for k, row in enumerate(values):
            released += self._one(None if time is None else float(time[k]), row)
        return _merged(released)

    def flush(self) -> list[Released]:
        """The stream has ended: release what waits, gaps included."""
        released: list[Released] = []
        while self._waiting:
            released += self._give_up()
        self._drop_stale()
        return _merged(released)

    @property
    def pending(self) -> int:
        """Samples that wait for those before them."""
        return len(self._waiting) + len(self._stale)

    @property
    def pending_messages(self) -> set[int]:
        """Messages of which a sample waits."""
        return {item[2] for item in (*self._waiting.values(), *self._stale)}

    def wait_no_longer(self) -> list[Released]:
        """What waits is released, and what has not come before it is a gap."""
        return _merged(self._give_up()) if self._waiting else []

    def replay(self, item: Released) -> None:
        """Take over what was released in an earlier run."""
        if isinstance(item, Restart):
            self._begin_segment()
            return
        for t, row in zip(item.time, item.values, strict=True):
            self._remember(float(t), row)
        self.counts.accepted += len(item.time)

    def _one(self, time: float | None, row: np.ndarray) -> list[Released]:
        if np.isnan(row[: self.inputs]).any():
            self.counts.malformed += 1
            self.counts.last_problem = "a sample without its input"
            return []
        place = self._place(time)
        if time is None:
            time = self._time_of(place)
        if place < self._next:
            return self._of_the_past(place, time, row)
        self._drop_stale()  # there is nothing wrong with the clock
        if place in self._waiting:
            self.counts.duplicate += 1
            return []
        self.counts.reordered += bool(self._waiting) and place < max(self._waiting)
        if place > self._next:
            self._waiting[place] = (time, row, self._message)
            return self._give_up() if place - self._next >= self.patience else []
        return [self._accept(time, row), *self._follow()]

    def _place(self, time: float | None) -> int:
        if time is None or self._reference is None:
            return self._next
        place, known = self._reference
        steps = (time - known) / self.dt
        if abs(steps) > 1e15:
            return place + int(np.sign(steps)) * 10**15
        if abs(steps - round(steps)) > OFF_GRID:
            self.counts.off_grid += 1
        return place + round(steps)

    def _time_of(self, place: int) -> float:
        if self._reference is None:
            return 0.0
        return self._reference[1] + (place - self._reference[0]) * self.dt

    def _accept(self, time: float, row: np.ndarray) -> Rows:
        self._remember(time, row)
        self.counts.accepted += 1
        return Rows(np.array([time]), row[None])

    def _remember(self, time: float, row: np.ndarray) -> None:
        self._reference = (self._next, time)
        self._past.append(row)
        self._next += 1

    def _follow(self) -> list[Released]:
        """Samples that waited for the newest one."""
        found: list[Released] = []
        while self._next in self._waiting:
            found.append(self._accept(*self._waiting.pop(self._next)[:2]))
        return found

    def _give_up(self) -> list[Released]:
        """What has not come by now is a gap, up to the first sample that waits."""
        after = min(self._waiting)
        count = after - self._next
        time, row, _ = self._waiting[after]
        self.counts.gaps += 1
        self.counts.gap_samples += count
        self.counts.last_problem = f"a gap of {count} samples before t = {time:.6g} s"
        if self.gaps == "restart" or count > LONGEST_GAP or not self._past:
            waiting = sorted(self._waiting.items())
            self._begin_segment()
            released: list[Released] = [Restart(self.counts.last_problem)]
            self.counts.restarts += 1
            for _, (t, values, self._message) in waiting:
                released += self._one(t, values)
            return released
        filled: list[Released] = []
        last = self._past[-1]
        for j in range(count):
            self._filled.append(self._next)
            share = (j + 1) / (count + 1)
            between = [
                (1 - share) * last[i] + share * row[i] if self.linear[i] else last[i] for i in range(self.inputs)
            ]
            absent = np.array([*between, *np.full(len(row) - self.inputs, np.nan)])
            t = self._time_of(self._next)
            self._remember(t, absent)
            filled.append(Rows(np.array([t]), absent[None]))
        return [*filled, *self._follow()]

    def _of_the_past(self, place: int, time: float, row: np.ndarray) -> list[Released]:
        """A sample whose place is taken: late, repeated, or the first ones after a clock was set back."""
        if place in self._filled:
            self.counts.late += 1
            return []
        age = self._next - place
        known = self._past[-age] if 0 < age <= len(self._past) else None
        if known is not None and np.array_equal(known, row, equal_nan=True):
            self.counts.duplicate += 1
            return []
        if place >= 0 and known is None:  # so long ago that nobody remembers
            self.counts.duplicate += 1
            return []
        if self._stale and time <= self._stale[-1][0]:
            self._drop_stale()
        self._stale.append((time, row, self._message))
        if len(self._stale) < CLOCK_RESET:
            return []
        stale, self._stale = self._stale, []
        self._begin_segment()
        self.counts.restarts += 1
        self.counts.last_problem = f"the clock went back to t = {stale[0][0]:.6g} s"
        released: list[Released] = [Restart(self.counts.last_problem)]
        for t, values, self._message in stale:
            released += self._one(t, values)
        return released

    def _drop_stale(self) -> None:
        for time, _, _ in self._stale:
            self.counts.duplicate += 1
            self.counts.last_problem = f"another sample for t = {time:.6g} s, which is taken"
        self._stale.clear()

    def _begin_segment(self) -> None:
        self._next, self._reference = 0, None
        self._waiting.clear()
        self._filled.clear()
        self._past.clear()
        self._stale.clear()


def _merged(released: list[Released]) -> list[Released]:
    """Consecutive rows joined."""
    found: list[Released] = []
    run: list[Rows] = []
    for item in released:
        if isinstance(item, Rows):
            run.append(item)
            continue
        if run:
            found.append(joined(run))
            run = []
        found.append(item)
    return [*found, joined(run)] if run else found


def joined(rows: list[Rows]) -> Rows:
    """Consecutive rows as one."""
    return Rows(np.concatenate([r.time for r in rows]), np.concatenate([r.values for r in rows]))
