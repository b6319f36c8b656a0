"""Trees of arrays as a static description and one array of numbers."""

import copy

import jax
import numpy as np

from probsysid._internal.packed_tree import TreeSpec

TREE = {"a": np.arange(6.0).reshape(2, 3), "b": [np.int32(7), np.array([], dtype=float)], "c": np.array([True, False])}


def test_a_packed_tree_unpacks_to_itself() -> None:
    spec, numbers = TreeSpec.pack(TREE)
    assert numbers.shape == (9,)
    for unpacked in (spec.unpack(numbers), jax.jit(spec.unpack)(numbers)):
        assert jax.tree.structure(unpacked) == jax.tree.structure(TREE)
        for found, expected in zip(jax.tree.leaves(unpacked), jax.tree.leaves(TREE), strict=True):
            assert (found.shape, found.dtype) == (np.shape(expected), np.asarray(expected).dtype)
            np.testing.assert_array_equal(found, expected)


def test_an_empty_tree() -> None:
    spec, numbers = TreeSpec.pack({})
    assert numbers.shape == (0,)
    assert spec.unpack(numbers) == {}


def test_trees_that_differ_only_in_their_numbers_have_equal_specs() -> None:
    spec, _ = TreeSpec.pack(TREE)
    same, _ = TreeSpec.pack({**TREE, "a": -TREE["a"]})
    assert (spec, hash(spec)) == (same, hash(same))
    assert copy.deepcopy(spec) == spec
    others = [{**TREE, "a": np.arange(6.0)}, {**TREE, "a": np.arange(6).reshape(2, 3)}, {**TREE, "d": 1.0}]
    assert all(TreeSpec.pack(other)[0] != spec for other in others)


def test_a_compiled_function_is_shared_by_equal_specs() -> None:
    traced = []

    def total(spec: TreeSpec, numbers: np.ndarray) -> jax.Array:
        traced.append(spec)
        return spec.unpack(numbers)["a"].sum()

    compiled = jax.jit(total, static_argnums=0)
    for sign in (1, -1):
        assert compiled(*TreeSpec.pack({"a": sign * np.arange(3.0)})) == sign * 3
    assert len(traced) == 1
