"""NumPy archives."""

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from probsysid._internal.errors import InputError
from probsysid._internal.memory import check_memory
from probsysid.data.readers.table import Table, columns_of, first_line, row

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Those that NumPy writes."""

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class _Refused(ValueError):
    """The archive is not what NumPy writes."""


def read(path: Path) -> Table:
    """The arrays of an archive.  Pickled objects are refused: unpickling can run any code.  Structured arrays are left
    out."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            check_memory(str(path), 2 * sum(info.file_size for info in members))
            arrays = {info.filename.removesuffix(".npy"): _array(archive, info) for info in members}
    except InputError:
        raise
    except Exception as error:  # NumPy, zipfile and zlib raise a dozen types on damaged files
        raise InputError(f"{path} is not an archive of plain arrays, or is damaged ({first_line(error)}).") from None
    return Table(path, columns_of({name: array for name, array in arrays.items() if array is not None}), row, "array")


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray | None:
    """One array, once its header has been looked at; None if it is structured."""
    if info.flag_bits & 1:
        raise _Refused(f"{info.filename} is encrypted")
    if info.compress_type not in COMPRESSIONS:
        raise _Refused(f"{info.filename} is compressed in a way that NumPy does not use")
    with archive.open(info) as member:
        shape, dtype = _header(member)
        if dtype.hasobject:
            raise _Refused(f"{info.filename} holds Python objects")
        if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize > info.file_size:
            raise _Refused(f"{info.filename} claims to have the shape {shape} and is shorter")
    if dtype.kind == "V":
        return None
    with archive.open(info) as member:
        return npy.read_array(member, allow_pickle=False)


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(member)
    if version not in HEADERS:
        raise _Refused(f"its format {version} is unknown")
    shape, _, dtype = HEADERS[version](member)
    return shape, dtype
