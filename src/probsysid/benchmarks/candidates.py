"""Case studies whose model is chosen: the search over a menu of terms, and over versions of the data, by evidence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from probsysid.data.record import Record
from probsysid.inference.argument_checks import Method as RunMethod
from probsysid.model.model import Model
from probsysid.model.priors import Prior
from probsysid.parallel.executor import Executor
from probsysid.selection.options import SearchOptions
from probsysid.selection.result import Selection
from probsysid.selection.search import Search
from probsysid.selection.select import select
from probsysid.selection.terms import Names, Terms

if TYPE_CHECKING:
    from probsysid.benchmarks.case import CaseStudy, Method


SELECTED = "selected"
"""The variant of a case whose terms are chosen by evidence."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a search chooses from.

    Args:
        model, priors, initial: what all models have.
        terms: the menu.
        versions: training data by name, such as those with the phases of a filter undone; neighbours in this order are
            neighbours in their meaning.  Their log evidences must be comparable.
        begin: the version with which the search begins.
        study: terms and version -> the case study of that model.
        search: its options.
        method: of the runs of the search; the model that is chosen is sampled in any case.
        particles: of these runs.
    """

    model: Model
    priors: Mapping[str, Prior]
    initial: Mapping[str, Prior]
    terms: Terms
    versions: Mapping[str, Record]
    begin: str
    study: "Callable[[Names, str], CaseStudy]"
    search: SearchOptions = field(default_factory=lambda: SearchOptions(budget=12, beam=2, width=3))
    method: RunMethod = "sample"
    particles: int = 256


@dataclass(frozen=True, eq=False)
class Chosen:
    """The model that the evidence prefers."""

    study: "CaseStudy"
    selection: Selection
    version: str
    evidences: Mapping[str, float]
    """Of its terms, by version of the data."""


ROUNDS = 4
"""Searches at most: each begins with the terms and the version that the one before preferred."""


def choose_terms(
    candidates: Candidates, method: "Method", seed: int, folder: Path, console: Console, executor: Executor | None
) -> Chosen:
    """Search terms at one version of the data, then the version for these terms, until neither changes."""
    searcher = _Searcher(candidates, method, seed, folder, console, executor)
    version, start = candidates.begin, frozenset[str]()
    found = searcher.search(version, start)
    for _ in range(ROUNDS - 1):
        better = searcher.climb(found.best.names, version)
        if better == version:
            break
        version, start = better, found.best.names
        found = searcher.search(version, start)
    evidences = {name: value for (terms, name), value in searcher.known.items() if terms == found.best.names}
    study = candidates.study(found.best.names, version)
    return Chosen(replace(study, candidates=None), found, version, evidences)


@dataclass(frozen=True, eq=False)
class _Searcher:
    candidates: Candidates
    method: "Method"
    seed: int
    folder: Path
    console: Console
    executor: Executor | None
    known: dict[tuple[Names, str], float] = field(default_factory=dict)
    """Log evidences by terms and version."""

    def search(self, version: str, start: Names) -> Selection:
        """Over the whole menu, from a set of terms."""
        at = f" ({version})" if len(self.candidates.versions) > 1 else ""
        self.console.print(f"searching {len(self.candidates.terms)} terms{at}")
        return self._select(version, replace(self.candidates.search, starts=(tuple(sorted(start)),)))

    def climb(self, terms: Names, version: str) -> str:
        """The version that these terms prefer: uphill from one to the next."""
        names = list(self.candidates.versions)
        while True:
            place = names.index(version)
            near = [names[i] for i in (place - 1, place + 1) if 0 <= i < len(names)]
            best = max((version, *near), key=lambda name: self._evidence(terms, name))
            if best == version:
                return version
            version = best

    def _evidence(self, terms: Names, version: str) -> float:
        if (terms, version) not in self.known:
            alone = SearchOptions(budget=1, starts=(tuple(sorted(terms)),), screen=False)
            self._select(version, alone)
        return self.known[terms, version]

    def _select(self, version: str, options: SearchOptions) -> Selection:
        case = self.candidates

        def tell(search: Search) -> None:
            latest, best = list(search.runs.values())[-1], search.ranked()[0]
            self.console.print(
                f"  {version or 'model'}, run {len(search.runs)}: {case.terms.label(latest.names)}: log evidence "
                f"{latest.log_evidence:.2f}; best {best.log_evidence:.2f}"
            )

        found = select(
            case.model,
            case.terms,
            case.versions[version],
            case.priors,
            self.method.noise,
            case.initial,
            solver=self.method.solver,
            sampler=replace(self.method.sampler, particles=case.particles),
            method=case.method,
            process_noise=self.method.process_noise,
            seed=self.seed,
            search=options,
            folder=self.folder,
            notice=tell,
            executor=self.executor,
        )
        self.known.update({(model.names, version): model.log_evidence for model in found.models})
        return found
