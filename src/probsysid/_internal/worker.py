"""Work that is done step by step, in the caller's thread or in one of its own, never in both at once."""

import threading
from collections.abc import Callable


class BackgroundWorker:
    """Calls `step` until it says that nothing is left to do.

    An exception ends the work; in the thread of its own it is kept and raised by the next call of `check`, `here` or
    `wait`.  The thread lasts as long as there is work.  When the program ends, it finishes the step at hand: Python
    waits for it, and the main thread counts as ended by then.
    """

    def __init__(self, step: Callable[[], bool]):
        self._step = step
        self._changed = threading.Condition()
        self._wanted = False
        self._worker: object | None = None
        """A token of whoever is at work."""
        self._stopping = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """See to it that somebody is at work; returns at once."""
        with self._changed:
            self._wanted, self._stopping = True, False
            if self._worker is None:
                self._worker = worker = object()
                self._thread = threading.Thread(target=self._aside, args=(worker,), name="probsysid: background")
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads: nobody is at work then
                    self._rest(worker)
                    raise

    def here(self) -> None:
        """Work in this thread until nothing is left; where the other thread is at it, let it finish."""
        worker = object()
        try:
            with self._changed:  # the other thread keeps its failure before it rests: none is left behind
                self.check()
                self._wanted, self._stopping = True, False
                if self._worker is None:
                    self._worker = worker
            if self._worker is worker:
                self._work(worker)
        finally:
            self._rest(worker)
        self.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Until nobody is at work any more, or so many seconds; whether it has come to that."""
        with self._changed:
            idle = self._changed.wait_for(lambda: self._worker is None, timeout)
        self.check()
        return idle

    def check(self) -> None:
        """Raise what has gone wrong in the thread, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def stop(self, *, wait: bool) -> None:
        """Finish the step at hand and begin no other."""
        self._stopping = True
        if wait and self._thread is not None:
            self._thread.join()

    def _aside(self, worker: object) -> None:
        try:
            self._work(worker)
        except BaseException as error:
            with self._changed:  # whoever sees the failure finds nobody at work, and can start again
                self._failure = error
                self._rest(worker)

    def _work(self, worker: object) -> None:
        while self._more(worker):
            while self._step() and not self._stopping and threading.main_thread().is_alive():
                pass

    def _more(self, worker: object) -> bool:
        """Whether somebody has asked for work since the last look; if not, this one is at rest from here on."""
        with self._changed:
            wanted, self._wanted = self._wanted, False
            if wanted and not self._stopping and threading.main_thread().is_alive():
                return True
            self._rest(worker)
            return False

    def _rest(self, worker: object) -> None:
        with self._changed:
            if self._worker is worker:
                self._worker = None
                self._changed.notify_all()
