"""A Ctrl-C at the moment when Python loses it."""

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_by_the_collector() -> Iterator[None]:
    """The next collection of garbage is where a Ctrl-C comes: Python cannot raise it there."""

    def strike(phase: str, info: dict) -> None:
        if gc.callbacks and gc.callbacks[-1] is strike:
            gc.callbacks.remove(strike)
            signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(strike)
    try:
        yield
    finally:
        if strike in gc.callbacks:
            gc.callbacks.remove(strike)
