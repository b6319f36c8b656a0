"""MATLAB's .mat files, version 5 and the newer HDF5-based version 7.3; fields of structures are named `name.field`."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from probsysid._internal.errors import InputError
from probsysid._internal.memory import available_memory
from probsysid.data.readers import mat_worker
from probsysid.data.readers.table import Table, columns_of, row

PATIENCE, SPEED = 60.0, 2e6
"""Seconds that any file may take, and bytes that are read in one more: some tenths of what old disks do."""


def read(path: Path) -> Table:
    """Every numeric vector, and every column of every numeric matrix."""
    return Table(path, columns_of(_arrays(path)), row, "variable")


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The numeric arrays of a file, read by another process: damaged files can make the libraries hang or crash."""
    size = path.stat().st_size
    # -P: neither the worker's folder, where there is a csv.py, nor the present one may stand in for libraries.
    command = [sys.executable, "-P", mat_worker.__file__, str(path.absolute()), str(available_memory())]
    # No further filters are loaded, which are code.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HDF5_PLUGIN_PRELOAD": "::"}
    patience = PATIENCE + size / SPEED
    try:
        found = subprocess.run(command, capture_output=True, timeout=patience, env=environment, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(f"{path} is damaged: reading it did not end within {patience:.0f} s.") from None
    if found.returncode != 0:
        raise InputError(f"{path} is not a MATLAB file, or is damaged ({_reason(found.stderr)}).")
    with np.load(io.BytesIO(found.stdout), allow_pickle=False) as archive:
        names = json.loads(bytes(archive["names"]).decode())
        return {name: archive[f"v{i}"] for i, name in enumerate(names)}


def _reason(said: bytes) -> str:
    """The last sentence of the worker, shortened; if it said nothing, it crashed."""
    lines = [line for line in said.decode(errors="replace").splitlines() if line.startswith(mat_worker.REFUSED)]
    return lines[-1].removeprefix(mat_worker.REFUSED).rstrip(".")[:120] if lines else "reading it ended in a crash"
