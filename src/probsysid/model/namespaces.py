"""Attribute access to named numbers: `s.dx`, `u.force`, `p.k3`.

A wrong name raises an error that lists the valid ones, when the model is constructed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from probsysid._internal.errors import InputError, did_you_mean


class UnknownName(InputError, AttributeError):
    """A model function used a name that does not exist."""


class _ReadOnlyNames(ABC):
    """Values by name, as attributes or items.  Without public methods, so that every name is free for the user."""

    _kind: str
    _values: Mapping[str, Any]

    def __init__(self, kind: str, values: Mapping[str, Any]):
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_values", dict(values))

    @abstractmethod
    def __getitem__(self, name: str) -> Any: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # look-ups by Python itself, such as those of the copy module
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise InputError(f"the {self._kind} {name!r} cannot be assigned to: model functions return new values.")

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        return f"<{self._kind}: {', '.join(self._values)}>"


class Namespace(_ReadOnlyNames):
    """The values that a model function is called with; an unknown name is an error."""

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            listed = ", ".join(self._values) or "none"
            hint = did_you_mean(name, list(self._values))
            raise UnknownName(f"there is no {self._kind} {name!r}; known are: {listed}.{hint}") from None


class RecordingNamespace(_ReadOnlyNames):
    """Has a value for every name and records which ones are used: how the names of a model's parameters are found."""

    _default: Any
    _used: list[str]

    def __init__(self, kind: str, known: Mapping[str, Any], default: Any):
        super().__init__(kind, known)
        object.__setattr__(self, "_default", default)
        object.__setattr__(self, "_used", [])

    def __getitem__(self, name: str) -> Any:
        if name not in self._used:
            self._used.append(name)
        return self._values.get(name, self._default)


class OverlaidNamespace(_ReadOnlyNames):
    """Some values in place of, or beside, those of another namespace."""

    _rest: Any

    def __init__(self, kind: str, values: Mapping[str, Any], rest: Any):
        super().__init__(kind, values)
        object.__setattr__(self, "_rest", rest)

    def __getitem__(self, name: str) -> Any:
        return self._values[name] if name in self._values else self._rest[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values or name in self._rest

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._rest, *self._values)))


def used_names(names: RecordingNamespace) -> tuple[str, ...]:
    """The names used so far, each once, in the order of first use.  A function, because a method would take a name."""
    return tuple(names._used)
