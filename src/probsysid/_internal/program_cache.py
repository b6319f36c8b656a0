"""The folder of compiled programs: entries that were cut off are removed.

JAX writes an entry in place.  If the process is killed or the disk is full then, the rest is missing; JAX
compiles the program again in every process, with a warning, and never replaces the entry.
"""

import os
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SUFFIX = "-cache"
"""Of the entries' names, which JAX chooses."""

MARKER = ".checked"
"""Its time says which entries have been checked: every entry is, once."""

ZSTANDARD = b"\x28\xb5\x2f\xfd"
"""First bytes of an entry that was compressed by Zstandard; others are compressed by zlib."""

OVERLAP = 2.0
"""Seconds before the last check from which entries are checked again: clocks of file systems are coarse."""


def remove_damaged(folder: Path) -> None:
    """Remove entries that cannot be decompressed; nothing happens if the folder cannot be read or written."""
    with suppress(OSError):
        marker = folder / MARKER
        began = time.time()
        checked = marker.stat().st_mtime if marker.exists() else 0.0
        for entry in os.scandir(folder):
            if entry.name.endswith(SUFFIX) and entry.stat().st_mtime > checked - OVERLAP and not _whole(entry.path):
                os.unlink(entry.path)
        marker.touch()
        os.utime(marker, (began, began))


def _whole(path: str) -> bool:
    content = Path(path).read_bytes()
    decompress = _zstandard() if content.startswith(ZSTANDARD) else zlib.decompress
    try:
        decompress(content)
    except Exception:  # each library has its own
        return False
    return True


def _zstandard() -> Callable[[bytes], bytes]:
    """The first library of those that JAX uses; without one, what it would have compressed counts as whole."""
    try:
        from compression import zstd  # type: ignore[import-not-found]  # Python 3.14

        return zstd.decompress
    except ImportError:
        pass
    try:
        import zstandard  # type: ignore[import-not-found]

        return zstandard.ZstdDecompressor().decompress
    except ImportError:
        return lambda content: content
