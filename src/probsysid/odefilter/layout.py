"""The layout of the state vector: the index of each derivative of each coordinate.

The state holds, coordinate by coordinate, the value and its derivatives up to the smoothness.  A component is

    physical   below the order of the ODE: needs an initial value (x, dx)
    highest    at the order: determined by the ODE (ddx)
    higher     above the order: carried by the prior only (dddx, ...)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag

from probsysid.odefilter import iwp


@dataclass(frozen=True)
class Layout:
    """Orders and smoothnesses of the coordinates, and the indices and prior matrices that follow from them."""

    orders: tuple[int, ...]
    smoothness: tuple[int, ...]

    def __post_init__(self) -> None:
        assert all(q >= n >= 1 for n, q in zip(self.orders, self.smoothness, strict=True))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        return tuple(int(o) for o in np.cumsum([0, *(q + 1 for q in self.smoothness)])[:-1])

    @property
    def size(self) -> int:
        return sum(q + 1 for q in self.smoothness)

    @cached_property
    def coordinate(self) -> tuple[int, ...]:
        """The coordinate that each component belongs to."""
        return tuple(c for c, q in enumerate(self.smoothness) for _ in range(q + 1))

    @cached_property
    def physical(self) -> tuple[int, ...]:
        return tuple(o + i for o, n in zip(self.offsets, self.orders, strict=True) for i in range(n))

    @cached_property
    def highest(self) -> tuple[int, ...]:
        return tuple(o + n for o, n in zip(self.offsets, self.orders, strict=True))

    @cached_property
    def higher(self) -> tuple[int, ...]:
        sizes = zip(self.offsets, self.orders, self.smoothness, strict=True)
        return tuple(o + i for o, n, q in sizes for i in range(n + 1, q + 1))

    @cached_property
    def transition(self) -> Float[np.ndarray, "D D"]:
        """A of all coordinates, in scaled coordinates: block diagonal."""
        return block_diag(*(iwp.transition(q) for q in self.smoothness))

    @cached_property
    def process_factor(self) -> Float[np.ndarray, "D D"]:
        """The lower triangular square root of Q, in scaled coordinates and for unit diffusion: block diagonal."""
        return block_diag(*(iwp.process_factor(q) for q in self.smoothness))

    def further(self, derivatives: int) -> "Layout":
        """With more derivatives of every coordinate."""
        return Layout(self.orders, tuple(q + derivatives for q in self.smoothness))

    def scales(self, step: float | np.ndarray) -> Float[np.ndarray, "*step D"]:
        """Nordsieck scales: the physical value of one scaled unit of each component, for one step length or many."""
        return np.concatenate([iwp.scale(q, step) for q in self.smoothness], axis=-1)

    def names(self, coordinates: Sequence[str]) -> tuple[str, ...]:
        """`x`, `dx`, `ddx`, ... for every component."""
        return tuple("d" * i + name for name, q in zip(coordinates, self.smoothness, strict=True) for i in range(q + 1))
