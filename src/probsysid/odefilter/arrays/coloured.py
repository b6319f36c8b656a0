"""Coloured noise (`coloured_noise.py`) as further rows of arrays, after those of the free components."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from probsysid._internal.array_types import Numbers, Scalar
from probsysid.model.noise import OutputNoise
from probsysid.odefilter.arrays.sqrt_algebra import SquareRootAlgebra
from probsysid.odefilter.coloured_noise import coloured, decay
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.interval_data import IntervalData


def joined(first: Array, more: Array) -> Array:
    """Components, followed by coloured noise if there is any."""
    return jnp.concatenate([first, more]) if len(more) else first


def own_rows(values: Array | Sequence[Scalar], free: int) -> Array:
    """Rows with one value each, in columns after those of the free components."""
    return jnp.pad(jnp.diag(jnp.stack(list(values))), ((0, 0), (free, 0))) if len(values) else jnp.zeros((0, free))


def with_noise_of(old: FilterState, new: FilterState) -> FilterState:
    """A state of the components alone, together with the coloured noise of another."""
    size, free = len(new.mean), len(new.factor)
    return new._replace(mean=joined(new.mean, old.mean[size:]), factor=joined(new.factor, old.factor[free:]))


def aged(
    state: FilterState, free: int, noise: Sequence[OutputNoise], sample: IntervalData, algebra: SquareRootAlgebra
) -> FilterState:
    """The state with its coloured noise an interval later."""
    pairs = [decay(r, sample) for r in coloured(noise).values()]
    factors, fresh = jnp.stack([a for a, _ in pairs]), jnp.stack([sd for _, sd in pairs])
    size = len(state.mean) - len(pairs)
    rows = jnp.concatenate([state.factor[:free], factors[:, None] * state.factor[free:]])
    added = jnp.pad(jnp.diag(fresh), ((free, 0), (0, 0)))
    mean = jnp.concatenate([state.mean[:size], factors * state.mean[size:]])
    return state._replace(mean=mean, factor=algebra.lower(jnp.concatenate([rows, added], axis=1)))


def with_coloured(
    rows: Numbers, predictions: Array, state: FilterState, free: int, noise: Sequence[OutputNoise]
) -> tuple[Numbers, Array]:
    """Rows and predictions of the outputs together with their coloured noise."""
    places = np.array(list(coloured(noise)), dtype=int)
    if not len(places):
        return rows, predictions
    means = state.mean[len(state.mean) - len(places) :]
    return jnp.asarray(rows).at[places].add(state.factor[free:]), jnp.asarray(predictions).at[places].add(means)


def noise_alone(state: FilterState, factor: Array, free_mean: Array, free: int) -> FilterState:
    """The state with its coloured noise as after the data, and its components as before."""
    own = own_rows(jnp.sqrt(jnp.sum(factor[free:] ** 2, axis=1)), free)
    size = len(state.mean) - len(own)
    mean = jnp.concatenate([state.mean[:size], free_mean[free:]])
    return state._replace(mean=mean, factor=jnp.concatenate([state.factor[:free], own]))
