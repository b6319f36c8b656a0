"""Derivatives for the textbook filter, without JAX and for any type of number.

`Dual` carries a value and its gradient, `Series` the first coefficients of a power series in time.  They nest: a series
of duals gives the Taylor coefficients of a solution together with their sensitivity to the initial values.
"""

from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

import numpy as np


class Dual:
    """A number and its gradient."""

    __array_ufunc__ = None  # a NumPy number on the left leaves the operation to us

    def __init__(self, value: Any, gradient: np.ndarray):
        self.value, self.gradient = value, gradient

    def _lift(self, other: Any) -> "Dual":
        return other if isinstance(other, Dual) else Dual(other, self.gradient * 0)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Series):
            return NotImplemented
        other = self._lift(other)
        return Dual(self.value + other.value, self.gradient + other.gradient)

    def __neg__(self) -> "Dual":
        return Dual(-self.value, -self.gradient)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Series):
            return NotImplemented
        other = self._lift(other)
        return Dual(self.value * other.value, self.gradient * other.value + other.gradient * self.value)

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Series):
            return NotImplemented
        other = self._lift(other)
        ratio = self.value / other.value
        return Dual(ratio, (self.gradient - ratio * other.gradient) / other.value)

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __rtruediv__(self, other: Any) -> Any:
        return self._lift(other) / self

    def __pow__(self, exponent: int) -> Any:
        return _power(self, exponent)

    def __abs__(self) -> "Dual":
        return -self if self.value < 0 else self


class Series:
    """Coefficients c_0, c_1, ... of a power series, all of one length."""

    __array_ufunc__ = None

    def __init__(self, coefficients: Sequence[Any]):
        self.c = list(coefficients)

    def _lift(self, other: Any) -> "Series":
        return other if isinstance(other, Series) else Series([other, *(0 * c for c in self.c[1:])])

    def __add__(self, other: Any) -> "Series":
        return Series([a + b for a, b in zip(self.c, self._lift(other).c, strict=True)])

    def __neg__(self) -> "Series":
        return Series([-a for a in self.c])

    def __mul__(self, other: Any) -> "Series":
        other = self._lift(other)
        return Series([sum(self.c[i] * other.c[k - i] for i in range(k + 1)) for k in range(len(self.c))])

    def __truediv__(self, other: Any) -> "Series":
        other = self._lift(other)
        quotient: list[Any] = []
        for k, a in enumerate(self.c):
            quotient.append((a - sum(quotient[i] * other.c[k - i] for i in range(k))) / other.c[0])
        return Series(quotient)

    def __sub__(self, other: Any) -> "Series":
        return self + (-other)

    def __radd__(self, other: Any) -> "Series":
        return self + other

    def __rsub__(self, other: Any) -> "Series":
        return -self + other

    def __rmul__(self, other: Any) -> "Series":
        return self * other

    def __rtruediv__(self, other: Any) -> "Series":
        return self._lift(other) / self

    def __pow__(self, exponent: int) -> Any:
        return _power(self, exponent)

    def __abs__(self) -> "Series":
        first = self.c[0].value if isinstance(self.c[0], Dual) else self.c[0]
        return -self if first < 0 else self


def _power(base: Any, exponent: int) -> Any:
    assert isinstance(exponent, int) and exponent >= 1
    return base if exponent == 1 else base * _power(base, exponent - 1)


def gradients(function: Callable[[list[Any]], list[Any]], point: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """Values of a vector function, and its Jacobian."""
    units = np.array([[1 if i == k else 0 for k in range(len(point))] for i in range(len(point))]) * (point[0] * 0 + 1)
    results = function([Dual(value, unit) for value, unit in zip(point, units, strict=True)])
    results = [r if isinstance(r, Dual) else Dual(r, units[0] * 0) for r in results]
    return [r.value for r in results], np.array([r.gradient for r in results])


def solution_derivatives(
    field: Callable[[list[Any], list[Any]], list[Any]],
    orders: Sequence[int],
    smoothness: Sequence[int],
    physical: Sequence[Any],
    inputs: Sequence[Sequence[Any]],
) -> list[Any]:
    """All derivatives of the solution up to the smoothness, coordinate by coordinate.

    If x' = f(x), coefficient k of f along the series so far is coefficient k of x', which lengthens the series of x.
    """
    values, known = list(physical), []
    for order in orders:
        known.append(values[:order])
        values = values[order:]
    for k in range(max(q - n for n, q in zip(orders, smoothness, strict=True)) + 1):
        states = [_series(known[c][i : i + k + 1]) for c, n in enumerate(orders) for i in range(n)]
        forces = [_series(list(values)[: k + 1]) for values in inputs]
        highest = field(states, forces)
        for derivatives, result in zip(known, highest, strict=True):
            coefficient = result.c[k] if isinstance(result, Series) else (result if k == 0 else 0 * physical[0])
            derivatives.append(coefficient * factorial(k))
    return [value for derivatives, q in zip(known, smoothness, strict=True) for value in derivatives[: q + 1]]


def _series(derivatives: Sequence[Any]) -> Series:
    return Series([value / factorial(i) for i, value in enumerate(derivatives)])
