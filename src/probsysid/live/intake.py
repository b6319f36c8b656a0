"""From a source to the queue of samples that wait to be processed: aligned, saved, acknowledged.

A message is acknowledged when all of its samples are in the journal on the disk.  The queue is bounded: when it is
full, the source is not read until there is room, and the time lost so is counted.
"""

import threading
import time as clock
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from probsysid.live.alignment import Alignment, Counts, Released, Restart, Rows, joined
from probsysid.live.channels import Channels
from probsysid.live.journal import Event, Journal
from probsysid.live.messages import Acknowledge, Item, Malformed, Message

MOST_WAITING = 200_000
"""Samples in the queue: a fast machine takes minutes for them, and they take megabytes."""


MOST_HELD = 16
"""Messages that may wait for an earlier one: mosquitto, by default, delivers no more than 20 before acknowledgement."""


class Arrived(NamedTuple):
    """Consecutive samples, or a new start, and when they came."""

    item: Released
    at: float


class Intake:
    """What stands between a source and the engine; any thread may push."""

    def __init__(
        self, channels: Channels, alignment: Alignment, journal: Journal | None, most: int = MOST_WAITING
    ) -> None:
        self.channels = channels
        self._alignment = alignment
        self._journal = journal
        self._most = most
        self._queue: deque[Arrived] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._pushing = threading.Lock()
        self._unacknowledged: deque[tuple[int, Acknowledge]] = deque()
        self._messages = 0
        self._closed = False
        self.saved = 0
        """Samples in the journal, repetitions of earlier ones not counted; this is what an acknowledgement says."""
        self.blocked = 0.0
        """Seconds for which the source was not read since the queue was full."""

    @property
    def counts(self) -> Counts:
        return self._alignment.counts

    @property
    def waiting(self) -> int:
        """Samples in the queue."""
        return self._waiting

    def restore(self, item: Released) -> None:
        """What the journal of an earlier run holds."""
        self._alignment.replay(item)
        self.saved += len(item.time) if isinstance(item, Rows) else 0

    def queue_again(self, released: list[Released], skipped: int) -> None:
        """Queue samples that are in the journal already, but for the first ones."""
        now = clock.monotonic()
        with self._changed:
            for item in released:
                if isinstance(item, Rows):
                    part = min(skipped, len(item.time))
                    skipped -= part
                    item = Rows(item.time[part:], item.values[part:])
                    if not len(item.time):
                        continue
                    self._waiting += len(item.time)
                self._queue.append(Arrived(item, now))

    def push(self, given: Item) -> int:
        """Take in what a source has yielded; returns the number of samples saved so far."""
        if given is None:
            return self.saved
        with self._pushing:
            released = self._read(given if isinstance(given, Malformed | Message) else Message(given[1], given[0]))
            self._save_and_queue(released)
            self._acknowledge()
            return self.saved

    def note(self, content: dict[str, Any]) -> None:
        """Keep an event with the samples."""
        if self._journal is not None:
            with self._pushing:
                self._journal.append([Event(content)])

    def finish(self) -> None:
        """The source has ended: release what waits for samples that will not come."""
        with self._pushing:
            self._save_and_queue(self._alignment.flush())
            self._acknowledge()
        self.close()

    def close(self) -> None:
        """Nothing more is taken out of the queue."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self, most: int, timeout: float, stop: Callable[[], bool] = lambda: False) -> Arrived | None:
        """The next samples, at most so many, or a new start; None if there is nothing."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed or stop(), timeout)
            if not self._queue:
                return None
            first = self._queue.popleft()
            if isinstance(first.item, Restart):
                return first
            rows, count = [first.item], len(first.item.time)
            while self._queue and count < most and isinstance(more := self._queue[0].item, Rows):
                rows.append(more)
                count += len(more.time)
                self._queue.popleft()
            whole = joined(rows)
            if count > most:
                rest = Rows(whole.time[most:], whole.values[most:])
                self._queue.appendleft(Arrived(rest, first.at))
                whole = Rows(whole.time[:most], whole.values[:most])
            self._waiting -= len(whole.time)
            self._changed.notify_all()
            return Arrived(whole, first.at)

    @property
    def ended(self) -> bool:
        """Whether the source has ended and the queue is empty."""
        with self._changed:
            return self._closed and not self._queue

    def _read(self, message: Message | Malformed) -> list[Released]:
        self._messages += 1
        if message.acknowledge is not None:
            self._unacknowledged.append((self._messages, message.acknowledge))
        if isinstance(message, Malformed):
            return self._refuse(message.reason)
        try:
            time, rows = self.channels.rows(message)
        except ValueError as error:
            return self._refuse(str(error))
        return self._alignment.add(time, rows, self._messages)

    def _refuse(self, reason: str) -> list[Released]:
        self.counts.malformed += 1
        self.counts.last_problem = reason
        return []

    def _save_and_queue(self, released: list[Released]) -> None:
        if not released:
            return
        if self._journal is not None:
            self._journal.append(list(released))
        now, began = clock.monotonic(), clock.perf_counter()
        with self._changed:
            self._changed.wait_for(lambda: self._waiting < self._most or self._closed)
            self.blocked += clock.perf_counter() - began
            for item in released:
                count = len(item.time) if isinstance(item, Rows) else 0
                self._queue.append(Arrived(item, now))
                self._waiting += count
                self.saved += count
            self._changed.notify_all()

    def _acknowledge(self) -> None:
        """All messages but those of which a sample waits: brokers hold back further ones, and with them what is waited
        for, while too many are not acknowledged."""
        if not self._unacknowledged:
            return
        pending = self._alignment.pending_messages
        if len(pending) >= MOST_HELD:
            self._save_and_queue(self._alignment.wait_no_longer())
            pending = self._alignment.pending_messages
        saved = [each for each in self._unacknowledged if each[0] not in pending]
        self._unacknowledged = deque(each for each in self._unacknowledged if each[0] in pending)
        for _, acknowledge in saved:
            acknowledge(self.saved)
