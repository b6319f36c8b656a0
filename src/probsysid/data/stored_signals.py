"""Inputs between samples as arrays and numbers, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.band_limited import BandLimited
from probsysid.data.intersample import Intersample, Linear, ZeroOrderHold

CLASSES: dict[str, type[Intersample]] = {"zoh": ZeroOrderHold, "linear": Linear, "bandlimited": BandLimited}


def stored_signal(signal: Intersample, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The kind of signal with its numbers; its arrays are added to those given."""
    given = signal.arguments()
    kind = next(word for word, made in CLASSES.items() if isinstance(signal, made))
    arrays |= {f"{prefix}:{name}": value for name, value in given.items() if isinstance(value, np.ndarray)}
    return {"kind": kind, **{name: value for name, value in given.items() if not isinstance(value, np.ndarray)}}


def rebuilt_signal(data: Mapping[str, Any], prefix: str, arrays: Mapping[str, np.ndarray]) -> Intersample:
    """The signal that `stored_signal` described."""
    kind = data["kind"]
    if kind not in CLASSES:
        raise InputError(f"there is no intersample behaviour {kind!r}")
    numbers = {name: value for name, value in data.items() if name != "kind"}
    parts = {
        name.removeprefix(f"{prefix}:"): np.array(v) for name, v in arrays.items() if name.startswith(f"{prefix}:")
    }
    return CLASSES[kind](**numbers, **parts)
