"""Predicates and look-ups for values that users give."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from probsysid._internal.errors import InputError, did_you_mean


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
    except (TypeError, ValueError):
        return False


def choose(what: str, value: Any, named: Mapping[str, Any]) -> Any:
    """The object that a name stands for; a value that is not a text is returned as it is."""
    if not isinstance(value, str):
        return value
    key = value.lower().replace("_", "-")
    if key not in named:
        raise InputError(f"{what} is {value!r}; known are: {', '.join(named)}.{did_you_mean(key, named)}")
    return named[key]
