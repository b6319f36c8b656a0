"""Kernels as stochastic differential equations against their covariance functions."""

import numpy as np
import pytest
from scipy.linalg import expm

import probsysid as ps
from probsysid import dist
from probsysid.model.kernels import Kernel, LinearSDE

SCALE, LENGTH, PERIOD = 1.3, 0.7, 0.9
TIMES = np.linspace(0, 2, 9)


def matern(nu: float, time: np.ndarray) -> np.ndarray:
    """Rasmussen and Williams, equation 4.17, for a variance of one."""
    a = np.sqrt(2 * nu) * time / LENGTH
    return {0.5: 1.0, 1.5: 1 + a, 2.5: 1 + a + a**2 / 3}[nu] * np.exp(-a)


def oscillation(time: np.ndarray) -> np.ndarray:
    """Of a damped oscillator driven by white noise, for a variance of one."""
    w = 2 * np.pi / PERIOD
    return np.exp(-time / LENGTH) * (np.cos(w * time) + np.sin(w * time) / (w * LENGTH))


def matrices(equation: LinearSDE) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A, the intensity of the noise, the variance at the start, and the readout."""
    filled = [[0.0 if a is None else float(a) for a in row] for row in equation.drift]
    levels = [0.0 if s is None else float(s) for s in equation.levels]
    return np.array(filled), np.diag(np.square(levels)), np.diag(np.square(equation.start)), np.array(equation.readout)


MATERN = {nu: ps.Matern(nu, scale=SCALE, length=LENGTH) for nu in (0.5, 1.5, 2.5)}
OSCILLATION = ps.QuasiPeriodic(scale=SCALE, period=PERIOD, length=LENGTH)
S2 = SCALE**2
CASES = {
    **{f"Matern {nu}": (kernel, S2 * matern(nu, TIMES)) for nu, kernel in MATERN.items()},
    "oscillation": (OSCILLATION, S2 * oscillation(TIMES)),
    "sum": (MATERN[2.5] + OSCILLATION, S2 * (matern(2.5, TIMES) + oscillation(TIMES))),
    "product": (MATERN[1.5] * OSCILLATION, S2**2 * matern(1.5, TIMES) * oscillation(TIMES)),
    "product of three": (
        MATERN[0.5] * OSCILLATION * MATERN[2.5],
        S2**3 * matern(0.5, TIMES) * oscillation(TIMES) * matern(2.5, TIMES),
    ),
    "sum of products": (
        MATERN[0.5] * MATERN[0.5] + MATERN[1.5],
        S2**2 * matern(0.5, TIMES) ** 2 + S2 * matern(1.5, TIMES),
    ),
}


def equation_of(kernel: Kernel) -> LinearSDE:
    return kernel.sde([part.hyperparameters for part in kernel.parts])


@pytest.mark.parametrize("name", CASES)
def test_the_equation_has_the_covariance_of_the_kernel(name: str) -> None:
    """Stationary, A P + P A' + S S' = 0, with the covariance r' exp(A t) P r."""
    kernel, expected = CASES[name]
    a, force, start, readout = matrices(equation_of(kernel))
    scale = np.max(np.abs(force))
    np.testing.assert_allclose(a @ start + start @ a.T + force, 0.0, atol=1e-13 * scale)
    found = [readout @ expm(a * time) @ start @ readout for time in TIMES]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_coordinates_are_chains_of_derivatives() -> None:
    """Within a coordinate every component but the last is the one before it, differentiated."""
    for kernel, _ in CASES.values():
        equation, place = equation_of(kernel), 0
        for order in equation.orders:
            for i in range(place, place + order - 1):
                others = [a for j, a in enumerate(equation.drift[i]) if j != i + 1]
                assert equation.drift[i][i + 1] == 1.0 and equation.levels[i] is None and others == [None] * len(others)
            place += order
        assert place == len(equation.drift)


def test_a_random_walk_with_a_constant() -> None:
    equation = equation_of(ps.RandomWalk(rate=0.3, start=2.0) + ps.Constant(1.0))
    assert equation.levels == (0.3,) and equation.start == (0.0,) and equation.constant == 3.0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ps.Matern(1.0, scale=1.0, length=1.0), "Matern: nu is 1.0; it must be 0.5, 1.5 or 2.5."),
        (lambda: ps.Matern(0.5, scale=-1.0, length=1.0), "Matern: scale is -1.0; it must be a positive number"),
        (lambda: ps.Matern(0.5, scale=1.0, length=dist.Normal(0, 1)), "Matern: length allows negative values"),
        (lambda: ps.RandomWalk(rate=0.0), "RandomWalk: rate is 0.0; it must be a positive number"),
        (lambda: ps.RandomWalk(rate=1.0, start=np.nan), "RandomWalk: start is nan; it must be a finite number"),
        (lambda: MATERN[0.5] * ps.RandomWalk(rate=1.0), "only stationary kernels can be"),
        (lambda: (MATERN[0.5] + OSCILLATION) * OSCILLATION, "write it as a sum of products"),
        (lambda: MATERN[0.5] + 1.0, "a constant is Constant"),
    ],
)
def test_kernels_that_make_no_sense_are_refused(make: object, sentence: str) -> None:
    with pytest.raises(ps.InputError) as error:
        make()  # type: ignore[operator]
    assert sentence in str(error.value)
