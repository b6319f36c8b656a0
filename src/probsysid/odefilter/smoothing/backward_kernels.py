"""Gaussians at many points and for many particles at once: prediction, and the backward kernels of the smoother.

A backward kernel is the conditional distribution of a state given the next one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from scipy.linalg import block_diag

from probsysid._internal.array_types import Numbers
from probsysid.odefilter.arrays.batched import Batched, fits_batched
from probsysid.odefilter.arrays.lapack import Lapack
from probsysid.odefilter.arrays.sqrt_algebra import GaussianConditional, SparseRows, SquareRootAlgebra, Transition
from probsysid.odefilter.coloured_noise import Ageing
from probsysid.odefilter.filter import map_blocks
from probsysid.odefilter.layout import Layout

CACHE = 2**17
"""Bytes that the largest matrices of a block may take."""


class GaussianPath(NamedTuple):
    """Marginal means and factors of all components, and then of coloured noise, for every particle: at every point or,
    without that axis, at one."""

    mean: Float[Numbers, "*point D particle"]
    factor: Float[Numbers, "*point D D particle"]

    @property
    def sd(self) -> Float[Numbers, "point D particle"]:
        return jnp.sqrt(jnp.sum(jnp.square(self.factor), axis=2))


class Disturbance(NamedTuple):
    """Process noise that is added at the end of each step."""

    integrated: GaussianPath
    """States at the ends of the steps, before it and before the data."""
    noise: Float[Numbers, "point D column particle"]
    """Its factor."""
    mean: Float[Numbers, "point D particle"]
    rows: Float[Numbers, "point D columns particle"]
    """Of the prediction of each step, before it was conditioned on the ODE: the first columns are those of the factor
    at its start."""


@dataclass(frozen=True)
class StateSpaceOps:
    """Transitions of a layout's states in physical units.

    A step's units are its Nordsieck scales (`Layout.scales`), in which A and Q are the same for all step lengths.
    """

    layout: Layout
    noise: int = 0
    """Number of outputs with coloured noise, which follows the components and stays the same over a step."""

    @property
    def size(self) -> int:
        """Of the state, with its coloured noise."""
        return self.layout.size + self.noise

    @cached_property
    def algebra(self) -> SquareRootAlgebra:
        """Chosen by the size of the largest matrix."""
        return Batched() if fits_batched(self._largest, self._largest) else Lapack()

    @property
    def _largest(self) -> int:
        return 2 * self.size

    @cached_property
    def _transition(self) -> Transition:
        kept, nothing = np.eye(self.noise), np.zeros((self.noise, self.noise))
        matrix, factor = self.layout.transition, self.layout.process_factor
        return Transition(SparseRows.of(block_diag(matrix, kept)), block_diag(factor, nothing))

    def predict(
        self,
        departing: GaussianPath,
        variance: Float[Numbers, "point coordinate particle"],
        units: Float[Numbers, "point component"],
    ) -> GaussianPath:
        """States after a step, from those before it and its squared diffusion."""

        def predict(mean: Array, factor: Array, sigma: Array, units: Array) -> tuple[Array, Array]:
            mean, factor = self.algebra.predict_gaussian(self._transition, mean / units, factor / units[:, None], sigma)
            return mean * units, factor * units[:, None]

        return GaussianPath(*self._map(predict, *departing, self._sigma(variance), self._units(units)))

    def revert(
        self,
        departing: GaussianPath,
        variance: Float[Numbers, "point coordinate particle"],
        units: Float[Numbers, "point component"],
    ) -> GaussianConditional:
        """Backward kernels: states given those after a step."""

        def kernel(mean: Array, factor: Array, sigma: Array, units: Array) -> GaussianConditional:
            scaled = self.algebra.revert(self._transition, mean / units, factor / units[:, None], sigma)
            return GaussianConditional(
                scaled.gain * units[:, None] / units, scaled.offset * units, scaled.factor * units[:, None]
            )

        return self._map(kernel, *departing, self._sigma(variance), self._units(units))

    def before_noise(
        self,
        departing: GaussianPath,
        disturbed: "Disturbance",
        units: Float[Numbers, "point component"],
        free: tuple[int, ...],
    ) -> GaussianConditional:
        """Backward kernels: states given those after a step that ends with process noise."""
        algebra, part = self.algebra, self._with_noise(free)

        def kernel(
            start: GaussianPath, end: GaussianPath, noise: Array, mean: Array, rows: Array, units: Array
        ) -> GaussianConditional:
            scale = units[:, None]
            before = algebra.given(start.mean / units, start.factor / scale, mean / units, rows / scale)
            after_rows = (jnp.concatenate([end.factor, noise], axis=1) / scale)[part]  # they determine the others
            after = algebra.given(end.mean / units, end.factor / scale, (end.mean / units)[part], after_rows)
            after = after._replace(gain=jnp.zeros_like(end.factor).at[:, part].set(after.gain))
            gain, offset, factor = algebra.merge(before, after)
            return GaussianConditional(gain * scale / units, offset * units, factor * scale)

        return self._map(kernel, departing, *disturbed, self._units(units))

    def before_departure(
        self, filtered: GaussianPath, kernels: GaussianConditional, kept: tuple[int, ...], ageing: Ageing | None
    ) -> GaussianConditional:
        """Backward kernels of the states at the end of an interval, from those at the start of the next one.

        The two share the components `kept` (without the others where there is a restart) and are otherwise
        conditionally independent, but for the part of coloured noise that outlives the interval.
        """
        algebra, part = self.algebra, self._with_noise(kept)

        def through(
            mean: Array, factor: Array, after: GaussianConditional, ageing: Ageing | None
        ) -> GaussianConditional:
            if ageing is None:
                return algebra.merge(algebra.condition_on_part(part, mean, factor), after)
            same = jnp.zeros_like(mean[: len(kept)])
            memory, fresh = jnp.concatenate([same + 1.0, ageing.memory]), jnp.concatenate([same, ageing.fresh])
            added = fresh[:, None] * np.eye(len(part))[(..., *[None] * (fresh.ndim - 1))]
            rows = jnp.concatenate([memory[:, None] * factor[part], added], axis=1)
            before = algebra.given(mean, factor, memory * mean[part], rows)
            before = before._replace(gain=jnp.zeros_like(factor).at[:, part].set(before.gain))
            return algebra.merge(before, after)

        return self._map(through, *filtered, kernels, ageing)

    def _with_noise(self, components: tuple[int, ...]) -> np.ndarray:
        """Indices of components and of all coloured noise."""
        return np.array([*components, *range(self.layout.size, self.size)])

    def _units(self, units: Float[Numbers, "point component"]) -> Float[Numbers, "point D 1"]:
        """Those of coloured noise are one."""
        return jnp.pad(jnp.asarray(units), ((0, 0), (0, self.noise)), constant_values=1.0)[..., None]

    def _sigma(self, variance: Float[Numbers, "point coordinate particle"]) -> Float[Numbers, "point D particle"]:
        sigma = jnp.sqrt(variance)[:, np.array(self.layout.coordinate)]
        return jnp.pad(sigma, ((0, 0), (0, self.noise), (0, 0)))

    def _map(self, function: Callable[..., PyTree], *arrays: PyTree) -> PyTree:
        """Map a function made of the algebra's operations over points, the first axis of arrays, and particles, the
        last: the two together are one batch axis."""
        points, *_, particles = jax.tree.leaves(arrays)[0].shape

        def to_batch(leaf: Array) -> Array:
            leaf = jnp.broadcast_to(leaf, (*leaf.shape[:-1], particles))
            return jnp.moveaxis(leaf, 0, -2).reshape(*leaf.shape[1:-1], points * particles)

        def from_batch(leaf: Array) -> Array:
            return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], points, particles), -2, 0)

        for_batch = self.algebra.for_all_particles(function)
        block = max(1, CACHE // (8 * self._largest**2))
        results = map_blocks(lambda batch: for_batch(*batch), jax.tree.map(to_batch, arrays), block)
        return jax.tree.map(from_batch, results)
