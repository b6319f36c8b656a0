"""Predicates and look-ups for values that users give."""

from collections.abc import Mapping
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from probsysid._internal.errors import InputError, did_you_mean

MOST = 1_000_000_000
"""More draws or particles than any memory holds."""


def is_real(value: object) -> bool:
    """Whether a value is a real number; booleans are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """Whether a value is an integer; booleans are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether a value is a number or an array of numbers, all finite."""
    try:
        return bool(np.all(np.isfinite(np.asarray(value, dtype=float))))
    except (TypeError, ValueError, OverflowError):
        return False


def check_kind(what: str, value: object, kind: type, advice: str) -> None:
    """Raise unless a value is an instance of a class."""
    if not isinstance(value, kind):
        raise InputError(f"{what} is {shown(value)}; it must be a {kind.__name__}: {advice}.")


def check_algorithm(what: str, value: object, kind: type, example: str) -> None:
    """Raise unless a value is an object with the methods of a protocol; a class in place of its instance is not."""
    if isinstance(value, type) or not isinstance(value, kind):
        raise InputError(f"{what} is {shown(value)}; it must be an object such as {example}, or its name.")


def check_mapping(what: str, value: object, example: str) -> None:
    """Raise unless a value maps names to something."""
    if not isinstance(value, Mapping):
        raise InputError(f"{what} is {shown(value)}; it must map names to values, as in {example}.")


def check_count(what: str, value: Any, least: int = 1, most: int = MOST) -> int:
    """A whole number within bounds."""
    if not is_whole(value) or not least <= value <= most:
        raise InputError(f"{what} is {shown(value)}; it must be a whole number from {least} to {most}.")
    return int(value)


def check_index(what: str, value: Any, count: int) -> int:
    """A position among `count` things; negative ones count from the end."""
    if not is_whole(value) or not -count <= value < count:
        raise InputError(f"{what} is {shown(value)}; there are {count}, counted from 0.")
    return int(value)


def check_level(what: str, value: Any) -> None:
    """Raise unless a value is a probability, or a list of them."""
    if not is_finite(value) or not np.all(
        (np.asarray(value, dtype=float) >= 0) & (np.asarray(value, dtype=float) <= 1)
    ):
        raise InputError(f"{what} is {shown(value)}; it must be a number from 0 to 1.")


def check_seed(seed: Any) -> None:
    """Raise unless it is a whole number, 0 or more, that fits into 63 bits."""
    if not is_whole(seed) or not 0 <= seed < 2**63:
        raise InputError(f"seed is {shown(seed)}; it must be a whole number, 0 or more, and below 2**63.")


def checked_path(path: Any) -> Path:
    """A path from what a user gave as one."""
    if not isinstance(path, str | PathLike):
        raise InputError(f"path is {shown(path)}; it must be the name of a file.")
    return Path(path)


def checked_target(path: Any) -> Path:
    """A path that a file can be written to."""
    target = checked_path(path)
    if not target.name or "\0" in str(target) or target.is_dir():
        raise InputError(f"{str(target)!r} is not the name of a file.")
    if not target.absolute().parent.is_dir():
        raise InputError(f"there is no folder {target.parent} to write {target.name} to.")
    return target


def shown(value: object) -> str:
    """A value in a message; a long one by its type."""
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def choose(what: str, value: Any, named: Mapping[str, Any]) -> Any:
    """The object that a name stands for; a value that is not a text is returned as it is."""
    if not isinstance(value, str):
        return value
    key = value.lower().replace("_", "-")
    if key not in named:
        raise InputError(f"{what} is {value!r}; known are: {', '.join(named)}.{did_you_mean(key, named)}")
    return named[key]
