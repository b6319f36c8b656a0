"""A model whose evidence is known from a run of `identify`."""

import math
import time as clock
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from probsysid._internal.errors import InputError, SamplingError
from probsysid._internal.interrupts import present_request
from probsysid.inference.identify import identify
from probsysid.inference.run_fingerprint import run_fingerprint
from probsysid.parallel.executor import Executor
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.settings import Setup
from probsysid.selection.kept import Kept
from probsysid.selection.menu import Menu
from probsysid.selection.terms import Names

AGREE = 0.5
"""Largest difference between the sum of log predictive densities and the log evidence with which these are those
of the run: one that was recovered has none."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A model with its evidence.

    Attributes:
        names: its terms.
        log_evidence, error: of its run, and the standard error; minus infinity where sampling failed.
        trusted: whether nothing speaks against the sampling.
        verdict: on the sampling.
        predictive: log predictive densities of the last samples, given those before; empty where the run has none.
        seconds: that the run took.
        number: by which pictures and tables call it, in the order of the runs.
    """

    names: Names
    log_evidence: float
    error: float = math.nan
    trusted: bool = True
    verdict: str = ""
    predictive: Float[np.ndarray, " sample"] = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0
    number: int = 0
    held: "Held | None" = None

    @cached_property
    def posterior(self) -> Posterior:
        """Of the model's parameters; loaded from the folder, if there is one."""
        if self.held is None:
            raise InputError(f"the model with {', '.join(sorted(self.names)) or 'no terms'} has no posterior.")
        return self.held.posterior

    @property
    def ahead(self) -> float:
        """Log predictive density of the last samples together; NaN where the run has none."""
        return float(np.sum(self.predictive)) if len(self.predictive) else math.nan

    def record(self) -> dict[str, Any]:
        """As plain data."""
        kept = ("log_evidence", "error", "trusted", "verdict", "seconds")
        found: dict[str, Any] = {name: getattr(self, name) for name in kept}
        return found | {"names": sorted(self.names), "predictive": self.predictive.tolist()}

    @classmethod
    def of_record(cls, data: dict[str, Any]) -> "Evaluated":
        """From plain data."""
        return cls(**{**data, "names": frozenset(data["names"]), "predictive": np.array(data["predictive"], float)})


@dataclass(frozen=True, eq=False)
class Held:
    """A posterior in memory, or in a file that is read when it is asked for."""

    menu: Menu
    names: Names
    path: Path | None = None
    given: Posterior | None = None

    @property
    def posterior(self) -> Posterior:
        if self.given is not None:
            return self.given
        assert self.path is not None
        problem = self.menu.problem(self.names)
        found = Posterior.load(self.path)
        solver = replace(self.menu.solver.for_problem(problem))
        solver = replace(solver, substeps=found.settings.substeps)
        return replace(found, setup=Setup((problem, solver)), records=self.menu.records)


def evaluate(menu: Menu, names: Names, kept: Kept, executor: Executor | None, last: float) -> Evaluated:
    """The evidence of a model by a full run; one that is kept is not run again."""
    request = present_request()
    if request is not None:
        request.check()
    mark = _mark(menu, names)
    path = kept.posterior_path(mark)
    data = kept.load(mark)
    if data is not None:
        return replace(Evaluated.of_record(data), held=None if path is None else Held(menu, names, path))
    began = clock.perf_counter()
    try:
        posterior = identify(**menu.arguments(names), executor=executor)
    except SamplingError as error:
        failed = Evaluated(names, -math.inf, trusted=False, verdict=str(error), seconds=clock.perf_counter() - began)
        kept.save(mark, failed.record(), None)
        return failed
    found = Evaluated(
        names,
        posterior.log_evidence,
        posterior.log_evidence_error,
        posterior.sampling is None or posterior.sampling.usable,
        posterior.sampling_verdict,
        _last(posterior, last),
        clock.perf_counter() - began,
    )
    kept.save(mark, found.record(), posterior)
    return replace(found, held=Held(menu, names, path) if path is not None else Held(menu, names, None, posterior))


def _mark(menu: Menu, names: Names) -> str:
    seed = menu.options["seed"]
    problem = menu.problem(names)
    return run_fingerprint(problem, menu.records, menu.solver, menu.sampler, menu.method, seed)


def _last(posterior: Posterior, share: float) -> Float[np.ndarray, " sample"]:
    """Log predictive densities of the last samples, as far as the run has them."""
    found = posterior.history.log_predictive
    total = float(np.sum(found)) if len(found) else math.nan
    samples = sum(record.samples for record in posterior.records)
    agree = abs(total - posterior.log_evidence) <= AGREE
    return found[-max(1, round(share * samples)) :] if len(found) == samples and agree else np.empty(0)
