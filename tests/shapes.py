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
    """The function with its array arguments or its result checked.

    To be used through `jaxtyping.jaxtyped`, which applies it twice: to check the arguments, with the result hinted as
    Any, and then to check the result.  Checking the arguments again would double the time.
    """
    hints = _hints(function)
    result_hint = hints.get("return", Any)
    if has_array(result_hint):
        return _with_checked_result(function, result_hint)
    hints = {name: hint for name, hint in hints.items() if has_array(hint)} if result_hint is Any else {}
    return _with_checked_arguments(function, hints) if hints else function


def _with_checked_result(function: Callable[..., Any], hint: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not matches(result, hint):
            raise ShapeError(_mismatch(f"the result of {function.__qualname__}", result, hint))
        return result

    return wrapper


def _with_checked_arguments(function: Callable[..., Any], hints: dict[str, Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    for name in hints:
        if kinds[name] is inspect.Parameter.VAR_POSITIONAL:
            hints[name] = tuple[hints[name], ...]
        if kinds[name] is inspect.Parameter.VAR_KEYWORD:
            hints[name] = dict[str, hints[name]]
    simple = not {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} & set(kinds.values())

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # `bind` takes longer than the check itself.
        given = dict(zip(kinds, args, strict=False)) | kwargs if simple else signature.bind(*args, **kwargs).arguments
        for name, hint in hints.items():
            if name in given and not matches(given[name], hint):
                raise ShapeError(_mismatch(f"{name} of {function.__qualname__}", given[name], hint))
        return function(*args, **kwargs)

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
    if not has_array(hint):
        return True
    if _is_array(hint):
        # NumPy turns arrays of shape () into scalars.
        return isinstance(np.asarray(value) if isinstance(value, np.generic) else value, hint)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
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
        return all(matches(getattr(value, name), part) for name, part in _fields(hint).items())


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
def _fields(named_tuple: Any) -> dict[str, Any]:
    return {name: hint for name, hint in _hints(named_tuple).items() if has_array(hint)}


def _hints(annotated: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(annotated)
    except (NameError, TypeError):  # names that exist for type checkers only
        return {name: hint for name, hint in annotated.__annotations__.items() if not isinstance(hint, str)}


def _mismatch(label: str, value: Any, hint: Any) -> str:
    return f"{label} is {getattr(value, 'shape', type(value))}, not {hint}"
