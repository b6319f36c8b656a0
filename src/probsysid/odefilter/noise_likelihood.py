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

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, log_ndtr, logsumexp, ndtri

from probsysid.model.noise import NoiseForm, NoiseValues, OutputNoise

NODES = 24
"""Precisions of Student-t noise."""

DEPTH = 14.0
"""Logarithm of the density, relative to its largest, at which the integral over precisions is cut off."""

FAR = 1e100
"""In place of an infinite bound, in standard deviations."""

ABSCISSAE, WEIGHTS = np.polynomial.legendre.leggauss(6)
"""For intervals so short that differences of distribution functions would cancel."""


class Assimilated(NamedTuple):
    """What one measured value does."""

    energy: Any
    correction: Any
    """Derivative of log Z by the predicted output: times a covariance with the output, the change of a mean."""
    shrink: Any
    """Times the product of two covariances with the output, what a row of the factor loses."""
    variance: Any
    """Of the prediction, its noise included (a Student-t's scale in place of its deviation)."""
    white: Any
    """The normal number whose probability is the same as that of the value; half-way through an interval."""


class Parts(NamedTuple):
    """Of one Gaussian of a mixture: log Z, and the derivatives of Z by the predicted output over Z."""

    log: Any
    first: Any
    second: Any


def transformed(noise: list[OutputNoise], outputs: Any) -> list[Any]:
    """The outputs as they are compared with data: logarithms where the noise is relative."""
    pairs = zip(noise, outputs, strict=True)
    return [jnp.log(y) if isinstance(r, NoiseValues) and r.form.log else y for r, y in pairs]


def assimilate(noise: NoiseValues, observed: Any, predicted: Any, square: Any) -> Assimilated:
    """Of a value measured, given the mean and the variance of the prediction of the (transformed) output.  A missing
    value (NaN) has no energy and changes nothing."""
    form = noise.form
    present = ~jnp.isnan(observed)
    value = jnp.where(present, observed, 1.0)
    low, high, exact = _interval(form, value)
    value = jnp.log(value) if form.log else value
    error, below, above = value - predicted, low - predicted, high - predicted
    if exact is not True:  # an interval is as far as its nearest point
        error = jnp.where(exact, error, jnp.clip(0.0, below, above))
    log_weights, spread = _mixture(noise, error, square)
    variance = square + spread
    parts = _at_point(error, variance)
    if exact is not True:
        within = _within(below, above, variance)
        parts = Parts(*(jnp.where(exact, x, y) for x, y in zip(parts, within, strict=True)))
        below, above = jnp.where(exact, error, below), jnp.where(exact, error, above)
    log_z = logsumexp(log_weights + parts.log, axis=0)
    shares = jnp.exp(log_weights + parts.log - log_z)
    first = jnp.sum(shares * parts.first, axis=0)
    curvature = first**2 - jnp.sum(shares * parts.second, axis=0)
    remaining = jnp.sqrt(jnp.maximum(1 - square * curvature, 0.0))
    energy = -log_z + _measure(form, value, exact)
    gaussian = exact is True and noise.degrees is None
    white = error / jnp.sqrt(variance[0]) if gaussian else _normal_score(log_weights, variance, below, above)
    return Assimilated(
        jnp.where(present, energy, 0.0),
        jnp.where(present, first, 0.0),
        jnp.where(present, curvature / (1 + remaining), 0.0),
        square + noise.level**2,
        jnp.where(present, white, 0.0),
    )


def _interval(form: NoiseForm, value: Any) -> tuple[Any, Any, Any]:
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


def interval_ends(form: NoiseForm, value: Any) -> tuple[Any, Any]:
    """Where the noisy (transformed) output was, equal ends where it is known exactly; NaN for a missing value."""
    low, high, exact = _interval(form, value)
    known = jnp.log(value) if form.log else value
    low, high = (known, known) if exact is True else (jnp.where(exact, known, low), jnp.where(exact, known, high))
    return jnp.where(jnp.isnan(value), jnp.nan, low), jnp.where(jnp.isnan(value), jnp.nan, high)


def _measure(form: NoiseForm, value: Any, exact: Any) -> Any:
    """What makes a density of the value measured from -log Z: the Jacobian of the logarithm, log y for a value known
    exactly, and the step of a quantiser, so that energies are comparable with those of other noise."""
    found: Any = 0.0
    if form.log:
        found = value if exact is True else jnp.where(exact, value, 0.0)
    if form.step is not None:
        measured = jnp.exp(value) if form.log else value
        inside = jnp.full(jnp.shape(value), True)
        inside = inside if form.lower is None else inside & ~form.at_lower(measured)
        inside = inside if form.upper is None else inside & ~form.at_upper(measured)
        found = found + jnp.where(inside, np.log(form.step), 0.0)
    return found


