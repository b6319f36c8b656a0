"""Optional terms of a model, with own parameters and priors: the menu from which a search chooses.

Every term *adds*: an expression to the highest derivative of a coordinate, to an output, or to an input before the
model reads it.  What replaces something adds the difference: a sensor with a lag adds `z - position`, where `z` is a
coordinate of the term's own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import check_kind, check_mapping
from probsysid.model.equations import Equation, EquationError, parse
from probsysid.model.priors import Prior, Priors

Expression = str | Equation | Callable[[Any, Any, Any], Any]
"""A text as in study files, such as `"-k3*x**3/m"`, or a function of (s, u, p) as in `Model`."""

Names = frozenset[str]
"""The terms of a model."""


@dataclass(frozen=True, eq=False)
class Term:
    """An optional part of a model.

    Args:
        name: of the term, in tables and in groups.
        dynamics: what it adds to the highest derivative, by coordinate of the model.
        outputs: what it adds to outputs, by name.  Texts may use values of outputs, too: those without this term.
        inputs: what it adds to inputs, by name, before the model reads them.
        priors: of its own parameters, as for `identify`.  Expressions may also use parameters of the model and of terms
            that it needs.
        needs: names of terms without which it makes no sense.
        coordinates: own coordinates, with the order of their ODE, such as `{"z": 1}`.
        equations: the highest derivative of each own coordinate.  They may use outputs and highest derivatives of the
            model.
        initial: of own components at the first sample: a number or a prior; 0 where nothing is said.
        units: of its parameters, for tables.
        description: a sentence, for reports.
    """

    name: str
    dynamics: Mapping[str, Expression] = field(default_factory=dict)
    outputs: Mapping[str, Expression] = field(default_factory=dict)
    inputs: Mapping[str, Expression] = field(default_factory=dict)
    priors: Priors = field(default_factory=dict)
    needs: Sequence[str] = ()
    coordinates: Mapping[str, int] = field(default_factory=dict)
    equations: Mapping[str, Expression] = field(default_factory=dict)
    initial: Mapping[str, Prior] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip() or "+" in self.name:
            raise InputError(f"the name of a term is {self.name!r}; it must be a text without '+', such as 'coulomb'.")
        for which in ("dynamics", "outputs", "inputs", "equations"):
            given = getattr(self, which)
            check_mapping(f"{self} {which}", given, "{'x': '-k3*x**3'}")
            object.__setattr__(self, which, {place: self._read(which, place, e) for place, e in given.items()})
        check_mapping(f"{self} priors", self.priors, "{'k3': dist.Normal(0, 1)}")
        if not (self.dynamics or self.outputs or self.inputs):
            raise InputError(f"{self} adds nothing; give dynamics={{...}}, outputs={{...}} or inputs={{...}}.")
        object.__setattr__(self, "needs", (self.needs,) if isinstance(self.needs, str) else tuple(self.needs))
        if set(self.equations) != set(self.coordinates):
            odd = min(set(self.equations) ^ set(self.coordinates))
            raise InputError(f"{self}: {odd!r} must be in both, its coordinates and its equations.")

    def _read(self, which: str, place: str, expression: Expression) -> Expression:
        if isinstance(expression, Equation) or callable(expression):
            return expression
        try:
            return parse(expression)
        except EquationError as error:
            raise InputError(f"{self}, {which} of {place!r}: {error}") from None

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Of its own parameters, those with joint priors one by one."""
        return tuple(n for key in self.priors for n in (key if isinstance(key, tuple) else (key,)))

    def __str__(self) -> str:
        return f"the term {self.name!r}"


