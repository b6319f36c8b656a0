"""Square-root Kalman algebra on rows of numbers, for one particle.

A Gaussian over several quantities is stored as a mean and a *factor* (a square root L of the covariance L L') with one
row per quantity: the covariance of two quantities is the dot product of their rows.  Every operation of a Kalman filter
is then one on rows:

- a linear combination of quantities is the same combination of their rows;
- independent noise is a further column;
- conditioning on a quantity projects that quantity's row out of every other row;
- any rotation of the columns leaves the Gaussian unchanged: `triangularise` chooses one with few columns.

Rows are Python lists of scalars, with `None` for structural zeros, so the zeros of the prior and of the model's
Jacobian cost nothing.  The algebra is unrolled while JAX traces it; `jax.vmap` then turns each scalar into an array
over particles.

Each docstring gives the textbook form of its formula, with covariances; tests check that the two agree.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from probsysid._internal.array_types import Numbers, Scalar
from probsysid.model.noise import NoiseValues, OutputNoise
from probsysid.odefilter.noise_likelihood import assimilate

Entry = Any
"""A scalar, or None for a structural zero.  Where it cannot be None the algebra knows, which no type checker
follows."""

Row = list[Entry]


def add(a: Entry, b: Entry) -> Entry:
    """a + b."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def multiply(a: Entry, b: Entry) -> Entry:
    """a * b."""
    if a is None or b is None:
        return None
    if isinstance(a, float) and a == 1.0:
        return b
    return a * b


def in_units(row: Row, columns: Sequence[int], units: Numbers, component: int) -> Row:
    """A row of the Jacobian of a component with respect to these components, in other units: each entry times those
    of its column over the component's own."""
    return [None if x is None else x * (units[j] / units[component]) for x, j in zip(row, columns, strict=True)]


def subtract(a: Entry, b: Entry) -> Entry:
    """a - b."""
    if b is None:
        return a
    return -b if a is None else a - b


def dot(a: Row, b: Row) -> Entry:
    """Covariance of two quantities, given by their rows."""
    total = None
    for x, y in zip(a, b, strict=True):
        total = add(total, multiply(x, y))
    return total


def length(row: Row) -> Entry:
    """Standard deviation of a quantity."""
    square = dot(row, row)
    return None if square is None else jnp.sqrt(square)


def combine(coefficients: Sequence[Entry], rows: Sequence[Row]) -> Row:
    """Row of a linear combination of quantities, given by theirs."""
    total: Row = [None] * len(rows[0])
    for coefficient, row in zip(coefficients, rows, strict=True):
        if coefficient is not None:
            total = [add(t, multiply(coefficient, x)) for t, x in zip(total, row, strict=True)]
    return total


def combine_values(coefficients: Sequence[Entry], values: Sequence[Entry]) -> Entry:
    """The same linear combination of numbers."""
    return dot(list(coefficients), list(values))


def remove(direction: Row, gain: Entry, row: Row) -> Row:
    """row - gain * direction."""
    if gain is None:
        return row
    return [subtract(x, multiply(gain, d)) for d, x in zip(direction, row, strict=True)]


def reciprocal(square: Scalar) -> Scalar:
    """1 / square, and 0 for a quantity without variance, which carries no information."""
    return jnp.where(square > 0, 1 / square, 0.0)


def condition(
    residual_rows: list[Row], rows: list[Row], values: list[tuple[list[Entry], list[Entry]]]
) -> tuple[list[Row], list[list[Entry]]]:
    """Condition exactly (without noise) on each residual being zero: sequential Kalman updates.

    `values` holds pairs of residuals and means; all are updated by the same gains.

    Textbook, for one residual z with row h:  S = h h', K = L h' / S, m <- m - K z, P <- P - K S K'.
    Here the new factor is the part of each row orthogonal to h: a step of modified Gram-Schmidt, which is backward
    stable.
    """
    if not residual_rows:
        return rows, [means for _, means in values]
    direction, *residual_rows = residual_rows
    inverse = reciprocal(dot(direction, direction))
    gains = [multiply(dot(direction, row), inverse) for row in (*residual_rows, *rows)]
    remaining = [remove(direction, gain, row) for gain, row in zip(gains, (*residual_rows, *rows), strict=True)]
    count, updated = len(residual_rows), []
    for (residual, *residuals), means in values:
        both = zip(gains, (*residuals, *means), strict=True)
        new = [subtract(value, multiply(gain, residual)) for gain, value in both]
        updated.append((new[:count], new[count:]))
    return condition(remaining[:count], remaining[count:], updated)


