"""NumPy archives."""

import zipfile
from pathlib import Path

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.readers.table import Table, columns_of, first_line, row


def read(path: Path) -> Table:
    """The arrays of an archive.  Pickled objects are refused: unpickling can run any code."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise ValueError("it holds one array without a name")
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not an archive of plain arrays, or is damaged ({first_line(error)}).") from None
    return Table(path, columns_of(arrays), row, "array")
