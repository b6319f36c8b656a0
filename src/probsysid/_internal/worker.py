"""Work done step by step, in the calling thread or in a background thread, never in both at once."""

import threading
from collections.abc import Callable


class BackgroundWorker:
    """Calls `step` repeatedly until it returns False: nothing is left to do.

    An exception ends the work.  An exception in the background thread is stored and raised once, by the next call of
    `check`, `here` or `wait`.  The thread lives only while there is work.  At interpreter exit it completes the current
    step: Python joins the thread, and by then the main thread counts as ended.
    """

    def __init__(self, step: Callable[[], bool]):
        self._step = step
        self._changed = threading.Condition()
        self._wanted = False
        self._worker: object | None = None
        """A token of the thread that is working; None if none is."""
        self._stopping = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the background thread unless a thread is working already; returns at once."""
        with self._changed:
            self._wanted, self._stopping = True, False
            if self._worker is None:
                self._worker = worker = object()
                self._thread = threading.Thread(target=self._run_thread, args=(worker,), name="probsysid: background")
                try:
                    self._thread.start()
                except RuntimeError:  # the system has no more threads
                    self._rest(worker)
                    raise

    def here(self) -> None:
        """Work in this thread until nothing is left; if the background thread is working, wait for it instead."""
        worker = object()
        try:
            with self._changed:  # the thread stores its failure before it rests, so that none is missed here
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
        """Wait until no thread is working, or `timeout` seconds; whether none is working now."""
        with self._changed:
            idle = self._changed.wait_for(lambda: self._worker is None, timeout)
        self.check()
        return idle

    def check(self) -> None:
        """Raise the exception of the background thread, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def stop(self, *, wait: bool) -> None:
        """Complete the current step and begin no other."""
        self._stopping = True
        if wait and self._thread is not None:
            self._thread.join()

    def _run_thread(self, worker: object) -> None:
        try:
            self._work(worker)
        except BaseException as error:
            with self._changed:  # in one step: a caller that has seen the failure can start the work again
                self._failure = error
                self._rest(worker)

    def _work(self, worker: object) -> None:
        while self._more(worker):
            while self._step() and not self._stopping and threading.main_thread().is_alive():
                pass

    def _more(self, worker: object) -> bool:
        """Whether work was requested since the last call; if not, this worker rests."""
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
