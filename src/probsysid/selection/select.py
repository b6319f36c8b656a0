"""`select`: from a model, a menu of terms and records to the terms that the data ask for."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from probsysid._internal.errors import SamplingError, said_later
from probsysid._internal.interrupts import stop_on_signals
from probsysid._internal.validation import check_kind
from probsysid.data.record import Record
from probsysid.inference.argument_checks import Method
from probsysid.model.kernels import Kernel
from probsysid.model.model import Model
from probsysid.model.noise import AnyNoise
from probsysid.model.priors import Prior, Priors
from probsysid.model.varying import Variation
from probsysid.odefilter.solver import Solver
from probsysid.parallel.executor import Executor
from probsysid.selection.evaluated import evaluate
from probsysid.selection.kept import Kept
from probsysid.selection.menu import Menu
from probsysid.selection.options import SearchOptions
from probsysid.selection.result import Selection, sentences
from probsysid.selection.screening import Screening, why_not
from probsysid.selection.search import Search
from probsysid.selection.terms import Terms
from probsysid.smc.options import Sampler

LAST = 0.2
"""Share of the samples on which predictions are compared beside the evidence."""

Notice = Callable[[Search], None]
"""Called after every run with the search so far."""


def select(
    model: Model,
    terms: Terms,
    record: Record | Sequence[Record],
    priors: Priors,
    noise: Mapping[str, AnyNoise] | None = None,
    initial: Mapping[str, Prior] | Sequence[Mapping[str, Prior]] | None = None,
    *,
    solver: Solver = Solver(),
    sampler: Sampler = Sampler(particles=512),
    method: Method = "sample",
    process_noise: Mapping[str, Prior] | None = None,
    varies: Mapping[str, Variation] | None = None,
    unknown: Mapping[str, Kernel] | None = None,
    drifts: Mapping[str, Kernel] | None = None,
    seed: int = 0,
    search: SearchOptions = SearchOptions(),
    folder: str | Path | None = None,
    notice: Notice | None = None,
    executor: Executor | None = None,
) -> Selection:
    """Choose terms of a menu by log evidence.

    Models with more, fewer or other terms are screened by Laplace's approximation, and those with a chance are run by
    `identify`.  Where there is process noise, noise that is not Gaussian or varying parameters, all neighbours are run.

    Args:
        model: what every candidate has.
        terms: the menu.
        record, priors, noise, initial: as for `identify`, without what belongs to terms.
        solver, sampler, method, process_noise, varies, unknown, drifts, seed: as for `identify`, of every run.
        search: how the menu is searched, such as `SearchOptions(budget=10)`.
        folder: where runs are kept; a search of the same models resumes from there.
        notice: called after every run.
        executor: as for `identify`.
    """
    check_kind("search", search, SearchOptions, "such as probsysid.SearchOptions(budget=10)")
    further: dict[str, Any] = dict(process_noise=process_noise, varies=varies, unknown=unknown, drifts=drifts)
    further |= dict(solver=solver, sampler=sampler, method=method, seed=seed)
    menu = Menu.make(model, terms, record, priors, noise, initial, further)
    return searched(menu, search, Kept.at(folder), notice, executor)


def searched(
    menu: Menu, options: SearchOptions, kept: Kept, notice: Notice | None, executor: Executor | None
) -> Selection:
    """Search a menu that is checked."""
    starts = options.checked_starts(menu.terms)
    reason = why_not(menu) if options.screen else "it was not asked for"
    search = Search(menu.terms, options, None if reason else Screening(menu), starts)
    with said_later(), stop_on_signals():
        search.go(lambda names: evaluate(menu, names, kept, executor, LAST), notice or (lambda _: None))
    return selection_of(search, menu, reason)


MISSED = 10.0
"""Log evidence by which a run falls short of Laplace's approximation if it has missed the posterior."""


def _missed(search: Search) -> list[str]:
    """Runs that found much less than screening did: their models may be better than they look."""
    pairs = [(run, search.screened().get(names)) for names, run in search.runs.items()]
    return [
        f"model {run.number} has a log evidence of {run.log_evidence:.1f} by its run, {cheap.log_evidence:.1f} by "
        "screening: the run has missed the posterior, or this is far from Gaussian; take more particles"
        for run, cheap in pairs
        if cheap is not None and cheap.log_evidence > run.log_evidence + MISSED
    ]


def selection_of(search: Search, menu: Menu, unscreened: str) -> Selection:
    """The result of a search, with what is to be known about it."""
    ranked = search.ranked()
    if not ranked or ranked[0].log_evidence == -math.inf:
        why = ranked[0].verdict if ranked else ""
        raise SamplingError(f"no model of the menu could be sampled. {why}".strip())
    notes = [search.stopped] if search.stopped else []
    notes += [f"models were not screened: {unscreened}"] if unscreened else []
    lost = [n for n, found in search.screened().items() if not math.isfinite(found.log_evidence)]
    notes += [f"screening found no start for {menu.terms.label(names)}, which was left out" for names in lost[:3]]
    notes += sentences(ranked[: search.options.beam], lambda m: menu.terms.label(m.names))
    notes += _missed(search)
    cheap = {names: found.log_evidence for names, found in search.screened().items()}
    return Selection(menu, tuple(ranked), search.options.model_prior, cheap, dict(search.parents), tuple(notes))
