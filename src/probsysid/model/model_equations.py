"""The equations of a study's model as functions that `Model` calls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from probsysid._internal.array_types import Scalar
from probsysid.model.components import derivative_name
from probsysid.model.equations import Equation, EquationError


@dataclass(frozen=True, eq=False)
class ModelEquations:
    """The equations of a model as written in the study: highest derivatives, outputs and intermediate expressions by
    name."""

    coordinates: Mapping[str, int]
    equations: Mapping[str, Equation]
    outputs: Mapping[str, Equation]
    inputs: tuple[str, ...] = ()
    let: Mapping[str, Equation] = field(default_factory=dict)
    """Intermediate expressions that equations, outputs and each other may use."""

    @property
    def physical(self) -> tuple[str, ...]:
        return tuple(derivative_name(c, i) for c, order in self.coordinates.items() for i in range(order))

    @property
    def highest(self) -> tuple[str, ...]:
        return tuple(derivative_name(c, order) for c, order in self.coordinates.items())

    @property
    def used(self) -> tuple[str, ...]:
        """Every name in the equations, in the order of the text; in place of an intermediate expression those in it."""
        names = [n for equation in (*self.equations.values(), *self.outputs.values()) for n in self.names_in(equation)]
        return tuple(dict.fromkeys(names))

    def names_in(self, equation: Equation) -> tuple[str, ...]:
        """States, inputs and parameters in an equation and in the intermediate expressions that it uses."""
        found = [(self.names_in(self.let[n]) if n in self.let else (n,)) for n in equation.names]
        return tuple(dict.fromkeys(name for names in found for name in names))

    @property
    def let_used(self) -> tuple[str, ...]:
        """Intermediate expressions that an equation or output needs, each after those it uses itself."""
        return _ordered(self.let, (n for e in (*self.equations.values(), *self.outputs.values()) for n in e.names))

    def dynamics(self, s: Any, u: Any, p: Any) -> dict[str, Scalar]:
        """The dynamics of `Model`: the highest derivative of each coordinate."""
        return self._values(self.equations, s, u, p)

    def measured(self, s: Any, u: Any, p: Any) -> dict[str, Scalar]:
        """The outputs of `Model`."""
        return self._values(self.outputs, s, u, p)

    def _values(self, equations: Mapping[str, Equation], s: Any, u: Any, p: Any) -> dict[str, Scalar]:
        states = {*self.physical, *self.highest}

        def value(name: str) -> Scalar:
            return s[name] if name in states else u[name] if name in self.inputs else p[name]

        needed = _ordered(self.let, (name for equation in equations.values() for name in equation.names))
        known: dict[str, Scalar] = {}
        for name in needed:
            known[name] = self.let[name].evaluate(
                {n: known[n] if n in known else value(n) for n in self.let[name].names}
            )
        return {
            key: equation.evaluate({n: known[n] if n in known else value(n) for n in equation.names})
            for key, equation in equations.items()
        }


class CyclicExpression(EquationError):
    """An intermediate expression needs itself; `name` is the one in which the loop closes."""

    def __init__(self, name: str, loop: tuple[str, ...], column: int):
        super().__init__(f"it depends on itself: {' -> '.join(loop)}.", column)
        self.name = name


def check_acyclic(let: Mapping[str, Equation]) -> None:
    """Raise for the first intermediate expression that needs itself."""
    for name in let:
        _ordered(let, (name,))


def _ordered(let: Mapping[str, Equation], wanted: Iterable[str]) -> tuple[str, ...]:
    """The intermediate expressions among the wanted names and all they use, each after those it uses itself."""
    found: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        for symbol in let[name].symbols:
            if symbol.name in (*path, name):
                loop = (*path, name)[(*path, name).index(symbol.name) :]
                raise CyclicExpression(name, (*loop, symbol.name), symbol.column)
            if symbol.name in let and symbol.name not in found:
                visit(symbol.name, (*path, name))
        found.append(name)

    for name in wanted:
        if name in let and name not in found:
            visit(name, ())
    return tuple(found)
