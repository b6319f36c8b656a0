"""Linearisation of the ODE around the predicted state: EKF1 (with its Jacobian) and EKF0 (without).

EKF0 is the paper's choice (eq. EKF0).  EKF1 tells the filter that an uncertain position means an uncertain
acceleration; without it the measured position never corrects the velocity, and parameters come out biased.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probsysid._internal.errors import InputError
from probsysid._internal.validation import is_whole
from probsysid.model.sparsity import SparsityPattern
from probsysid.odefilter.unrolled.gaussian import Row

VectorFunction = Callable[[Sequence[Any]], list[Any]]


def jacobian(function: VectorFunction, point: Sequence[Any], pattern: SparsityPattern) -> list[Row]:
    """One row an output; `None` where the pattern says that there is no dependence.

    One forward-mode derivative an argument, with a tangent of one, is elementwise over particles and hence cheap.
    """
    point = list(point)
    rows: list[Row] = [[None] * len(point) for _ in pattern]
    for k in range(len(point)):
        affected = [i for i, row in enumerate(pattern) if row[k]]
        if not affected:
            continue

        def along(value: Any, k: int = k, affected: list[int] = affected) -> list[Any]:
            values = function([*point[:k], value, *point[k + 1 :]])
            return [values[i] for i in affected]

        _, tangents = jax.jvp(along, (point[k],), (jnp.ones_like(point[k]),))
        for i, tangent in zip(affected, tangents, strict=True):
            rows[i][k] = tangent
    return rows


@lru_cache(maxsize=64)
def colours(pattern: SparsityPattern) -> np.ndarray:
    """A number for each argument, such that no output depends on two arguments of the same number.

    One derivative then serves all arguments of a number: the Jacobian of a chain takes as many as a mass has
    neighbours, however long the chain.  Each argument takes the lowest number that is left to it.
    """
    depends = np.array(pattern, dtype=bool)
    clashes = (depends.T.astype(int) @ depends.astype(int)) > 0
    result = np.full(len(clashes), -1)
    for k, clash in enumerate(clashes):
        taken = set(result[clash].tolist())
        result[k] = next(number for number in range(len(clashes)) if number not in taken)
    return result


def jacobian_matrix(
    function: Callable[[Any], Any], point: Float[Array, "argument"], pattern: SparsityPattern
) -> tuple[Float[Array, "output"], Float[Array, "output argument"]]:
    """Values and Jacobian of a function of a vector: one program for all derivatives, whatever their number."""
    numbers = colours(pattern)
    tangents = jnp.asarray(numbers == np.arange(max(numbers) + 1)[:, None], dtype=float)
    derivative = jax.vmap(lambda tangent: jax.jvp(function, (point,), (tangent,)), out_axes=(None, 1))
    values, compressed = derivative(tangents)
    return values, jnp.where(np.array(pattern, dtype=bool), compressed[:, numbers], 0.0)


class Linearisation(Protocol):
    """How the ODE's dependence on the state enters the filter."""

    @property
    def iterations(self) -> int:
        """How many times it is renewed at the state that it has led to."""
        ...

    def __call__(self, function: VectorFunction, point: Sequence[Any], pattern: SparsityPattern) -> list[Row]: ...

    def matrix(
        self, function: Callable[[Any], Any], point: Float[Array, "argument"], pattern: SparsityPattern
    ) -> tuple[Float[Array, "output"], Float[Array, "output argument"]]:
        """The function's values and the Jacobian that is taken for its own, as arrays."""
        ...


@dataclass(frozen=True)
class EKF1:
    """First-order Taylor expansion: the full Jacobian.

    Args:
        iterations: how many times it is renewed at the corrected state (iterated EKF): for steps so long that the
            prediction is far off.  The diffusion is then estimated from the residual of the last linearisation.
    """

    iterations: int = 0

    def __post_init__(self) -> None:
        if not is_whole(self.iterations) or self.iterations < 0:
            raise InputError(f"EKF1: iterations is {self.iterations!r}; it must be a whole number, 0 or more.")

    def __call__(self, function: VectorFunction, point: Sequence[Any], pattern: SparsityPattern) -> list[Row]:
        return jacobian(function, point, pattern)

    def matrix(
        self, function: Callable[[Any], Any], point: Float[Array, "argument"], pattern: SparsityPattern
    ) -> tuple[Float[Array, "output"], Float[Array, "output argument"]]:
        return jacobian_matrix(function, point, pattern)


@dataclass(frozen=True)
class EKF0:
    """Zeroth order: the Jacobian is taken as zero (paper, eq. EKF0)."""

    iterations = 0

    def __call__(self, function: VectorFunction, point: Sequence[Any], pattern: SparsityPattern) -> list[Row]:
        return [[None] * len(point) for _ in pattern]

    def matrix(
        self, function: Callable[[Any], Any], point: Float[Array, "argument"], pattern: SparsityPattern
    ) -> tuple[Float[Array, "output"], Float[Array, "output argument"]]:
        values = function(point)
        return values, jnp.zeros((len(values), len(point)))