def _mixture(noise: NoiseValues, error: Any, square: Any) -> tuple[Any, Any]:
    """The noise as a mixture of Gaussians: log weights and variances, with the axis of the mixture first.

    Given an error of z noise levels and an exact prediction, lambda is Gamma distributed with the shape (nu + 1) / 2
    around (nu + 1) / (nu + z^2).  An uncertain prediction may explain the error as well, and lambda is then around 1:
    the points reach up to where the smallest total variance that matters leaves nothing to the noise.
    """
    scale = noise.level**2
    if noise.degrees is None:
        return jnp.zeros((1, *jnp.shape(error))), jnp.broadcast_to(scale, jnp.shape(error))[None]
    nu, shape = noise.degrees, 0.5 * (noise.degrees + 1)
    reach = jnp.sqrt(2 * DEPTH / shape)
    above = jnp.log(1 + DEPTH / shape + reach)
    centre = -jnp.log1p(error**2 / (scale * nu))
    smallest = jnp.minimum((scale + error**2 / nu) * jnp.exp(-above), 0.5 * error**2 / (DEPTH - shape * centre))
    high = jnp.log(scale / jnp.maximum(smallest - square, scale * jnp.exp(-above)))
    low = centre - reach - 0.5 * DEPTH / shape
    spacing = (high - low) / (NODES - 1)
    x = low + spacing * np.arange(NODES).reshape(-1, *[1] * jnp.ndim(error))  # log(lambda)
    half = 0.5 * nu
    log_weights = half * jnp.log(half) - gammaln(half) + half * (x - jnp.exp(x)) + jnp.log(spacing)
    return log_weights, scale * jnp.exp(-x)


def _at_point(error: Any, variance: Any) -> Parts:
    first = error / variance
    return Parts(-0.5 * (jnp.log(2 * jnp.pi * variance) + error * first), first, first**2 - 1 / variance)


def _within(low: Any, high: Any, variance: Any) -> Parts:
    """Of an error between two ends.  Both are moved to the lower tail, where nothing cancels."""
    sd = jnp.sqrt(variance)
    a, b = jnp.clip(low / sd, -FAR, FAR), jnp.clip(high / sd, -FAR, FAR)
    flipped = a + b > 0
    a, b = jnp.where(flipped, -b, a), jnp.where(flipped, -a, b)
    wide, below = _between(a, b), (b - a) * (1 + jnp.maximum(jnp.abs(a), jnp.abs(b))) < 1
    narrow = _between_close(jnp.where(below, a, 0.0), jnp.where(below, b, 1.0))
    log, first, second = (jnp.where(below, x, y) for x, y in zip(narrow, wide, strict=True))
    return Parts(log, jnp.where(flipped, -first, first) / sd, second / variance)


def _between(a: Any, b: Any) -> Parts:
    """log(Phi(b) - Phi(a)), (phi(a) - phi(b)) / Z and (a phi(a) - b phi(b)) / Z for a + b <= 0."""
    high, low = log_ndtr(b), log_ndtr(a)
    log = high + jnp.log1p(-jnp.exp(jnp.minimum(low - high, -1e-300)))
    at_a, at_b = (jnp.exp(-0.5 * (x**2 + np.log(2 * np.pi)) - log) for x in (a, b))
    return Parts(log, at_a - at_b, a * at_a - b * at_b)


def _between_close(a: Any, b: Any) -> Parts:
    """The same by Gauss-Legendre quadrature: derivatives by the prediction are moments of the error."""
    half, middle = 0.5 * (b - a), 0.5 * (a + b)
    offsets = [half * node for node in ABSCISSAE]
    terms = [weight * jnp.exp(-u * (middle + 0.5 * u)) for u, weight in zip(offsets, WEIGHTS, strict=True)]
    total = sum(terms[1:], start=terms[0])
    errors = [middle + u for u in offsets]
    first = sum((t * e for t, e in zip(terms, errors, strict=True)), start=0.0) / total
    second = sum((t * (e**2 - 1) for t, e in zip(terms, errors, strict=True)), start=0.0) / total
    return Parts(jnp.log(half * total) - 0.5 * (middle**2 + np.log(2 * np.pi)), first, second)


def _normal_score(log_weights: Any, variance: Any, low: Any, high: Any) -> Any:
    sd = jnp.sqrt(variance)

    def tail(error: Any) -> Any:
        logs = log_weights + log_ndtr(jnp.clip(error / sd, -FAR, FAR))
        return jnp.exp(jnp.maximum(logsumexp(logs, axis=0), -700.0))

    below, above = 0.5 * (tail(low) + tail(high)), 0.5 * (tail(-low) + tail(-high))
    return jnp.where(below < above, ndtri(jnp.minimum(below, 0.5)), -ndtri(jnp.minimum(above, 0.5)))
