"""Samples as one matrix, one row per sample: sending it to a device costs as much as one array of `IntervalData`."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np
from jaxtyping import Float

from probsysid._internal.array_types import Index, Numbers
from probsysid._internal.packed_tree import TreeSpec
from probsysid.odefilter.interval_data import IntervalData


@partial(jax.tree_util.register_dataclass, data_fields=["numbers"], meta_fields=["form"])
@dataclass(frozen=True)
class PackedSamples:
    """The `IntervalData` of many samples in one matrix, as the filter takes it."""

    numbers: Float[Numbers, "sample number"]
    form: TreeSpec
    """Tree, shapes and types of one sample."""

    @classmethod
    def of(cls, samples: IntervalData) -> "PackedSamples":
        """From arrays with the sample axis first."""
        leaves, tree = jax.tree.flatten(samples)
        arrays = [np.asarray(leaf) for leaf in leaves]
        shapes = tuple(array.shape[1:] for array in arrays)
        flat = [array.reshape(len(array), math.prod(shape)) for array, shape in zip(arrays, shapes, strict=True)]
        form = TreeSpec(tree, shapes, tuple(array.dtype.str for array in arrays))
        return cls(np.concatenate(flat, axis=1, dtype=float), form)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, k: Index) -> IntervalData:
        """One sample."""
        return self.form.unpack(self.numbers[k])

    def changed(self, change: Callable[[Numbers], Numbers]) -> "PackedSamples":
        """With other rows of the same form: `change` maps the matrix to another one."""
        return replace(self, numbers=change(self.numbers))
