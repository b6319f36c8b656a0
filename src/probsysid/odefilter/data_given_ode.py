"""The likelihood of the data given that the ODE holds at all steps: Fenrir and DALTON.

The filter's own likelihood is the product of p(y_k | y_0..k-1, z_1..k): an ODE residual z never meets data that come
after it.  Here it is

    p(y | z = 0) = p(y, z = 0) / p(z = 0)

with numerator and denominator from two filters that run side by side: one is conditioned on the ODE and the data, the
other on the ODE alone, and both use the diffusion of the latter.  They differ in where the ODE is linearised:

    Fenrir   (Tronarp, Bosch and Hennig 2022)  in both along the solution without data.  What they condition on is then
             one Gaussian process, the prior given the linearised ODE, and the ratio is its exact marginal likelihood:
             the one that Fenrir computes backwards, by regression with the smoother's kernels.
    DALTON   (Wu and Lysy 2024)  in each at its own prediction, so that the data keep the linearisation near the motion.

Forwards instead of backwards, energies add up sample by sample as those of the filter do: their sum up to a sample is
the likelihood of the record up to there.  No step is stored.  Nonlinear outputs are linearised at the prediction from
the ODE and the data before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from probsysid._internal.array_types import Index, Numbers, Scalar
from probsysid.model.model import Model
from probsysid.model.particle import Particle
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.interval_data import IntervalData
from probsysid.odefilter.linearised_along import depart_along, step_with_energy
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.unrolled.gaussian import Innovation
from probsysid.odefilter.unrolled.structural_zeros import FactorPattern, factor_pattern, reachable_pattern


class TwoStates(NamedTuple):
    """Of the two filters, and what the interval so far adds to the energy of its sample."""

    alone: FilterState
    """Given the ODE alone."""
    joint: FilterState
    """Given the ODE and the data."""
    surplus: Scalar
    """log p(z) without data minus log p(z) with them, over the steps of the interval."""


@dataclass(frozen=True)
class DataGivenODE:
    """Two filters as one, with the energies of the data given the ODE."""

    alone: ODEFilter
    """Never sees data; its diffusion is that of both."""
    joint: ODEFilter
    """The same with data and with a `Given` diffusion."""
    along_solution: bool
    """Whether both linearise along the solution without data (Fenrir), or each at its own prediction (DALTON)."""

    @property
    def model(self) -> Model:
        return self.joint.model

    @property
    def unrolled(self) -> bool:
        return self.joint.unrolled

    # From sample to sample

    def start(self, particle: Particle, sample: IntervalData) -> TwoStates:
        """Both at the first sample, before its data."""
        alone = self.alone.start(particle, sample)
        return TwoStates(alone, self.joint.start(particle, sample), jnp.zeros(()))

    def interval(self, state: TwoStates, particle: Particle, sample: IntervalData) -> TwoStates:
        """From just after the previous sample's data to just before this one's."""
        state = self._depart(state, particle, sample)
        step = partial(self._step, particle=particle, sample=sample)
        if sample.count is None and (self.unrolled or sample.grid.shape[0] == 1):
            for j in range(sample.grid.shape[0]):
                state = step(j, state)
            return state
        pattern = self._pattern(partial(step, 0), state)
        count = sample.grid.shape[0] if sample.count is None else jnp.asarray(sample.count, dtype=int)
        return lax.fori_loop(0, count, lambda j, s: self.fill(step(j, s), pattern), self.fill(state, pattern))

    def _depart(self, state: TwoStates, particle: Particle, sample: IntervalData) -> TwoStates:
        alone = self.alone.depart(state.alone, particle, sample)
        if self.along_solution and self.joint.restarts:
            joint = depart_along(self.joint, state.joint, state.alone, particle, sample)
        else:
            joint = self.joint.depart(state.joint, particle, sample)
        return state._replace(alone=alone, joint=joint)

    def _step(self, j: Index, state: TwoStates, particle: Particle, sample: IntervalData) -> TwoStates:
        alone, ode, without = step_with_energy(self.alone, state.alone, particle, sample, j)
        joint = state.joint._replace(diffusion=_as_memory(alone.variance))
        along = ode if self.along_solution else None
        joint, _, given_data = step_with_energy(self.joint, joint, particle, sample, j, along)
        return TwoStates(alone, joint, state.surplus + given_data - without)

    def observe(
        self, state: TwoStates, particle: Particle, sample: IntervalData, scores: bool = True
    ) -> tuple[TwoStates, Scalar, list[Innovation]]:
        """Condition on the sample's outputs.  Its energy is what it adds to that of the record up to here; innovations
        are those of the filter with data."""
        joint, energy, innovations = self.joint.observe(state.joint, particle, sample, scores)
        return TwoStates(state.alone, joint, jnp.zeros(())), energy + state.surplus, innovations

    def physical_moments(self, state: TwoStates, sample: IntervalData) -> tuple[Array, Array]:
        """Means and standard deviations of the physical components given the ODE and the data so far."""
        return self.joint.physical_moments(state.joint, sample)

    # The state for loops and storage

    def structure(
        self, first: Callable[..., TwoStates], step: Callable[..., TwoStates], particle: Particle, sample: IntervalData
    ) -> tuple[FactorPattern | None, TwoStates]:
        """As of an `ODEFilter`; both factors have the structural zeros of the one with data."""
        state = jax.eval_shape(first, particle, sample)
        pattern = self._pattern(step, state, particle, sample)
        return pattern, jax.eval_shape(lambda s: self.fill(s, pattern), state)

    def _pattern(self, step: Callable[..., TwoStates], state: TwoStates, *arguments: PyTree) -> FactorPattern | None:
        """Of the factor with data, after any number of steps; data fill zeros that stay without them."""
        if not self.unrolled:
            return None

        def following(joint: FilterState, state: TwoStates, *arguments: PyTree) -> FilterState:
            alone = self.alone.fill(state.alone, factor_pattern(joint))
            return step(TwoStates(alone, joint, state.surplus), *arguments).joint

        return reachable_pattern(following, state.joint, state, *arguments)

    def fill(self, state: TwoStates, pattern: FactorPattern | None) -> TwoStates:
        """Both states as a loop carries them."""
        filled = self.alone.fill(state.alone, pattern), self.joint.fill(state.joint, pattern)
        return TwoStates(*filled, jnp.asarray(state.surplus, dtype=float))

    def pack(self, state: TwoStates, template: TwoStates) -> Array:
        """The state with data comes first."""
        parts = self.joint.pack(state.joint, template.joint), self.alone.pack(state.alone, template.alone)
        return jnp.concatenate([*parts, jnp.asarray(state.surplus)[None]])

    def unpack(self, packed: Numbers, template: TwoStates) -> TwoStates:
        size = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(template.joint))
        joint, alone = packed[:size], packed[size:-1]
        return TwoStates(self.alone.unpack(alone, template.alone), self.joint.unpack(joint, template.joint), packed[-1])


def _as_memory(variance: Any) -> Any:
    """Squared diffusions as the memory of a `Given` diffusion, in either form of the filter."""
    return [[value] for value in variance] if isinstance(variance, list) else [variance]
