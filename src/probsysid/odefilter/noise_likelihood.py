"""Data whose noise is not plainly Gaussian: their energy, and what they tell about the state.

The filter predicts the output without noise as a Gaussian N(m, s^2).  The energy of a sample is -log Z, where

    Z(m) = integral of p(y | output) N(output; m, s^2)

is exact for quantised and clipped samples (differences of normal distribution functions), and for Student-t noise a
sum over Gaussians (below).  The state is updated by moment matching (assumed-density filtering): given y, the output
has the mean m + s^2 Z1 and the variance s^2 + s^4 Z2, where Z1 and Z2 are the first two derivatives of log Z by m.
The other components follow by regression on the output, as in the Kalman update; with Gaussian noise, Z1 = v / S and
Z2 = -1 / S, this is the Kalman update.

Student-t noise is Gaussian noise whose precision is scaled by a Gamma variable, lambda ~ Gamma(nu / 2, nu / 2).  The
integral over log(lambda) is done by the trapezoidal rule on NODES points, which converges exponentially for such
integrands; the points reach as far down as the sample's error calls for (docs/validation-noise.md has its error).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import gammaln, log_ndtr, ndtr, ndtri

from probsysid._internal.array_types import Scalar, Truth
from probsysid.model.noise import NoiseForm, NoiseValues, OutputNoise

NODES = 24
"""Precisions of Student-t noise."""

DEPTH = 14.0
"""Logarithm of the density, relative to its largest, at which the integral over precisions is cut off."""

FAR = 1e100
"""In place of an infinite bound, in standard deviations."""

TINY = 1e-300
"""Smallest tail probability of a normal score: 37 standard deviations."""

ROOT = 1 / np.sqrt(2 * np.pi)

ABSCISSAE, WEIGHTS = np.polynomial.legendre.leggauss(6)
"""For intervals so short that differences of distribution functions would cancel."""


class Assimilated(NamedTuple):
    """What one measured value does."""

    energy: Scalar
    correction: Scalar
    """Derivative of log Z by the predicted output: times a covariance with the output, the change of a mean."""
    shrink: Scalar
    """Times the product of two covariances with the output, what a row of the factor loses."""
    variance: Scalar
    """Of the prediction, its noise included (a Student-t's scale in place of its deviation)."""
    white: Scalar
    """Normal score: the normal number whose probability is the same as that of the value; half-way through an
    interval."""


class Parts(NamedTuple):
    """log Z, and the first two derivatives of Z by the predicted output over Z."""

    log: Scalar
    first: Scalar
    second: Scalar


class Place(NamedTuple):
    """Where a noisy output was, relative to its prediction."""

    error: Scalar
    """To the value, or to the nearest point of an interval."""
    low: Scalar
    high: Scalar
    exact: Truth
    """Whether the value is known exactly; True where all are."""
    one_sided: bool
    """Whether all intervals have an infinite end."""


def transformed(noise: list[OutputNoise], outputs: Sequence[Scalar], observed: Sequence[Scalar]) -> list[Scalar]:
    """The outputs as they are compared with data: logarithms where the noise is relative.  Where nothing was measured
    they count as one: before a dose a concentration is zero, and its logarithm would be infinite."""

    def compared(r: OutputNoise, y: Scalar, value: Scalar) -> Scalar:
        if not (isinstance(r, NoiseValues) and r.form.log):
            return y
        return jnp.log(jnp.where(jnp.isnan(value), 1.0, y))

    return [compared(*of_one) for of_one in zip(noise, outputs, observed, strict=True)]


def assimilate(
    noise: NoiseValues, observed: Scalar, predicted: Scalar, square: Scalar, scores: bool = True
) -> Assimilated:
    """Of a value measured, given the mean and the variance of the prediction of the (transformed) output.  A missing
    value (NaN) has no energy and changes nothing.  Normal scores cost as much as the rest: without them `white` is
    zero, unless it is free."""
    form = noise.form
    present = ~jnp.isnan(observed)
    value = jnp.where(present, observed, 1.0)
    low, high, exact = _interval(form, value)
    value = jnp.log(value) if form.log else value
    error, below, above = value - predicted, low - predicted, high - predicted
    if exact is not True:
        error = jnp.where(exact, error, jnp.clip(0.0, below, above))
    place = Place(error, below, above, exact, form.step is None)
    variance = square + noise.level**2
    parts = _gaussian(place, variance) if noise.degrees is None else _student_t(noise, place, square)
    curvature = parts.first**2 - parts.second
    remaining = jnp.sqrt(jnp.maximum(1 - square * curvature, 0.0))
    white = _white(noise, place, square) if scores or (exact is True and noise.degrees is None) else 0.0
    return Assimilated(
        jnp.where(present, _measure(form, value, exact) - parts.log, 0.0),
        jnp.where(present, parts.first, 0.0),
        jnp.where(present, curvature / (1 + remaining), 0.0),
        variance,
        jnp.where(present, white, 0.0),
    )


def _interval(form: NoiseForm, value: Scalar) -> tuple[Scalar, Scalar, Truth]:
    """Where the noisy output was, as measured, and whether it is known exactly (the ends are then of no use)."""
    if form.step is None and form.lower is None and form.upper is None:
        return value, value, True
    half = 0.0 if form.step is None else 0.5 * form.step
    low, high, exact = value - half, value + half, jnp.full(jnp.shape(value), form.step is None)
    if form.lower is not None:
        clipped = form.at_lower(value)
        low, high = jnp.where(clipped, -jnp.inf, low), jnp.where(clipped, form.lower + half, high)
        exact = exact & ~clipped
    if form.upper is not None:
        clipped = form.at_upper(value)
        low, high = jnp.where(clipped, form.upper - half, low), jnp.where(clipped, jnp.inf, high)
        exact = exact & ~clipped
    if form.log:
        low, high = jnp.where(low > 0, jnp.log(jnp.where(low > 0, low, 1.0)), -jnp.inf), jnp.log(high)
    return low, high, exact


def interval_ends(form: NoiseForm, value: Scalar) -> tuple[Scalar, Scalar]:
    """Where the noisy (transformed) output was, equal ends where it is known exactly; NaN for a missing value."""
    low, high, exact = _interval(form, value)
    known = jnp.log(value) if form.log else value
    low, high = (known, known) if exact is True else (jnp.where(exact, known, low), jnp.where(exact, known, high))
    return jnp.where(jnp.isnan(value), jnp.nan, low), jnp.where(jnp.isnan(value), jnp.nan, high)


def _measure(form: NoiseForm, value: Scalar, exact: Truth) -> Scalar:
    """What makes a density of the value measured from -log Z: the Jacobian of the logarithm, log y for a value known
    exactly, and the step of a quantiser, so that energies are comparable with those of other noise."""
    found: Scalar = 0.0
    if form.log:
        found = value if exact is True else jnp.where(exact, value, 0.0)
    if form.step is not None:
        measured = jnp.exp(value) if form.log else value
        inside = jnp.full(jnp.shape(value), True)
        inside = inside if form.lower is None else inside & ~form.at_lower(measured)
        inside = inside if form.upper is None else inside & ~form.at_upper(measured)
        found = found + jnp.where(inside, np.log(form.step), 0.0)
    return found


# Gaussian noise


def _gaussian(place: Place, variance: Scalar) -> Parts:
    first = place.error / variance
    point = Parts(-0.5 * (jnp.log(2 * jnp.pi * variance) + place.error * first), first, first**2 - 1 / variance)
    if place.exact is True:
        return point
    beyond = _beyond(place, variance) if place.one_sided else _within(place.low, place.high, variance)
    return Parts(*(jnp.where(place.exact, x, y) for x, y in zip(point, beyond, strict=True)))


def _side(place: Place, sd: Scalar) -> tuple[Scalar, Scalar]:
    """Of an interval with an infinite end: 1 if that is the upper one, otherwise -1; and the prediction's distance
    beyond the other end, in standard deviations."""
    upper = place.high == jnp.inf
    sign = jnp.where(upper, 1.0, -1.0)
    return sign, -sign * jnp.where(upper, place.low, place.high) / sd


def _beyond(place: Place, variance: Scalar) -> Parts:
    """Of an error beyond a bound."""
    sd = jnp.sqrt(variance)
    sign, a = _side(place, sd)
    log = log_ndtr(a)
    density = jnp.exp(-0.5 * (a**2 + np.log(2 * np.pi)) - log)
    return Parts(log, sign * density / sd, -a * density / variance)


def _within(low: Scalar, high: Scalar, variance: Scalar) -> Parts:
    """Of an error between two ends.  Both are moved to the lower tail, where nothing cancels."""
    sd = jnp.sqrt(variance)
    a, b = jnp.clip(low / sd, -FAR, FAR), jnp.clip(high / sd, -FAR, FAR)
    flipped = a + b > 0
    a, b = jnp.where(flipped, -b, a), jnp.where(flipped, -a, b)
    wide, below = _between(a, b), (b - a) * (1 + jnp.maximum(jnp.abs(a), jnp.abs(b))) < 1
    narrow = _between_close(jnp.where(below, a, 0.0), jnp.where(below, b, 1.0))
    log, first, second = (jnp.where(below, x, y) for x, y in zip(narrow, wide, strict=True))
    return Parts(log, jnp.where(flipped, -first, first) / sd, second / variance)


def _between(a: Scalar, b: Scalar) -> Parts:
    """log(Phi(b) - Phi(a)), (phi(a) - phi(b)) / Z and (a phi(a) - b phi(b)) / Z for a + b <= 0."""
    high, low = log_ndtr(b), log_ndtr(a)
    log = high + jnp.log1p(-jnp.exp(jnp.minimum(low - high, -1e-300)))
    at_a, at_b = (jnp.exp(-0.5 * (x**2 + np.log(2 * np.pi)) - log) for x in (a, b))
    return Parts(log, at_a - at_b, a * at_a - b * at_b)


def _between_close(a: Scalar, b: Scalar) -> Parts:
    """The same by Gauss-Legendre quadrature: derivatives by the prediction are moments of the error."""
    half, middle = 0.5 * (b - a), 0.5 * (a + b)
    offsets = [half * node for node in ABSCISSAE]
    terms = [weight * jnp.exp(-u * (middle + 0.5 * u)) for u, weight in zip(offsets, WEIGHTS, strict=True)]
    total = sum(terms[1:], start=terms[0])
    errors = [middle + u for u in offsets]
    first = sum((t * e for t, e in zip(terms, errors, strict=True)), start=0.0) / total
    second = sum((t * (e**2 - 1) for t, e in zip(terms, errors, strict=True)), start=0.0) / total
    return Parts(jnp.log(half * total) - 0.5 * (middle**2 + np.log(2 * np.pi)), first, second)


# Student-t noise


def _student_t(noise: NoiseValues, place: Place, square: Scalar) -> Parts:
    """The sum over precisions."""
    nodes = Nodes.of(noise, place.error, square)

    def fit(variance: Scalar) -> Scalar:
        found = -0.5 * place.error**2 / variance
        return found if place.exact is True else jnp.where(place.exact, found, 0.0)

    def exponent(x: Scalar, precision: Scalar) -> Scalar:
        return nodes.half * (x - precision) + fit(square + nodes.scale / precision)

    # either the noise or the prediction explains an error: the largest exponent is near one of the two
    reference = jnp.maximum(exponent(nodes.centre, jnp.exp(nodes.centre)), exponent(0.0, 1.0))

    def add(sums: tuple[Scalar, ...], x: Scalar, precision: Scalar) -> tuple[Scalar, ...]:
        weight = jnp.exp(exponent(x, precision) - reference)
        terms = _term(place, square + nodes.scale / precision)
        return tuple(known + weight * term for known, term in zip(sums, terms, strict=True))

    total, first, second = nodes.fold(add, 3)
    return Parts(reference + jnp.log(total) + nodes.constant, first / total, second / total)


def _term(place: Place, variance: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Of one precision: Z, but for what is in the weight, and its derivatives."""
    precision = 1 / variance
    sd = jnp.sqrt(variance)
    z = ROOT / sd
    first = place.error * precision
    point = z, z * first, z * (first**2 - precision)
    if place.exact is True:
        return point
    if place.one_sided:
        sign, a = _side(place, sd)
        density = ROOT * jnp.exp(-0.5 * a**2)
        interval = ndtr(a), sign * density / sd, -a * density * precision
    else:
        a, b = jnp.clip(place.low / sd, -FAR, FAR), jnp.clip(place.high / sd, -FAR, FAR)
        flipped = a + b > 0
        low, high = jnp.where(flipped, -b, a), jnp.where(flipped, -a, b)
        at_a, at_b = (ROOT * jnp.exp(-0.5 * x**2) for x in (a, b))
        interval = ndtr(high) - ndtr(low), (at_a - at_b) / sd, (a * at_a - b * at_b) * precision
    return tuple(jnp.where(place.exact, x, y) for x, y in zip(point, interval, strict=True))  # type: ignore[return-value]


class Nodes(NamedTuple):
    """Points of log(lambda) at which the density of Student-t noise is summed over precisions lambda.

    Given an error of z noise levels and an exact prediction, lambda is Gamma distributed with the shape (nu + 1) / 2
    around (nu + 1) / (nu + z^2).  An uncertain prediction may explain the error as well, and lambda is then around 1:
    the points reach up to where the smallest total variance that matters leaves nothing to the noise.
    """

    scale: Scalar
    """Variance of the noise where lambda is 1."""
    half: Scalar
    """Degrees of freedom over two: the log weight of a point is half (log(lambda) - lambda)."""
    centre: Scalar
    low: Scalar
    spacing: Scalar
    constant: Scalar
    """To be added to the log of the sum."""

    @classmethod
    def of(cls, noise: NoiseValues, error: Scalar, square: Scalar) -> "Nodes":
        assert noise.degrees is not None
        scale, nu, shape = noise.level**2, noise.degrees, 0.5 * (noise.degrees + 1)
        reach = jnp.sqrt(2 * DEPTH / shape)
        above = 1 + DEPTH / shape + reach
        centre = -jnp.log1p(error**2 / (scale * nu))
        smallest = jnp.minimum((scale + error**2 / nu) / above, 0.5 * error**2 / (DEPTH - shape * centre))
        high = jnp.log(scale / jnp.maximum(smallest - square, scale / above))
        low = centre - reach - 0.5 * DEPTH / shape
        spacing, half = (high - low) / (NODES - 1), 0.5 * nu
        constant = half * jnp.log(half) - gammaln(half) + jnp.log(spacing)
        return cls(scale, half, centre, low, spacing, constant)

    def fold(self, add: Callable[..., tuple[Scalar, ...]], count: int) -> tuple[Scalar, ...]:
        """Sums over all points: `add(sums, log(lambda), lambda)`.  A loop: written out, it would take XLA a minute."""
        ratio = jnp.exp(self.spacing)

        def body(_: int, carry: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
            x, precision, *sums = carry
            return x + self.spacing, precision * ratio, *add(tuple(sums), x, precision)

        start = (self.low, jnp.exp(self.low), *[jnp.zeros_like(self.low)] * count)
        return lax.fori_loop(0, NODES, body, start)[2:]


# Normal scores


def _white(noise: NoiseValues, place: Place, square: Scalar) -> Scalar:
    """The normal number of the same probability."""
    low, high = place.error, place.error
    if place.exact is not True:
        low, high = (jnp.where(place.exact, place.error, end) for end in (place.low, place.high))

    def tails(variance: Scalar) -> tuple[Scalar, Scalar]:
        a, b = (jnp.clip(end / jnp.sqrt(variance), -FAR, FAR) for end in (low, high))
        return ndtr(a) + ndtr(b), ndtr(-a) + ndtr(-b)

    def add(sums: tuple[Scalar, ...], x: Scalar, precision: Scalar) -> tuple[Scalar, ...]:
        weight = jnp.exp(nodes.half * (x - precision) + nodes.constant)
        found = tails(square + nodes.scale / precision)
        return tuple(known + weight * tail for known, tail in zip(sums, found, strict=True))

    if noise.degrees is None:
        variance = square + noise.level**2
        if place.exact is True:
            return place.error / jnp.sqrt(variance)
        below, above = tails(variance)
    else:
        nodes = Nodes.of(noise, place.error, square)
        below, above = nodes.fold(add, 2)
    below, above = (jnp.clip(0.5 * tail, TINY, 0.5) for tail in (below, above))
    return jnp.where(below < above, ndtri(below), -ndtri(above))
