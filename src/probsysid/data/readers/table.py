"""Columns by name, independent of the file format they come from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probsysid._internal.errors import InputError, did_you_mean

SHOWN = 12
"""The number of names listed in the message about one that is not found."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns, which may differ in length, and the description of where in the file a value stands."""

    path: Path
    columns: Mapping[str, pd.Series | np.ndarray]
    place: Callable[[int], str]
    """Index of a value -> `line 17`, or `row 16`."""
    kind: str = "column"
    """What messages call a column."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the file."""
        return tuple(self.columns)

    def raw(self, name: str | int) -> pd.Series | np.ndarray:
        """A column as it was read.  An integer is the number of a column, from 1."""
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
        """A column as float64; an empty cell is NaN, a text is an error that says where it stands."""
        try:
            return self._floats(name)
        except OverflowError:
            raise InputError(f"{self.path}: {self.kind} {str(name)!r} has a number that is too large.") from None

    def _floats(self, name: str | int) -> np.ndarray:
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


def row(index: int) -> str:
    """The description of a row in files without lines, counted from 1."""
    return f"row {index + 1}"


def columns_of(variables: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Vectors unchanged, a number as a vector of one; a matrix column by column under MATLAB's names, `y(:,1)`, ...

    Arrays with other numbers of dimensions are left out.
    """
    columns: dict[str, np.ndarray] = {}
    for name, value in variables.items():
        array = np.asarray(value)
        if array.ndim <= 1:
            columns[name] = array.reshape(-1)
        elif array.ndim == 2 and 1 in array.shape:
            columns[name] = array.ravel()
        elif array.ndim == 2:
            tall = array if array.shape[0] >= array.shape[1] else array.T
            columns.update({f"{name}(:,{j + 1})": tall[:, j] for j in range(tall.shape[1])})
    return columns


def first_line(error: Exception) -> str:
    """The first line of an error message, or the error's type if it has none, shortened for a message of our own."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:120]