class Terms:
    """A menu of terms: which ones there are, and which go together.

    Args:
        terms: the menu.
        exclusive: groups of names of which a model has at most one.

    Example::

        menu = ps.Terms(
            ps.Term("cubic", {"x": "-k3*x**3"}, priors={"k3": dist.LogNormal(0, 1)}),
            ps.Term("coulomb", {"x": "-fc*tanh(dx/0.01)"}, priors={"fc": dist.LogNormal(-2, 1)}),
        )
    """

    def __init__(self, *terms: Term, exclusive: Iterable[Iterable[str]] = ()):
        if not terms:
            raise InputError("a menu needs at least one term; write Terms(Term(...), ...).")
        for term in terms:
            check_kind("an entry of Terms", term, Term, "make one with probsysid.Term(...)")
        self._terms = {term.name: term for term in terms}
        self.exclusive = tuple(tuple(group) if not isinstance(group, str) else (group,) for group in exclusive)
        _check_distinct(terms)
        for group in self.exclusive:
            if len(set(group)) < 2:
                listed = ", ".join(map(repr, group)) or "none"
                raise InputError(f"a group of exclusive terms has the members: {listed}; it must have at least two.")
            for name in group:
                self._check(name, f"exclusive: the group {', '.join(group)}")
        for term in terms:
            for name in term.needs:
                self._check(name, f"{term} needs")
        for term in terms:
            if not self.is_allowed(self.with_needs((term.name,))):
                raise InputError(f"{term} can never be used: what it needs is exclusive.")

    def _check(self, name: str, where: str) -> None:
        if name not in self._terms:
            known = ", ".join(self._terms)
            raise InputError(f"{where}: there is no term {name!r}; known are: {known}.{did_you_mean(name, self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """In the order in which they were given."""
        return tuple(self._terms)

    def __getitem__(self, name: str) -> Term:
        self._check(name, "terms")
        return self._terms[name]

    def __iter__(self) -> Iterator[Term]:
        return iter(self._terms.values())

    def __len__(self) -> int:
        return len(self._terms)

    def chosen(self, names: Iterable[str]) -> tuple[Term, ...]:
        """Terms by name, in the order of the menu."""
        wanted = set(names)
        for name in wanted:
            self._check(name, "terms")
        return tuple(term for term in self if term.name in wanted)

    def is_allowed(self, names: Iterable[str]) -> bool:
        """Whether a model may have just these terms."""
        wanted = set(names)
        single = all(len(wanted & set(group)) <= 1 for group in self.exclusive)
        return single and all(set(term.needs) <= wanted for term in self.chosen(wanted))

    def with_needs(self, names: Iterable[str]) -> Names:
        """These terms and all that they need."""
        found, waiting = set[str](), list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(self[name].needs)
        return frozenset(found)

    def without(self, names: Names, removed: str) -> Names:
        """These terms without one, and without those that need it."""
        left = set(names) - {removed}
        while broken := {name for name in left if not set(self[name].needs) <= left}:
            left -= broken
        return frozenset(left)

    def neighbours(self, names: Names, exchanges: bool = True) -> tuple[Names, ...]:
        """All allowed models that differ by one step: a term more (with what it needs), a term less (with what needs
        it), or one in place of another."""
        more = [self.with_needs((*names, name)) for name in self.names if name not in names]
        less = [self.without(names, name) for name in self.names if name in names]
        exchanged = [
            self.with_needs((*self.without(names, old), new))
            for old in self.names
            if old in names
            for new in self.names
            if exchanges and new not in names
        ]
        found = dict.fromkeys((*more, *less, *exchanged))
        return tuple(each for each in found if each != names and self.is_allowed(each))

    def label(self, names: Iterable[str]) -> str:
        """The terms in words, in the order of the menu."""
        return " + ".join(term.name for term in self.chosen(names)) or "no terms"

    def __repr__(self) -> str:
        groups = f"; at most one of: {'; '.join(', '.join(g) for g in self.exclusive)}" if self.exclusive else ""
        return f"Terms({', '.join(self.names)}{groups})"


def _check_distinct(terms: Sequence[Term]) -> None:
    """No two terms have the same name, or own a parameter or coordinate of the same name."""
    owners: dict[str, dict[str, Term]] = {"term": {}, "parameter": {}, "coordinate": {}}
    for term in terms:
        own = {"term": (term.name,), "parameter": term.parameter_names, "coordinate": tuple(term.coordinates)}
        for kind, names in own.items():
            for name in names:
                other = owners[kind].setdefault(name, term)
                if other is not term and kind == "term":
                    raise InputError(f"two terms are called {name!r}; give each a name of its own.")
                if other is not term:
                    raise InputError(
                        f"the {kind} {name!r} belongs to two terms, {other.name!r} and {term.name!r}; give each its "
                        "own, or let one need the other and use its."
                    )
