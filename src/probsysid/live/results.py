"""Where lines of results go: a file, or standard output."""

import sys
from pathlib import Path
from typing import TextIO

from probsysid._internal.errors import InputError


class LineFile:
    """JSON lines, flushed one by one; `-` is standard output."""

    def __init__(self, path: Path):
        self._own = str(path) != "-"
        try:
            self._file: TextIO = path.open("a", encoding="utf-8") if self._own else sys.stdout
        except OSError as error:
            raise InputError(f"nothing can be written to {path}: {(error.strerror or str(error)).lower()}.") from None

    def write(self, line: str) -> None:
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except (BrokenPipeError, ValueError):
            pass  # the reader of a pipe has gone; the run goes on

    def close(self) -> None:
        if self._own:
            self._file.close()
