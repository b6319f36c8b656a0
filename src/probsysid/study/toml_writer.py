"""Write TOML: the few types of values in a study."""

import json
from typing import Any


def to_toml(tables: dict[str, Any]) -> str:
    """Text that `tomllib` reads back as the same tables."""
    return "\n".join(_table(tables, ())).lstrip("\n") + "\n"


def _table(table: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    """Plain values first, then nested tables."""
    lines = [f"{_key(k)} = {_value(v)}" for k, v in table.items() if not _is_section(k, v, path)]
    for key, value in table.items():
        if not _is_section(key, value, path):
            continue
        inner = (*path, key)
        title = ".".join(_key(part) for part in inner)
        for item in value if isinstance(value, list) else [value]:
            body = _table(item, inner)
            brackets = f"[[{title}]]" if isinstance(value, list) else f"[{title}]"
            lines += ["", brackets, *body]
    return lines


def _is_section(key: str, value: object, path: tuple[str, ...]) -> bool:
    """Tables get a heading; parameters, channels and ranges stay on one line."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) for item in value)
    if not isinstance(value, dict) or not path:
        return isinstance(value, dict)
    nested = any(isinstance(item, dict) for item in value.values())
    return nested or (len(path) == 1 and path[0] in ("data", "model") and key not in ("train", "test"))


def quoted(text: str) -> str:
    """A TOML string; its escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float) and abs(value) < 1e15 and value == int(value):
        return f"{value:.1f}"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(k)} = {_value(v)}' for k, v in value.items())} }}" if value else "{}"
    return json.dumps(str(value))


def _key(key: str) -> str:
    bare = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if bare else json.dumps(key, ensure_ascii=False)
