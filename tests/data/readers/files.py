"""A small measurement, and how to write files."""

from pathlib import Path

import numpy as np

from probsysid.data.readers import Channel

CHANNELS = {"inputs": {"force": Channel("F", unit="N")}, "outputs": {"position": Channel("x", unit="m")}}
TIME, FORCE, POSITION = 0.1 * np.arange(5), np.array([0, 1, 2.5, -1, 0]), np.array([0.0, 0.5, 1, 1.5, 2])


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
