"""MATLAB's .mat files, version 5 and the newer HDF5-based version 7.3; fields of structures are named `name.field`."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.readers.table import Table, columns_of, first_line, row

DEPTH = 6
"""Structures nested deeper than this are left out."""


def read(path: Path) -> Table:
    """Every numeric vector, and every column of every numeric matrix."""
    variables = _hdf5(path) if h5py.is_hdf5(path) else _version5(path)
    columns = columns_of({name: value for name, value in variables.items() if np.asarray(value).dtype.kind in "biuf"})
    return Table(path, columns, row, "variable")


def _version5(path: Path) -> dict[str, Any]:
    import scipy.io  # 0.13 s to import, which reading other formats does not need

    try:
        content = scipy.io.loadmat(path, simplify_cells=True)
    except Exception as error:  # scipy raises a dozen types on damaged files
        raise InputError(f"{path} is not a MATLAB file, or is damaged ({first_line(error)}).") from None
    return _flat({name: value for name, value in content.items() if not name.startswith("__")})


def _flat(content: dict[str, Any], prefix: str = "", depth: int = DEPTH) -> dict[str, Any]:
    """Nested structures as one level of names with dots."""
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.", depth - 1) if depth else {}
        else:
            flat[prefix + name] = value
    return flat


def _hdf5(path: Path) -> dict[str, Any]:
    try:
        with h5py.File(path, "r") as file:
            return _flat(_group(file, DEPTH))
    except (OSError, RuntimeError, KeyError) as error:
        raise InputError(f"{path} is not a MATLAB file, or is damaged ({first_line(error)}).") from None


def _group(group: h5py.Group, depth: int) -> dict[str, Any]:
    """The numeric arrays of a group, which MATLAB stores transposed; text and references to cells are left out."""
    content: dict[str, Any] = {}
    for name, item in group.items():
        if name.startswith("#"):
            continue
        if isinstance(item, h5py.Group):
            content[name] = _group(item, depth - 1) if depth else {}
        elif item.dtype.kind in "biuf" and item.attrs.get("MATLAB_class", b"double") not in (b"char", "char"):
            content[name] = np.asarray(item[()]).T
    return content
