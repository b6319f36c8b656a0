"""Indices in study files: `x[i]` written once for a row of masses, cells or compartments.

`[index.i]` gives the range of an index and what lies beyond its ends.  A key with `[i]` stands for one key for each
value; inside its equation `x[i-1]` and `x[i+1]` are its neighbours.  A key with a number, `x[3]`, replaces the one that
the index gives there.  `x[3]` is the name `x3`: everything behind the study file sees names without brackets.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from probsysid.model.model import MAX_ORDER
from probsysid.study.mistakes import Mistakes

End = Literal["fixed", "free", "ring"]

BRACKET = re.compile(r"([A-Za-z_]\w*)\[([^\[\]]*)\]")
SHIFTED = re.compile(r"([A-Za-z]\w*)\s*(?:([+-])\s*(\d+))?")
TABLES = ("parameters", "noise", "initial", "process_noise", "varies", "unknown", "drifts")
"""Sections of a study whose keys may have an index, beside those of a model."""

MODEL_TABLES = (
    "coordinates",
    "equations",
    "outputs",
    "let",
    "parameters",
    "initial",
    "noise",
    "process_noise",
    "varies",
)
EQUATIONS = ("equations", "outputs", "let")


@dataclass(frozen=True)
class Index:
    """The values of an index, first to last, and what its neighbours beyond the ends are."""

    first: int
    last: int
    below: End | None = None
    above: End | None = None

    @property
    def values(self) -> range:
        return range(self.first, self.last + 1)

    def end(self, value: int) -> End | None:
        """What lies at a value outside."""
        return self.below if value < self.first else self.above


@dataclass(frozen=True)
class _Place:
    """Where an expression stands, for messages, and the index that its key binds."""

    key: str
    letter: str | None = None
    value: int = 0


class _Misplaced(Exception):
    """An index that cannot be resolved, in words."""


def expand(tables: Mapping[str, Any], indices: Mapping[str, Index], mistakes: Mistakes) -> dict[str, Any]:
    """The tables of a study without indices; what cannot be resolved is added to the mistakes."""
    expander = _Expander(tables, indices, mistakes)
    found = dict(tables)
    for name in TABLES:
        if isinstance(tables.get(name), dict):
            found[name] = expander.table(tables[name], name, equations=False)
    for name, inner, keys in (("model", MODEL_TABLES, EQUATIONS), ("data", ("inputs", "outputs", "initial"), ())):
        sections = tables.get(name)
        if isinstance(sections, dict):
            found[name] = expander.section(sections, name, inner, keys)
        elif isinstance(sections, list):
            found[name] = [
                expander.section(part, f"{name}[{k + 1}]", inner, keys) if isinstance(part, dict) else part
                for k, part in enumerate(sections)
            ]
    return found


class _Expander:
    """Replaces indices, knowing which names are coordinates and which are given for single values."""

    def __init__(self, tables: Mapping[str, Any], indices: Mapping[str, Index], mistakes: Mistakes):
        self.indices, self.mistakes = indices, mistakes
        models = tables.get("model")
        sections = [m for m in (models if isinstance(models, list) else [models]) if isinstance(m, dict)]
        keys = [key for m in sections for key in _table(m, "coordinates")]
        self.coordinates = {m[1] for key in keys if (m := BRACKET.fullmatch(str(key)))}
        parameters = [*_table(tables, "parameters"), *(key for m in sections for key in _table(m, "parameters"))]
        self.single = {re.sub(r"\[\s*(\d+)\s*\]$", r"\1", key) for key in parameters}

    def section(self, section: dict[str, Any], key: str, tables: tuple[str, ...], equations: tuple[str, ...]) -> Any:
        """A [model] or [data] section."""
        return {
            name: self.table(value, f"{key}.{name}", name in equations)
            if name in tables and isinstance(value, dict)
            else value
            for name, value in section.items()
        }

    def table(self, table: dict[str, Any], name: str, equations: bool) -> dict[str, Any]:
        """A table with one key for each value of its indices; those written with a number come last and win."""
        general: dict[str, Any] = {}
        single: dict[str, Any] = {}
        for key, value in table.items():
            bound = BRACKET.fullmatch(key)
            if bound is None:
                general[key] = self._value(value, _Place(f"{name}.{key}"), equations)
            elif bound[2].strip().isdigit():
                place = _Place(f"{name}.{key}")
                single[f"{bound[1]}{int(bound[2])}"] = self._value(value, place, equations)
            elif bound[2].strip() not in self.indices:
                known = ", ".join(self.indices)
                self.mistakes.add(f"{name}.{key}", f"there is no index {bound[2].strip()!r}; there are: {known}.")
            else:
                letter = bound[2].strip()
                for number in self.indices[letter].values:
                    place = _Place(f"{name}.{key}", letter, number)
                    general[f"{bound[1]}{number}"] = self._value(value, place, equations)
        return {**general, **single}

    def _value(self, value: Any, place: _Place, equations: bool) -> Any:
        """A value with indices resolved in equations, and `{i}` replaced in other texts."""
        if isinstance(value, dict):
            return {key: self._value(item, place, equations=False) for key, item in value.items()}
        if not isinstance(value, str):
            return value
        if place.letter is not None and not equations:
            return value.replace(f"{{{place.letter}}}", str(place.value))
        if not equations:
            return value
        try:
            return BRACKET.sub(lambda found: self._name(found[1], found[2], place), value)
        except _Misplaced as error:
            self.mistakes.add(place.key, str(error))
            return value

    def _name(self, name: str, inside: str, place: _Place) -> str:
        """The name without brackets that `name[inside]` stands for."""
        text = inside.strip()
        if text.isdigit():
            return f"{name}{int(text)}"
        shifted = SHIFTED.fullmatch(text)
        if shifted is None or shifted[1] not in self.indices:
            raise _Misplaced(f"{name}[{inside}] is not an index: write a number, or one of {self._written()}.")
        if shifted[1] != place.letter:
            raise _Misplaced(f"{name}[{inside}] has an index that its own key has not: write a number.")
        index = self.indices[shifted[1]]
        value = place.value + int(f"{shifted[2] or '+'}{shifted[3] or 0}")
        return f"{name}{value}" if value in index.values else self._beyond(name, value, index, shifted[1])

    def _beyond(self, name: str, value: int, index: Index, letter: str) -> str:
        """What stands for a neighbour beyond the ends."""
        side, end = "below" if value < index.first else "above", index.end(value)
        count = len(index.values)
        if end == "ring":
            return f"{name}{index.first + (value - index.first) % count}"
        if f"{name}{value}" in self.single:
            return f"{name}{value}"
        if end is None:
            text = f"[index.{letter}] has {side} = 'fixed' (zero), 'free' (no neighbour) or 'ring'"
            raise _Misplaced(f"{name}[{value}] lies beyond the last one: say what is there, {text}.")
        if self._coordinate(name):
            return "0" if end == "fixed" else f"{name}{_mirrored(value, index)}"
        if end == "free":
            return f"{name}{min(max(value, index.first), index.last)}"
        raise _Misplaced(f"{name}[{value}] lies beyond the last one: give a value or a prior for it by that name.")

    def _coordinate(self, name: str) -> bool:
        """Whether this is a coordinate or one of its derivatives."""
        return any(name[:order] == "d" * order and name[order:] in self.coordinates for order in range(MAX_ORDER + 1))

    def _written(self) -> str:
        return ", ".join(f"{letter}, {letter}-1, {letter}+1" for letter in self.indices)


def _mirrored(value: int, index: Index) -> int:
    """Behind a free end: one beyond the last is the last itself, two beyond is the one before it."""
    return 2 * index.first - 1 - value if value < index.first else 2 * index.last + 1 - value


def _table(section: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = section.get(name)
    return found if isinstance(found, dict) else {}
