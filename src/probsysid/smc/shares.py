"""The filters' states in the sampler's hands: copied when particles are resampled, chosen when they move.

Where several hosts work together, each keeps the states of its own share of the particles.  They travel only when
particles are copied.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from probsysid import hosts
from probsysid.hosts import HostError

FINENESS = 32
"""Grains a host: shares differ by one of them at most, 3 percent."""


@partial(jax.tree_util.register_dataclass, data_fields=["here"], meta_fields=["count"])
@dataclass(frozen=True)
class Share:
    """States of this host's particles."""

    here: Any
    count: int
    """How many particles there are on all hosts."""


def portion(count: int) -> slice:
    """The particles of this host: as many as on any other, give or take a few, so that its devices can share them
    evenly, too."""
    company = hosts.current()
    if company is None:
        return slice(0, count)
    fitting = (n for n in (64, 32, 16, 8, 4, 2) if count % n == 0 and count // n >= FINENESS * company.count)
    grain = next(fitting, 1)
    ends = [grain * (count // grain * host // company.count) for host in (company.index, company.index + 1)]
    return slice(*ends)


def here(state: Any, count: int) -> Any:
    """The states of this host's particles, of a state that may be whole: one that was read from a file is."""
    if state is None or isinstance(state, Share):
        return state if state is None else state.here
    return jax.tree.map(lambda leaf: leaf[..., portion(count)], state)


def whole(values: Any, count: int, what: str) -> np.ndarray:
    """The values of all particles, from those of each host's; particles are last."""
    company = hosts.current()
    if company is None:
        return np.asarray(values)
    joined = np.concatenate(company.gather(np.asarray(values), what), axis=-1)
    if joined.shape[-1] != count:
        raise HostError(f"the hosts have brought {joined.shape[-1]} particles together, not {count} ({what}).")
    return joined


def copied(state: Any, positions: Int[np.ndarray, " copy"]) -> Any:
    """States of copies.  Through the host: a state may lie on several devices, and on several hosts."""
    if not isinstance(state, Share):
        return jax.tree.map(lambda leaf: np.take(np.asarray(leaf), positions, axis=-1), state)
    mine = positions[portion(len(positions))]
    leaves, tree = jax.tree.flatten(state.here)
    wholes = [whole(leaf, state.count, "states") for leaf in leaves]
    return Share(jax.tree.unflatten(tree, [np.take(leaf, mine, axis=-1) for leaf in wholes]), len(positions))


def chosen(flags: Bool[np.ndarray, " particle"], new: Any, old: Any) -> Any:
    """The new states where the flags say so, the old ones elsewhere.  On the host, which has looked at the new ones
    anyway: asking several devices for it takes longer."""
    if isinstance(new, Share):
        return Share(_where(flags[portion(new.count)], new.here, here(old, new.count)), new.count)
    return _where(flags, new, old)


def _where(flags: Any, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: np.where(flags, np.asarray(a), np.asarray(b)), new, old)


def side_by_side(states: list[Any], populations: int, count: int) -> Any:
    """States of several links of chains, laid side by side within each part."""
    if isinstance(states[0], Share):
        return _share_side_by_side(states, populations, count)

    def joined(*leaves: Any) -> Any:
        split = [leaf.reshape(*leaf.shape[:-1], populations, count) for leaf in leaves]
        together = jnp.concatenate(split, axis=-1)
        return together.reshape(*together.shape[:-2], -1)

    return jax.tree.map(joined, *states)


def _share_side_by_side(states: list[Share], populations: int, count: int) -> Share:
    """Particles of one host do not stay with it: through the whole."""

    def all_of(state: Share) -> Any:
        return jax.tree.map(lambda leaf: whole(leaf, state.count, "states of chains"), state.here)

    everything = side_by_side([all_of(state) for state in states], populations, count)
    total = len(states) * populations * count
    return Share(here(everything, total), total)
