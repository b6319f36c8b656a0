"""Shapes in signatures are checked while tests run.

conftest.py applies `checked` to every function and dataclass of the package.  Only hints that hold an array type of
jaxtyping are checked, with axis names consistent within a call; other types are left to mypy and to the package's own
errors, which tests provoke on purpose.  All items of a container are checked (beartype would check one at random), and
named tuples where a signature names them.  Iterators, functions and forward references are not checked: jaxtyping
resolves hints when a function is defined.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any

import numpy as np
from jaxtyping import AbstractArray, jaxtyped


class ShapeError(AssertionError):
    """An array whose shape or type is not the one in the signature."""


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its array arguments and results checked; to be used through `jaxtyping.jaxtyped`."""
    hints = {name: hint for name, hint in _hints(function).items() if has_array(hint)}
    if not hints:
        return function
    signature = inspect.signature(function)
    for name in hints.keys() & signature.parameters.keys():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            hints[name] = tuple[hints[name], ...]
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            hints[name] = dict[str, hints[name]]

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        for name, hint in hints.items():
            if name in given:
                _check(f"{function.__qualname__}: {name}", given[name], hint)
        result = function(*args, **kwargs)
        if "return" in hints:
            _check(f"{function.__qualname__}: its result", result, hints["return"])
        return result

    return wrapper


@functools.cache
def has_array(hint: Any) -> bool:
    """Whether a hint is an array type of jaxtyping, or holds one."""
    if _is_array(hint):
        return True
    if _is_named_tuple(hint):
        return any(has_array(part) for part in _hints(hint).values())
    return typing.get_origin(hint) in CONTAINERS and any(has_array(part) for part in typing.get_args(hint))


def matches(value: Any, hint: Any) -> bool:
    """Whether a value is what a hint with arrays says; jaxtyping holds the sizes of axes for the current call."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if not has_array(hint):
        return True
    if _is_array(hint):
        # NumPy turns arrays of shape () into scalars.
        return isinstance(np.asarray(value) if isinstance(value, np.generic) else value, hint)
    if origin in UNIONS:
        return any(matches(value, part) if has_array(part) else _is_instance(value, part) for part in parts)
    if not isinstance(value, origin or hint):
        return False
    if origin is tuple:
        parts = parts[:1] * len(value) if parts[1:] == (...,) else parts
        return len(value) == len(parts) and all(map(matches, value, parts))
    if origin in (list, Sequence):
        return all(matches(item, parts[0]) for item in value)
    if origin in (dict, Mapping):
        return all(matches(item, parts[1]) for item in value.values())
    with jaxtyped("context"):  # a named tuple: its axis names are its own
        return all(matches(getattr(value, name), part) for name, part in _hints(hint).items())


UNIONS = (typing.Union, UnionType)
CONTAINERS = (*UNIONS, tuple, list, Sequence, dict, Mapping)


def _is_instance(value: Any, hint: Any) -> bool:
    """Whether a value may be an alternative without arrays; those that cannot be checked count as possible."""
    kind = typing.get_origin(hint) or hint
    kind = (float, int) if kind is float else kind  # as for type checkers
    try:
        return isinstance(value, kind)
    except TypeError:
        return True


def _is_array(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, AbstractArray)


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


@functools.cache
def _hints(annotated: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(annotated)
    except (NameError, TypeError):  # names that exist for type checkers only
        return {name: hint for name, hint in annotated.__annotations__.items() if not isinstance(hint, str)}


def _check(label: str, value: Any, hint: Any) -> None:
    if not matches(value, hint):
        raise ShapeError(f"{label} is {getattr(value, 'shape', type(value))}, not {hint}")
