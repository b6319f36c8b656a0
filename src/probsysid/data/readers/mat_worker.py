"""A program of its own that reads one MATLAB file: `python mat_worker.py FILE BYTES`, arrays as .npz to its output.

The libraries behind it can loop for ever or crash on a damaged file; a process can be ended, and its end does no harm.
It imports nothing of this package, whose imports take seconds.  Sentences for the user go to its error output, after
the word REFUSED.
"""

import io
import json
import math
import sys
from typing import Any

import h5py
import numpy as np

DEPTH = 6
"""Structures nested deeper than this are left out."""

MOST_VARIABLES = 10_000

REFUSED = "refused: "


class Refused(Exception):
    """The file is not what MATLAB writes."""


def read(path: str, limit: int) -> dict[str, np.ndarray]:
    """Numeric arrays by name; fields of structures are named `name.field`."""
    return _hdf5(path, limit) if h5py.is_hdf5(path) else _version5(path)


def _version5(path: str) -> dict[str, np.ndarray]:
    import scipy.io

    content = scipy.io.loadmat(path, simplify_cells=True)
    return _flat({name: value for name, value in content.items() if not name.startswith("__")}, "", DEPTH)


def _flat(content: dict[str, Any], prefix: str, depth: int) -> dict[str, np.ndarray]:
    """Nested structures as one level of names with dots; cells are named `name{1}`."""
    flat: dict[str, np.ndarray] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}.", depth - 1) if depth else {})
        elif np.asarray(value).dtype.kind in "biuf":
            flat[prefix + name] = np.asarray(value)
        elif isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == object and depth:
            cells = {f"{name}{{{k}}}": cell for k, cell in enumerate(value, 1)}
            flat.update(_flat(cells, prefix, depth - 1))
        if len(flat) > MOST_VARIABLES:
            raise Refused(f"it has more than {MOST_VARIABLES} variables")
    return flat


def _hdf5(path: str, limit: int) -> dict[str, np.ndarray]:
    with h5py.File(path, "r") as file:
        reader = _Hdf5Reader(limit)
        reader.group(file, "", DEPTH)
        return reader.found


class _Hdf5Reader:
    """The numeric arrays of groups, which MATLAB stores transposed; text and references to cells are left out."""

    def __init__(self, limit: int):
        self.found: dict[str, np.ndarray] = {}
        self._bytes_left = limit
        self._seen: set[tuple[int, int]] = set()

    def group(self, group: h5py.Group, prefix: str, depth: int) -> None:
        self._once(group, prefix)
        for name in group:
            if name.startswith("#"):
                continue
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise Refused(f"{prefix}{name} is a link, which MATLAB never writes")
            item = group[name]
            if isinstance(item, h5py.Group):
                if depth:
                    self.group(item, f"{prefix}{name}.", depth - 1)
            elif isinstance(item, h5py.Dataset):
                self._array(item, prefix + name)

    def _once(self, item: Any, name: str) -> None:
        info = h5py.h5o.get_info(item.id)
        if (info.fileno, info.addr) in self._seen:
            raise Refused(f"{name.rstrip('.')} refers to a structure that holds it")
        self._seen.add((info.fileno, info.addr))
        if len(self._seen) > MOST_VARIABLES:
            raise Refused(f"it has more than {MOST_VARIABLES} variables")

    def _array(self, item: h5py.Dataset, name: str) -> None:
        self._once(item, name)
        text = item.attrs.get("MATLAB_class", b"double") in (b"char", "char")
        if item.shape is None or item.dtype.kind not in "biuf" or text:
            return
        if item.external is not None or item.is_virtual:
            raise Refused(f"{name} is stored in another file")
        self._bytes_left -= math.prod(item.shape) * item.dtype.itemsize
        if self._bytes_left < 0:
            raise Refused(f"{name} claims to have the shape {item.shape}, which does not fit into memory")
        self.found[name] = np.asarray(item[()]).T


def main() -> int:
    """Read the file and write its arrays; exit code 3 with a sentence if it is refused."""
    path, limit = sys.argv[1], int(sys.argv[2])
    try:
        arrays = read(path, limit)
    except Refused as error:
        print(f"{REFUSED}{error}", file=sys.stderr)
        return 3
    except Exception as error:  # SciPy and h5py raise a dozen types on damaged files
        print(f"{REFUSED}{(str(error).strip() or type(error).__name__).splitlines()[0]}", file=sys.stderr)
        return 3
    buffer = io.BytesIO()
    names = json.dumps(list(arrays)).encode()  # a damaged file can have any name
    numbered: dict[str, Any] = {f"v{i}": array for i, array in enumerate(arrays.values())}
    np.savez(buffer, names=np.frombuffer(names, dtype=np.uint8), **numbered)
    sys.stdout.buffer.write(buffer.getbuffer())
    return 0


if __name__ == "__main__":
    sys.exit(main())
