"""Indices of the filter in array form, which components are where, and the algebra that suits their number."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from probsysid.odefilter.arrays.batched import Batched, fits_batched
from probsysid.odefilter.arrays.lapack import Lapack
from probsysid.odefilter.arrays.sqrt_algebra import SparseRows, SquareRootAlgebra
from probsysid.odefilter.ode_filter import ODEFilter


@dataclass(frozen=True)
class IndexedFilter(ODEFilter):
    """Orders of components, as arrays of indices, and operations on matrices."""

    unrolled: ClassVar[bool] = False
    algebra: SquareRootAlgebra | None = None
    """How matrices are multiplied and triangularised; None: by the size of the largest."""

    @cached_property
    def _algebra(self) -> SquareRootAlgebra:
        """As chosen; otherwise by the size of the largest matrix."""
        if self.algebra is not None:
            return self.algebra
        noise = len(self._highest) if self.ode_noise else 0
        columns = len(self._free) + self.layout.size + noise
        return Batched() if fits_batched(len(self._prediction_order), columns) else Lapack()

    @cached_property
    def _physical(self) -> np.ndarray:
        return np.array(self.layout.physical)

    @cached_property
    def _highest(self) -> np.ndarray:
        return np.array(self.layout.highest)

    @cached_property
    def _free(self) -> np.ndarray:
        return np.array(self.free)

    @property
    def _tracked(self) -> int:  # components of the data part
        return len(self._others) if self._tracks_data else 0

    @cached_property
    def _factor_order(self) -> np.ndarray:
        """Components in the order of `_all_rows`: the free ones, then those that the exact ODE determines."""
        return self._free if self.ode_noise else np.concatenate([self._free, self._highest])

    @cached_property
    def _to_layout(self) -> np.ndarray:
        """Indices that bring components from `_factor_order` to the order of the layout."""
        return np.argsort(self._factor_order)

    @cached_property
    def _prediction_order(self) -> np.ndarray:
        """Components whose predictions a step needs: highest ones for the residuals, then the free ones."""
        return np.concatenate([self._highest, self._free])

    @cached_property
    def _prediction_to_layout(self) -> np.ndarray:
        """Indices from `_prediction_order` to the layout; with ODE noise the highest ones occur twice."""
        return np.unique(self._prediction_order, return_index=True)[1]

    @cached_property
    def _transition(self) -> SparseRows:
        """A, from `_factor_order` to `_prediction_order`: at most q + 1 entries per row, as coordinates are independent
        under the prior."""
        return SparseRows.of(self.layout.transition[np.ix_(self._prediction_order, self._factor_order)])
