"""Priors as text: `LogNormal(log(5e4), 0.5)`, `Uniform(0, 2)`, `TruncatedNormal(1, 0.2, low=0)`.

Arguments are numbers or expressions of numbers; like equations, they are parsed against a whitelist, never executed.
"""

import ast
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpyro.distributions as dist

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.model.equations import EquationError, parse

REQUIRED = object()

LARGEST_LOGARITHM = 600.0
"""Largest logarithm of a constant (1e260); five standard deviations of a LogNormal have to stay within it."""

FARTHEST_BOUND = 8.0
"""In standard deviations; beyond it, tail probabilities are lost in double precision."""


@dataclass(frozen=True)
class Family:
    """A family of priors: arguments with defaults, which of them must be positive, and the constructor."""

    arguments: dict[str, Any]
    make: Callable[..., dist.Distribution]
    positive: tuple[str, ...] = ()
    ordered: bool = False
    """Whether `low` must be below `high`."""
    example: str = ""


def _truncated(mean: float, sd: float, low: float | None, high: float | None) -> dist.Distribution:
    return dist.TruncatedNormal(mean, sd, low=low, high=high)


FAMILIES: dict[str, Family] = {
    "Normal": Family({"mean": REQUIRED, "sd": REQUIRED}, dist.Normal, ("sd",), example="Normal(0, 1)"),
    "LogNormal": Family(
        {"mean": REQUIRED, "sd": REQUIRED}, dist.LogNormal, ("sd",), example="LogNormal(log(5e4), 0.5)"
    ),
    "Uniform": Family({"low": REQUIRED, "high": REQUIRED}, dist.Uniform, ordered=True, example="Uniform(0, 2)"),
    "LogUniform": Family(
        {"low": REQUIRED, "high": REQUIRED}, dist.LogUniform, ("low",), True, example="LogUniform(1e3, 1e6)"
    ),
    "TruncatedNormal": Family(
        {"mean": REQUIRED, "sd": REQUIRED, "low": None, "high": None},
        _truncated,
        ("sd",),
        True,
        example="TruncatedNormal(1, 0.2, low=0)",
    ),
    "HalfNormal": Family({"sd": REQUIRED}, dist.HalfNormal, ("sd",), example="HalfNormal(1)"),
    "Exponential": Family({"rate": REQUIRED}, dist.Exponential, ("rate",), example="Exponential(1)"),
    "Gamma": Family({"shape": REQUIRED, "rate": REQUIRED}, dist.Gamma, ("shape", "rate"), example="Gamma(2, 1)"),
    "InverseGamma": Family(
        {"shape": REQUIRED, "scale": REQUIRED}, dist.InverseGamma, ("shape", "scale"), example="InverseGamma(3, 1)"
    ),
    "Beta": Family({"a": REQUIRED, "b": REQUIRED}, dist.Beta, ("a", "b"), example="Beta(2, 2)"),
    "StudentT": Family(
        {"df": REQUIRED, "mean": 0.0, "sd": 1.0}, dist.StudentT, ("df", "sd"), example="StudentT(4, 0, 1)"
    ),
    "HalfCauchy": Family({"scale": REQUIRED}, dist.HalfCauchy, ("scale",), example="HalfCauchy(1)"),
    "Cauchy": Family({"mean": REQUIRED, "scale": REQUIRED}, dist.Cauchy, ("scale",), example="Cauchy(0, 1)"),
    "Logistic": Family({"mean": REQUIRED, "scale": REQUIRED}, dist.Logistic, ("scale",), example="Logistic(0, 1)"),
    "Gumbel": Family({"mean": REQUIRED, "scale": REQUIRED}, dist.Gumbel, ("scale",), example="Gumbel(0, 1)"),
    "Weibull": Family(
        {"scale": REQUIRED, "shape": REQUIRED}, dist.Weibull, ("scale", "shape"), example="Weibull(1, 2)"
    ),
    "Laplace": Family({"mean": REQUIRED, "scale": REQUIRED}, dist.Laplace, ("scale",), example="Laplace(0, 1)"),
}


@dataclass(frozen=True)
class Prior:
    """A distribution and the text it came from."""

    text: str
    distribution: dist.Distribution = field(compare=False, repr=False)


