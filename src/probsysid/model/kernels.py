"""Gaussian processes as linear stochastic differential equations: the kernels of unknown inputs and drifts.

    dz = A z dt + diag(s) dW,     value = c + r' z

A Matern process of smoothness nu = k + 1/2 is such an equation with k + 1 components, a damped oscillator driven by
white noise is a quasi-periodic one with two.  Every kernel is written here so that the stationary covariance of z is
diagonal: the components are then independent at any one time, and remain so in sums and products.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from math import pi, sqrt
from typing import Any, final

import jax.numpy as jnp
import numpyro.distributions as dist

from probsysid._internal.errors import InputError
from probsysid._internal.validation import is_finite, is_real
from probsysid.model.noise import check_positive
from probsysid.model.priors import Prior


@dataclass(frozen=True)
class LinearSDE:
    """dz = A z dt + diag(s) dW; the numbers may be traced."""

    orders: tuple[int, ...]
    """How components are grouped into coordinates: one of order 2 is a component and its derivative."""
    drift: tuple[tuple[Any, ...], ...]
    """A, with None for structural zeros."""
    levels: tuple[Any, ...]
    """s in units of the component per root second, None where there is no noise."""
    start: tuple[Any, ...]
    """Standard deviation of each component at any time, or of one that is not stationary at the first sample."""
    readout: tuple[float, ...]
    constant: Any = None


class Kernel(ABC):
    """A Gaussian process over time.  Sums and products of kernels are kernels."""

    @property
    @abstractmethod
    def parts(self) -> "tuple[Part, ...]":
        """The kernels that it is made of."""

    @abstractmethod
    def sde(self, values: Sequence[Mapping[str, Any]]) -> LinearSDE:
        """The equation for given hyperparameters of each part."""

    @abstractmethod
    def form(self) -> "Kernel":
        """The same without its priors, which can be hashed."""

    @property
    @abstractmethod
    def stationary(self) -> bool:
        """Whether it is the same process at all times, with mean zero."""

    def __add__(self, other: "Kernel") -> "Kernel":
        return Sum((*_terms(self), *_terms(_checked(other, "+"))))

    def __mul__(self, other: "Kernel") -> "Kernel":
        for factor in (self, _checked(other, "*")):
            if not factor.stationary:
                raise InputError(f"{factor!r} is a factor of a product; only stationary kernels can be.")
            if isinstance(factor, Sum):
                raise InputError("a sum of kernels is a factor of a product; write it as a sum of products.")
        return Product((*_factors(self), *_factors(other)))


class Part(Kernel):
    """A kernel that is not composed of others: a data class whose hyperparameters are its fields with priors."""

    @property
    def parts(self) -> "tuple[Part, ...]":
        return (self,)

    @property
    def hyperparameters(self) -> dict[str, Prior]:
        """Priors, or numbers, by name."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in given.items() if name != "nu"}

    def form(self) -> "Kernel":
        return replace(self, **dict.fromkeys(self.hyperparameters, 1.0))  # type: ignore[type-var]

    @property
    def stationary(self) -> bool:
        return True

    def sde(self, values: Sequence[Mapping[str, Any]]) -> LinearSDE:
        return self.equation(**values[0])

    @abstractmethod
    def equation(self, **values: Any) -> LinearSDE:
        """The equation for given hyperparameters."""

    def check(self) -> None:
        """Raise unless all hyperparameters are positive numbers or priors of such."""
        for name, value in self.hyperparameters.items():
            check_positive(f"{type(self).__name__}: {name}", value)


