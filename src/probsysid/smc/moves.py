"""Markov moves that leave the current posterior as it is and give copies of a particle lives of their own.

A move proposes a new vector for every particle and says how dense its proposals lie, log q, zero for a symmetric random
walk.  The acceptance ratio holds q(old) / q(new); leaving this out (as eq. acc_rej of the paper does) samples from the
wrong distribution while everything looks healthy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from jaxtyping import Float

from probsysid.smc.proposals import (
    MixtureDensity,
    MomentMatchedT,
    Proposal,
    StudentTMixture,
    Vectors,
    Weights,
    cholesky,
    moments,
    stack_mixtures,
)


class Move(Protocol):
    """A way to propose.  `fit` sees the weighted particles before resampling, `propose` the current ones.

    A move with a method `stacked`, which makes one of several fits, gets all populations at once, as an
    axis in front of the vectors' two; one without it gets them one after the other.
    """

    @property
    def name(self) -> str: ...

    @property
    def independent(self) -> bool:
        """Whether proposals do not depend on the particle they may replace, and `log_density` is normalised."""
        ...

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> Any: ...

    def propose(self, random: np.random.Generator, vectors: Vectors, fitted: Any) -> Vectors:
        """New particles."""
        ...

    def log_density(self, vectors: Vectors, fitted: Any) -> Float[np.ndarray, "*population member"]:
        """Log density of proposals, up to what is the same in both directions."""
        ...

    def fallback(self, acceptance: float) -> "Move":
        """The move to go on with, given the share of proposals that were accepted."""
        ...


@dataclass(frozen=True)
class IndependentMH:
    """Independent Metropolis-Hastings: proposals do not depend on the particle they may replace.

    Args:
        proposal: the distribution to fit, `MomentMatchedT()` or `StudentTMixture()`.
        otherwise: the move to fall back to when fewer than `least` of the proposals are accepted; None stays.
        least: share of accepted proposals below which to fall back.
    """

    proposal: Proposal = MomentMatchedT()
    otherwise: Move | None = None
    least: float = 0.1

    independent: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"independent {self.proposal.name}"

    def fit(self, random: np.random.Generator, vectors: Vectors, weights: Weights) -> MixtureDensity:
        return self.proposal.fit(random, vectors, weights)

    def propose(self, random: np.random.Generator, vectors: Vectors, fitted: MixtureDensity) -> Vectors:
        return fitted.sample(random, vectors.shape[-1])

    def log_density(self, vectors: Vectors, fitted: MixtureDensity) -> Float[np.ndarray, "*population member"]:
        return fitted.log_density(vectors)

    def stacked(self, fits: Sequence[MixtureDensity]) -> MixtureDensity:
        return stack_mixtures(fits)

    def fallback(self, acceptance: float) -> Move:
        return self if self.otherwise is None or acceptance >= self.least else self.otherwise


@dataclass(frozen=True)
class RandomWalk:
    """A Gaussian step with the shape of the particle cloud.

    Args:
        scale: step in units of the cloud's; None takes 2.38 / sqrt(dimension), optimal for Gaussian targets
            (Roberts, Gelman and Gilks 1997).
        least: share of accepted proposals below which the step is halved.
        shrunk: share of that step that is left after halving.
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


DEFAULT = IndependentMH(MomentMatchedT(), otherwise=IndependentMH(StudentTMixture(), otherwise=RandomWalk()), least=0.3)
"""Student-t on the moments; a mixture where that is a poor fit; a random walk where that is, too."""

PAPER = IndependentMH(MomentMatchedT(degrees=None, defensive=0.0))
"""Gaussian on the weighted moments."""
