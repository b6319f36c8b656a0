"""The engine: takes samples out of the queue, follows them with every model, and tells those who listen.

It runs in a thread of its own.  Everything that others see is a copy or never changes.
"""

import json
import threading
import time as clock
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from probsysid._internal.errors import first_words
from probsysid.live import shown
from probsysid.live.alignment import Restart, Rows
from probsysid.live.feed import Feed
from probsysid.live.folder import Earlier
from probsysid.live.intake import Arrived, Intake
from probsysid.live.settings import LiveOptions
from probsysid.live.track import Alarm, Track

TICK = 0.25
"""Seconds between the rows of numbers that a page shows."""

LOAD_OVER = 5.0
"""Seconds over which load and rate are averaged."""


class Results(Protocol):
    """Where lines of results go."""

    def write(self, line: str) -> None: ...

    def close(self) -> None: ...


class Engine:
    """Several models on one stream."""

    def __init__(
        self,
        tracks: Sequence[Track],
        intake: Intake,
        options: LiveOptions,
        dt: float,
        folder: Path | None = None,
        results: Sequence[Results] = (),
        on_posterior: Callable[["Engine"], None] | None = None,
        on_alarm: Callable[[Alarm], None] | None = None,
    ):
        self.tracks, self.intake, self.options, self.dt, self.folder = tracks, intake, options, dt, folder
        self.results, self.on_posterior, self.on_alarm = results, on_posterior, on_alarm
        self.failure: BaseException | None = None
        self.lags: deque[float] = deque(maxlen=100_000)
        """Seconds from the arrival of each block to its posterior."""
        self.processed = 0
        """Samples of this and earlier runs."""
        self.position = 0
        """Those of the present segment."""
        self.alarms: deque[Alarm] = deque(maxlen=1000)
        self.feed = Feed(shown.sample_columns(tracks[0]), shown.number_columns(tracks))
        self.state = lambda: ""
        self.alarm_text = ""
        self._gaps = 0
        self._first_time = 0.0
        self._busy: deque[tuple[float, float, int]] = deque()
        self._wanted: deque[Callable[[], None]] = deque()
        self._stop = threading.Event()
        self._idle = threading.Condition()
        self._due = {"checkpoint": clock.monotonic(), "results": 0.0, "tick": 0.0}
        self._snapshots = 0
        self._thread = threading.Thread(target=self._run, name="probsysid: live", daemon=True)

    # What others call

    def start(self) -> None:
        """Begin to process."""
        self._thread.start()

    def stop(self) -> None:
        """End after the samples that are being processed."""
        self._stop.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; whether it has come."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all samples are processed; whether they are."""
        with self._idle:
            return self._idle.wait_for(lambda: not self.lag or not self._thread.is_alive(), timeout)

    @property
    def lag(self) -> int:
        """Accepted samples that are not in the posterior."""
        return self.intake.saved - self.processed

    @property
    def lag_seconds(self) -> float:
        return self.lags[-1] if self.lags else 0.0

    @property
    def load(self) -> float:
        """Share of the last seconds in which the engine was busy."""
        now = clock.monotonic()
        busy = sum(spent for ended, spent, _ in list(self._busy) if now - ended < LOAD_OVER)
        return min(busy / LOAD_OVER, 1.0)

    @property
    def rate(self) -> float:
        """Samples processed per second, lately."""
        return sum(count for _, _, count in list(self._busy)) / LOAD_OVER

    def time_of(self, sample: int) -> float:
        """The time of a sample of the present segment."""
        return self._first_time + sample * self.dt

    def mark(self, text: str) -> None:
        """Keep an event with the time of the newest sample."""
        clean = "".join(c for c in text if c.isprintable())[:80]
        event = {"kind": "mark", "time": self.time_of(max(self.position - 1, 0)), "text": clean or "mark"}
        self.intake.note(event)
        self.feed.add_event(event)
        self._tell(event)

    def snapshot(self, done: Callable[[str], None] = lambda _: None) -> None:
        """Write a report of the present posterior, between two blocks."""
        self._wanted.append(lambda: done(self._snapshot()))

    def restore(self, earlier: Earlier) -> None:
        """Go on from what an earlier run has left; call it before `start`."""
        for item in earlier.released:
            self.intake.restore(item)
            self._gaps += isinstance(item, Restart)
        self.processed = earlier.first
        for item in earlier.present:
            self._gaps -= isinstance(item, Restart)
        for track in self.tracks:
            if earlier.restarts:
                track.restart(earlier.arguments.get(track.name, {}))
                track.segment, track.past_evidence = earlier.restarts, earlier.past.get(track.name, 0.0)
        counts = [t.load(self._checkpoint(t)) if self.folder else 0 for t in self.tracks]
        waiting = list(earlier.present)
        first = next((item for item in waiting if isinstance(item, Rows)), None)
        self._first_time = 0.0 if first is None else float(first.time[0])
        self.position = min(counts)
        self.processed += self.position
        self.intake.queue_again(waiting, self.position)

    # The thread

    def _run(self) -> None:
        try:
            block = max(1, int(self.options.block / self.dt))
            while not self._stop.is_set():
                arrived = self.intake.take(max(block, 256), 0.05, self._stop.is_set)
                if arrived is not None:
                    self._process(arrived)
                elif self.intake.ended:
                    break
                self._between()
            self._between(last=True)
        except BaseException as error:
            self.failure = error
        finally:
            with self._idle:
                self._idle.notify_all()

    def _process(self, arrived: Arrived) -> None:
        began = clock.perf_counter()
        if isinstance(arrived.item, Restart):
            self._gaps += 1
            self._restart(arrived.item.reason, 1.0)
            return
        rows = arrived.item
        if self.position == 0:
            self._first_time = float(rows.time[0])
        raised = []
        for track in self.tracks:
            own = rows.values[max(track.identifier.samples - self.position, 0) :]  # a checkpoint may be ahead
            if len(own) and (alarm := track.update(own)) is not None:
                raised.append(alarm)
            if (diagnosis := track.diagnosis()) is not None:
                self.alarm_text = diagnosis["text"]
                self.intake.note(diagnosis)
                self._tell(diagnosis)
                self.feed.add_event(diagnosis)
        self.feed.add_samples(shown.sample_rows(self.tracks[0], rows, self.position))
        self.position += len(rows.time)
        self.processed += len(rows.time)
        self.lags.append(clock.monotonic() - arrived.at)
        self._busy.append((clock.monotonic(), clock.perf_counter() - began, len(rows.time)))
        while self._busy and clock.monotonic() - self._busy[0][0] > LOAD_OVER:
            self._busy.popleft()
        for alarm in raised:
            self._raise(alarm)
        leading = self.leading.name
        if self.options.on_alarm == "restart" and any(alarm.model == leading for alarm in raised):
            self._restart("the data have changed", self.options.keep)

    def _between(self, *, last: bool = False) -> None:
        """What is due between two blocks."""
        while self._wanted:
            self._wanted.popleft()()
        now = clock.monotonic()
        if self._is_due("tick", TICK, now) or last:
            shown.tick(self)
        if self.processed and (self._is_due("results", self.options.results, now) or last):
            self._tell(self.summary())
            if self.on_posterior is not None:
                self.on_posterior(self)
        if self.folder is not None and (self._is_due("checkpoint", self.options.checkpoint, now) or last):
            self.save()
        if not self.lag:
            with self._idle:
                self._idle.notify_all()

    def _is_due(self, what: str, interval: float, now: float) -> bool:
        due = now - self._due[what] >= interval
        if due:
            self._due[what] = now
        return due

    # Alarms and new starts

    @property
    def leading(self) -> Track:
        """The model with the most evidence among those that still follow."""
        alive = [t for t in self.tracks if not t.failure] or list(self.tracks)
        return max(alive, key=lambda t: t.past_evidence + (t.log_evidence if t.identifier.samples else 0.0))

    def _raise(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)
        self.alarm_text = alarm.text
        self.intake.note({"kind": "alarm", "model": alarm.model, "time": alarm.time, "text": alarm.text})
        self.feed.add_event({"kind": "alarm", "time": alarm.time, "text": alarm.text})
        self._tell(alarm.as_dict())
        if self.on_alarm is not None:
            self.on_alarm(alarm)

    def _restart(self, reason: str, keep: float) -> None:
        """Begin a new segment with what is known; written down before it is done."""
        arguments = {track.name: track.next_arguments(keep) for track in self.tracks}
        past = {t.name: t.past_evidence + (t.log_evidence if t.identifier.samples else 0.0) for t in self.tracks}
        for track in self.tracks:
            if self.folder is not None and track.identifier.samples and not track.failure:
                track.posterior().save(self.folder / f"posterior-{track.name}-{track.segment + 1}.nc")
        made = {"kind": "restart", "sample": self.processed, "gaps": self._gaps, "arguments": arguments, "past": past}
        self.intake.note(made)
        for track in self.tracks:
            track.restart(arguments[track.name])
        event = {"kind": "restart", "time": self.time_of(self.position), "text": f"new start: {reason}"}
        self.position, self.alarm_text = 0, ""
        self.feed.add_event(event)
        self._tell(event)

    # Results

    def summary(self) -> dict[str, Any]:
        """The present state in a few numbers."""
        models = {t.name: t.numbers() for t in self.tracks if t.identifier.samples}
        return {
            "kind": "posterior",
            "time": self.time_of(max(self.position - 1, 0)),
            "accepted": self.intake.saved,
            "processed": self.processed,
            "lag_samples": self.lag,
            "lag_seconds": round(self.lag_seconds, 4),
            "load": round(self.load, 3),
            "counts": self.intake.counts.as_dict(),
            "models": models,
        }

    def _tell(self, content: Mapping[str, Any]) -> None:
        line = json.dumps(finite(content), allow_nan=False)
        for result in self.results:
            result.write(line)

    def save(self) -> None:
        """Write checkpoints."""
        for track in self.tracks:
            if self.folder is not None and track.identifier.samples and not track.failure:
                track.save(self._checkpoint(track))
                for old in self.folder.glob(f"checkpoint-{track.name}-*.npz"):
                    if old != self._checkpoint(track):
                        old.unlink()

    def _checkpoint(self, track: Track) -> Path:
        assert self.folder is not None
        return self.folder / f"checkpoint-{track.name}-{track.segment}.npz"

    def _snapshot(self) -> str:
        """Write reports; a sentence about it."""
        if self.folder is None:
            return "there is no folder for reports"
        written = []
        self._snapshots = (
            max(self._snapshots, *(0, *(int(p.stem[-4:]) for p in self.folder.glob("snapshot-*.html")))) + 1
        )
        for track in self.tracks:
            if track.identifier.samples < 3 or track.failure:
                continue
            path = self.folder / f"snapshot-{track.name}-{self._snapshots:04d}.html"
            try:
                track.posterior().report(path)
            except Exception as error:  # a report must not end the stream
                return f"no report could be written: {first_words(error)}"
            written.append(path.name)
        return f"written: {', '.join(written)}" if written else "there are too few samples for a report"


def finite(value: Any) -> Any:
    """The same with null for what is not finite, as JSON demands."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
