"""Trees of numbers taken apart: what they look like, and the numbers in one array.

Programs are compiled for a form and get the numbers as one argument: each handed over by itself would cost as much as
all in one array.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class TreeSpec:
    """A tree without its numbers."""

    tree: Any
    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, tree: Any) -> "tuple[TreeSpec, np.ndarray]":
        """Its form, and its numbers in one array."""
        leaves, structure = jax.tree.flatten(tree)
        arrays = [np.asarray(leaf) for leaf in leaves]
        numbers = np.concatenate([np.empty(0), *(array.ravel().astype(float) for array in arrays)])
        return cls(structure, tuple(a.shape for a in arrays), tuple(a.dtype.str for a in arrays)), numbers

    def filled(self, numbers: Any) -> Any:
        """The tree with its numbers."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = jnp.split(numbers, ends[:-1]) if len(ends) else []
        given = zip(parts, self.shapes, self.kinds, strict=True)
        return jax.tree.unflatten(self.tree, [part.reshape(shape).astype(kind) for part, shape, kind in given])
