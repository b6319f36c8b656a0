"""The search over a menu: forward steps, deletions and exchanges, ranked by screening, decided by full runs.

Screening walks first: from every start it expands the best models that are not expanded yet, as long as they are among
the best few (the *beam*).  Then the models that it finds best are run in full, with the first model to compare, and the
neighbours of the best runs are screened and run in turn, until no model is left that screening gives a chance.  Where
models cannot be screened, all neighbours are run.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from probsysid.selection.evaluated import Evaluated
from probsysid.selection.options import SearchOptions
from probsysid.selection.probabilities import log_model_prior
from probsysid.selection.screening import Screened, Screening
from probsysid.selection.terms import Names, Terms

Evaluate = Callable[[Names], Evaluated]
Told = Callable[["Search"], None]


@dataclass(eq=False)
class Search:
    """What a search has found so far."""

    terms: Terms
    options: SearchOptions
    screening: Screening | None
    starts: tuple[Names, ...]
    runs: dict[Names, Evaluated] = field(default_factory=dict)
    parents: dict[Names, Names | None] = field(default_factory=dict)
    """Of every model that was seen, the one from which it was reached first."""
    stopped: str = ""
    """Why the search ended before its end; empty if it did not."""
    _expanded: set[Names] = field(default_factory=set)
    _exchanged: set[Names] = field(default_factory=set)

    def go(self, evaluate: Evaluate, tell: Told) -> None:
        """To the end, or until the budget is spent."""
        for start in self.starts:
            self.parents.setdefault(start, None)
        if self.screening is not None:
            self._walk()
        self._run([*self.starts, *self._promising()[:1]], evaluate, tell)
        while waiting := self._waiting():
            left = self.options.budget - len(self.runs)
            if left <= 0:
                self.stopped = f"the budget of {self.options.budget} runs is spent; {len(waiting)} models were waiting"
                break
            self._run(waiting[: min(self.options.width, left)], evaluate, tell)

    def log_posterior(self, names: Names) -> float:
        """Log of evidence times prior, of a model that was run."""
        return self.runs[names].log_evidence + self._log_prior(names)

    def ranked(self) -> list[Evaluated]:
        """Models that were run, best first."""
        return sorted(self.runs.values(), key=lambda run: -self.log_posterior(run.names))

    # Screening

    def screened(self) -> dict[Names, Screened]:
        return {} if self.screening is None else self.screening.found

    def _log_prior(self, names: Names) -> float:
        return log_model_prior(self.terms, names, self.options.model_prior)

    def _expected(self, names: Names) -> float:
        """Log of evidence times prior, by screening; infinite where there is none."""
        found = self.screened().get(names)
        return math.inf if found is None else found.log_evidence + self._log_prior(names)

    def _promising(self) -> list[Names]:
        """Screened models, best first."""
        return sorted(self.screened(), key=lambda names: -self._expected(names))

    def _walk(self) -> None:
        """Screen neighbours of the best screened models until all of the beam are expanded."""
        assert self.screening is not None
        self._explore()
        while not self.screening.is_accurate(self._promising()[0]):
            self._expanded.clear()
            self._exchanged.clear()
            self._explore()

    def _explore(self) -> None:
        assert self.screening is not None
        for start in self.starts:
            self.screening.begin(start)
        for _ in range(self.options.expansions):
            beam = self._promising()[: self.options.beam]
            waiting = [names for names in beam if names not in self._expanded]
            if waiting:
                self._expand(waiting[0], exchanges=False)
            elif beam[0] not in self._exchanged:
                self._expand(beam[0], exchanges=True)
            else:
                break

    def _expand(self, names: Names, exchanges: bool) -> None:
        """Make the neighbours of a model known."""
        self._expanded.add(names)
        if exchanges:
            self._exchanged.add(names)
        found = self.terms.neighbours(names, exchanges)
        for each in found:
            self.parents.setdefault(each, names)
        if self.screening is not None:
            if names not in self.screening.found:
                self.screening.begin(names)
            self.screening.extend(self.screening.found[names], found)

    # Runs

    def _waiting(self) -> list[Names]:
        """Models that are to be run, the most promising first."""
        ranked = self.ranked()
        for index, run in enumerate(ranked[: self.options.beam]):
            if run.names not in self._expanded or (index == 0 and run.names not in self._exchanged):
                self._expand(run.names, exchanges=index == 0)
        best = self.log_posterior(ranked[0].names)
        if not math.isfinite(best):
            return []
        shift = self._shift()
        near = {run.names for run in ranked[: self.options.beam]}
        found = []
        for names, parent in self.parents.items():
            expected = self._expected(names)
            near_by = math.isfinite(expected) or parent in near
            if names not in self.runs and near_by and expected + shift > best - self.options.reach:
                found.append(names)
        return sorted(found, key=lambda names: -self._expected(names))

    def _shift(self) -> float:
        """Typical difference between evidences of runs and of screening."""
        pairs = [(run.log_evidence, self.screened().get(names)) for names, run in self.runs.items()]
        found = [full - cheap.log_evidence for full, cheap in pairs if cheap is not None]
        found = [difference for difference in found if math.isfinite(difference)]
        return float(np.median(found)) if found else 0.0

    def _run(self, wanted: Iterable[Names], evaluate: Evaluate, tell: Told) -> None:
        """Run models in full, several at a time."""
        waiting = [names for names in dict.fromkeys(wanted) if names not in self.runs]
        waiting = waiting[: max(0, self.options.budget - len(self.runs))]
        for found in _evaluated(waiting, evaluate, self.options.workers):
            self.runs[found.names] = replace(found, number=len(self.runs) + 1)
            tell(self)


def _evaluated(waiting: Sequence[Names], evaluate: Evaluate, workers: int) -> Iterable[Evaluated]:
    if workers == 1 or len(waiting) < 2:
        yield from map(evaluate, waiting)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(evaluate, waiting)
