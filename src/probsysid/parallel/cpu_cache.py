"""The size of the processor's first-level cache, into which blocks of particles should fit."""

from functools import lru_cache
from pathlib import Path

USUAL = 32 * 1024
"""Bytes of most processors' first-level data cache, where the system does not say."""

LINUX = Path("/sys/devices/system/cpu/cpu0/cache")

UNITS = {"K": 1024, "M": 1024**2}


@lru_cache
def first_level_cache(folder: Path = LINUX) -> int:
    """Bytes of a core's first-level data cache."""
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
            if level == "1" and kind in ("Data", "Unified"):
                return int(size[:-1]) * UNITS[size[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return USUAL
