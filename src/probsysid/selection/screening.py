"""Cheap log evidences of many models: Laplace's approximation with a Runge-Kutta likelihood.

All models of a menu are one program, in which terms are switched on and off (`extension.switchable`), so that it
compiles once.  Maxima a posteriori are found by damped Gauss-Newton steps (Levenberg and Marquardt) from those of the
parent and from prior draws of what is new: of many models at once, as particles are.  They start searches and rank
models; a prior they never become.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from probsysid.model.noise import Noise
from probsysid.model.problem import Problem
from probsysid.posterior.modes import peaks
from probsysid.selection.climb import Start, climbed
from probsysid.selection.likelihood import Lanes, Normal, Statistics
from probsysid.selection.menu import Menu
from probsysid.selection.terms import Names

PRIOR_DRAWS, STARTS = 512, 6
"""Of the models with which a search begins, and peaks among them that are climbed."""

TERM_DRAWS, TERM_STARTS = 32, 2
"""Of what is new in a model, beside the parent's values, and how many of them are climbed."""

CENTRED = 0.2
"""A prior counts as centred at zero if the median of its draws lies within so many widths of it."""

ROUNDS, RELEVANT = 4, 10.0
"""Further climbs of what has not converged, if the log evidence it promises is so near to the best."""

FIRST_STEPS, MOST_STEPS = 4, 16
"""Runge-Kutta steps per sample: doubled until the best log density changes by less than ..."""
ACCURATE = 0.3


@dataclass(frozen=True, eq=False)
class Screened:
    """A model by Laplace's approximation."""

    names: Names
    log_evidence: float
    theta: Float[np.ndarray, " coordinate"]
    """Its maximum a posteriori, among the coordinates of the model with all terms."""
    converged: bool


def why_not(menu: Menu) -> str:
    """Why the models cannot be screened; empty where they can."""
    problem = menu.problem(frozenset())
    if problem.disturbed:
        return "there is process noise"
    if problem.varies:
        return "there are varying parameters"
    if any(isinstance(noise, Noise) for noise in problem.noise.values()):
        return "there is noise that is not plainly Gaussian"
    return ""


