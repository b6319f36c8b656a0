"""A move fitted to each part of the population: proposals for all of them, and their density."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from probsysid.smc.moves import Move

Population = Float[np.ndarray, "dimension part member"]


@dataclass(frozen=True, eq=False)
class Fits:
    """A move, and what it was fitted to be for each part."""

    move: Move
    of_parts: Sequence[Any]

    def propose(self, random: np.random.Generator, theta: Population) -> Population:
        """New particles."""
        vectors = theta.swapaxes(0, 1)
        if self._together is not None:
            proposed = self.move.propose(random, vectors, self._together)
        else:
            proposed = np.stack([self.move.propose(random, *pair) for pair in zip(vectors, self.of_parts, strict=True)])
        return np.ascontiguousarray(proposed.swapaxes(0, 1))

    def log_density(self, theta: Population) -> Float[np.ndarray, "part member"]:
        """Log density of proposals, up to what is the same in both directions."""
        vectors = theta.swapaxes(0, 1)
        if self._together is not None:
            return self.move.log_density(vectors, self._together)
        return np.stack([self.move.log_density(*pair) for pair in zip(vectors, self.of_parts, strict=True)])

    @cached_property
    def _together(self) -> Any:
        """All parts as one, where the move knows how."""
        together = getattr(self.move, "together", None)
        return None if together is None else together(self.of_parts)
