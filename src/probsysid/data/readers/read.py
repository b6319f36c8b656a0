"""The reader for each file name extension."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.data.readers import csv, matlab, npz, parquet
from probsysid.data.readers.table import Table


class TextOptions(TypedDict, total=False):
    """The options for text files."""

    separator: str | None
    decimal: str | None
    encoding: str | None
    skip: int


def read_table(
    path: str | Path,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    skip: int = 0,
) -> Table:
    """Read a file according to its extension; the options are for text files."""
    path = Path(path)
    if not path.exists():
        near = did_you_mean(path.name, os.listdir(path.parent)) if path.parent.is_dir() else ""
        raise InputError(f"there is no file {path}.{near}")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file.")
    if not path.is_file():  # a pipe or a device may never end
        raise InputError(f"{path} is not a file that is stored; copy its data to one.")
    kind = path.suffix.lower()
    readers: dict[str, Callable[[], Table]] = {
        ".csv": lambda: csv.read(path, separator, decimal, encoding, skip),
        ".tsv": lambda: csv.read(path, separator or "\t", decimal, encoding, skip),
        ".txt": lambda: csv.read(path, separator, decimal, encoding, skip),
        ".dat": lambda: csv.read(path, separator, decimal, encoding, skip),
        ".parquet": lambda: parquet.read(path),
        ".mat": lambda: matlab.read(path),
        ".npz": lambda: npz.read(path),
    }
    if kind not in readers:
        hint = did_you_mean(kind, readers)
        raise InputError(f"{path}: files ending in {kind!r} cannot be read; known are: {', '.join(readers)}.{hint}")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty.")
    try:
        return readers[kind]()
    except PermissionError:
        raise InputError(f"{path} may not be read: permission denied.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from None
