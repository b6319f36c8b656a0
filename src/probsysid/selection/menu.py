"""A model with its menu of terms and with priors: checked as a whole, and every model that can be made of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import check_kind
from probsysid.data.record import Record
from probsysid.inference.argument_checks import Method, check_arguments, checked_initials, checked_records
from probsysid.inference.problem_arguments import LatentArguments, problem_of
from probsysid.model.components import derivative_name
from probsysid.model.equations import Equation
from probsysid.model.model import Model
from probsysid.model.priors import Prior
from probsysid.model.problem import Problem
from probsysid.odefilter.solver import Solver
from probsysid.selection.extension import SWITCHES, extended, switchable
from probsysid.selection.terms import Names, Term, Terms
from probsysid.smc.options import Sampler


@dataclass(frozen=True, eq=False)
class Menu:
    """Everything that the models of a search have in common, and what `identify` takes for each."""

    model: Model
    terms: Terms
    records: tuple[Record, ...]
    priors: Mapping[Any, Any]
    noise: Mapping[str, Any]
    initials: tuple[Mapping[str, Prior], ...]
    options: Mapping[str, Any]
    """Further arguments of `identify` on which the posterior depends: process noise, solver, sampler, method, seed."""
    _models: dict[Names, Model] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def make(
        cls,
        model: Model,
        terms: Terms,
        record: Record | Sequence[Record],
        priors: Mapping[Any, Any],
        noise: Mapping[str, Any] | None,
        initial: Any,
        options: Mapping[str, Any],
    ) -> "Menu":
        """Checked: every term with what it needs makes a model that could be identified."""
        check_kind("terms", terms, Terms, "make them with probsysid.Terms(Term(...), ...)")
        solver, sampler, method = options["solver"], options["sampler"], options["method"]
        forces, varies = options.get("process_noise"), options.get("varies")
        check_arguments(model, priors, noise, forces, varies, solver, sampler, None, options["seed"], method)
        records = checked_records(record)
        menu = cls(
            model, terms, records, dict(priors), noise or {}, tuple(checked_initials(initial, len(records))), options
        )
        assert menu.problem(frozenset()).space is not None
        for term in terms:
            menu._check(term)
        for term in terms:
            try:
                assert menu.problem(terms.with_needs((term.name,))).space is not None
            except InputError as error:
                raise InputError(f"{term}: {error}") from None
        return menu

    @property
    def inputs(self) -> tuple[str, ...]:
        """Of all records, and unknown ones."""
        unknown = tuple(self.options.get("unknown") or {})
        return tuple(dict.fromkeys((*(n for record in self.records for n in record.input_names), *unknown)))

    @property
    def solver(self) -> Solver:
        solver = self.options["solver"]
        assert isinstance(solver, Solver)
        return solver

    @property
    def sampler(self) -> Sampler:
        sampler = self.options["sampler"]
        assert isinstance(sampler, Sampler)
        return sampler

    @property
    def method(self) -> Method:
        return self.options["method"]

    def model_of(self, names: Names) -> Model:
        """The model with these terms; made once."""
        if names not in self._models:
            self._models[names] = extended(self.model, self.terms.chosen(names), self.inputs)
        return self._models[names]

    def arguments(self, names: Names) -> dict[str, Any]:
        """What `identify` takes for the model with these terms."""
        chosen = self.terms.chosen(names)
        return {
            "model": self.model_of(names),
            "record": self.records,
            "priors": _joined((self.priors, *(term.priors for term in chosen))),
            "noise": self.noise,
            "initial": [self._initial(initial, chosen) for initial in self.initials],
            **self.options,
        }

    def problem(self, names: Names) -> Problem:
        """The inference problem of the model with these terms."""
        given = self.arguments(names)
        return self._problem(given["model"], given["priors"], given["initial"])

    def switchable_problem(self) -> Problem:
        """That of the model with all terms, in which each can be switched."""
        terms = tuple(self.terms)
        model = switchable(self.model, terms, self.inputs)
        switches = {SWITCHES: [1.0] * len(terms)}
        priors = _joined((self.priors, *(term.priors for term in terms), switches))
        return self._problem(model, priors, [self._initial(initial, terms) for initial in self.initials])

    def _problem(self, model: Model, priors: Any, initials: Sequence[Mapping[str, Prior]]) -> Problem:
        forces, varies, unknown, drifts = (
            self.options.get(n) or {} for n in ("process_noise", "varies", "unknown", "drifts")
        )
        latent = LatentArguments(unknown, drifts)
        return problem_of(model, self.records, priors, self.noise, initials, forces, varies, latent, self.solver)

    def _initial(self, given: Mapping[str, Prior], terms: Iterable[Term]) -> dict[str, Prior]:
        """With the first values of the terms' own components, 0 where nothing is said."""
        own: dict[str, Prior] = {}
        for term in terms:
            own |= {name: term.initial.get(name, 0.0) for name in _own_components(term)}
        return {**own, **given}

    def _check(self, term: Term) -> None:
        """Places and names of a term against the model."""
        model = self.model
        for which, places, known in (
            ("coordinate", term.dynamics, tuple(model.coordinates)),
            ("output", term.outputs, model.output_names),
            ("input", term.inputs, self.inputs),
        ):
            for place in places:
                if place not in known:
                    listed = ", ".join(known) or "none"
                    hint = did_you_mean(place, known)
                    raise InputError(f"{term} adds to the {which} {place!r}; the model has: {listed}.{hint}")
        taken = {*model.physical_names, *model.highest_names, *self.inputs, *model.parameter_names}
        own = [*term.parameter_names, *_own_components(term, highest=True)]
        for name in own:
            if name in taken or own.count(name) > 1:
                raise InputError(f"{term} has an own {name!r}, but the model has one already; choose another name.")
        for name in term.initial:
            if name not in _own_components(term):
                raise InputError(f"{term}: initial names {name!r}, which is no component of its own coordinates.")
        self._check_symbols(term, taken)

    def _check_symbols(self, term: Term, taken: set[str]) -> None:
        """Every name in its texts is known."""
        chosen = self.terms.chosen(self.terms.with_needs((term.name,)))
        parameters = {name for each in chosen for name in each.parameter_names}
        components = {name for each in chosen for name in _own_components(each)}
        states = {*self.model.physical_names, *self.inputs, *self.model.parameter_names, *parameters, *components}
        wider = states | {*self.model.highest_names, *self.model.output_names}
        places = ((term.dynamics, states), (term.inputs, states), (term.outputs, wider), (term.equations, wider))
        for expressions, known in places:
            for expression in [each for each in expressions.values() if isinstance(each, Equation)]:
                for name in expression.names:
                    if name not in known:
                        listed = ", ".join(sorted(known))
                        hint = did_you_mean(name, known)
                        raise InputError(
                            f"{term}: unknown name {name!r} in {expression.text!r}; known are: {listed}.{hint} "
                            "A parameter of its own needs a prior."
                        )


def _own_components(term: Term, highest: bool = False) -> tuple[str, ...]:
    """Those that need an initial value; or with the highest derivatives, too."""
    return tuple(derivative_name(c, i) for c, order in term.coordinates.items() for i in range(order + highest))


def _joined(tables: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for table in tables:
        found |= table
    return found
