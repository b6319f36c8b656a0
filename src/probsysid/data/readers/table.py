"""Columns by name, whatever kind of file they come from."""

import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probsysid._internal.errors import InputError, did_you_mean

SHOWN = 12
"""Names listed in a message when one is not found."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal or unequal length, and how to tell a person where a value stands."""

    path: Path
    columns: Mapping[str, Any]
    place: Callable[[int], str]
    """Index of a value -> `line 17`, or `row 16`."""
    kind: str = "column"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def raw(self, name: str | int) -> Any:
        """A column as it was read.  A whole number counts columns from 1."""
        if isinstance(name, int) and str(name) not in self.columns:
            if not 1 <= name <= len(self.columns):
                raise InputError(f"{self.path}: there is no {self.kind} number {name}; there are {len(self.columns)}.")
            return self.columns[self.names[name - 1]]
        if str(name) not in self.columns:
            listed = ", ".join(self.names[:SHOWN]) + (", ..." if len(self.names) > SHOWN else "")
            hint = did_you_mean(str(name), self.names)
            raise InputError(
                f"{self.path}: there is no {self.kind} {str(name)!r}; there are: {listed or 'none'}.{hint}"
            )
        return self.columns[str(name)]

    def numbers(self, name: str | int) -> np.ndarray:
        """A column as float64; an empty cell is NaN, a text is an error with its place."""
        raw = self.raw(name)
        series = raw if isinstance(raw, pd.Series) else pd.Series(np.asarray(raw))
        if series.dtype.kind == "c":
            raise InputError(f"{self.path}: {self.kind} {str(name)!r} holds complex numbers; expected real ones.")
        if pd.api.types.is_numeric_dtype(series):
            return series.to_numpy(dtype=float, na_value=np.nan)
        numbers = pd.to_numeric(series, errors="coerce")
        wrong = (numbers.isna() & series.notna()).to_numpy()
        if np.any(wrong):
            k = int(np.argmax(wrong))
            found = str(series.iloc[k])[:40]
            raise InputError(
                f"{self.path}: {self.kind} {str(name)!r} has {found!r} at {self.place(k)}; expected a number."
            )
        return numbers.to_numpy(dtype=float, na_value=np.nan)


def read_table(
    path: str | Path,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    skip: int = 0,
) -> Table:
    """Read a file by its ending; the options are for text files."""
    from probsysid.data.readers import csv, matlab

    path = Path(path)
    if not path.exists():
        near = did_you_mean(path.name, os.listdir(path.parent)) if path.parent.is_dir() else ""
        raise InputError(f"there is no file {path}.{near}")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file.")
    kind = path.suffix.lower()
    readers: dict[str, Callable[[], Table]] = {
        ".csv": lambda: csv.read(path, separator, decimal, encoding, skip),
        ".tsv": lambda: csv.read(path, separator or "\t", decimal, encoding, skip),
        ".txt": lambda: csv.read(path, separator, decimal, encoding, skip),
        ".dat": lambda: csv.read(path, separator, decimal, encoding, skip),
        ".parquet": lambda: _parquet(path),
        ".mat": lambda: matlab.read(path),
        ".npz": lambda: _npz(path),
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


def row(index: int) -> str:
    """How rows are called where there are no lines: counted from 1."""
    return f"row {index + 1}"


def _parquet(path: Path) -> Table:
    try:
        frame = pd.read_parquet(path)
    except ImportError:
        raise InputError(
            f"{path}: reading parquet needs the package pyarrow; install it with: pip install 'probsysid[parquet]'."
        ) from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not a parquet file, or is damaged ({_first_line(error)}).") from None
    return Table(path, {str(name): frame[name] for name in frame.columns}, row)


def _npz(path: Path) -> Table:
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise ValueError("it holds one array without a name")
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not an archive of plain arrays, or is damaged ({_first_line(error)}).") from None
    return Table(path, columns_of(arrays), row, "array")


def columns_of(variables: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Vectors as they are; a matrix column by column under MATLAB's names, `y(:,1)`, `y(:,2)`, ..."""
    columns: dict[str, np.ndarray] = {}
    for name, value in variables.items():
        array = np.asarray(value)
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2 and 1 in array.shape:
            columns[name] = array.ravel()
        elif array.ndim == 2:
            tall = array if array.shape[0] >= array.shape[1] else array.T
            columns.update({f"{name}(:,{j + 1})": tall[:, j] for j in range(tall.shape[1])})
    return columns


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:120]
