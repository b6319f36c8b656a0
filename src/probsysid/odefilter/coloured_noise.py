"""Coloured noise: the Ornstein-Uhlenbeck process of one output, as a further component of the state.

    n(t + d) = a n(t) + sqrt(1 - a^2) r e,     a = exp(-d / time)

has the standard deviation r at all times and the correlation exp(-d / time), whatever the spacing of the samples.  The
measured value is the output plus n, without further noise.  Each such n has a mean after those of the layout's
components and a row after those of the free ones in the factor, and so takes part in everything that is done with
rows: conditioning on the ODE and on data is exact, and a missing sample needs nothing.

Where data do not correct the state (`conditioning="solver"`), n is filtered on its own: the uncertainty of the
prediction then counts as independent from sample to sample.

In moments and in the smoother n follows the components, and has its physical unit.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from probsysid._internal.array_types import Numbers, Scalar
from probsysid.model.noise import NoiseValues, OutputNoise
from probsysid.odefilter.interval_data import IntervalData


def coloured(noise: Sequence[OutputNoise]) -> dict[int, NoiseValues]:
    """The coloured noise among that of all outputs, by the output's number."""
    return {i: r for i, r in enumerate(noise) if isinstance(r, NoiseValues) and r.time is not None}


def decay(noise: NoiseValues, sample: IntervalData) -> tuple[Scalar, Scalar]:
    """Factor a over the interval that leads to a sample, and the standard deviation of what is new."""
    assert noise.time is not None
    steps = sample.grid.shape[0] if sample.count is None else sample.count
    rate = sample.step * steps / noise.time
    return jnp.exp(-rate), noise.level * jnp.sqrt(-jnp.expm1(-2 * rate))


def apart_from_state(noise: Sequence[OutputNoise]) -> list[OutputNoise]:
    """The noise that is not part of the state: none where it is coloured."""
    nothing = {i: NoiseValues(jnp.zeros(()), None, None, r.form) for i, r in coloured(noise).items()}
    return [nothing.get(i, r) for i, r in enumerate(noise)]


def units_of_all(sample: IntervalData, mean: Numbers) -> Array:
    """The physical value of one unit of every component of a mean, and of the coloured noise after them: its own."""
    return jnp.concatenate([sample.scales, jnp.ones(len(mean) - len(sample.scales))])


class Ageing(NamedTuple):
    """What an interval does to coloured noise: n becomes memory * n + fresh * e."""

    memory: Float[Numbers, "*point noise particle"]
    fresh: Float[Numbers, "*point noise particle"]

    @classmethod
    def of(cls, noise: Sequence[OutputNoise], sample: IntervalData) -> "Ageing | None":
        """None where no noise is coloured."""
        pairs = [decay(r, sample) for r in coloured(noise).values()]
        return cls(*(jnp.stack(part) for part in zip(*pairs, strict=True))) if pairs else None
