"""Records as arrays and data for JSON, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.band_limited import BandLimited
from probsysid.data.intersample import Intersample, Linear, ZeroOrderHold
from probsysid.data.record import Record

CLASSES: dict[str, type[Intersample]] = {"zoh": ZeroOrderHold, "linear": Linear, "bandlimited": BandLimited}


def stored_record(record: Record) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The record's names and numbers, and its arrays by name.

    Raises `InputError` for an input that is a function, which is code.
    """
    state = record.__getstate__()
    arrays = {"time": record.time, **{f"output:{key}": values for key, values in record.outputs.items()}}
    signals = {}
    for key, signal in state["_signals"].items():
        if callable(record.inputs[key]):
            raise InputError(f"the input {key!r} is a function, which cannot be stored")
        arrays[f"input:{key}"] = np.asarray(record.inputs[key])
        signals[key] = _stored_signal(signal, f"signal:{key}", arrays)
    facts = {"dt": record.dt, "units": state["units"], "name": record.name, "signals": signals}
    return {**facts, "outputs": list(record.outputs)}, arrays


def rebuilt_record(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Record:
    """The record that `stored_record` described."""
    record = object.__new__(Record)
    signals = {key: _rebuilt_signal(data, f"signal:{key}", arrays) for key, data in facts["signals"].items()}
    record.__setstate__(
        {
            "time": np.array(arrays["time"]),
            "dt": facts["dt"],
            "inputs": {key: np.array(arrays[f"input:{key}"]) for key in signals},
            "outputs": {key: np.array(arrays[f"output:{key}"]) for key in facts["outputs"]},
            "units": facts["units"],
            "name": facts["name"],
            "_signals": signals,
        }
    )
    return record


def _stored_signal(signal: Intersample, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The kind of signal with its numbers; its arrays are added to those given."""
    given = signal.arguments()
    kind = next(word for word, made in CLASSES.items() if isinstance(signal, made))
    arrays |= {f"{prefix}:{name}": value for name, value in given.items() if isinstance(value, np.ndarray)}
    return {"kind": kind, **{name: value for name, value in given.items() if not isinstance(value, np.ndarray)}}


def _rebuilt_signal(data: Mapping[str, Any], prefix: str, arrays: Mapping[str, np.ndarray]) -> Intersample:
    """The signal that `_stored_signal` described."""
    kind = data["kind"]
    if kind not in CLASSES:
        raise InputError(f"there is no intersample behaviour {kind!r}")
    numbers = {name: value for name, value in data.items() if name != "kind"}
    parts = {
        name.removeprefix(f"{prefix}:"): np.array(v) for name, v in arrays.items() if name.startswith(f"{prefix}:")
    }
    return CLASSES[kind](**numbers, **parts)