class Screening:
    """The models of a menu by Laplace's approximation; each is computed once."""

    def __init__(self, menu: Menu):
        self.menu = menu
        self.problem: Problem = menu.switchable_problem()
        self.found: dict[Names, Screened] = {}
        self._compiled: dict[int, Statistics] = {}
        fixed = menu.solver.substeps
        self._steps = max(fixed, FIRST_STEPS) if isinstance(fixed, int) else FIRST_STEPS
        draws = self.problem.space.sample(jax.random.key(menu.options["seed"]), PRIOR_DRAWS)
        self._draws = np.asarray(draws)

    @cached_property
    def _widths(self) -> Float[np.ndarray, " coordinate"]:
        """Of the priors."""
        return self._draws.std(axis=1)

    @cached_property
    def _centre(self) -> Float[np.ndarray, " coordinate"]:
        """Of the priors: zero, at which a term with a factor changes nothing, where that is near enough."""
        middle = np.median(self._draws, axis=1)
        return np.where(np.abs(middle) < CENTRED * self._widths, 0.0, middle)

    def _with_steps(self, steps: int) -> Statistics:
        if steps not in self._compiled:
            self._compiled[steps] = Statistics.of(self.problem, self.menu.records, steps)
        return self._compiled[steps]

    @property
    def _likelihood(self) -> Statistics:
        return self._with_steps(self._steps)

    def begin(self, names: Names) -> Screened:
        """A model with which a search begins: from prior draws."""
        if names not in self.found:
            self.found[names] = self._from_prior(names)
        return self.found[names]

    def is_accurate(self, names: Names) -> bool:
        """Whether a model's likelihood has enough Runge-Kutta steps; if not, all models are forgotten, and those that
        come have twice as many."""
        best = self.found[names]
        if not math.isfinite(best.log_evidence) or self._steps >= MOST_STEPS:
            return True
        lanes = self._lanes([names], best.theta[None])
        finer = self._with_steps(2 * self._steps)
        change = abs(float(finer.values(lanes)[0] - self._likelihood.values(lanes)[0]))
        if change < ACCURATE:
            return True
        self._steps *= 2
        self.found.clear()
        return False

    def _from_prior(self, names: Names) -> Screened:
        values = self._likelihood.values(self._lanes([names] * PRIOR_DRAWS, self._draws.T))
        free = self.live(names)
        best = peaks(self._draws[free], np.where(np.isnan(values), -np.inf, values), STARTS)
        starts = []
        for column in best.T:
            theta = self._draws[:, 0].copy()
            theta[free] = column
            starts.append(Start(names, theta))
        return self._climbed(starts, None)[names] if starts else Screened(names, -math.inf, self._draws[:, 0], False)

    def extend(self, parent: Screened, children: Sequence[Names]) -> None:
        """Screen models that differ from a parent by a step."""
        waiting = [names for names in children if names not in self.found]
        starts = [start for names in waiting for start in self._starts(parent, names)]
        samples = sum(record.samples for record in self.menu.records) * len(self.problem.model.output_names)
        self.found |= self._climbed(starts, samples)

    def _starts(self, parent: Screened, names: Names) -> list[Start]:
        """The parent's values with draws of what is new, best first."""
        new = self.live(names) & ~self.live(parent.names)
        if not new.any():
            return [Start(names, parent.theta)]
        thetas = np.repeat(parent.theta[None], TERM_DRAWS, axis=0)
        thetas[:, new] = self._draws[new, :TERM_DRAWS].T
        thetas[0, new] = self._centre[new]
        values = self._likelihood.values(self._lanes([names] * TERM_DRAWS, thetas))
        order = np.argsort(-np.where(np.isfinite(values), values, -np.inf))
        return [Start(names, thetas[i]) for i in order[:TERM_STARTS]]

    def _climbed(self, starts: Sequence[Start], samples: int | None) -> dict[Names, Screened]:
        """The best of the modes that are reached from the starts, for each model; given the number of samples, models
        that fall behind are left where they are."""

        def evaluate(given: Sequence[Start]) -> Normal:
            lanes = self._lanes([s.names for s in given], np.stack([s.theta for s in given]))
            return self._likelihood.statistics(lanes, self._free(given))

        peaks = climbed(evaluate, starts, self._free(starts), self._widths, samples)
        for _ in range(ROUNDS):
            best = max((peak.log_evidence for peak in peaks), default=-math.inf)
            left = [i for i, peak in enumerate(peaks) if not peak.converged and peak.promise > best - RELEVANT]
            if not left:
                break
            again = [Start(starts[i].names, peaks[i].theta) for i in left]
            for i, peak in zip(left, climbed(evaluate, again, self._free(again), self._widths), strict=True):
                peaks[i] = peak
        found: dict[Names, Screened] = {}
        for start, peak in zip(starts, peaks, strict=True):
            screened = Screened(start.names, peak.log_evidence, peak.theta, peak.converged)
            if start.names not in found or screened.log_evidence > found[start.names].log_evidence:
                found[start.names] = screened
        return found

    def _free(self, starts: Sequence[Start]) -> list[np.ndarray]:
        return [np.flatnonzero(self.live(start.names)) for start in starts]

    def _lanes(self, names: Sequence[Names], thetas: np.ndarray) -> Lanes:
        menu = self.menu.terms.names
        return Lanes(
            np.asarray(thetas, float),
            np.array([[float(term in each) for term in menu] for each in names]),
            np.array([self._sites(each) for each in names], float),
        )

    def live(self, names: Names) -> np.ndarray:
        """Which coordinates a model has."""
        found = np.zeros(self.problem.space.dimension, bool)
        for site, alive in zip(self.problem.space.sites, self._sites(names), strict=True):
            found[site.start : site.start + site.size] = alive
        return found

    def _sites(self, names: Names) -> list[bool]:
        return [owner is None or owner in names for owner in self._owners]

    @cached_property
    def _owners(self) -> list[str | None]:
        """The term to which each prior belongs; None for those of the model."""
        owners: Mapping[Any, str] = {key: term.name for term in self.menu.terms for key in term.priors} | {
            self.problem.initial_name(r, component): term.name
            for term in self.menu.terms
            for r in range(len(self.menu.records))
            for component in term.initial
        }
        return [owners.get(site.name) for site in self.problem.space.sites]