def triangularise(rows: list[Row]) -> list[Row]:
    """A lower triangular factor of the same Gaussian.

    Textbook: the Cholesky factor of L L'.  Modified Gram-Schmidt over the rows computes it without forming L L'.
    """
    factor: list[Row] = [[] for _ in rows]
    while rows:
        first, *rest = rows
        square = dot(first, first)
        norm = None if square is None else jnp.sqrt(square)
        inverse = None if square is None else reciprocal(square)
        gains = [multiply(dot(first, row), inverse) for row in rest]
        done = len(factor) - len(rows)
        for target, entry in zip(factor[done:], (norm, *(multiply(g, norm) for g in gains)), strict=True):
            target.append(entry)
        rows = [remove(first, gain, row) for gain, row in zip(gains, rest, strict=True)]
    return [[*row, *[None] * (len(factor) - len(row))] for row in factor]


class Innovation(NamedTuple):
    """A one-step prediction error.  Where the noise is not plainly Gaussian: the error of the same probability if it
    were."""

    value: Scalar
    """NaN where nothing was measured."""
    variance: Scalar
    white: Scalar
    """In units of its standard deviation; zero where nothing was measured."""


def observe(
    output_rows: list[Row],
    predictions: Sequence[Scalar],
    observations: Sequence[Scalar],
    noise: Sequence[OutputNoise],
    rows: list[Row],
    means: list[Scalar],
    scores: bool = True,
) -> tuple[Scalar, list[Innovation], list[Row], list[Scalar]]:
    """Condition on noisy observations of outputs, one after the other; a missing one (NaN) is skipped.

    Textbook, for one output with row c and noise r:  S = c c' + r^2, v = y - prediction, K = L c' / S,
    energy = (log(2 pi S) + v^2 / S) / 2  (paper, eq. energy),  m <- m + K v,  P <- P - K S K'.
    Here Potter's square-root update, row <- row - (row c') / (S + r sqrt(S)) c, valid for any factor and any r.
    Noise that is not plainly Gaussian has its own energy and gains (`noise_likelihood.py`).

    Returns the energy summed over outputs, each output's innovation, the new rows and means.
    """
    energy: Scalar = 0.0
    innovations: list[Innovation] = []
    output_rows, predictions = [*output_rows], [*predictions]
    for observed, r in zip(observations, noise, strict=True):
        row, *output_rows = output_rows
        predicted, *predictions = predictions
        update = weigh(r, observed, predicted, dot(row, row), scores)
        energy = energy + update.energy
        innovations.append(update.innovation)
        count = len(output_rows)
        everything = (*output_rows, *rows)
        covariances = [dot(row, other) for other in everything]
        updated = [
            remove(row, multiply(c, update.shrink), other) for c, other in zip(covariances, everything, strict=True)
        ]
        values = [
            add(value, multiply(c, update.correction))
            for c, value in zip(covariances, (*predictions, *means), strict=True)
        ]
        output_rows, rows = updated[:count], updated[count:]
        predictions, means = values[:count], values[count:]
    return energy, innovations, rows, means


class Update(NamedTuple):
    """What one measured value does: see `Assimilated`."""

    energy: Scalar
    correction: Scalar
    shrink: Scalar
    innovation: Innovation


def weigh(noise: OutputNoise, observed: Scalar, predicted: Scalar, square: Entry, scores: bool = True) -> Update:
    """Compare a value with its prediction, whose variance without noise is `square`; `scores` as in `assimilate`."""
    present = ~jnp.isnan(observed)
    if isinstance(noise, NoiseValues):
        found = assimilate(noise, observed, predicted, jnp.zeros(()) if square is None else square, scores)
        value = jnp.where(present, found.white * jnp.sqrt(found.variance), jnp.nan)
        return Update(found.energy, found.correction, found.shrink, Innovation(value, found.variance, found.white))
    variance = add(square, noise * noise)
    innovation = jnp.where(present, observed - predicted, 0.0)
    energy = jnp.where(present, 0.5 * (jnp.log(2 * jnp.pi * variance) + innovation**2 / variance), 0.0)
    correction = innovation / variance
    white = correction * jnp.sqrt(variance)
    shrink = jnp.where(present, 1 / (variance + noise * jnp.sqrt(variance)), 0.0)
    return Update(energy, correction, shrink, Innovation(jnp.where(present, innovation, jnp.nan), variance, white))
