"""What a run may cost: sweeps over the data, and seconds."""

import time as clock
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from probsysid._internal.array_types import Numbers
from probsysid.smc.options import Sampler

PILOT_COST = 8.0
"""Evaluations of the pilot at the price of one of the target itself: Runge-Kutta steps for one of the filter's, with
small states (docs/performance.md)."""


class BudgetSpent(Exception):
    """A run has cost what it may."""


@dataclass
class Budget:
    """Counts what a run costs.

    Args:
        evaluations: particles times samples that may be filtered.
        deadline: reading of `time.monotonic()` at which time is up.
    """

    evaluations: float
    deadline: float = np.inf
    spent: float = 0.0
    began: float = field(default_factory=clock.monotonic)

    @classmethod
    def of(cls, sweeps: float, seconds: float | None, particles: int, samples: int) -> "Budget":
        """For a number of sweeps of all particles over all samples, and a number of seconds from now."""
        deadline = np.inf if seconds is None else clock.monotonic() + seconds
        return cls(sweeps * particles * samples, deadline)

    def part(self, share: float) -> "Budget":
        """A share of what is left."""
        left = self.deadline - clock.monotonic()
        deadline = np.inf if np.isinf(left) else clock.monotonic() + share * left
        return Budget(share * (self.evaluations - self.spent), deadline)

    @property
    def share(self) -> float:
        """Of the evaluations or of the time, whichever is more, that is spent."""
        now = clock.monotonic()
        of_time = 0.0 if np.isinf(self.deadline) else (now - self.began) / max(self.deadline - self.began, 1e-9)
        return float(max(self.spent / self.evaluations, of_time))

    @property
    def is_spent(self) -> bool:
        return self.spent > self.evaluations or clock.monotonic() > self.deadline

    def spend(self, evaluations: float) -> None:
        """Count evaluations; raise where there are too many."""
        self.spent += evaluations
        self.check()

    def check(self) -> None:
        """Raise where it is spent."""
        if self.is_spent:
            raise BudgetSpent


@dataclass(frozen=True)
class MeteredTarget:
    """A target, possibly with levels, that counts what it costs and stops when the budget is spent."""

    target: Any
    """A `Target`, or a `MultilevelTarget` (`adaptive_substeps.py`)."""
    budget: Budget
    price: float = 1.0
    """Of one evaluation."""

    @property
    def samples(self) -> int:
        return self.target.samples

    @property
    def adaptive(self) -> bool:
        return self.target.adaptive

    @property
    def estimated(self) -> bool:
        return self.target.estimated

    @property
    def most_levels(self) -> int:
        return self.target.most_levels

    @property
    def pilot(self) -> "MeteredTarget | None":
        pilot = self.target.pilot
        return pilot and MeteredTarget(pilot, self.budget, self.price / PILOT_COST)

    def at(self, level: int) -> "MeteredTarget":
        return MeteredTarget(self.target.at(level), self.budget, self.price)

    def sample_prior(self, key: jax.Array, count: int) -> Numbers:
        return self.target.sample_prior(key, count)

    def log_prior(self, theta: Numbers) -> Numbers:
        return self.target.log_prior(theta)

    def limit(self, first: int) -> int:
        return self.target.limit(first)

    def advance(self, state: PyTree, theta: Numbers, first: int, last: int) -> tuple[PyTree, Numbers]:
        self.budget.spend(self.price * theta.shape[-1] * (last - first))
        return self.target.advance(state, theta, first, last)

    def sweep(self, theta: Numbers, stop: int) -> tuple[PyTree, np.ndarray, np.ndarray]:
        self.budget.spend(self.price * theta.shape[-1] * stop)
        return self.target.sweep(theta, stop)

    def describe(self, sample: int) -> str:
        return self.target.describe(sample)

    def cost(self, stop: int) -> int:
        return self.target.cost(stop)


def in_words(sampler: Sampler) -> str:
    """What a sampler may cost."""
    return f"{sampler.budget:g} sweeps" + ("" if sampler.seconds is None else f" and {sampler.seconds:g} s")
