"""Attribute access to named numbers: `s.dx`, `u.force`, `p.k3`.

A wrong name is answered with a sentence that lists the right ones, at construction of the model.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from probsysid._internal.errors import InputError, did_you_mean


class UnknownName(InputError, AttributeError):
    """A model function asked for a name that does not exist."""


class Namespace:
    """Read-only values by name, as attributes or items.  It has no methods, so that no name is taken."""

    def __init__(self, kind: str, values: Mapping[str, Any]):
        self.__dict__["_kind"] = kind
        self.__dict__["_values"] = dict(values)

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise UnknownName(self._complaint(name)) from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # look-ups by Python itself, such as copy's
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        raise InputError(f"the {self._kind} {name!r} cannot be assigned to: model functions return new values.")

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        return f"<{self._kind}: {', '.join(self._values)}>"

    def _complaint(self, name: str) -> str:
        listed = ", ".join(self._values) or "none"
        return f"there is no {self._kind} {name!r}; known are: {listed}.{did_you_mean(name, list(self._values))}"


class RecordingNamespace(Namespace):
    """Names that answer any question and remember what was asked: how a model's parameters are found."""

    def __init__(self, kind: str, known: Mapping[str, Any], default: Any):
        super().__init__(kind, known)
        self.__dict__["_default"] = default
        self.__dict__["_asked"] = []

    def __getitem__(self, name: str) -> Any:
        if name not in self._asked:
            self._asked.append(name)
        return self._values.get(name, self._default)
