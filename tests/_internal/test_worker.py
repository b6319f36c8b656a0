"""Work aside: every step is done once, by one thread at a time, and failures come to light."""

import subprocess
import sys
import threading
import time

import pytest

from probsysid._internal import worker
from probsysid._internal.worker import BackgroundWorker


class Counter:
    """Counts down what is left to do, and notices when two are at it."""

    def __init__(self) -> None:
        self.left = 0
        self.done = 0
        self.busy = threading.Lock()

    def step(self) -> bool:
        assert self.busy.acquire(blocking=False), "two are at work"
        try:
            if self.left == 0:
                return False
            self.left -= 1
            self.done += 1
            time.sleep(0)
            return True
        finally:
            self.busy.release()


def test_all_is_done_once_whoever_asks() -> None:
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


def test_work_that_comes_while_the_last_step_ends_is_not_forgotten() -> None:
    """Between the look that finds nothing and the rest."""
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


def test_a_failure_is_raised_once_and_work_goes_on() -> None:
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


def test_a_failure_between_the_look_and_the_work_is_raised_once() -> None:
    """The thread fails just after `here` has looked for failures and before it knows who is at work."""
    go_on = threading.Event()

    def step() -> bool:
        assert go_on.wait(10)
        raise ArithmeticError("no")

    class Slow(BackgroundWorker):
        def check(self) -> None:
            super().check()
            if not go_on.is_set():
                go_on.set()
                assert self._thread is not None
                self._thread.join(0.3)

    work = Slow(step)
    work.start()
    with pytest.raises(ArithmeticError):
        work.here()
    work.check()


def test_work_asked_for_while_a_failed_thread_ends_is_not_forgotten() -> None:
    """The failure is seen, and work asked for, before the thread has come to rest."""
    calls, failed = [], threading.Event()

    def step() -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise ArithmeticError("no")
        return False

    class Slow(BackgroundWorker):
        def _rest(self, worker: object) -> None:
            if len(calls) == 1:
                failed.set()
                time.sleep(0.2)
            super()._rest(worker)

    work = Slow(step)
    work.start()
    assert failed.wait(10)
    with pytest.raises(ArithmeticError):
        work.check()
    work.start()
    assert work.wait(10)
    assert len(calls) == 2


def test_stopping_leaves_the_rest() -> None:
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
