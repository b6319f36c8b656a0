"""Objects as data that JSON can hold, and back: numbers, texts, arrays, tuples, mappings, objects of listed classes.

Reading runs no code but that of the listed classes: a file can choose among them and give them numbers, nothing else.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

NUMBERS = "biuf"
"""Kinds of array types that are stored."""


class UnstorableError(ValueError):
    """A value is of a kind that is not stored as data."""


def _refuse(_: "Codec", data: Any) -> Any:
    raise UnstorableError(f"{str(data)[:40]} is not stored data")


@dataclasses.dataclass(frozen=True)
class Codec:
    """Turns values into data and back.

    Args:
        classes: data classes whose instances are stored by their fields.
        encode_other: data for a value of any other kind, or None if it is not known either.
        decode_other: the reverse, for data with the key "other".
    """

    classes: Sequence[type] = ()
    encode_other: Callable[["Codec", Any], Any] = lambda codec, value: None
    decode_other: Callable[["Codec", Any], Any] = _refuse

    def encode(self, value: Any) -> Any:
        """Data for a value; raises `UnstorableError`."""
        if value is None or isinstance(value, bool | str) or type(value) in (int, float):
            return value
        if type(value) in (tuple, list):
            return {type(value).__name__: [self.encode(item) for item in value]}
        if isinstance(value, Mapping):
            return {"dict": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return _array_data(value)
        if type(value) in self.classes:
            fields = {f.name: self.encode(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
            return {"object": type(value).__name__, "fields": fields}
        other = self.encode_other(self, value)
        if other is None:
            raise UnstorableError(f"a {type(value).__name__} is not stored")
        return {"other": other}

    def decode(self, data: Any) -> Any:
        """The value; raises `UnstorableError` for data that `encode` does not make."""
        match data:
            case None | bool() | str() | int() | float():
                return data
            case {"tuple": [*items]}:
                return tuple(self.decode(item) for item in items)
            case {"list": [*items]}:
                return [self.decode(item) for item in items]
            case {"dict": [*pairs]}:
                return {self.decode(key): self.decode(item) for key, item in pairs}
            case {"array": str(kind), "type": str(name), "shape": [*shape], "values": [*values]}:
                return _array(kind, name, shape, values)
            case {"object": str(name), "fields": dict(fields)}:
                return self._object(name, fields)
            case {"other": other}:
                return self.decode_other(self, other)
        raise UnstorableError(f"{str(data)[:40]} is not stored data")

    def _object(self, name: str, fields: dict[str, Any]) -> Any:
        for kind in self.classes:
            if kind.__name__ == name:
                return kind(**{key: self.decode(item) for key, item in fields.items()})
        raise UnstorableError(f"{name} is not a class that is stored")


def _array_data(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    if array.dtype.kind not in NUMBERS:
        raise UnstorableError(f"an array of type {array.dtype} is not stored")
    kind = "jax" if isinstance(value, jax.Array) else "numpy"
    return {"array": kind, "type": array.dtype.str, "shape": list(array.shape), "values": array.ravel().tolist()}


def _array(kind: str, name: str, shape: list[int], values: list[Any]) -> Any:
    dtype = np.dtype(name)
    if dtype.kind not in NUMBERS:
        raise UnstorableError(f"an array of type {name} is not stored")
    array = np.array(values, dtype=dtype).reshape(shape)
    return jnp.asarray(array) if kind == "jax" else array
