"""Which entries of an unrolled factor are zero by structure; states of one structure, for loops to carry."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from probsysid.odefilter.filter_state import FilterState

FactorPattern = list[list[bool]]
"""For each entry of the factor, whether it may be other than zero."""


def reachable_pattern(step: Callable[..., FilterState], state: FilterState, *arguments: PyTree) -> FactorPattern:
    """The pattern of the factor after any number of steps, from this state on."""
    pattern = factor_pattern(state)
    while True:
        following = jax.eval_shape(lambda s, *a: step(fill(s, pattern), *a), state, *arguments)  # noqa: B023
        both = zip(pattern, factor_pattern(following), strict=True)
        wider = [[a or b for a, b in zip(x, y, strict=True)] for x, y in both]
        if wider == pattern:
            return pattern
        pattern = wider


def factor_pattern(state: FilterState) -> FactorPattern:
    """The pattern of a state's factor."""
    return [[entry is not None for entry in row] for row in state.factor]


def fill(state: FilterState, pattern: FactorPattern) -> FilterState:
    """Replace structural zeros that the pattern does not have by numbers, and make every number a double."""
    factor = [
        [jnp.zeros(()) if needed and entry is None else entry for entry, needed in zip(row, needs, strict=True)]
        for row, needs in zip(state.factor, pattern, strict=True)
    ]
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), state._replace(factor=factor))
