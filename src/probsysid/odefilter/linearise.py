"""Linearisation of the vector field around the predicted mean: EKF1 (with its Jacobian) and EKF0 (without).

EKF0 is the paper's choice (eq. EKF0).  With EKF1 an uncertain position implies an uncertain acceleration; without it
the measured position never corrects the velocity, and parameter estimates are biased.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probsysid._internal.array_types import Scalar
from probsysid._internal.errors import InputError
from probsysid._internal.validation import is_whole
from probsysid.model.sparsity import SparsityPattern
from probsysid.odefilter.unrolled.gaussian import Row

VectorFunction = Callable[[Sequence[Scalar]], Sequence[Scalar]]


def jacobian(function: VectorFunction, point: Sequence[Scalar], pattern: SparsityPattern) -> list[Row]:
    """The Jacobian with one row per output, and `None` at the structural zeros of the pattern.

    One forward-mode derivative per argument, with a tangent of one, is elementwise over particles and hence cheap.
    """
    point = list(point)
    rows: list[Row] = [[None] * len(point) for _ in pattern]
    for k in range(len(point)):
        affected = [i for i, row in enumerate(pattern) if row[k]]
        if not affected:
            continue

        def of_argument(value: Scalar, k: int = k, affected: list[int] = affected) -> list[Scalar]:
            values = function([*point[:k], value, *point[k + 1 :]])
            return [values[i] for i in affected]

        _, tangents = jax.jvp(of_argument, (point[k],), (jnp.ones_like(point[k]),))
        for i, tangent in zip(affected, tangents, strict=True):
            rows[i][k] = tangent
    return rows


@lru_cache(maxsize=64)
def colours(pattern: SparsityPattern) -> np.ndarray:
    """Greedy colouring of the Jacobian's columns: no output depends on two arguments of the same colour.

    One derivative then serves all arguments of a colour (Curtis, Powell and Reid, 1974): the Jacobian of a chain takes
    as many as a mass has neighbours, however long the chain.  Each argument takes the lowest free colour.
    """
    depends = np.array(pattern, dtype=bool)
    clashes = (depends.T.astype(int) @ depends.astype(int)) > 0
    result = np.full(len(clashes), -1)
    for k, clash in enumerate(clashes):
        taken = set(result[clash].tolist())
        result[k] = next(colour for colour in range(len(clashes)) if colour not in taken)
    return result


def jacobian_matrix(
    function: Callable[[Array], Array], point: Float[Array, "argument"], pattern: SparsityPattern
) -> tuple[Float[Array, "output"], Float[Array, "output argument"]]:
    """Values and Jacobian of a function of a vector: one program for all derivatives, one derivative per colour."""
    colour = colours(pattern)
    tangents = jnp.asarray(colour == np.arange(max(colour) + 1)[:, None], dtype=float)
    derivative = jax.vmap(lambda tangent: jax.jvp(function, (point,), (tangent,)), out_axes=(None, 1))
    values, compressed = derivative(tangents)
    return values, jnp.where(np.array(pattern, dtype=bool), compressed[:, colour], 0.0)


@runtime_checkable
class Linearisation(Protocol):
    """How the vector field's dependence on the state enters the filter."""

    @property
    def iterations(self) -> int:
        """Number of times that it is renewed at the corrected mean (iterated EKF)."""
        ...

    @property
    def blocks(self) -> bool:
        """Whether each coordinate is linearised with respect to itself alone."""
        ...

    def __call__(self, function: VectorFunction, point: Sequence[Scalar], pattern: SparsityPattern) -> list[Row]:
        """The Jacobian that the filter uses, as rows with structural zeros."""
        ...

    def matrix(
        self, function: Callable[[Array], Array], point: Float[Array, "argument"], pattern: SparsityPattern
    ) -> tuple[Float[Array, "output"], Float[Array, "output argument"]]:
        """The function's values and the Jacobian that the filter uses, as arrays."""
        ...


@dataclass(frozen=True)
class EKF1:
    """First-order Taylor expansion: the full Jacobian.

    Args:
        iterations: number of times that it is renewed at the corrected mean (iterated EKF), for steps so long that the
            prediction is far off.  The diffusion is then estimated from the residual of the last linearisation.
    """

    iterations: int = 0
    blocks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not is_whole(self.iterations) or self.iterations < 0:
            raise InputError(f"EKF1: iterations is {self.iterations!r}; it must be a whole number, 0 or more.")

    def __call__(self, function: VectorFunction, point: Sequence[Scalar], pattern: SparsityPattern) -> list[Row]:
        return jacobian(function, point, pattern)

    def matrix(
        self, function: Callable[[Array], Array], point: Float[Array, "argument"], pattern: SparsityPattern
    ) -> tuple[Float[Array, "output"], Float[Array, "output argument"]]:
        return jacobian_matrix(function, point, pattern)


@dataclass(frozen=True)
class BlockEKF1:
    """First-order Taylor expansion of each coordinate's equation with respect to that coordinate and its derivatives.

    The covariance is then block diagonal, and a step costs as much as that many filters of one coordinate each instead
    of growing with the cube of their number (Kraemer, Bosch, Schmidt and Hennig, Probabilistic ODE solutions in
    millions of dimensions, 2022).  Couplings enter through the mean only: what data say of one coordinate would not
    reach the others, so that the state is not conditioned on data.
    """

    iterations: ClassVar[int] = 0
    blocks: ClassVar[bool] = True

    def __call__(self, function: VectorFunction, point: Sequence[Scalar], pattern: SparsityPattern) -> list[Row]:
        return jacobian(function, point, pattern)

    def matrix(
        self, function: Callable[[Array], Array], point: Float[Array, "argument"], pattern: SparsityPattern
    ) -> tuple[Float[Array, "output"], Float[Array, "output argument"]]:
        return jacobian_matrix(function, point, pattern)


@dataclass(frozen=True)
class EKF0:
    """Zeroth-order Taylor expansion: the Jacobian is taken as zero (paper, eq. EKF0)."""

    iterations: ClassVar[int] = 0
    blocks: ClassVar[bool] = False

    def __call__(self, function: VectorFunction, point: Sequence[Scalar], pattern: SparsityPattern) -> list[Row]:
        return [[None] * len(point) for _ in pattern]

    def matrix(
        self, function: Callable[[Array], Array], point: Float[Array, "argument"], pattern: SparsityPattern
    ) -> tuple[Float[Array, "output"], Float[Array, "output argument"]]:
        values = function(point)
        return values, jnp.zeros((len(values), len(point)))
