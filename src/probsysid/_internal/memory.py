"""Refuse what does not fit into memory before it is allocated: systems end processes that take too much, silently."""

import os
from pathlib import Path

from probsysid._internal.errors import InputError

GIGABYTE = 1e9

UNKNOWN = 2**62
"""Bytes assumed free where the system does not tell."""


def available_memory() -> int:
    """Bytes that can be allocated without swapping."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return UNKNOWN


def check_memory(what: str, needed: float) -> None:
    """Raise unless this many bytes are free."""
    free = available_memory()
    if needed > free:
        raise InputError(
            f"{what} would take about {needed / GIGABYTE:.3g} GB of memory; {free / GIGABYTE:.3g} GB are free."
        )
