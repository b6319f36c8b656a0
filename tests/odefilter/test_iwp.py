"""The prior's matrices against the matrix exponential, in exact rational arithmetic."""

from fractions import Fraction
from math import factorial

import numpy as np
import pytest

from probsysid.odefilter import iwp
from tests.odefilter.textbook import cholesky, digits

SMOOTHNESS = range(1, 9)
STEPS = [10.0**k for k in range(-3, 4)]

# Each entry is a product of a handful of correctly rounded factors and a power (within 1 ulp each): no cancellation.
ROUNDING = 10 * np.finfo(float).eps


def exact_transition(q: int, h: float) -> tuple[np.ndarray, np.ndarray]:
    """A(h) and Q(h) from one matrix exponential (Van Loan 1978), as fractions.

    With F the drift (ones above the diagonal) and B B' the noise (a one in the last corner),
    exp([[-F, B B'], [0, F']] h) = [[., G], [0, A']]  and  Q = A G.  The matrix is nilpotent: its exponential is a
    finite sum.
    """
    size = q + 1
    drift = np.eye(size, k=1, dtype=int)
    noise = np.zeros((size, size), dtype=int)
    noise[-1, -1] = 1
    generator = np.block([[-drift, noise], [np.zeros_like(drift), drift.T]])
    total = np.zeros(generator.shape, dtype=object)
    power = np.eye(2 * size, dtype=int)
    for k in range(2 * size + 1):
        total = total + power * (Fraction(h) ** k / factorial(k))
        power = power @ generator
    assert not power.any()
    a = total[size:, size:].T
    return a, a @ total[:size, size:]


@pytest.mark.parametrize("q", SMOOTHNESS)
def test_transition_and_process_are_the_matrix_exponential(q: int) -> None:
    for h in STEPS:
        a, noise = exact_transition(q, h)
        np.testing.assert_allclose(iwp.physical_transition(q, h), a.astype(float), rtol=ROUNDING, atol=0)
        np.testing.assert_allclose(iwp.physical_process(q, h), noise.astype(float), rtol=ROUNDING, atol=0)


@pytest.mark.parametrize("q", [*SMOOTHNESS, 11])
def test_factor_of_the_process_noise_is_exact(q: int) -> None:
    """Every entry to full relative precision, though Q's condition number is 1e15 at q = 11."""
    numbers = digits(60)
    noise = np.array([[numbers.convert(1) / (2 * q + 1 - i - j) for j in range(q + 1)] for i in range(q + 1)])
    expected = cholesky(noise, numbers).astype(float)
    # Up to q ratios of small half-integers, each rounded once or twice.
    np.testing.assert_allclose(iwp.process_factor(q), expected, rtol=3 * (q + 2) * np.finfo(float).eps, atol=0)


@pytest.mark.parametrize("q", SMOOTHNESS)
def test_two_steps_are_one_of_twice_the_length(q: int) -> None:
    """A(2h) = A(h)^2 and Q(2h) = A(h) Q(h) A(h)' + Q(h): what a substep relies on."""
    h = 0.37
    a, noise = iwp.physical_transition(q, h), iwp.physical_process(q, h)
    rounding = 2 * (q + 1) * ROUNDING  # sums of q + 1 positive terms, twice
    np.testing.assert_allclose(a @ a, iwp.physical_transition(q, 2 * h), rtol=rounding)
    np.testing.assert_allclose(a @ noise @ a.T + noise, iwp.physical_process(q, 2 * h), rtol=rounding)
