"""Checks of the arguments that users give to a record."""

import keyword
import operator
from collections.abc import Collection, Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.data.intersample import Function, Word
from probsysid.data.time_axis import Samples, Times, uniform_step

NOT_NUMBERS = {"c": "complex numbers", "U": "text", "S": "text", "M": "dates", "m": "time differences"}
"""Names of data types that are no real numbers, by NumPy's kind."""

LARGEST = 1e100
"""Largest size of a sample: its cube, and the square of that, can still be computed."""

MATLAB_WORDS = {"foh": "linear", "bl": "bandlimited"}
"""The words of MATLAB's iddata; "foh" would be taken for a misspelt "zoh"."""


def checked_channels(kind: str, given: object) -> dict[str, Any]:
    """The channels as a dict; their names must be valid as attributes in a model."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        what = type(given).__name__
        raise InputError(f"{kind} must map names to samples, as in {{'force': F}}, got a {what}.")
    for name in given:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise InputError(f"{kind}: a name must be a Python identifier and no keyword, got {name!r}.")
    return dict(given)


def checked_samples(label: str, given: Any) -> Samples:
    """A float64 copy of one channel."""
    if np.ma.isMA(given):
        given = np.ma.filled(given.astype(float), np.nan)
    try:
        array = np.asarray(given)
    except Exception as error:  # lists of unequal length, values inside of jax.jit, objects that refuse
        reason = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
        raise InputError(f"{label} is not an array of numbers ({reason}).") from None
    if array.dtype.kind not in "biufO":
        what = NOT_NUMBERS.get(array.dtype.kind, "no numbers")
        example = array.ravel()[0] if array.size else array.dtype
        raise InputError(f"{label} holds {what} ({example!s}), expected real numbers.")
    if array.ndim != 1:
        raise InputError(f"{label} has shape {array.shape}, expected one dimension, one number per sample.")
    if array.size == 0:
        raise InputError(f"{label} is empty, expected at least one sample.")
    try:
        return np.array(array, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{label} holds something that is not a number: {error}.") from error


def check_values(inputs: Mapping[str, Samples | Function], outputs: Mapping[str, Samples]) -> None:
    """Inputs must be finite; outputs may be missing (NaN) but not infinite."""
    for name, values in inputs.items():
        if not callable(values) and not np.all(np.isfinite(values)):
            k = int(np.argmin(np.isfinite(values)))
            raise InputError(
                f"input {name!r} is {values[k]} at sample {k}: inputs must be known throughout, "
                "or, where the model has them as unknown, be outputs of the record."
            )
    for name, values in outputs.items():
        if np.any(np.isinf(values)):
            k = int(np.argmax(np.isinf(values)))
            raise InputError(f"output {name!r} is {values[k]} at sample {k}: write NaN if missing.")
    for kind, channels in (("input", inputs), ("output", outputs)):
        for name, values in channels.items():
            if not callable(values) and np.nanmax(np.abs(values), initial=0.0) > LARGEST:
                k = int(np.nanargmax(np.abs(values)))
                size = f"{values[k]:g} at sample {k}"
                raise InputError(f"{kind} {name!r} is {size}; beyond {LARGEST:g} powers overflow: use another unit.")


def checked_time_axis(
    dt: float | None, time: ArrayLike | None, samples: int | None, start: float, lengths: Mapping[str, int]
) -> tuple[Times, float | None]:
    """The time of each sample, and the step if it is uniform; all channels must have the same length."""
    if (dt is None) == (time is None):
        raise InputError(f"a record needs either dt or time, got {'neither' if dt is None else 'both'}.")
    if time is not None and (samples is not None or start != 0.0):
        raise InputError(f"samples and start go with dt, not with time: got {samples = }, {start = }.")
    if time is not None:
        times = checked_samples("time", time)
        reference, count = "time", len(times)
    elif samples is not None:
        reference, count = "the record", whole_number("samples", samples, least=1)
    elif lengths:
        reference, count = next(iter(lengths.items()))
    else:
        raise InputError("a record without sampled channels needs time, or dt and samples.")
    for label, length in lengths.items():
        if length != count:
            raise InputError(f"{label} has {length} samples, but {reference} has {count}.")
    if dt is None:
        _check_increasing(times)
        return times, uniform_step(times)
    step = positive_number("dt", dt)
    times = _finite_number("start", start) + step * np.arange(count)
    _check_increasing(times)
    return times, step


def _check_increasing(time: Times) -> None:
    if not np.all(np.isfinite(time)):
        k = int(np.argmin(np.isfinite(time)))
        raise InputError(f"time[{k}] is {time[k]}, expected seconds.")
    if not np.all(np.diff(time) > 0):
        k = int(np.argmin(np.diff(time) > 0)) + 1
        before, after = time[k - 1], time[k]
        raise InputError(f"time must increase, but time[{k}] = {after} follows time[{k - 1}] = {before}.")


def checked_units(given: Mapping[str, str] | None, channels: Collection[str]) -> dict[str, str]:
    """The units by channel; every name must be a channel."""
    for name in given or {}:
        if name not in channels:
            raise InputError(f"units: there is no channel {name!r}.{did_you_mean(name, channels)}")
    return dict(given or {})


def intersample_words(given: object, inputs: Mapping[str, Samples | Function]) -> dict[str, str]:
    """The intersample word of each input; a function has the word "callable"."""
    if not isinstance(given, Mapping):
        _check_word("intersample", given, get_args(Word))
        given = {name: given for name, value in inputs.items() if not callable(value)}
    for name, word in given.items():
        if name not in inputs:
            raise InputError(f"intersample: there is no input {name!r}.{did_you_mean(name, inputs)}")
        valid = ("callable",) if callable(inputs[name]) else get_args(Word)
        _check_word(f"intersample of {name!r}", word, valid)
    default = {name: "callable" if callable(value) else "linear" for name, value in inputs.items()}
    return default | dict(given)


def _check_word(label: str, word: Any, valid: tuple[str, ...]) -> None:
    if word not in valid:
        hint = did_you_mean(MATLAB_WORDS.get(word, word), valid)
        raise InputError(f"{label} must be one of {', '.join(valid)}, got {word!r}.{hint}")


def positive_number(label: str, given: Any) -> float:
    """A finite number above zero."""
    number = _finite_number(label, given)
    if number <= 0:
        raise InputError(f"{label} must be positive, got {given!r}.")
    return number


def _finite_number(label: str, given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"{label} must be a finite number, got {given!r}.")
    return number


def whole_number(label: str, given: Any, least: int) -> int:
    """An integer of at least `least`."""
    try:
        number = operator.index(given)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(f"{label} must be a whole number, {least} or more, got {given!r}.")
    return number
