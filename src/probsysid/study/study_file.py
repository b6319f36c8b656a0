"""Read a study file: TOML, validated by pydantic, whose errors become sentences.

A sentence names the key, the value and the nearest valid name; all mistakes are reported at once.
"""

import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.study.indices import Index, expand
from probsysid.study.mistakes import Mistakes, StudyError
from probsysid.study.schema import IndexSection, Section, Study

MAX_FILE = 1_000_000
"""Bytes of a study file: a thousand times a long one."""

SEVERAL = ("data", "model")
"""Sections of which there may be several: `[[data]]` in place of `[data]`."""

Location = tuple[int | str, ...]
"""The path of keys and indices by which pydantic names a value."""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file; a syntax error is reported with its line."""
    if not path.exists():
        near = did_you_mean(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise InputError(f"there is no study {path}.{near}")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a study file.")
    if not path.is_file():
        raise InputError(f"{path} is not a file that is stored; a study cannot be read from a pipe or a device.")
    if path.stat().st_size > MAX_FILE:
        raise InputError(f"{path} has {path.stat().st_size} bytes; is it a study file?")
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: it is not UTF-8 text (byte {error.start + 1}).") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        quote = "; is a quotation mark missing?" if "illegal character '\\n'" in str(error) else "."
        raise InputError(f"{path} is not TOML: {_sentence(str(error))}{quote}") from None
    except PermissionError:
        raise InputError(f"{path} may not be read: permission denied.") from None


def read_study(path: Path) -> Study:
    """A study whose file is valid; whether it fits its data is checked by `resolve_study`."""
    return study_of(read_toml(path), path)


def study_of(tables: dict[str, Any], path: Path | str = "study") -> Study:
    """Validate the tables of a study file, its indices written out."""
    tables = _without_indices(tables, path)
    listed = {key for key in SEVERAL if isinstance(tables.get(key), list)}
    several = {key: value if key in listed else [value] for key, value in tables.items() if key in SEVERAL}
    try:
        return Study.model_validate({**tables, **several})
    except ValidationError as error:
        problems = [_problem(item, listed) for item in error.errors(include_url=False)]
        raise StudyError(path, list(dict.fromkeys(problems))) from None


def _without_indices(tables: dict[str, Any], path: Path | str) -> dict[str, Any]:
    """The tables with `x[i]` as `x1`, `x2`, ...; as they are if the ranges of indices are not valid."""
    rows = tables.get("index")
    if not isinstance(rows, dict) or not rows:
        return tables
    try:
        sections = {letter: IndexSection.model_validate(row) for letter, row in rows.items()}
    except ValidationError:
        return tables
    mistakes = Mistakes(Path(path))
    indices = {letter: Index(s.first, s.last, s.below, s.above) for letter, s in sections.items()}
    found = expand(tables, indices, mistakes)
    mistakes.stop()
    return found


_MUST = {
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "finite_number": "it must be finite",
    "string_type": "it must be a text",
    "bool_type": "it must be true or false",
    "model_type": "it must be a table",
    "dict_type": "it must be a table",
    "list_type": "it must be a list",
    "none_required": "it must be left out",
}


def _problem(item: ErrorDetails, listed: set[str]) -> str:
    """One of pydantic's errors as a sentence."""
    location, kind = tuple(item["loc"]), item["type"]
    key = _key(location, listed)
    if kind == "extra_forbidden":
        known = _known_keys(location[:-1])
        near = did_you_mean(str(location[-1]), known).replace("'", "`").replace(" Did", " did")
        return f"unknown key `{key}`;{near}" if near else f"unknown key `{key}`; known are: {', '.join(known)}."
    if kind == "missing":
        return f"`{key}` is missing."
    if kind == "ours":
        found = repr(item["input"])
        hidden = isinstance(item["input"], dict | list) or len(found) > 60 or item["msg"].startswith(found)
        shown = "" if hidden else f" is {found}"
        return f"`{key}`{shown}: {item['msg'].rstrip('.')}.".replace("?.", "?")
    shown = repr(item["input"])
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    if kind == "literal_error":
        choices = item["ctx"]["expected"].replace(" or ", ", ")
        hint = did_you_mean(str(item["input"]), [c.strip("'") for c in choices.split(", ")])
        return f"`{key}` is {shown}; it must be one of {choices}.{hint}"
    if kind in ("too_short", "too_long", "string_too_short", "string_too_long"):
        return f"`{key}` is {shown}; {_sentence(item['msg'])}."
    return f"`{key}` is {shown}; {_MUST.get(kind) or _sentence(item['msg'])}."


def _sentence(text: str) -> str:
    """A message with a small first letter and without its full stop."""
    return (text[:1].lower() + text[1:]).rstrip(".").replace("input should be", "it must be").replace("\n", " ")


def _key(location: Location, listed: set[str]) -> str:
    """`data.inputs.force.unit`, or `data[1].file` if there are several, counted from 1."""
    key = ""
    for i, part in enumerate(location):
        if part == "[key]":
            continue
        if isinstance(part, int):
            if i != 1 or location[0] not in SEVERAL or location[0] in listed:
                key += f"[{part + 1}]"
        else:
            key += f".{part}" if key else str(part)
    return key


def _known_keys(location: Location) -> tuple[str, ...]:
    """The keys of the section at a location."""
    section: type[Section] | None = Study
    for part in location:
        fields = section.model_fields if section else {}
        if isinstance(part, str) and part in fields:
            section = _inner(fields[part].annotation)
    return tuple(section.model_fields) if section else ()


def _inner(annotation: Any) -> type[Section] | None:
    """The section inside list[...], dict[..., ...], Annotated and unions; None if there is none."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for part in reversed(get_args(annotation)):
        if (found := _inner(part)) is not None:
            return found
    return None
