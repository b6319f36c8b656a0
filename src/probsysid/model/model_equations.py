"""The equations of a study's model as functions that `Model` calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from probsysid.model.equations import Equation
from probsysid.model.model import derivative_name


@dataclass(frozen=True, eq=False)
class ModelEquations:
    """The equations of a model as written in the study: highest derivatives and outputs by name."""

    coordinates: Mapping[str, int]
    equations: Mapping[str, Equation]
    outputs: Mapping[str, Equation]
    inputs: tuple[str, ...] = ()

    @property
    def physical(self) -> tuple[str, ...]:
        return tuple(derivative_name(c, i) for c, order in self.coordinates.items() for i in range(order))

    @property
    def highest(self) -> tuple[str, ...]:
        return tuple(derivative_name(c, order) for c, order in self.coordinates.items())

    @property
    def used(self) -> tuple[str, ...]:
        """Every name in the equations, in the order of the text."""
        equations = (*self.equations.values(), *self.outputs.values())
        return tuple(dict.fromkeys(name for equation in equations for name in equation.names))

    def dynamics(self, s: Any, u: Any, p: Any) -> dict[str, Any]:
        """The dynamics of `Model`: the highest derivative of each coordinate."""
        return self._values(self.equations, s, u, p)

    def measured(self, s: Any, u: Any, p: Any) -> dict[str, Any]:
        """The outputs of `Model`."""
        return self._values(self.outputs, s, u, p)

    def _values(self, equations: Mapping[str, Equation], s: Any, u: Any, p: Any) -> dict[str, Any]:
        states = {*self.physical, *self.highest}
        result = {}
        for key, equation in equations.items():
            values = {n: s[n] if n in states else u[n] if n in self.inputs else p[n] for n in equation.names}
            result[key] = equation.evaluate(values)
        return result
