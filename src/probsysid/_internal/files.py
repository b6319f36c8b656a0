"""Files that are replaced atomically, sealed with a digest, or held by one process exclusively."""

import errno
import fcntl
import glob
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from probsysid._internal.errors import InputError

SEAL = b"\nprobsysid:sha256:"
"""Stands before the digest at the end of a sealed file.  Readers of HDF5 and zip ignore what follows their content."""

DIGEST = 64
"""Characters of a SHA-256 digest."""


UNWRITTEN = 3
"""Exit code of a command that could not write on, such as on a full disk."""


class DamagedFile(InputError):
    """A file whose content is not what was written."""


def sealed(content: bytes) -> bytes:
    """The content, followed by its digest."""
    return content + SEAL + hashlib.sha256(content).hexdigest().encode()


def unsealed(content: bytes) -> bytes:
    """The content before the digest; raises `DamagedFile` unless every byte is as it was written."""
    end = len(content) - len(SEAL) - DIGEST
    if SEAL not in content:
        raise DamagedFile("it has no digest, so its end is missing or an earlier version has written it")
    if end < 0 or content[end:-DIGEST] != SEAL:
        raise DamagedFile("its digest is not at its end")
    if hashlib.sha256(content[:end]).hexdigest().encode() != content[-DIGEST:]:
        raise DamagedFile("its content does not match its digest")
    return content[:end]


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by new content.

    The content is written beside the final name, flushed to the disk and renamed: a process killed at any moment, or
    a machine that stops, leaves either the old file or the new one, complete.
    """
    _remove_left(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(temporary, "wb") as file:
            _hold(file.fileno())
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself
    finally:
        os.close(folder)


def _remove_left(path: Path) -> None:
    """Remove what processes left that were killed while they wrote this file: those that live hold a lock."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with suppress(OSError), open(left, "rb") as file:
            if _hold(file.fileno()):
                left.unlink()


@contextmanager
def locked(path: Path, refusal: str | None = None) -> Iterator[None]:
    """Hold a file exclusively, by an advisory lock on a file beside it; `refusal` is said to those who come later.

    The operating system releases the lock when the process ends, however it ends.  The file beside it is removed, with
    folders that were made for it and are still empty.
    """
    beside = path.with_name(f"{path.name}.lock")
    made = [folder for folder in path.absolute().parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = _exclusive(beside)
        if lock is None:
            raise InputError(
                refusal or f"the checkpoint {path} is in use by another process; wait for it or choose another."
            )
        try:
            yield
        finally:
            beside.unlink(missing_ok=True)  # before it is released: the file is ours until then
            os.close(lock)
    finally:
        with suppress(OSError):  # not empty, or taken away already
            for folder in made:
                folder.rmdir()


def _exclusive(path: Path) -> int | None:
    """A locked file, or None if another process holds it."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if not _hold(lock):
            os.close(lock)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(path)):
                return lock
        os.close(lock)  # its holder removed the file between the two calls: it guards nothing


def _hold(file: int) -> bool:
    """Lock an open file; whether no other process has.  On drives without locks nobody has."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    return True


def unwritten(error: OSError) -> str:
    """A sentence about a file that could not be written, or read."""
    where = "" if error.filename is None else f" at {error.filename}"
    return f"writing ended{where}: {(error.strerror or str(error)).lower()}."


def read_bytes(path: Path) -> bytes:
    """The content of a checkpoint file; an `InputError` if the file cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} is not a checkpoint, or is damaged ({error}).") from None
