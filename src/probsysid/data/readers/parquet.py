"""Parquet files."""

from pathlib import Path

import pandas as pd

from probsysid._internal.errors import InputError
from probsysid.data.readers.table import Table, first_line, row


def read(path: Path) -> Table:
    """The columns of a parquet file; needs the optional package pyarrow."""
    try:
        frame = pd.read_parquet(path)
    except ImportError:
        raise InputError(
            f"{path}: reading parquet needs the package pyarrow; install it with: pip install 'probsysid[parquet]'."
        ) from None
    except Exception as error:  # pyarrow raises a dozen types on damaged files
        raise InputError(f"{path} is not a parquet file, or is damaged ({first_line(error)}).") from None
    return Table(path, {str(name): frame[name] for name in frame.columns}, row)
