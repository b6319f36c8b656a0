"""Square-root Kalman algebra on matrices, for one particle: `gaussian.py` for states of many components.

A factor is one array here, with one row per quantity, and a few operations on whole matrices replace what `gaussian.py`
unrolls.  The program is then as long for a hundred components as for ten.  The textbook form of each formula is given
with its counterpart in `gaussian.py`; tests check that the two agree.

The formulas are here; how matrices are multiplied and triangularised depends on their size: `batched.py` for medium
ones, `lapack.py` for large ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from probsysid._internal.array_types import Index, Numbers, Scalar
from probsysid.model.noise import NoiseValues, OutputNoise
from probsysid.odefilter.unrolled.gaussian import Innovation, weigh


class SparseRows(NamedTuple):
    """A constant matrix with few nonzeros per row: dense, and as the columns and values of its nonzeros."""

    matrix: np.ndarray
    columns: np.ndarray
    entries: np.ndarray

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "row column"]) -> "SparseRows":
        width = max(1, int(np.max(np.count_nonzero(matrix, axis=1))))
        columns = np.argsort(matrix == 0, axis=1, kind="stable")[:, :width]
        return cls(matrix, columns, np.take_along_axis(matrix, columns, axis=1))


class SquareRootAlgebra(ABC):
    """The formulas of the filter, for one particle, and of the smoother.

    A subclass supplies the primitive operations, whose arrays may have a particle axis after the others, and two
    wrappers.  `for_one_particle` turns a function made of the operations into one of a single particle's arrays, which
    `jax.vmap` maps over particles; the filter's formulas are wrapped by it.  The smoother's conditionals, at the end,
    are made of the operations alone and are to be wrapped by `for_all_particles`.
    """

    # Primitive operations

    @abstractmethod
    def for_one_particle(self, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """A function made of these operations as a function of a single particle's arrays."""

    @abstractmethod
    def for_all_particles(self, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """A function made of these operations as a function of all particles' arrays, whose particle axis is last."""

    @abstractmethod
    def _constant(self, matrix: np.ndarray) -> Numbers:
        """A matrix that is the same for all particles, to be broadcast against those of particles."""

    @abstractmethod
    def _times(self, sparse: SparseRows, values: Array) -> Array:
        """A constant matrix times values."""

    @abstractmethod
    def _product(self, matrix: Numbers, other: Array) -> Array:
        """`matrix @ other`."""

    @abstractmethod
    def _dot(self, rows: Array, vector: Array) -> Array:
        """The scalar product of each row with a vector."""

    @abstractmethod
    def _condition(self, residual_rows: Array, residuals: Array, rows: Array, means: Array) -> tuple[Array, Array]:
        """As `condition`."""

    @abstractmethod
    def _lower(self, rows: Array) -> Array:
        """The square lower triangular factor of the same Gaussian: L with L L' = rows rows'."""

    @abstractmethod
    def _right_solve(self, matrix: Array, lower: Array) -> Array:
        """`matrix @ inverse(lower)`; zero in the columns of a quantity without variance."""

    # Formulas

    def times(self, sparse: SparseRows, values: Float[Numbers, "column *more"]) -> Float[Array, "row *more"]:
        """A constant matrix times values."""
        return self.for_one_particle(partial(self._times, sparse))(values)

    def product(
        self, matrix: Float[Numbers, "row inner"], other: Float[Numbers, "inner *more"]
    ) -> Float[Numbers, "row *more"]:
        """`matrix @ other`."""
        return self.for_one_particle(self._product)(matrix, other)

    def predict(
        self,
        transition: SparseRows,
        noise: Float[np.ndarray, "predicted noise"],
        factor: Float[Numbers, "free width"],
        jacobian: Float[Numbers, "determined physical"],
        sigma: Float[Numbers, "predicted"],
    ) -> Float[Array, "predicted column"]:
        """[A L, sigma sqrt(Q)] of the predicted components.

        L has the rows of `factor`, then those of the components that the exact ODE determines: the Jacobian times the
        rows of the physical components, which are the first ones.
        """

        def predicted(factor: Array, jacobian: Array, sigma: Array) -> Array:
            determined = [self._product(jacobian, factor[: jacobian.shape[1]])] if len(jacobian) else []
            propagated = self._times(transition, jnp.concatenate([factor, *determined]))
            return jnp.concatenate([propagated, self._constant(noise) * sigma[:, None]], axis=1)

        return self.for_one_particle(predicted)(factor, jacobian, sigma)

    def lower(self, rows: Float[Numbers, "row column"]) -> Float[Array, "row row"]:
        """The lower triangular factor of the same Gaussian."""
        return self.for_one_particle(self._lower)(rows)

    def condition_on_rate(
        self,
        rows: Float[Numbers, "predicted column"],
        slopes: Float[Numbers, "rate physical"],
        spread: Float[Numbers, "rate noise"],
        residuals: Float[Numbers, "rate vector"],
        means: Float[Numbers, "free vector"],
    ) -> tuple[Float[Array, "free free"], Float[Array, "free vector"]]:
        """Condition on the linearised ODE: rate = slopes @ physical, up to noise with the factor `spread`.

        A spread without columns imposes the ODE exactly.  Rows are those of the rates (highest derivatives), then those
        of all free components, physical ones first.
        """

        def conditioned(
            rows: Array, slopes: Array, spread: Array, residuals: Array, means: Array
        ) -> tuple[Array, Array]:
            count, columns = spread.shape[:2]
            free = rows[count:]
            residual_rows = rows[:count] - self._product(slopes, free[: slopes.shape[1]])
            if columns:
                residual_rows = jnp.concatenate([residual_rows, spread], axis=1)
                free = jnp.pad(free, [(0, 0), (0, columns), *[(0, 0)] * (free.ndim - 2)])
            return self._condition(residual_rows, residuals, free, means)

        return self.for_one_particle(conditioned)(rows, slopes, spread, residuals, means)

    def observe(
        self,
        output_rows: Float[Numbers, "output column"],
        predictions: Float[Numbers, "output"],
        observations: Float[Numbers, "output"],
        noise: Sequence[OutputNoise],
        rows: Float[Numbers, "row column"],
        means: Float[Numbers, "row"],
        scores: bool = True,
    ) -> tuple[Float[Array, ""], list[Innovation], Float[Array, "row column"], Float[Array, "row"]]:
        """Condition on noisy observations of outputs, one after the other; a missing one (NaN) changes nothing.

        The same update as `gaussian.observe`: in a loop where all noise is plainly Gaussian, otherwise written out.
        """
        count = len(predictions)
        numbers, tree = jax.tree.flatten(list(noise))
        plain = not any(isinstance(r, NoiseValues) for r in noise)
        update = partial(self._update, scores)

        def observed(
            output_rows: Array, rows: Array, predictions: Array, means: Array, data: Array, *numbers: Array
        ) -> tuple[PyTree, ...]:
            carry = jnp.concatenate([output_rows, rows]), jnp.concatenate([predictions, means])
            if plain:
                carry, (energies, innovations) = lax.scan(update, carry, (jnp.arange(count), data, jnp.stack(numbers)))
            else:
                found = []
                for k, r in enumerate(jax.tree.unflatten(tree, numbers)):
                    carry, results = update(carry, (k, data[k], r))
                    found.append(results)
                energies, innovations = jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)
            rows, means = carry
            return jnp.sum(energies, axis=0), innovations, rows[count:], means[count:]

        wrapped = self.for_one_particle(observed)
        data = jnp.asarray(observations)
        energy, innovations, *rest = wrapped(output_rows, rows, predictions, means, data, *map(jnp.asarray, numbers))
        return energy, [Innovation(*parts) for parts in zip(*innovations, strict=True)], *rest

    def _update(
        self, scores: bool, carry: tuple[Array, Array], item: tuple[Index, Array, OutputNoise]
    ) -> tuple[tuple[Array, Array], tuple[Scalar, Innovation]]:
        """Rows and values conditioned on one more output; its energy and innovation."""
        everything, values = carry
        k, observed, r = item
        row, predicted = everything[k], values[k]
        update = weigh(r, observed, predicted, self._dot(row[None], row)[0], scores)
        covariances = self._dot(everything, row)
        carry = everything - (covariances * update.shrink)[:, None] * row, values + covariances * update.correction
        return carry, (update.energy, update.innovation)

    # Conditionals of one state given another

    def predict_gaussian(
        self, transition: "Transition", mean: Array, factor: Array, sigma: Array
    ) -> tuple[Array, Array]:
        """Mean A m and triangular factor of A P A' + sigma^2 Q."""
        return self._times(transition.matrix, mean), self._lower(self._predicted_rows(transition, factor, sigma))

    def revert(self, transition: "Transition", mean: Array, factor: Array, sigma: Array) -> "GaussianConditional":
        """Backward kernel: the state given the one after a step, with gain G = P A' (A P A' + sigma^2 Q)^(-1)."""
        next_rows = self._predicted_rows(transition, factor, sigma)
        return self.given(mean, factor, self._times(transition.matrix, mean), next_rows)

    def given(self, mean: Numbers, factor: Numbers, known_mean: Array, known_rows: Array) -> "GaussianConditional":
        """A state given other quantities, of whose rows the first columns are the state's, and the rest noise."""
        noise = known_rows.shape[1] - factor.shape[1]
        rows = jnp.concatenate(
            [factor, jnp.zeros_like(known_rows, shape=(len(factor), noise, *factor.shape[2:]))], axis=1
        )
        gain, remaining = self._conditional(known_rows, rows)
        return GaussianConditional(gain, jnp.asarray(mean) - self._product(gain, known_mean), remaining[:, : len(mean)])

    def condition_on_part(
        self, part: Int[np.ndarray, " component"], mean: Array, factor: Array
    ) -> "GaussianConditional":
        """The state given another one that shares the components `part` and is otherwise conditionally independent."""
        gain, remaining = self._conditional(factor[part], factor)
        offset = mean - self._product(gain, mean[part])
        return GaussianConditional(jnp.zeros_like(factor).at[:, part].set(gain), offset, remaining)

    def merge(self, first: "GaussianConditional", second: "GaussianConditional") -> "GaussianConditional":
        """From x | y and y | z: the conditional x | z."""
        mean, factor = self.marginalise(first, second.offset, second.factor)
        return GaussianConditional(self._product(first.gain, second.gain), mean, factor)

    def marginalise(self, conditional: "GaussianConditional", mean: Array, factor: Array) -> tuple[Array, Array]:
        """The marginal of x, from the conditional x | y and the mean and factor of y."""
        rows = jnp.concatenate([self._product(conditional.gain, factor), conditional.factor], axis=1)
        return conditional.offset + self._product(conditional.gain, mean), self._lower(rows)

    def draw(self, conditional: "GaussianConditional", others: Array, normals: Array) -> Array:
        """Draws of x, one for each column of `others`, a draw of y, from standard normal columns."""
        gain, offset, factor = conditional
        return offset[:, None] + self._product(gain, others) + self._product(factor, normals)

    def _predicted_rows(self, transition: "Transition", factor: Array, sigma: Array) -> Array:
        """[A L, sigma sqrt(Q)]."""
        noise = self._constant(transition.noise) * sigma[:, None]
        return jnp.concatenate([self._times(transition.matrix, factor), noise], axis=1)

    def _conditional(self, known: Array, unknown: Array) -> tuple[Array, Array]:
        """Gain and factor of one quantity given another, both as rows over the same columns."""
        count = len(known)
        lower = self._lower(jnp.concatenate([known, unknown]))
        return self._right_solve(lower[count:, :count], lower[:count, :count]), lower[count:, count:]


class Transition(NamedTuple):
    """The transition over a step, in scaled coordinates: A, and the square root of Q for unit diffusion."""

    matrix: SparseRows
    noise: Float[np.ndarray, "D D"]


class GaussianConditional(NamedTuple):
    """x | y ~ N(gain @ y + offset, factor @ factor.T)."""

    gain: Array
    offset: Array
    factor: Array
