"""ODE residuals on rows of numbers: their variance for a linearisation, and what data add to them."""

from typing import Any

import numpy as np

from probsysid.odefilter.layout import Layout
from probsysid.odefilter.unrolled import gaussian
from probsysid.odefilter.unrolled.gaussian import Row


def change_along_ode(layout: Layout, jacobian: list[Row], scales: Any, physical: list[Any]) -> list[Any]:
    """The change of every component when the physical ones change and the solution remains one of the ODE.

    The k-th time derivative of x^(n) = f(x, ..., x^(n-1)) changes by J times the change of the k-th derivatives of the
    physical components.  The Jacobian's own rate of change is neglected: with it the ODE would have to be
    differentiated again.
    """
    slopes = [
        [gaussian.multiply(s, scales[i] / scales[j]) for s, j in zip(row, layout.physical, strict=True)]
        for i, row in zip(layout.highest, jacobian, strict=True)
    ]
    changes: list[list[Any]] = [[] for _ in layout.orders]
    for i, value in zip(layout.physical, physical, strict=True):
        changes[layout.coordinate[i]].append(gaussian.multiply(value, scales[i]))
    places = [(c, i) for c, n in enumerate(layout.orders) for i in range(n)]
    for k in range(max(q - n for n, q in zip(layout.orders, layout.smoothness, strict=True)) + 1):
        derivatives = [changes[c][i + k] for c, i in places]
        for known, row in zip(changes, slopes, strict=True):
            known.append(gaussian.combine_values(row, derivatives))
    values = [value for known, q in zip(changes, layout.smoothness, strict=True) for value in known[: q + 1]]
    return [gaussian.multiply(value, 1 / scale) for value, scale in zip(values, scales, strict=True)]


def residual_variance_ratio(layout: Layout, jacobian_row: Row, coordinate: int) -> Any:
    """H Q H' over the same for H = e_n: the residual's variance from the newest step's noise, first order over zeroth.

    Where the ODE is stiff, noise that moves the highest derivative also moves the vector field, and for the same
    diffusion the first-order residual x^(n) - J x is the larger of the two.
    """
    own = [k for k, i in enumerate(layout.coordinate) if i == coordinate]
    noise = sparse(layout.process_factor[:, own])
    highest = noise[layout.highest[coordinate]]
    rate = gaussian.combine(jacobian_row, [noise[i] for i in layout.physical])
    row = [gaussian.subtract(x, y) for x, y in zip(highest, rate, strict=True)]
    return gaussian.dot(row, row) / gaussian.dot(highest, highest)


def sparse(matrix: np.ndarray) -> list[Row]:
    """A constant matrix as rows with structural zeros."""
    return [[float(entry) if entry else None for entry in row] for row in matrix]
