"""The Gaussians of many points and particles at once: one step forwards, and the law of looking back over it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probsysid.odefilter.arrays.batched import Batched, fits_batched
from probsysid.odefilter.arrays.lapack import Lapack
from probsysid.odefilter.arrays.sqrt_algebra import GaussianConditional, SparseRows, SquareRootAlgebra, Transition
from probsysid.odefilter.filter import map_blocks
from probsysid.odefilter.layout import Layout

Numbers = np.ndarray | Array

CACHE = 2**17
"""Bytes that the largest matrices of a block may take."""


class GaussianPath(NamedTuple):
    """Mean and factor of all components, at every point and for every particle."""

    mean: Float[Numbers, "point D particle"]
    factor: Float[Numbers, "point D D particle"]

    @property
    def sd(self) -> Float[Numbers, "point D particle"]:
        return jnp.sqrt(jnp.sum(jnp.square(self.factor), axis=2))


@dataclass(frozen=True)
class StateSpaceOps:
    """A layout's states in physical units.  A step's units are those of `Layout.scales`, in which transition and noise
    are the same for steps of all lengths."""

    layout: Layout

    @cached_property
    def algebra(self) -> SquareRootAlgebra:
        """How matrices are worked on: decided by the largest."""
        return Batched() if fits_batched(self._largest, self._largest) else Lapack()

    @property
    def _largest(self) -> int:
        return 2 * self.layout.size

    @cached_property
    def _transition(self) -> Transition:
        return Transition(SparseRows.of(self.layout.transition), self.layout.process_factor)

    def predicted(
        self,
        leaving: GaussianPath,
        variance: Float[Numbers, "point coordinate particle"],
        units: Float[Numbers, "point D"],
    ) -> GaussianPath:
        """States after a step, from those before and its squared diffusion."""

        def predict(mean: Any, factor: Any, sigma: Any, units: Any) -> tuple[Any, Any]:
            mean, factor = self.algebra.predicted(self._transition, mean / units, factor / units[:, None], sigma)
            return mean * units, factor * units[:, None]

        return GaussianPath(*self._over(predict, *leaving, self._sigma(variance), units[..., None]))

    def revert(
        self,
        leaving: GaussianPath,
        variance: Float[Numbers, "point coordinate particle"],
        units: Float[Numbers, "point D"],
    ) -> GaussianConditional:
        """The laws of states given those after a step."""

        def law(mean: Any, factor: Any, sigma: Any, units: Any) -> GaussianConditional:
            found = self.algebra.revert(self._transition, mean / units, factor / units[:, None], sigma)
            return GaussianConditional(
                found.gain * units[:, None] / units, found.offset * units, found.factor * units[:, None]
            )

        return self._over(law, *leaving, self._sigma(variance), units[..., None])

    def before_restart(self, filtered: GaussianPath, laws: GaussianConditional) -> GaussianConditional:
        """The laws of states before a restart, from those of the states after it: the physical components are the same,
        and they have nothing else in common."""
        algebra, physical = self.algebra, np.array(self.layout.physical)

        def through(mean: Any, factor: Any, after: GaussianConditional) -> GaussianConditional:
            return algebra.merge(algebra.given_part(physical, mean, factor), after)

        return self._over(through, *filtered, laws)

    def _sigma(self, variance: Float[Numbers, "point coordinate particle"]) -> Float[Numbers, "point D particle"]:
        return jnp.sqrt(variance)[:, np.array(self.layout.coordinate)]

    def _over(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Map a function made of the algebra's operations over points, the first axis of arrays, and particles, the
        last."""
        points, *_, particles = jax.tree.leaves(arrays)[0].shape

        def in_lanes(leaf: Any) -> Any:
            leaf = jnp.broadcast_to(leaf, (*leaf.shape[:-1], particles))
            return jnp.moveaxis(leaf, 0, -2).reshape(*leaf.shape[1:-1], points * particles)

        def back(leaf: Any) -> Any:
            return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], points, particles), -2, 0)

        side_by_side = self.algebra.side_by_side(function)
        block = max(1, CACHE // (8 * self._largest**2))
        found = map_blocks(lambda given: side_by_side(*given), jax.tree.map(in_lanes, arrays), block)
        return jax.tree.map(back, found)
