"""The background worker: each step is done once, by one thread at a time, and failures are raised once."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from probsysid._internal import worker
from probsysid._internal.worker import BackgroundWorker


class Counter:
    """Counts down what is left to do, and fails if two threads work at once."""

    def __init__(self) -> None:
        self.left = 0
        self.done = 0
        self.busy = threading.Lock()

    def step(self) -> bool:
        assert self.busy.acquire(blocking=False), "two threads are working"
        try:
            if self.left == 0:
                return False
            self.left -= 1
            self.done += 1
            time.sleep(0)
            return True
        finally:
            self.busy.release()


def test_every_step_is_done_once_in_either_thread() -> None:
    counter = Counter()
    work = BackgroundWorker(counter.step)
    for k in range(300):
        counter.left += 1
        if k % 7:
            work.start()
        else:
            work.here()
            assert counter.left == 0
    assert work.wait(10)
    work.stop(wait=True)
    assert (counter.left, counter.done) == (0, 300)


def test_work_requested_during_the_last_step_is_done() -> None:
    """Between the step that finds nothing left and the end of the thread."""
    counter = Counter()
    looking, go_on = threading.Event(), threading.Event()

    def step() -> bool:
        more = counter.step()
        if not more:
            looking.set()
            assert go_on.wait(10)
        return more

    work = BackgroundWorker(step)
    work.start()
    assert looking.wait(10)
    counter.left = 1
    work.start()
    go_on.set()
    assert work.wait(10)
    assert counter.done == 1
    work.stop(wait=True)


def test_a_failure_is_raised_once_and_work_can_be_restarted() -> None:
    def step() -> bool:
        raise ArithmeticError("no")

    work = BackgroundWorker(step)
    work.start()
    with pytest.raises(ArithmeticError):
        work.wait(10)
    work.check()
    with pytest.raises(ArithmeticError):
        work.here()
    work.start()
    with pytest.raises(ArithmeticError):
        work.wait(10)
    work.stop(wait=True)


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads are switched as often as Python can, so that races happen within few rounds."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_threads")
def test_a_failure_while_here_begins_is_raised_once() -> None:
    """The thread fails before, while or after `here` checks for failures and for a working thread.

    With that check taken out of the lock, some of the rounds fail.
    """
    for k in range(300):
        pause = (k % 30) * 1e-6

        def step(pause: float = pause) -> bool:
            end = time.perf_counter() + pause
            while time.perf_counter() < end:
                pass
            raise ArithmeticError("no")

        work = BackgroundWorker(step)
        work.start()
        with pytest.raises(ArithmeticError):
            work.here()
        work.check()


@pytest.fixture
def slow_threads() -> Iterator[None]:
    """New threads pause before every line of the worker's module, so that other threads see every state between."""

    def pause(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != worker.__file__:
            return None
        time.sleep(0.005)
        return pause

    before = threading.gettrace()
    threading.settrace(pause)
    yield
    threading.settrace(before)


@pytest.mark.usefixtures("slow_threads")
def test_work_requested_while_a_failed_thread_ends_is_done() -> None:
    """The failure is seen, and work requested, before the thread has ended."""
    calls: list[int] = []

    def step() -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise ArithmeticError("no")
        return False

    work = BackgroundWorker(step)
    work.start()
    with pytest.raises(ArithmeticError):
        while True:
            work.check()
    work.start()
    assert work.wait(10)
    assert len(calls) == 2


def test_stop_ends_after_the_current_step() -> None:
    inside, go_on = threading.Event(), threading.Event()
    counter = Counter()
    counter.left = 5

    def step() -> bool:
        inside.set()
        assert go_on.wait(10)
        return counter.step()

    work = BackgroundWorker(step)
    work.start()
    assert inside.wait(10)
    work.stop(wait=False)
    go_on.set()
    assert work.wait(10)
    assert counter.done == 1
    work.here()
    assert (counter.left, counter.done) == (0, 5)


def test_a_program_that_ends_does_not_hang() -> None:
    program = (
        "import runpy, time\n"
        f"BackgroundWorker = runpy.run_path({worker.__file__!r})['BackgroundWorker']\n"
        "work = BackgroundWorker(lambda: time.sleep(0.05) is None)\n"  # there is always more to do
        "work.start()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
