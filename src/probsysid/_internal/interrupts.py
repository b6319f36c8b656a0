"""Ctrl-C and SIGTERM as a request that a run looks at between calls.

Python raises `KeyboardInterrupt` wherever it happens to be.  In a callback of the garbage collector, of which JAX has
some, the exception is printed and lost, and the run goes on.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

STOPPED = 130
"""Exit code of a stopped command, the shells' own for Ctrl-C."""


class StopRequest:
    """Whether a signal has asked the run to stop; an instance is the handler of its signals."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The first signal is a request; a second one is not kept waiting."""
        if self._event.is_set():
            raise KeyboardInterrupt
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if there was a signal."""
        if self._event.is_set():
            raise KeyboardInterrupt


def present_request() -> StopRequest | None:
    """The request that a signal would set now; None outside of `stop_on_signals`."""
    handler = signal.getsignal(signal.SIGINT)
    return handler if isinstance(handler, StopRequest) else None


@contextmanager
def stop_on_signals(*further: signal.Signals, insist: bool = False) -> Iterator[StopRequest]:
    """Turn Ctrl-C, and further signals, into a `StopRequest`.

    Inside another one it is the same request.  Elsewhere than in the main thread, or if the program has a handler of
    its own, nothing changes, and the request is never set.  With `insist`, a second signal ends the process at once,
    even while a compilation keeps Python from handling it; else it raises `KeyboardInterrupt`.
    """
    handler = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if isinstance(handler, StopRequest) or not main or handler is not signal.default_int_handler:
        yield handler if isinstance(handler, StopRequest) else StopRequest()
        return
    request, numbers = StopRequest(), (signal.SIGINT, *further)
    before = {number: signal.signal(number, request) for number in numbers}
    try:
        if insist:
            with _second_ends(numbers):
                yield request
        else:
            yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _second_ends(numbers: tuple[int, ...]) -> Iterator[None]:
    """End the process at the second signal: a thread learns of signals before Python's own handlers do."""
    receive, send = os.pipe()
    os.set_blocking(send, False)
    before = signal.set_wakeup_fd(send, warn_on_full_buffer=False)

    def watch() -> None:
        seen = 0
        while number := os.read(receive, 1)[0]:  # 0 is no signal: the end
            seen += number in numbers
            if seen == 2:
                os._exit(128 + number)

    thread = threading.Thread(target=watch, name="probsysid: signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.write(send, b"\0")
        thread.join()
        os.close(receive)
        os.close(send)


def end_quietly_while_importing() -> None:
    """Let Ctrl-C end a command without a traceback while it imports; nothing has been written by then.

    For `python -m probsysid` and the script of that name only; `restore_after_importing` comes next.
    """
    if sys.argv and (sys.argv[0] == "-m" or Path(sys.argv[0]).stem == "probsysid") and _default_in_main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _default_in_main_thread() -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def restore_after_importing() -> None:
    """Undo `end_quietly_while_importing`."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
