"""A move fitted to each population: proposals for all of them, and their density."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from probsysid.smc.moves import Move

Populations = Float[np.ndarray, "dimension population member"]


@dataclass(frozen=True, eq=False)
class FittedMoves:
    """A move, and what it was fitted to be for each population."""

    move: Move
    of_populations: Sequence[Any]

    def propose(self, random: np.random.Generator, theta: Populations) -> Populations:
        """New particles."""
        vectors = theta.swapaxes(0, 1)
        if self._stacked is not None:
            proposed = self.move.propose(random, vectors, self._stacked)
        else:
            proposed = np.stack(
                [self.move.propose(random, *pair) for pair in zip(vectors, self.of_populations, strict=True)]
            )
        return np.ascontiguousarray(proposed.swapaxes(0, 1))

    def log_density(self, theta: Populations) -> Float[np.ndarray, "population member"]:
        """Log density of proposals, up to what is the same in both directions."""
        vectors = theta.swapaxes(0, 1)
        if self._stacked is not None:
            return self.move.log_density(vectors, self._stacked)
        return np.stack([self.move.log_density(*pair) for pair in zip(vectors, self.of_populations, strict=True)])

    @cached_property
    def _stacked(self) -> Any:
        """All populations as one, where the move knows how."""
        stacked = getattr(self.move, "stacked", None)
        return None if stacked is None else stacked(self.of_populations)
