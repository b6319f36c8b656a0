"""Kernels of unknown inputs and drifts in study files: `[unknown.force]` and `[drifts.k]`."""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import add, mul
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import is_real
from probsysid.model.kernels import Constant, Kernel, Matern, QuasiPeriodic, RandomWalk
from probsysid.study.priors import parse_prior

KINDS: dict[str, tuple[Callable[..., Kernel], tuple[str, ...], tuple[str, ...]]] = {
    "matern": (Matern, ("nu", "scale", "length"), ()),
    "quasi-periodic": (QuasiPeriodic, ("scale", "period", "length"), ()),
    "random-walk": (RandomWalk, ("rate",), ("start",)),
    "constant": (Constant, ("value",), ()),
}
"""The class, keys that are needed, and keys that may be left out."""

COMPOSED = {"sum": add, "product": mul}


def parse_kernel(table: Any) -> Kernel:
    """A table with `kernel` and its hyperparameters; of a sum or a product, with `of`, a list of such tables."""
    if not isinstance(table, Mapping) or "kernel" not in table:
        raise InputError("write a table with a kernel, such as kernel = 'matern', nu = 1.5, scale = ..., length = ...")
    kind, given = table["kernel"], {key: value for key, value in table.items() if key != "kernel"}
    if kind in COMPOSED:
        parts = given.pop("of", None)
        if given or not isinstance(parts, list) or len(parts) < 2:
            raise InputError(f"a {kind} has nothing but of = [...], a list of at least two kernels")
        return reduce(COMPOSED[kind], [parse_kernel(part) for part in parts])
    if kind not in KINDS:
        known = (*KINDS, *COMPOSED)
        raise InputError(f"there is no kernel {kind!r}; known are: {', '.join(known)}.{did_you_mean(str(kind), known)}")
    make, needed, further = KINDS[kind]
    for key in given:
        if key not in (*needed, *further):
            listed, hint = ", ".join((*needed, *further)), did_you_mean(key, (*needed, *further))
            raise InputError(f"the kernel {kind!r} has no {key!r}; it has: {listed}.{hint}")
    for key in needed:
        if key not in given:
            raise InputError(f"the kernel {kind!r} needs {key!r}")
    return make(**{key: _value(key, value) for key, value in given.items()})


def _value(key: str, value: Any) -> Any:
    """A number, or a prior from its text."""
    if isinstance(value, str):
        return parse_prior(value).distribution
    if is_real(value):
        return float(value)
    raise InputError(f"{key} is {value!r}; it must be a number, or a prior such as 'LogNormal(0, 1)'")


def _validated(value: Any) -> Kernel:
    if isinstance(value, Kernel):
        return value
    try:
        return parse_kernel(value)
    except InputError as error:
        raise PydanticCustomError("ours", "{text}", {"text": str(error)}) from None


KernelTable = Annotated[Any, BeforeValidator(_validated)]
