"""Do both sides of every equation have the same unit?  Compared where units are given, never required.

A literal number may carry any unit: `max(h, 1e-6)` compares a level, `2*d*dx` is a rate times a velocity, and `0.001*F`
may turn one unit into another, so that of a product with a number only the dimension is compared, not the size.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from probsysid.model.components import derivative_name
from probsysid.model.equations import Binary, Call, Equation, Minus, Node, Number, Symbol
from probsysid.model.model_equations import ModelEquations
from probsysid.study.expression_text import text_of

OF_NUMBERS = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "log10")
ALIKE = ("min", "max", "atan2")
CLOSE = 1e-9
"""Relative difference of factors that counts as none."""


@dataclass(frozen=True)
class Unit:
    """Powers of base dimensions, and the factor to base units; None where a literal number makes it unknown."""

    powers: tuple[tuple[str, float], ...] = ()
    factor: float | None = 1.0

    def times(self, other: "Unit", power: float = 1.0) -> "Unit":
        found = dict(self.powers)
        for name, p in other.powers:
            found[name] = found.get(name, 0.0) + power * p
        kept = tuple(sorted((name, p) for name, p in found.items() if abs(p) > CLOSE))
        known = self.factor is not None and other.factor is not None
        return Unit(kept, self.factor * other.factor**power if known else None)  # type: ignore[operator]

    def differs(self, other: "Unit") -> bool:
        if [n for n, _ in self.powers] != [n for n, _ in other.powers]:
            return True
        if any(abs(a - b) > CLOSE for (_, a), (_, b) in zip(self.powers, other.powers, strict=True)):
            return True
        known = self.factor is not None and other.factor is not None
        return known and not math.isclose(self.factor, other.factor, rel_tol=1e-6)  # type: ignore[arg-type]

    def __str__(self) -> str:
        """In SI base units: `1000 kg m s^-2`."""
        names = {"[mass]": "kg", "[length]": "m", "[time]": "s", "[current]": "A", "[temperature]": "K"}
        names |= {"[substance]": "mol", "[luminosity]": "cd"}
        powers = sorted(self.powers, key=lambda item: ([*names, item[0]].index(item[0]), item[0]))
        parts = [f"{names.get(n, n)}{'' if p == 1 else f'^{p:g}'}" for n, p in powers]
        size = "" if self.factor is None or math.isclose(self.factor, 1.0) else f"{self.factor:.6g} "
        return (size + " ".join(parts)).strip() or "a pure number"


ANY = Unit((), None)
"""Of a literal number."""

Known = Unit | None
"""None where a unit is not given."""


def has_pint() -> bool:
    """Whether units can be compared."""
    try:
        import pint  # noqa: F401
    except ImportError:
        return False
    return True


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry()


@cache
def unit_of_text(text: str) -> Unit | None:
    """The unit of a text such as `N s/m`; None if it is empty or unknown."""
    if not text.strip():
        return None
    registry = _registry()
    try:
        parsed = registry.parse_units(text.strip().replace("·", "*"))
        factor, _ = registry.get_base_units(parsed)
        powers = tuple(sorted((str(name), float(power)) for name, power in dict(parsed.dimensionality).items()))
        return Unit(powers, float(factor) if isinstance(factor, int | float) else None)
    except Exception:  # pint raises its own, tokenizer's and arithmetic errors on texts that are no units
        return None


def unit_findings(formulas: ModelEquations, units: Mapping[str, str]) -> list[str]:
    """Sentences about expressions whose parts differ in unit, without a full stop.

    Args:
        units: of parameters, inputs, outputs and coordinates, by name, as far as they are given.
    """
    check = _Check(formulas, {name: unit_of_text(text) for name, text in units.items()})
    for name, order in formulas.coordinates.items():
        check.compare(f"the equation of {name}", formulas.equations[name], check.component(name, order))
    for name, equation in formulas.outputs.items():
        check.compare(f"the output {name}", equation, check.units.get(name))
    unknown = [f"the unit {text!r} of {name} is not known" for name, text in units.items() if _is_unknown(text)]
    return [*dict.fromkeys(check.found), *unknown]


def _is_unknown(text: str) -> bool:
    return bool(text.strip()) and unit_of_text(text) is None


class _Check:
    """Units of expressions, and what was found on the way."""

    def __init__(self, formulas: ModelEquations, units: dict[str, Known]):
        self.formulas, self.units = formulas, units
        self.found: list[str] = []
        self.where = ""
        self.states = {
            derivative_name(name, i): self.component(name, i)
            for name, order in formulas.coordinates.items()
            for i in range(order + 1)
        }
        self.let: dict[str, Known] = {}
        for name in formulas.let_used:
            self.where = f"{name} of [model.let]"
            self.let[name] = self.unit(formulas.let[name].tree)

    def component(self, name: str, order: int) -> Known:
        """Unit of a derivative of a coordinate."""
        own = self.units.get(name)
        return None if own is None else own.times(Unit((("[time]", 1.0),)), -float(order))

    def compare(self, where: str, equation: Equation, left: Known) -> None:
        self.where = where
        right = self.unit(equation.tree)
        if left is not None and right is not None and right != ANY and left.differs(right):
            self.found.append(f"{where}: the left side is in {left}, the right side in {right}")

    def unit(self, node: Node) -> Known:
        match node:
            case Number():
                return ANY
            case Symbol(name=name):
                return self.let.get(name, self.states.get(name, self.units.get(name)))
            case Minus(part=part):
                return self.unit(part)
            case Binary(operator=operator, left=left, right=right):
                return self._binary(node, operator, left, right)
            case Call(function=name, arguments=arguments):
                return self._call(node, name, arguments)

    def _binary(self, node: Node, operator: str, left: Node, right: Node) -> Known:
        first, second = self.unit(left), self.unit(right)
        if operator == "**":
            if not isinstance(right, Number) or first is None:
                return None
            return ANY if first == ANY else Unit().times(first, right.value)
        if operator in ("*", "/"):
            return None if first is None or second is None else first.times(second, 1.0 if operator == "*" else -1.0)
        return self._alike(node, first, second)

    def _alike(self, node: Node, first: Known, second: Known) -> Known:
        """The unit of a sum, whose parts have the same."""
        if first is None or second is None or ANY in (first, second):
            return next((unit for unit in (first, second) if unit is not None and unit != ANY), first)
        if first.differs(second):
            self.found.append(f"{self.where}: {text_of(node)} adds or compares {first} and {second}")
            return None
        return first if first.factor is not None else second

    def _call(self, node: Node, name: str, arguments: tuple[Node, ...]) -> Known:
        if name == "where":
            condition, *branches = arguments
            self.unit(condition)
            return self._alike(node, *(self.unit(branch) for branch in branches))
        units = [self.unit(argument) for argument in arguments]
        if name in OF_NUMBERS:
            if units[0] is not None and units[0] != ANY and units[0].differs(Unit()):
                self.found.append(f"{self.where}: {name} is taken of {text_of(arguments[0])}, which is in {units[0]}")
            return Unit()
        if name in ALIKE:
            found = self._alike(node, *units)
            return Unit() if name == "atan2" else found
        if name == "sqrt":
            return None if units[0] is None else ANY if units[0] == ANY else Unit().times(units[0], 0.5)
        return units[0] if name == "abs" else Unit() if name == "sign" else None
