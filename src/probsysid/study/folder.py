"""Folders of results: whole or not there at all, and never in place of something else without a word.

A run keeps its checkpoints and its log in `NAME.unfinished` beside the folder-to-be.  Results are written to a hidden
folder, which gets its name when it is complete.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from probsysid.errors import InputError

MARK = "summary.json"
"""The file by which a folder is known to hold results."""


def unfinished(out: Path) -> Path:
    """Where a run keeps what it needs to go on."""
    return out.with_name(out.name + ".unfinished")


def check_free(out: Path, *, resume: bool, overwrite: bool, ask: Callable[[str], bool]) -> None:
    """Raise unless results may be written to `out`."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; choose another folder with --out.")
    if out.exists() and any(out.iterdir()):
        if not (out / MARK).exists():
            raise InputError(f"{out} exists and holds something else than results; choose another folder with --out.")
        if not overwrite and not ask(f"{out} holds results already. Replace them?"):
            raise InputError(f"{out} holds results already; choose another folder with --out, or add --overwrite.")
    left = unfinished(out)
    if left.exists() and not resume and not overwrite:
        if not ask(f"{left} holds an unfinished run. Throw it away and start anew?"):
            raise InputError(f"{left} holds an unfinished run; go on with --resume, or start anew with --overwrite.")
        shutil.rmtree(left)
    elif left.exists() and not resume:
        shutil.rmtree(left)
    if resume and not left.exists():
        raise InputError(f"there is no unfinished run to resume: {left} does not exist.")
    parent = next(p for p in out.absolute().parents if p.exists())
    if not os.access(parent, os.W_OK):
        raise InputError(f"nothing can be written to {parent}: permission denied.")


@contextmanager
def complete(out: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `out` at the end, in the place of what was there; or nothing at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        old = out.with_name(f".{out.name}.{os.getpid()}.old")
        if out.exists():
            os.replace(out, old)
        os.replace(partial, out)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
