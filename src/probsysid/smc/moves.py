"""MCMC kernels that diversify resampled particles.

A move proposes a new vector for every particle and knows the log density of its proposals, log q, which is zero for a
symmetric random walk.  `metropolis.py` accepts or rejects with the complete ratio.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float

from probsysid.smc.proposals import (
    Density,
    MomentMatchedT,
    Proposal,
    Vectors,
    Weights,
    cholesky,
    moments,
    stacked,
)
from probsysid.smc.scaled import Scaled
from probsysid.smc.transport import BestFit

Fit: TypeAlias = Any
"""What a move has made of particles, which only that move reads."""


@runtime_checkable
class Move(Protocol):
    """An MCMC kernel.  `fit` sees the weighted particles before resampling, `propose` the current ones."""

    @property
    def name(self) -> str: ...

    @property
    def independent(self) -> bool:
        """Whether proposals do not depend on the particle they may replace, and `log_density` is normalised."""
        ...

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> Fit: ...

    def propose(self, random: np.random.Generator, vectors: Vectors, fitted: Fit) -> Vectors:
        """New particles."""
        ...

    def log_density(self, vectors: Vectors, fitted: Fit) -> Float[np.ndarray, "*population member"]:
        """Log density of proposals, up to what is the same in both directions."""
        ...

    def fallback(self, acceptance: float) -> "Move":
        """The move to continue with, given the acceptance rate."""
        ...


@runtime_checkable
class StackableMove(Move, Protocol):
    """A move that handles all populations at once, as an axis in front of the vectors' two; others get one population
    after the other."""

    def stacked(self, fits: Sequence[Fit]) -> Fit:
        """Several fits as one, with the population axis in front."""
        ...


@dataclass(frozen=True)
class IndependentMH:
    """Independent Metropolis-Hastings: proposals do not depend on the particle they may replace.

    Args:
        proposal: the distribution to fit, `MomentMatchedT()` or `StudentTMixture()`.
        otherwise: the move to fall back to when the acceptance rate is below `least`; None for no fallback.
        least: acceptance rate below which to fall back.
    """

    proposal: Proposal = MomentMatchedT()
    otherwise: Move | None = None
    least: float = 0.1

    independent: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"independent {self.proposal.name}"

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> Density:
        return self.proposal.fit(random, vectors, weights)

    def propose(self, random: np.random.Generator, vectors: Vectors, fitted: Density) -> Vectors:
        return fitted.sample(random, vectors.shape[-1])

    def log_density(self, vectors: Vectors, fitted: Density) -> Float[np.ndarray, "*population member"]:
        return fitted.log_density(vectors)

    def stacked(self, fits: Sequence[Density]) -> Density:
        return stacked(fits)

    def fallback(self, acceptance: float) -> Move:
        return self if self.otherwise is None or acceptance >= self.least else self.otherwise


@dataclass(frozen=True)
class RandomWalk:
    """A Gaussian random walk with the covariance of the particles.

    Args:
        scale: standard deviation of the step relative to the particles'; None for 2.38 / sqrt(dimension), optimal for
            Gaussian targets (Roberts, Gelman and Gilks 1997).
        least: acceptance rate below which the step is halved.
        shrunk: factor on the step that is left after halving.
    """

    scale: float | None = None
    least: float = 0.1
    shrunk: float = 1.0

    independent: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "random walk"

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> np.ndarray:
        return cholesky(moments(vectors, weights)[1])

    def propose(self, random: np.random.Generator, vectors: Vectors, fitted: np.ndarray) -> Vectors:
        scale = self.shrunk * (2.38 / vectors.shape[-2] ** 0.5 if self.scale is None else self.scale)
        return vectors + scale * fitted @ random.standard_normal(vectors.shape)

    def log_density(self, vectors: Vectors, fitted: np.ndarray) -> Float[np.ndarray, "*population member"]:
        return np.zeros((*vectors.shape[:-2], vectors.shape[-1]))

    def stacked(self, fits: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(fits)

    def fallback(self, acceptance: float) -> Move:
        return self if acceptance >= self.least else replace(self, shrunk=0.5 * self.shrunk)


Populations = Float[np.ndarray, "dimension population member"]


@dataclass(frozen=True, eq=False)
class FittedMoves:
    """A move, and its fit for each population."""

    move: Move
    of_populations: Sequence[Fit]

    def propose(self, random: np.random.Generator, theta: Populations) -> Populations:
        """New particles."""
        vectors = theta.swapaxes(0, 1)
        if isinstance(self.move, StackableMove):
            proposed = self.move.propose(random, vectors, self._stacked)
        else:
            pairs = zip(vectors, self.of_populations, strict=True)
            proposed = np.stack([self.move.propose(random, *pair) for pair in pairs])
        return np.ascontiguousarray(proposed.swapaxes(0, 1))

    def log_density(self, theta: Populations) -> Float[np.ndarray, "population member"]:
        """Log density of proposals, up to what is the same in both directions."""
        vectors = theta.swapaxes(0, 1)
        if isinstance(self.move, StackableMove):
            return self.move.log_density(vectors, self._stacked)
        return np.stack([self.move.log_density(*pair) for pair in zip(vectors, self.of_populations, strict=True)])

    @cached_property
    def _stacked(self) -> Fit:
        """The fits of all populations as one."""
        assert isinstance(self.move, StackableMove)
        return self.move.stacked(self.of_populations)


DEFAULT = IndependentMH(
    BestFit((MomentMatchedT(), Scaled(MomentMatchedT())), many=None),
    otherwise=IndependentMH(BestFit(), otherwise=RandomWalk()),
    least=0.3,
)
"""Moment-matched Student-t, scaled where the particles form a funnel; where that fits poorly, a Student-t mixture,
straight, curved or scaled; a random walk where that does, too."""

PAPER = IndependentMH(MomentMatchedT(degrees=None, defensive=0.0))
"""Gaussian on the weighted moments."""
