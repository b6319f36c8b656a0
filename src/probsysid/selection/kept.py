"""A folder of results, from which a search resumes: for each model a line of numbers and its posterior."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probsysid._internal.errors import InputError
from probsysid._internal.files import write_atomically
from probsysid.posterior.posterior import Posterior

LENGTH = 16
"""Characters of a fingerprint in names of files."""


@dataclass(frozen=True)
class Kept:
    """Results by the fingerprint of their run; without a folder nothing is kept."""

    folder: Path | None = None

    @classmethod
    def at(cls, folder: str | Path | None) -> "Kept":
        """In a folder, which is made."""
        if folder is None:
            return cls()
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise InputError(f"folder is {str(folder)!r}, which is a file; name a folder.")
        path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    def load(self, mark: str) -> dict[str, Any] | None:
        """The numbers of a run, if it is complete."""
        path = self._path(mark, "json")
        if path is None or not path.exists():
            return None
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data.pop("fingerprint") != mark:
                return None
            return {name: _number(value) for name, value in data.items()}
        except (ValueError, KeyError, AttributeError):
            raise InputError(f"{path} is damaged; remove it, and the model is run again.") from None

    def save(self, mark: str, numbers: dict[str, Any], posterior: Posterior | None) -> None:
        """The posterior first, so that numbers mean a complete run."""
        path, place = self._path(mark, "json"), self.posterior_path(mark)
        if path is None or place is None:
            return
        if posterior is not None:
            posterior.save(place)
        data = {name: _text(value) for name, value in numbers.items()} | {"fingerprint": mark}
        write_atomically(path, json.dumps(data, allow_nan=False).encode())

    def posterior_path(self, mark: str) -> Path | None:
        return self._path(mark, "nc")

    def _path(self, mark: str, suffix: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{mark[:LENGTH]}.{suffix}"


def _text(value: Any) -> Any:
    """Numbers that JSON does not know become texts."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> Any:
    return float(value) if value in ("nan", "inf", "-inf") else value
