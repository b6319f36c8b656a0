"""Shapes in signatures are checked while tests run.

conftest.py calls `check_package`, which applies `checked` to every function and dataclass of the package.  Only hints
that hold an array type of jaxtyping are checked, with axis names consistent within a call; other types are left to mypy
and to the package's own errors, which tests provoke on purpose.  All items of a container are checked (beartype would
check one at random), and named tuples where a signature names them.  Iterators, functions and forward references are
not checked: hints are resolved when a function is defined.

A function without such hints stays as it is.  jaxtyping's own import hook wraps them all, binds every call to its
signature and calls a checker twice: with it a run of the sampler takes three times as long (docs/decisions.md).
"""

import ast
import dataclasses
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FunctionType, ModuleType, UnionType
from typing import Any

import numpy as np
from jaxtyping import AbstractArray, jaxtyped


class ShapeError(AssertionError):
    """An array whose shape or type is not the one in the signature."""


def check_package(package: str) -> None:
    """Check every function and dataclass of a package; before anything imports it."""
    sys.meta_path.insert(0, _Finder(package))


class _Finder(MetaPathFinder):
    """Finds the package's modules as Python does, and has them read by `_Loader`."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != self.package:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Puts `checked` below the other decorators of functions (they may drop annotations, as jax.jit does), and above
    those of classes, where `dataclass` has made the constructor.  The code is never that of a cached file."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                node.decorator_list.append(_decorator(node))
            elif isinstance(node, ast.ClassDef):
                node.decorator_list.insert(0, _decorator(node))
        return compile(tree, path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, DECORATOR, checked)
        super().exec_module(module)


DECORATOR = "__checked__"


def _decorator(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.Name:
    return ast.copy_location(ast.Name(DECORATOR, ast.Load()), node)


def checked(defined: Any) -> Any:
    """A function with its array arguments and its result checked, a dataclass with its constructor so; anything else,
    and whatever has no arrays in its signature, as it is."""
    if isinstance(defined, type):
        if dataclasses.is_dataclass(defined) and isinstance(defined.__init__, FunctionType):
            defined.__init__ = checked(defined.__init__)  # type: ignore[method-assign]
        return defined
    if isinstance(defined, classmethod | staticmethod):
        return type(defined)(checked(defined.__func__))
    if isinstance(defined, property):
        return property(*(part and checked(part) for part in (defined.fget, defined.fset, defined.fdel)))
    hints = {name: hint for name, hint in _hints(defined).items() if has_array(hint)}
    return _with_checks(defined, hints) if hints else defined


def _with_checks(function: Callable[..., Any], hints: dict[str, Any]) -> Callable[..., Any]:
    result_hint = hints.pop("return", None)
    bound = _binding(function, hints)
    passed: set[Any] = set()  # layouts of arguments, and of arguments and result, that were right

    def check(given: dict[str, Any], result: tuple[Any, ...] = ()) -> None:
        with jaxtyped("context"):  # the sizes of axes are those of this call
            for name, hint in hints.items():
                if name in given and not matches(given[name], hint):
                    raise ShapeError(_mismatch(f"{name} of {function.__qualname__}", given[name], hint))
            for value in result:
                if not matches(value, result_hint):
                    raise ShapeError(_mismatch(f"the result of {function.__qualname__}", value, result_hint))

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = bound(args, kwargs) if hints else {}
        layouts = tuple(layout(given[name]) if name in given else None for name in hints)
        if hints and layouts not in passed:
            check(given)
            passed.add(layouts)
        result = function(*args, **kwargs)
        if result_hint and (both := (layouts, layout(result))) not in passed:
            check(given, (result,))
            passed.add(both)
        return result

    return wrapper


def layout(value: Any) -> Any:
    """Everything about a value that a hint can speak of: types, shapes and dtypes, also in containers.  Calls with
    arguments of the same layout need one check."""
    kind = type(value)
    parts = _parts(kind)
    if parts is _array:
        return kind, value.shape, value.dtype
    return kind if parts is None else (kind, *map(layout, parts(value)))


@functools.cache
def _parts(kind: type) -> Callable[[Any], Any] | None:
    """What lists the items of a container type; `_array` for arrays, None for anything without parts."""
    if issubclass(kind, str):
        return None
    if issubclass(kind, Mapping):
        return lambda value: value.values()
    if issubclass(kind, Sequence):
        return iter
    return _array if hasattr(kind, "dtype") and hasattr(kind, "shape") else None


def _array(value: Any) -> Any:
    raise AssertionError("arrays are not taken apart")


def _binding(function: Callable[..., Any], hints: dict[str, Any]) -> Callable[[Any, Any], dict[str, Any]]:
    """What maps arguments to their names.  Hints of *args and **kwargs become those of a tuple and a dictionary."""
    signature = inspect.signature(function)
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    for name in hints:
        if kinds[name] is inspect.Parameter.VAR_POSITIONAL:
            hints[name] = tuple[hints[name], ...]
        if kinds[name] is inspect.Parameter.VAR_KEYWORD:
            hints[name] = dict[str, hints[name]]
    if {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} & set(kinds.values()):
        return lambda args, kwargs: dict(signature.bind(*args, **kwargs).arguments)
    # `bind` takes longer than the check itself.
    return lambda args, kwargs: dict(zip(kinds, args, strict=False)) | kwargs


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
