"""The recorded operations of a model as data: names of operations of JAX with numbers, from a list.

`jax.export` would store any program, but what it stores can be called and not differentiated in forward mode, which
EKF1 and the Taylor series of the initial state need.  So the list of operations itself is stored.  A program with an
operation that is not listed (loops, derivatives defined by hand) is not stored.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Primitive, Var, primitives

from probsysid._internal.plain_data import Codec, UnstorableError

ELEMENTWISE = (
    *("abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clamp", "cos"),
    *("cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt"),
    *("integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg"),
    *("not", "or", "pow", "rem", "round", "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt", "square"),
    *("stop_gradient", "sub", "tan", "tanh", "xor"),
)
SHAPES = (
    *("broadcast_in_dim", "concatenate", "convert_element_type", "copy", "cumprod", "cumsum", "dot_general", "iota"),
    *("reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reshape", "rev", "slice"),
    *("squeeze", "transpose"),
)

CALLS = ("jit", "pjit")
"""Operations that only call another program: its operations are stored in their place."""

LARGEST = 1_000_000
"""Numbers in one array of a stored program."""

_NUMBERS = Codec()


def _stack(*parts: Any, axis: int) -> list[Any]:
    return [jnp.stack(parts, axis)]


def _operations() -> dict[str, Callable[..., Any]]:
    known = {p.name: p for p in vars(primitives).values() if isinstance(p, Primitive)}
    listed = {name: known[name].bind for name in (*ELEMENTWISE, *SHAPES) if name in known}
    return {**listed, "stack": _stack}


OPERATIONS = _operations()


def encode_program(program: ClosedJaxpr) -> dict[str, Any]:
    """Data for a program; raises `UnstorableError`."""
    writer = _Writer()
    inputs = [writer.define(variable) for variable in program.jaxpr.invars]
    results = writer.calls(program.jaxpr, program.consts, inputs)
    return {"inputs": len(inputs), "steps": writer.steps, "results": results}


class _Writer:
    """Values are numbered in the order in which they appear; each step names the numbers that it takes and makes."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self._count = 0

    def define(self, _: Any = None) -> int:
        self._count += 1
        return self._count - 1

    def calls(self, program: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        """The steps of a program, with given arguments; what stands for its results."""
        known: dict[Var, Any] = dict(zip(program.invars, arguments, strict=True))
        known |= {v: _constant(value) for v, value in zip(program.constvars, constants, strict=True)}

        def reference(variable: Var | Literal) -> Any:
            if isinstance(variable, Literal):
                aval: Any = variable.aval
                return _constant(np.asarray(variable.val).astype(aval.dtype))
            return known[variable]

        for equation in program.eqns:
            given = [reference(variable) for variable in equation.invars]
            name = equation.primitive.name
            inner = equation.params.get("jaxpr")
            if name in CALLS and isinstance(inner, ClosedJaxpr):
                made = self.calls(inner.jaxpr, inner.consts, given)
            elif name in OPERATIONS:
                made = [self.define() for _ in equation.outvars]
                parameters = {key: _parameter(value) for key, value in equation.params.items()}
                self.steps.append([name, parameters, given, made])
            else:
                raise UnstorableError(f"the operation {name} is not stored")
            known.update(zip(equation.outvars, made, strict=True))
        return [reference(variable) for variable in program.outvars]


def _constant(value: Any) -> Any:
    return {"constant": _NUMBERS.encode(np.asarray(value))}


def _parameter(value: Any) -> Any:
    return {"dtype": value.str} if isinstance(value, np.dtype) else {"value": _NUMBERS.encode(value)}


def decode_program(data: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """The function of a list of arguments; raises `UnstorableError` for data that `encode_program` does not make."""
    try:
        inputs, results = int(data["inputs"]), [_resolve(part) for part in data["results"]]
        steps = [_step(*step) for step in data["steps"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnstorableError(f"its program cannot be read ({error})") from None

    def run(arguments: Sequence[Any]) -> list[Any]:
        values: dict[int, Any] = dict(zip(range(inputs), arguments, strict=True))
        for operation, parameters, given, made in steps:
            found = operation(*(part(values) for part in given), **parameters)
            for number, value in zip(made, found if isinstance(found, list | tuple) else [found], strict=True):
                if math.prod(np.shape(value)) > LARGEST:
                    raise UnstorableError(f"an array of its program has more than {LARGEST} numbers")
                values[number] = value
        return [part(values) for part in results]

    return run


def _step(name: str, parameters: dict[str, Any], given: list[Any], made: list[int]) -> tuple[Any, ...]:
    if name not in OPERATIONS:
        raise UnstorableError(f"the operation {name} is not one that is stored")
    read = {
        key: np.dtype(item["dtype"]) if "dtype" in item else _NUMBERS.decode(item["value"])
        for key, item in parameters.items()
    }
    return OPERATIONS[name], read, [_resolve(part) for part in given], made


def _resolve(part: Any) -> Callable[[dict[int, Any]], Any]:
    """What looks up a numbered value, or is a constant."""
    if isinstance(part, int):
        return lambda values: values[part]
    constant = _NUMBERS.decode(part["constant"])
    return lambda values: jnp.asarray(constant)
