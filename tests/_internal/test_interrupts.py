"""Ctrl-C is never lost, whatever Python is doing when it comes."""

import gc
import signal
import subprocess
import sys
import threading
import time

import pytest

from probsysid._internal.interrupts import present_request, stop_on_signals
from tests.interruption import interrupted_by_the_collector


def test_a_signal_in_the_garbage_collector_is_kept() -> None:
    with stop_on_signals() as request, interrupted_by_the_collector():
        gc.collect()
        assert request.is_set()
        with pytest.raises(KeyboardInterrupt):
            request.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_one_is_raised_where_it_comes() -> None:
    with stop_on_signals() as request:
        signal.raise_signal(signal.SIGINT)
        request.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_one_inside_another_is_the_same() -> None:
    with stop_on_signals(signal.SIGTERM) as outer, stop_on_signals() as inner:
        assert inner is outer is present_request()
        signal.raise_signal(signal.SIGTERM)
        assert inner.is_set()
    assert present_request() is None


def test_other_threads_and_other_handlers_are_left_alone() -> None:
    def elsewhere() -> None:
        with stop_on_signals():
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    own = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stop_on_signals():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, own)


BUSY = """
import ctypes, signal, sys
from probsysid._internal.interrupts import stop_on_signals
with stop_on_signals(insist=True):
    print("ready", flush=True)
    libc = ctypes.CDLL(None)
    for _ in range(100):
        libc.poll(None, 0, 1000)  # without Python's locks, and no Python handler runs inside
"""


def test_the_second_ends_a_process_at_once() -> None:
    child = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    for _ in range(2):
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
    assert child.wait(timeout=10) == 130
    child.stdout.close()


@pytest.mark.parametrize("module", ["jax", "numpyro", "probsysid.inference.identify"])
def test_a_command_that_still_imports_ends_without_a_traceback(module: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "probsysid", "fit", "absent.toml"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    lines = iter(child.stderr.readline, "")
    for line in lines:  # a line for each import that is complete
        if line.split("|")[-1].strip() == module:
            child.send_signal(signal.SIGINT)
            break
    rest = [line for line in lines if not line.startswith("import time:")]
    child.communicate()
    assert child.returncode == -signal.SIGINT and rest == []
