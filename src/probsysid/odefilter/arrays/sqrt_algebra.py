"""Square-root algebra on matrices, for one particle: `gaussian.py` for states of many components.

A factor is one array here, a row a quantity, and what `gaussian.py` unrolls is done by a few operations on whole
matrices.  The program is then as long for a hundred components as for ten.  The textbook form of each formula stands
with its counterpart in `gaussian.py`; the tests hold the two equal.

The formulas stand here; how matrices are multiplied and made triangular depends on their size: `lanes.py` for those of
middling size, `lapack.py` for large ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from probsysid.odefilter.unrolled.gaussian import Innovation


class SparseRows(NamedTuple):
    """A constant matrix with few entries a row: as it is, where they are, and what they are."""

    matrix: np.ndarray
    columns: np.ndarray
    entries: np.ndarray

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "row column"]) -> "SparseRows":
        width = max(1, int(np.max(np.count_nonzero(matrix, axis=1))))
        columns = np.argsort(matrix == 0, axis=1, kind="stable")[:, :width]
        return cls(matrix, columns, np.take_along_axis(matrix, columns, axis=1))


class SquareRootAlgebra(ABC):
    """The formulas, for one particle.

    A way of computing supplies the operations below, whose arrays may have an axis of particles after the others, and
    `over`, which gets from one to the other.  The laws at the end are made of these operations and nothing else, for
    `side_by_side`.
    """

    # Operations

    @abstractmethod
    def over(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function made of these operations as one of a single particle's arrays."""

    @abstractmethod
    def side_by_side(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function made of these operations as one of all particles' arrays, whose axis is last."""

    @abstractmethod
    def _constant(self, matrix: np.ndarray) -> Any:
        """Something that is the same for all particles."""

    @abstractmethod
    def _times(self, sparse: SparseRows, values: Any) -> Any:
        """A constant matrix times values."""

    @abstractmethod
    def _product(self, matrix: Any, other: Any) -> Any:
        """`matrix @ other`."""

    @abstractmethod
    def _dot(self, rows: Any, vector: Any) -> Any:
        """The scalar product of each row with a vector."""

    @abstractmethod
    def _condition(self, residual_rows: Any, residuals: Any, rows: Any, means: Any) -> tuple[Any, Any]:
        """As `condition`."""

    @abstractmethod
    def _lower(self, rows: Any) -> Any:
        """The lower triangular factor of the same Gaussian, square."""

    @abstractmethod
    def _over_lower(self, matrix: Any, lower: Any) -> Any:
        """`matrix @ inverse(lower)`, and nothing along a quantity without variance."""

    # Formulas

    def times(self, sparse: SparseRows, values: Float[Array, "column *more"]) -> Float[Array, "row *more"]:
        """A constant matrix times values."""
        return self.over(partial(self._times, sparse))(values)

    def product(
        self, matrix: Float[Array, "row inner"], other: Float[Array, "inner *more"]
    ) -> Float[Array, "row *more"]:
        """`matrix @ other`."""
        return self.over(self._product)(matrix, other)

    def predict(
        self,
        transition: SparseRows,
        noise: Float[np.ndarray, "wanted noise"],
        factor: Float[Array, "free free"],
        jacobian: Float[Array, "given physical"],
        sigma: Float[Array, "wanted"],
    ) -> Float[Array, "wanted column"]:
        """[A L, sigma sqrt(Q)] of the wanted components; the last rows of L are the Jacobian times its first ones."""

        def predicted(factor: Any, jacobian: Any, sigma: Any) -> Any:
            given = [self._product(jacobian, factor[: jacobian.shape[1]])] if len(jacobian) else []
            moved = self._times(transition, jnp.concatenate([factor, *given]))
            return jnp.concatenate([moved, self._constant(noise) * sigma[:, None]], axis=1)

        return self.over(predicted)(factor, jacobian, sigma)

    def condition(
        self,
        residual_rows: Float[Array, "residual column"],
        residuals: Float[Array, "residual"],
        rows: Float[Array, "row column"],
        means: Float[Array, "row"],
    ) -> tuple[Float[Array, "row row"], Float[Array, "row"]]:
        """Condition exactly (without noise) on all residuals being zero; returns a lower triangular factor and the
        means.

        In the triangular factor of residuals and rows together, the columns after the residuals' are what is left.
        """
        return self.over(self._condition)(residual_rows, residuals, rows, means)

    def condition_on_rate(
        self,
        rows: Float[Array, "wanted column"],
        slopes: Float[Array, "rate physical"],
        spread: Float[Array, "rate rate"],
        residuals: Float[Array, "rate"],
        means: Float[Array, "free"],
    ) -> tuple[Float[Array, "free free"], Float[Array, "free"]]:
        """Condition on rates being what the slopes make of the physical components, up to a spread; without columns in
        it, exactly.  Rows are those of rates, then of all free components, physical ones first."""

        def conditioned(rows: Any, slopes: Any, spread: Any, residuals: Any, means: Any) -> tuple[Any, Any]:
            count, columns = spread.shape[:2]
            free = rows[count:]
            residual_rows = rows[:count] - self._product(slopes, free[: slopes.shape[1]])
            if columns:
                residual_rows = jnp.concatenate([residual_rows, spread], axis=1)
                free = jnp.pad(free, [(0, 0), (0, columns), *[(0, 0)] * (free.ndim - 2)])
            return self._condition(residual_rows, residuals, free, means)

        return self.over(conditioned)(rows, slopes, spread, residuals, means)

    def observe(
        self,
        output_rows: Float[Array, "output column"],
        predictions: Float[Array, "output"],
        observations: Float[Array, "output"],
        noise: Float[Array, "output"],
        rows: Float[Array, "row column"],
        means: Float[Array, "row"],
    ) -> tuple[Float[Array, ""], Innovation, Float[Array, "row column"], Float[Array, "row"]]:
        """Condition on noisy observations of outputs, one after the other; a missing one (NaN) changes nothing.

        The same update as `gaussian.observe`.  The innovation holds arrays over the outputs.
        """
        count = len(predictions)

        def observed(output_rows: Any, rows: Any, predictions: Any, means: Any, *data: Any) -> tuple[Any, ...]:
            start = jnp.concatenate([output_rows, rows]), jnp.concatenate([predictions, means])
            (rows, means), (energies, innovations) = lax.scan(self._update, start, (jnp.arange(count), *data))
            return jnp.sum(energies, axis=0), innovations, rows[count:], means[count:]

        return self.over(observed)(output_rows, rows, predictions, means, jnp.asarray(observations), noise)

    def _update(
        self, carry: tuple[Any, Any], item: tuple[Any, Any, Any]
    ) -> tuple[tuple[Any, Any], tuple[Any, Innovation]]:
        """Rows and values given one output more; its energy and innovation."""
        everything, values = carry
        k, observed, r = item
        row, predicted = everything[k], values[k]
        present = ~jnp.isnan(observed)
        variance = self._dot(row[None], row)[0] + r * r
        innovation = jnp.where(present, observed - predicted, 0.0)
        energy = jnp.where(present, 0.5 * (jnp.log(2 * jnp.pi * variance) + innovation**2 / variance), 0.0)
        correction = innovation / variance
        shrink = jnp.where(present, 1 / (variance + r * jnp.sqrt(variance)), 0.0)
        covariances = self._dot(everything, row)
        carry = everything - (covariances * shrink)[:, None] * row, values + covariances * correction
        seen = Innovation(jnp.where(present, innovation, jnp.nan), variance, correction * jnp.sqrt(variance))
        return carry, (energy, seen)

    # Laws of one state given another

    def predicted(self, transition: "Transition", mean: Any, factor: Any, sigma: Any) -> tuple[Any, Any]:
        """The state after a step."""
        return self._times(transition.matrix, mean), self._lower(self._arriving(transition, factor, sigma))

    def revert(self, transition: "Transition", mean: Any, factor: Any, sigma: Any) -> "GaussianConditional":
        """The state given the one after a step."""
        arriving = self._arriving(transition, factor, sigma)
        staying = jnp.concatenate([factor, jnp.zeros_like(factor)], axis=1)
        gain, rest = self._given(arriving, staying)
        return GaussianConditional(gain, mean - self._product(gain, self._times(transition.matrix, mean)), rest)

    def given_part(self, part: Int[np.ndarray, " component"], mean: Any, factor: Any) -> "GaussianConditional":
        """The state given another one that shares some components with it and nothing else."""
        gain, rest = self._given(factor[part], factor)
        offset = mean - self._product(gain, mean[part])
        return GaussianConditional(jnp.zeros_like(factor).at[:, part].set(gain), offset, rest)

    def merge(self, first: "GaussianConditional", second: "GaussianConditional") -> "GaussianConditional":
        """x given y, and y given z: the law of x given z."""
        mean, factor = self.marginalise(first, second.offset, second.factor)
        return GaussianConditional(self._product(first.gain, second.gain), mean, factor)

    def marginalise(self, law: "GaussianConditional", mean: Any, factor: Any) -> tuple[Any, Any]:
        """The Gaussian of a state, from its law and that of the other."""
        rows = jnp.concatenate([self._product(law.gain, factor), law.factor], axis=1)
        return law.offset + self._product(law.gain, mean), self._lower(rows)

    def drawn(self, law: "GaussianConditional", others: Any, normals: Any) -> Any:
        """Draws of a state, each from its law given a draw of the other; they lie side by side."""
        return law.offset[:, None] + self._product(law.gain, others) + self._product(law.factor, normals)

    def _arriving(self, transition: "Transition", factor: Any, sigma: Any) -> Any:
        noise = self._constant(transition.noise) * sigma[:, None]
        return jnp.concatenate([self._times(transition.matrix, factor), noise], axis=1)

    def _given(self, seen: Any, sought: Any) -> tuple[Any, Any]:
        """Gain and factor of one quantity given another, both as rows over the same columns."""
        count = len(seen)
        lower = self._lower(jnp.concatenate([seen, sought]))
        return self._over_lower(lower[count:, :count], lower[:count, :count]), lower[count:, count:]


class Transition(NamedTuple):
    """What a step does to all components, in its own units: A, and the square root of Q for unit diffusion."""

    matrix: SparseRows
    noise: Float[np.ndarray, "D D"]


class GaussianConditional(NamedTuple):
    """The law of a state given another: its mean is offset + gain @ other, its factor does not depend on it."""

    gain: Any
    offset: Any
    factor: Any
