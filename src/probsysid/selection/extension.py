"""A model with terms added: the composition of their expressions with its functions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from probsysid._internal.array_types import Index, Scalar
from probsysid.model.components import derivative_name
from probsysid.model.equations import Equation
from probsysid.model.model import Model
from probsysid.model.namespaces import Namespace, OverlaidNamespace
from probsysid.selection.terms import Expression, Term

SWITCHES = "terms.switches"
"""The parameter of `switchable` models: 1 for each term that is in, else 0."""

Gain = Callable[[Any, Index, Scalar], Scalar]
"""`gain(p, i, value)`: what the i-th term adds, where its expression has that value."""


def extended(model: Model, terms: Sequence[Term], inputs: Iterable[str]) -> Model:
    """The model with all of these terms; `inputs` are those of the records."""
    if not terms:
        return model
    name = f"{model.name} + {' + '.join(term.name for term in terms)}"
    return _made(model, terms, inputs, lambda p, i, value: value, {}, name)


def switchable(model: Model, terms: Sequence[Term], inputs: Iterable[str]) -> Model:
    """The model with all terms, each of which counts only where its switch is 1: one program for all models of a menu.

    Values of terms that are out may be anything, such as NaN.
    """

    def gain(p: Any, i: Index, value: Scalar) -> Scalar:
        return jnp.where(p[SWITCHES][i] > 0.5, value, 0.0)

    return _made(model, terms, inputs, gain, {SWITCHES: (len(terms),)}, f"menu of {model.name}")


def _made(
    model: Model,
    terms: Sequence[Term],
    inputs: Iterable[str],
    gain: Gain,
    shapes: Mapping[str, tuple[int, ...]],
    name: str,
) -> Model:
    composed = _Composed(model, tuple(terms), frozenset((*inputs, *model.input_names)), gain)
    coordinates = dict(model.coordinates)
    units = dict(model.units)
    for term in terms:
        coordinates |= term.coordinates
        units |= term.units
    return Model(
        coordinates, composed.dynamics, composed.outputs, shapes={**model.shapes, **shapes}, units=units, name=name
    )


class _Composed(NamedTuple):
    """The functions of a model with terms."""

    model: Model
    terms: tuple[Term, ...]
    inputs: frozenset[str]
    gain: Gain

    def dynamics(self, s: Any, u: Any, p: Any) -> dict[str, Any]:
        without, inputs = self._inputs(s, u, p)
        values = dict(self.model.dynamics(_part(s, self.model.physical_names), inputs, p))
        for i, term in enumerate(self.terms):
            for place, expression in term.dynamics.items():
                values[place] = values[place] + self.gain(p, i, self._value(expression, s, inputs, p))
        if any(term.coordinates for term in self.terms):
            orders = self.model.coordinates.items()
            highest = {derivative_name(c, order): values[c] for c, order in orders}
            before, _ = self._outputs(OverlaidNamespace("state", highest, s), inputs, p)
            for i, term in enumerate(self.terms):
                for place, expression in term.equations.items():
                    known = OverlaidNamespace("state", {**before[i], **highest}, s)
                    values[place] = self._value(expression, known, without[i], p)
        return values

    def outputs(self, s: Any, u: Any, p: Any) -> dict[str, Any]:
        return self._outputs(s, self._inputs(s, u, p)[1], p)[1]

    def _inputs(self, s: Any, u: Any, p: Any) -> tuple[list[Any], Any]:
        """The inputs as each term finds them, and as the model reads them."""
        changed: dict[str, Any] = {}
        without = []
        for i, term in enumerate(self.terms):
            now = OverlaidNamespace("input", dict(changed), u)
            without.append(now)
            for place, expression in term.inputs.items():
                changed[place] = now[place] + self.gain(p, i, self._value(expression, s, now, p))
        return without, OverlaidNamespace("input", changed, u)

    def _outputs(self, s: Any, u: Any, p: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The outputs as each term finds them, and as they are measured."""
        assert self.model.outputs is not None
        own = _part(s, (*self.model.physical_names, *self.model.highest_names))
        values = dict(self.model.outputs(own, u, p))
        without = []
        for i, term in enumerate(self.terms):
            found = {name: value for name, value in values.items() if name not in s}
            without.append(found)
            for place, expression in term.outputs.items():
                known = OverlaidNamespace("state", found, s)
                values[place] = values[place] + self.gain(p, i, self._value(expression, known, u, p))
        return without, values

    def _value(self, expression: Expression, s: Any, u: Any, p: Any) -> Any:
        if not isinstance(expression, Equation):
            assert callable(expression)
            return expression(s, u, p)

        def named(name: str) -> Any:
            return s[name] if name in s else u[name] if name in self.inputs else p[name]

        return expression.evaluate({name: named(name) for name in expression.names})


def _part(s: Any, names: Iterable[str]) -> Namespace:
    """The components that the model itself has."""
    return Namespace("state", {name: s[name] for name in names})