@final
@dataclass(frozen=True)
class Matern(Part):
    """A Matern process: a stationary process that can be differentiated nu - 1/2 times.

    Args:
        nu: 0.5 (an Ornstein-Uhlenbeck process, rough as a gust), 1.5, or 2.5 (smooth).
        scale: its standard deviation, in units of the input: a prior or a number.
        length: its correlation length in seconds: a prior or a number.  The covariance is that of Rasmussen and
            Williams, exp(-t / length) for nu = 0.5.
    """

    nu: float
    scale: Prior
    length: Prior

    def __post_init__(self) -> None:
        if not is_real(self.nu) or self.nu not in (0.5, 1.5, 2.5):
            raise InputError(f"Matern: nu is {self.nu!r}; it must be 0.5, 1.5 or 2.5.")
        self.check()

    def equation(self, *, scale: Any, length: Any) -> LinearSDE:  # type: ignore[override]
        """With a = sqrt(2 nu) / length, z_i' = z_(i+1) - b z_(i-1), the last damped and driven (Schwarz's form)."""
        a = sqrt(2 * self.nu) / length
        drift: tuple[tuple[Any, ...], ...]
        if self.nu == 0.5:
            return LinearSDE((1,), ((-a,),), (scale * jnp.sqrt(2 * a),), (scale,), (1.0,))
        if self.nu == 1.5:
            drift = ((None, 1.0), (-(a**2), -2 * a))
            return LinearSDE((2,), drift, (None, 2 * scale * jnp.sqrt(a) * a), (scale, a * scale), (1.0, 0.0))
        drift = ((None, 1.0, None), (-(a**2) / 3, None, 1.0), (None, -(8 / 3) * a**2, -3 * a))
        start = (scale, a * scale / sqrt(3), a**2 * scale * sqrt(8) / 3)
        return LinearSDE((2, 1), drift, (None, None, start[2] * jnp.sqrt(6 * a)), start, (1.0, 0.0, 0.0))


@final
@dataclass(frozen=True)
class QuasiPeriodic(Part):
    """An oscillation whose amplitude and phase wander: a damped oscillator driven by white noise, in steady state.

    Args:
        scale: its standard deviation, in units of the input: a prior or a number.
        period: of the oscillation, in seconds: a prior or a number.
        length: the time in seconds over which it forgets amplitude and phase, exp(-t / length): a prior or a number.
    """

    scale: Prior
    period: Prior
    length: Prior

    def __post_init__(self) -> None:
        self.check()

    def equation(self, *, scale: Any, period: Any, length: Any) -> LinearSDE:  # type: ignore[override]
        """z'' = -(2 / length) z' - w^2 z + s dW with w^2 = (2 pi / period)^2 + 1 / length^2."""
        square = (2 * pi / period) ** 2 + 1 / length**2
        frequency = jnp.sqrt(square)
        drift = ((None, 1.0), (-square, -2 / length))
        level = 2 * scale * frequency / jnp.sqrt(length)
        return LinearSDE((2,), drift, (None, level), (scale, frequency * scale), (1.0, 0.0))


@final
@dataclass(frozen=True)
class RandomWalk(Part):
    """A Wiener process: white noise, integrated.

    Args:
        rate: its standard deviation after one second, in units of the input per root second: a prior or a number.  Of a
            drift of a positive parameter: relative, 0.01 is 1 % after one second and 10 % after a hundred.
        start: its value at the first sample of a record: a prior or a number.
    """

    rate: Prior
    start: Prior = 0.0

    def __post_init__(self) -> None:
        check_positive("RandomWalk: rate", self.rate)
        _check_number("RandomWalk: start", self.start)

    @property
    def stationary(self) -> bool:
        return False

    def equation(self, *, rate: Any, start: Any) -> LinearSDE:  # type: ignore[override]
        """dz = rate dW from zero."""
        return LinearSDE((1,), ((None,),), (rate,), (0.0 * rate,), (1.0,), start)


@final
@dataclass(frozen=True)
class Constant(Part):
    """A constant, such as a bias.

    Args:
        value: a prior, or a number.
    """

    value: Prior

    def __post_init__(self) -> None:
        _check_number("Constant: value", self.value)

    @property
    def stationary(self) -> bool:
        return False

    def equation(self, *, value: Any) -> LinearSDE:  # type: ignore[override]
        """No components."""
        return LinearSDE((), (), (), (), (), value)