def parse_prior(text: str) -> Prior:
    """Parse the text of a prior."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntaxWarning)
            node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{_short(text)} is not a prior; write one such as 'LogNormal(0, 1)', or a number.") from None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise InputError(f"{_short(text)} is not a prior; write one such as 'LogNormal(0, 1)', or a number.")
    name = node.func.id
    if name not in FAMILIES:
        hint = did_you_mean(name, FAMILIES)
        raise InputError(f"there is no prior {_short(name)}; known are: {', '.join(FAMILIES)}.{hint}")
    arguments = _arguments(name, node, text.strip())
    _check(name, arguments, text)
    return Prior(text, FAMILIES[name].make(*arguments.values()))


def _arguments(name: str, node: ast.Call, text: str) -> dict[str, float | None]:
    """Values by name, in the order of the family."""
    family = FAMILIES[name]
    usage = f"write {name}({', '.join(family.arguments)}), such as {family.example}"
    if len(node.args) > len(family.arguments):
        raise InputError(f"{_short(text)} has {len(node.args)} arguments; {usage}.")
    given: dict[str, float | None] = {}
    for key, value in zip(family.arguments, node.args, strict=False):
        given[key] = _number(value, text)
    for item in node.keywords:
        if item.arg not in family.arguments:
            raise InputError(f"{_short(text)}: there is no argument {item.arg!r}; {usage}.")
        if item.arg in given:
            raise InputError(f"{_short(text)}: the argument {item.arg!r} is given twice; {usage}.")
        given[item.arg] = _number(item.value, text)
    missing = [key for key, default in family.arguments.items() if default is REQUIRED and key not in given]
    if missing:
        raise InputError(f"{_short(text)}: the argument {missing[0]!r} is missing; {usage}.")
    return {key: given.get(key, default) for key, default in family.arguments.items()}


def _number(node: ast.AST, text: str) -> float:
    segment = ast.get_source_segment(text, node) or ""
    try:
        equation = parse(segment)
    except EquationError as error:
        raise InputError(f"{_short(text)}: {_short(segment)} is not a number ({error}).") from None
    if equation.names:
        raise InputError(f"{_short(text)}: {_short(equation.names[0])} is not a number.")
    value = float(equation.evaluate({}))
    if not math.isfinite(value):
        raise InputError(f"{_short(text)}: {_short(segment)} is {value}, not a finite number.")
    return value


def _check(name: str, arguments: dict[str, float | None], text: str) -> None:
    family = FAMILIES[name]
    for key in family.positive:
        value = arguments[key]
        if value is not None and value <= 0:
            raise InputError(f"{_short(text)}: {key} is {value:g}; it must be positive.")
    if name == "LogNormal":
        _check_logarithm(arguments, text)
    low, high = arguments.get("low"), arguments.get("high")
    if family.ordered and low is not None and high is not None and low >= high:
        raise InputError(f"{_short(text)}: low is {low:g} and high is {high:g}; low must be under high.")
    if name == "TruncatedNormal":
        _check_left(arguments, text)


def _check_logarithm(arguments: dict[str, float | None], text: str) -> None:
    """Refuse mean and sd of the constant in place of those of its logarithm, a common mistake."""
    mean, sd = arguments["mean"] or 0.0, arguments["sd"] or 0.0
    if abs(mean) + 5 * sd > LARGEST_LOGARITHM:
        raise InputError(
            f"{_short(text)} reaches beyond all numbers: mean and sd are those of the logarithm; "
            "a constant near 5e4, give or take half of it, is LogNormal(log(5e4), 0.5)."
        )


def _check_left(arguments: dict[str, float | None], text: str) -> None:
    """Refuse bounds that leave no probability."""
    mean, sd = arguments["mean"] or 0.0, arguments["sd"] or 1.0
    for key, side in (("low", 1), ("high", -1)):
        bound = arguments[key]
        if bound is not None and side * (bound - mean) > FARTHEST_BOUND * sd:
            raise InputError(
                f"{_short(text)}: {key} is {bound:g}, {abs(bound - mean) / sd:.3g} sd from the mean: "
                "nothing is left of the Gaussian."
            )


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
