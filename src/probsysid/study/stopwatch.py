"""Where the time of a model's run goes: compiling, sampling, checks, states and predictions."""

import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from probsysid._internal.compile_clock import compile_seconds
from probsysid.inference.identify import Notice
from probsysid.smc.ibis import IBISState, StepInfo

OFTEN = 30.0
"""Seconds between lines on the course of a run, where there is no terminal for a progress bar."""


@dataclass
class Stopwatch:
    """Seconds by phase, in the order in which they came."""

    seconds: dict[str, float] = field(default_factory=dict)
    compiling: float = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is done inside, without compiling, which is counted apart."""
        began, compiled = clock.perf_counter(), compile_seconds()
        try:
            yield
        finally:
            spent = compile_seconds() - compiled
            self.compiling += spent
            self.add(name, max(clock.perf_counter() - began - spent, 0.0))

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @property
    def total(self) -> float:
        return self.compiling + sum(self.seconds.values())

    def __str__(self) -> str:
        parts = [("compiling", self.compiling), *self.seconds.items()]
        shown = [f"{name} {in_seconds(seconds)}" for name, seconds in parts if seconds >= 0.05 * self.total]
        return f"{in_seconds(self.total)}: {', '.join(shown)}"


def in_seconds(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3.5 min`."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class CourseOfRun:
    """The notice of a run: says from time to time where it is, and takes the time of sampling and of what follows."""

    def __init__(self, samples: int, say: Callable[[str], None], *, often: bool, also: Notice | None = None):
        self.samples, self.say, self.often, self.also = samples, say, often, also
        self.began = self.said = self.sampled = clock.perf_counter()
        self.compiled_before = self.compiled = compile_seconds()

    def __call__(self, run: IBISState, step: StepInfo) -> None:
        now = clock.perf_counter()
        if self.also is not None:
            self.also(run, step)
        self.sampled, self.compiled = now, compile_seconds()
        if run.samples >= self.samples:
            self.say("checking: integration, fresh draws, lost modes")
        elif self.often and now - self.said > OFTEN:
            self.said = now
            self.say(f"sample {run.samples} of {self.samples} after {in_seconds(now - self.began)}")

    def close(self, watch: Stopwatch) -> None:
        """Tell the stopwatch, at the end of the run."""
        now, compiled = clock.perf_counter(), compile_seconds()
        first, second = self.compiled - self.compiled_before, compiled - self.compiled
        watch.compiling += first + second
        watch.add("sampling", max(self.sampled - self.began - first, 0.0))
        watch.add("checks", max(now - self.sampled - second, 0.0))
