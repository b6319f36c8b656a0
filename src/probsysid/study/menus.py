"""The optional terms of a study's model, `[model.candidates]`, as a menu."""

from collections.abc import Mapping, Sequence
from typing import Any

from probsysid.data.record import Record
from probsysid.selection.catalogue import catalogue_term
from probsysid.selection.menu import Menu
from probsysid.selection.options import SearchOptions
from probsysid.selection.terms import Term, Terms
from probsysid.smc.options import Sampler
from probsysid.study.candidates import CandidateModel
from probsysid.study.priors import Prior
from probsysid.study.schema import ModelSection, SelectionSection, Study, TermSection


def menu_of(
    study: Study, section: ModelSection, candidate: CandidateModel, records: Sequence[Record], sampler: Sampler
) -> Menu | None:
    """The menu of a model, checked; None where it has no optional terms."""
    if not section.candidates:
        return None
    problem = candidate.problem
    terms = Terms(*(_term(name, each) for name, each in section.candidates.items()), exclusive=section.exclusive)
    options = {
        "solver": candidate.solver,
        "sampler": sampler,
        "method": study.sampler.method,
        "seed": study.seed,
        "process_noise": problem.process_noise or None,
        "varies": problem.varies or None,
        "unknown": problem.latent.unknown or None,
        "drifts": problem.latent.drifts or None,
    }
    given: Mapping[Any, Any] = problem.given_priors
    return Menu.make(problem.given_model, terms, list(records), given, problem.noise, problem.initials, options)


def search_options(section: SelectionSection, budget: int | None) -> SearchOptions:
    """As the section says; a budget from the command line takes the place of its own."""
    given = {name: value for name, value in section if value is not None}
    return SearchOptions(**given | ({} if budget is None else {"budget": budget}))


def _term(name: str, section: TermSection) -> Term:
    priors = {k: p.fixed if p.prior is None else _value(p.prior) for k, p in section.parameters.items()}
    if section.term is not None and section.of is not None:
        given: dict[str, Any] = {"mass": section.mass, "suffix": section.suffix, "needs": section.needs}
        return catalogue_term(section.term, section.of, priors, name=name, **given)
    return Term(
        name,
        section.dynamics,
        section.outputs,
        section.inputs,
        priors,
        section.needs,
        section.coordinates,
        section.equations,
        {key: _value(value) for key, value in section.initial.items()},
        {key: each.unit for key, each in section.parameters.items() if each.unit},
        section.description,
    )


def _value(quantity: float | Prior) -> Any:
    return quantity.distribution if isinstance(quantity, Prior) else quantity