@final
@dataclass(frozen=True)
class Sum(Kernel):
    """Independent processes, added."""

    terms: tuple[Kernel, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for term in self.terms for part in term.parts)

    @property
    def stationary(self) -> bool:
        return all(term.stationary for term in self.terms)

    def form(self) -> Kernel:
        return Sum(tuple(term.form() for term in self.terms))

    def sde(self, values: Sequence[Mapping[str, Any]]) -> LinearSDE:
        equations = _equations(self.terms, values)
        size = sum(len(e.levels) for e in equations)
        drift: list[tuple[Any, ...]] = []
        for e in equations:
            before = len(drift)
            drift += [(*[None] * before, *row, *[None] * (size - before - len(row))) for row in e.drift]
        constants = [e.constant for e in equations if e.constant is not None]
        return LinearSDE(
            tuple(order for e in equations for order in e.orders),
            tuple(drift),
            tuple(level for e in equations for level in e.levels),
            tuple(sd for e in equations for sd in e.start),
            tuple(weight for e in equations for weight in e.readout),
            sum(constants[1:], start=constants[0]) if constants else None,
        )


@final
@dataclass(frozen=True)
class Product(Kernel):
    """A process whose covariance is the product of the factors': its components are products of theirs."""

    factors: tuple[Kernel, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for factor in self.factors for part in factor.parts)

    @property
    def stationary(self) -> bool:
        return True

    def form(self) -> Kernel:
        return Product(tuple(factor.form() for factor in self.factors))

    def sde(self, values: Sequence[Mapping[str, Any]]) -> LinearSDE:
        first, *rest = _equations(self.factors, values)
        for other in rest:
            first = _multiplied(first, other)
        return first


def _multiplied(one: LinearSDE, two: LinearSDE) -> LinearSDE:
    """A = A1 x 1 + 1 x A2 and the noise S1^2 x P2 + P1 x S2^2, all of which are diagonal where P1 and P2 are."""
    pairs = list(product(range(len(one.levels)), range(len(two.levels))))

    def rate(i: int, j: int, k: int, m: int) -> Any:
        entries = [one.drift[i][k] if j == m else None, two.drift[j][m] if i == k else None]
        known = [entry for entry in entries if entry is not None]
        return sum(known[1:], start=known[0]) if known else None

    def level(i: int, j: int) -> Any:
        known = [(one.levels[i], two.start[j]), (two.levels[j], one.start[i])]
        squares = [(s * sd) ** 2 for s, sd in known if s is not None]
        return jnp.sqrt(sum(squares[1:], start=squares[0])) if squares else None

    return LinearSDE(
        (1,) * len(pairs),
        tuple(tuple(rate(i, j, k, m) for k, m in pairs) for i, j in pairs),
        tuple(level(i, j) for i, j in pairs),
        tuple(one.start[i] * two.start[j] for i, j in pairs),
        tuple(one.readout[i] * two.readout[j] for i, j in pairs),
    )


def _equations(kernels: Sequence[Kernel], values: Sequence[Mapping[str, Any]]) -> list[LinearSDE]:
    """Of kernels that share the hyperparameters of all parts."""
    found, begin = [], 0
    for kernel in kernels:
        count = len(kernel.parts)
        found.append(kernel.sde(values[begin : begin + count]))
        begin += count
    return found


def _terms(kernel: Kernel) -> tuple[Kernel, ...]:
    return kernel.terms if isinstance(kernel, Sum) else (kernel,)


def _factors(kernel: Kernel) -> tuple[Kernel, ...]:
    return kernel.factors if isinstance(kernel, Product) else (kernel,)


def _checked(other: Any, sign: str) -> Kernel:
    if not isinstance(other, Kernel):
        raise InputError(f"a kernel {sign} {other!r}: both must be kernels; a constant is Constant(value).")
    return other


def _check_number(what: str, value: Any) -> None:
    if not isinstance(value, dist.Distribution) and not is_finite(value):
        raise InputError(f"{what} is {value!r}; it must be a finite number or a prior.")
