"""A tree of arrays as a static description of its structure and one flat array of its numbers.

Programs are compiled for a `TreeSpec` and take the numbers as a single argument: passing each array of the tree by
itself costs as much per array as passing all of them in one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from probsysid._internal.array_types import Numbers


@dataclass(frozen=True)
class TreeSpec:
    """A tree without its numbers: hashable, so that it can be a static argument of a compiled function."""

    tree: jax.tree_util.PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Once, because every call of a compiled function needs it, and the structure of numpyro's priors is large.
        object.__setattr__(self, "_hash", hash((self.tree, self.shapes, self.dtypes)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Callable[..., "TreeSpec"], tuple[Any, ...]]:
        """Without the hash: Python's hashes of text differ between processes."""
        return TreeSpec, (self.tree, self.shapes, self.dtypes)

    @classmethod
    def pack(cls, tree: PyTree) -> tuple[Self, Float[np.ndarray, "numbers"]]:
        """The description of a tree, and its numbers in one array."""
        leaves, structure = jax.tree.flatten(tree)
        arrays = [np.asarray(leaf) for leaf in leaves]
        numbers = np.concatenate([np.empty(0), *(array.ravel().astype(float) for array in arrays)])
        return cls(structure, tuple(a.shape for a in arrays), tuple(a.dtype.str for a in arrays)), numbers

    def unpack(self, numbers: Float[Numbers, "numbers"]) -> PyTree:
        """The tree with these numbers; may be called inside a compiled function."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = jnp.split(numbers, ends[:-1]) if len(ends) else []
        given = zip(parts, self.shapes, self.dtypes, strict=True)
        return jax.tree.unflatten(self.tree, [part.reshape(shape).astype(dtype) for part, shape, dtype in given])
