"""Which entries of a factor stay zero, and states of one structure."""

import jax
import jax.numpy as jnp
import numpy as np

import probsysid  # noqa: F401  (double precision)
from probsysid.odefilter.filter_state import FilterState
from probsysid.odefilter.unrolled.gaussian import add, multiply
from probsysid.odefilter.unrolled.structural_zeros import factor_pattern, fill, reachable_pattern


def state(factor: list) -> FilterState:
    return FilterState([1.0, 2.0, 3.0], factor, [], [], [0.5], [])


def mix(before: FilterState) -> FilterState:
    """Each row takes half of the row above: entries fill up one diagonal per step."""
    rows = before.factor
    mixed = [[add(x, multiply(0.5, y)) for x, y in zip(rows[i], rows[i - 1], strict=True)] for i in (1, 2)]
    return before._replace(factor=[rows[0], *mixed])


DIAGONAL = [[1.0, None, None], [None, 1.0, None], [None, None, 1.0]]
LOWER = [[True, False, False], [True, True, False], [True, True, True]]


def test_the_reachable_pattern_needs_several_steps() -> None:
    start = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((), float), state(DIAGONAL))
    assert factor_pattern(mix(state(DIAGONAL))) != LOWER  # one step does not reach the corner
    assert factor_pattern(mix(mix(state(DIAGONAL)))) == LOWER
    assert reachable_pattern(mix, start) == LOWER


def test_filled_states_have_one_structure() -> None:
    """Numbers in place of the structural zeros that the pattern lacks, and only of those; all of them doubles."""
    filled = fill(state([[1, None, None], [jnp.float32(2.0), 1.0, None], [None, None, 1.0]]), LOWER)
    assert factor_pattern(filled) == LOWER
    numbers = [[0.0 if entry is None else float(entry) for entry in row] for row in filled.factor]
    assert numbers == [[1, 0, 0], [2, 1, 0], [0, 0, 1]]
    assert {leaf.dtype for leaf in jax.tree.leaves(filled)} == {np.dtype(float)}
    assert jax.tree.structure(filled) == jax.tree.structure(fill(mix(filled), LOWER))
