"""Folders of results: complete or absent, and never overwritten without consent.

A run keeps its checkpoints and its log in `NAME.unfinished` beside the future folder.  Results are written to a folder
inside it, which is moved into place when it is complete.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from probsysid._internal.errors import InputError
from probsysid._internal.files import locked

MARK = "summary.json"
"""The file that marks a folder of results."""


def unfinished(out: Path) -> Path:
    """The folder with what a run needs to resume."""
    return out.with_name(out.name + ".unfinished")


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Keep every other run away from `out`, from the first check to the last file."""
    if not out.name:
        raise InputError(f"{str(out)!r} is not a folder that can be replaced; name another with --out.")
    with ExitStack() as stack:
        with _unwritable(out):
            refusal = f"another run is writing to {out}; wait for it, or choose another folder with --out."
            real = Path(os.path.realpath(out))  # one lock for all names of a folder
            stack.enter_context(locked(real.with_name(f".{real.name}"), refusal))
        yield


def check_free(out: Path, *, resume: bool, overwrite: bool, ask: Callable[[str], bool]) -> None:
    """Raise unless results may be written to `out`."""
    with _unwritable(out):
        _check_free(out, resume, overwrite, ask)
        _try_folder(unfinished(out))
        if os.path.ismount(out):
            raise InputError(
                f"{out} cannot be replaced, since a disk is mounted there; choose a folder in it with --out."
            )


def check_file(path: Path) -> None:
    """Raise unless a file can be written, before a long run; nothing is left behind."""
    with _unwritable(path):
        if not path.name or path.is_dir():
            raise InputError(f"{path} is a folder; name a file.")
        if not path.absolute().parent.is_dir():
            raise InputError(f"there is no folder {path.parent} to write {path.name} to.")
        if path.is_symlink() and not path.exists():
            raise InputError(f"{path} is a link to {os.readlink(path)}, which does not exist; name another file.")
        there = path.exists()
        if path.is_file() or not there:  # opening a pipe would wait for its reader
            path.open("ab").close()
        if not there:
            path.unlink()


@contextmanager
def _unwritable(path: Path) -> Iterator[None]:
    """Turn an `OSError` about a path into a sentence."""
    try:
        yield
    except OSError as error:
        shown = str(path) if len(str(path)) <= 200 else f"{str(path)[:200]}..."
        raise InputError(f"nothing can be written to {shown}: {(error.strerror or str(error)).lower()}.") from None


def _try_folder(left: Path) -> None:
    """Create a folder and remove it again, with its new parents: the only reliable test."""
    missing = [folder for folder in (left, *left.absolute().parents) if not folder.exists()]
    try:
        left.mkdir(parents=True, exist_ok=True)
    finally:
        for folder in missing:
            if folder.is_dir():
                folder.rmdir()


def _check_free(out: Path, resume: bool, overwrite: bool, ask: Callable[[str], bool]) -> None:
    if out.is_symlink() and not out.exists():
        raise InputError(
            f"{out} is a link to {os.readlink(out)}, which does not exist; choose another folder with --out."
        )
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; choose another folder with --out.")
    if out.exists() and any(out.iterdir()):
        if not (out / MARK).exists():
            raise InputError(f"{out} exists and holds something else than results; choose another folder with --out.")
        if not overwrite and not ask(f"{out} holds results already. Replace them?"):
            raise InputError(f"{out} holds results already; choose another folder with --out, or add --overwrite.")
    left = unfinished(out)
    if left.exists() and not left.is_dir():
        raise InputError(f"{left} is a file, in the place of an unfinished run; move it away.")
    if left.exists() and not resume and not overwrite:
        if not ask(f"{left} holds an unfinished run. Throw it away and start anew?"):
            raise InputError(f"{left} holds an unfinished run; go on with --resume, or start anew with --overwrite.")
        shutil.rmtree(left)
    elif left.exists() and not resume:
        shutil.rmtree(left)
    if resume and not left.exists():
        raise InputError(f"there is no unfinished run to resume: {left} does not exist.")


@contextmanager
def complete(out: Path) -> Iterator[Path]:
    """A folder to write into, which replaces `out` at the end; after an exception it is removed."""
    left = unfinished(out)
    results, replaced = left / "results", left / "replaced"
    shutil.rmtree(results, ignore_errors=True)  # left by a run that was killed while writing
    results.mkdir(parents=True)
    try:
        yield results
        shutil.rmtree(replaced, ignore_errors=True)
        if out.exists():
            os.replace(out, replaced)
        os.replace(results, out)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(results, ignore_errors=True)
        with suppress(OSError):  # not empty: it has checkpoints
            left.rmdir()
