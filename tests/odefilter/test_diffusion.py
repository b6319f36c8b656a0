"""Diffusion estimators, and the variance of ODE residuals that they divide by."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import probsysid  # noqa: F401  (double precision)
from probsysid._internal.errors import InputError
from probsysid.odefilter import iwp
from probsysid.odefilter.diffusion import (
    WINDOW,
    Dynamic,
    Fixed,
    QuasiMLE,
    UnitVariance,
    initial_diffusion,
    unit_variances,
    without_data,
)
from tests.odefilter.textbook import Estimator, UnitVariances, digits


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("substeps", [1, 3])
@pytest.mark.parametrize(("order", "q"), [(1, 1), (1, 3), (2, 2), (2, 3), (2, 5), (3, 5), (1, 8), (2, 11)])
def test_unit_variances_are_those_of_a_zeroth_order_solver(order: int, q: int, substeps: int, restarts: bool) -> None:
    """The package works in scaled coordinates on part of the state; the textbook in 50 digits on all of it."""
    numbers = digits(50)
    steps = np.array([0.1] * 12 + [0.13, 0.07, 0.07, 0.25] + [0.2] * 8)
    book = UnitVariances(SimpleNamespace(model=SimpleNamespace(orders=(order,)), smoothness=(q,)), numbers)
    expected = np.empty((len(steps), substeps))
    for k, step in enumerate(steps):
        if restarts:
            book.restart()
        for j in range(substeps):
            expected[k, j] = float(book.step(numbers.convert(step))[0]) / iwp.scale(q, step)[order] ** 2
    # The covariance form in doubles loses digits with the condition of the prior's noise.  From q - order = 7 on that
    # bound is vacuous, and 1e-8 is required, the accuracy of energies in the other tests.
    condition = np.linalg.cond(iwp.process(q)[order:, order:])
    found = unit_variances(q, order, steps, substeps, restarts)
    np.testing.assert_allclose(found, expected, rtol=min(1e-8, 10 * condition * np.finfo(float).eps))


def test_unit_variances_of_a_long_uniform_record_become_stationary() -> None:
    """The shortcut for a stationary filter gives the recursion's numbers."""
    long = unit_variances(4, 2, np.full(400, 0.1), 1, False)
    changing = np.full(400, 0.1)
    changing[-1] = 0.2  # never uniform to the end: no shortcut
    np.testing.assert_allclose(long[:-1], unit_variances(4, 2, changing, 1, False)[:-1], rtol=1e-12)


ESTIMATORS = [
    QuasiMLE(),
    Dynamic(),
    Dynamic(5.0),
    Dynamic(1.0),
    Dynamic(2.0, floor=0.5),
    Dynamic(floor=0.1),
    Fixed(0.3),
    Fixed((0.3, 0.7)),
]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_estimators_on_a_sequence_of_residuals(kind: Any) -> None:
    rng = np.random.default_rng(0)
    residuals, units, local = rng.normal(size=90), rng.uniform(0.5, 2, 90), 0.4
    for coordinate in (0, 1):
        book = Estimator(kind, coordinate, digits(30).convert(0.7), digits(30))
        memory = kind.start(0.7)
        for residual, unit in zip(residuals, units, strict=True):
            memory, found = kind.update(memory, residual, UnitVariance(unit, local, 0.5), coordinate)
            expected = book.update(residual, unit, local, steps=2)
            assert float(found) == pytest.approx(float(expected), rel=1e-13)


def test_quasi_mle_is_the_mean_of_squares() -> None:
    """Against the formula: the mean of z^2 / s, including the newest and the initial guess."""
    kind = QuasiMLE()
    memory = kind.start(7.0)
    for residual in (1.0, 2.0, 3.0):
        memory, found = kind.update(memory, residual, UnitVariance(0.5, None), 0)
    assert float(found) == pytest.approx(((1 + 4 + 9) / 0.5 + 7) / 4, rel=1e-15)


@pytest.mark.parametrize("phase", [0.0, 0.4, np.pi / 2])
def test_initial_diffusion_of_an_oscillation(phase: float) -> None:
    """For the derivatives w^k cos(w t + k pi/2 + phase): d^2 h averaged over the phase, if w h = 1; never zero."""
    h = 0.5
    first, second = (2.0**k * np.cos(phase + k * np.pi / 2) for k in (0, 1))
    assert initial_diffusion([first, second], h) == pytest.approx(0.5 * h, rel=1e-15)


def test_dynamic_forgets() -> None:
    """After `memory` steps an observation keeps 1/e of its weight; with memory 0 only the newest counts."""
    kind = Dynamic(4.0)
    memory = kind.start(1.0)
    for _ in range(4):
        memory, found = kind.update(memory, 0.0, UnitVariance(1.0, 1.0), 0)
    weights = np.exp(-np.arange(5) / 4)
    assert float(found) == pytest.approx(np.exp(-1) / weights.sum(), rel=1e-14)
    assert float(Dynamic().update([], 3.0, UnitVariance(100.0, 2.0), 0)[1]) == pytest.approx(4.5, rel=1e-15)


def test_a_local_mean_forgets_a_singular_start() -> None:
    """A start across a singularity, squared diffusion 1e12, then residuals of one: forgotten as exp(-steps / memory),
    where the mean over all steps still has 1e12 / 101 after 100 steps."""
    estimates = {}
    for kind in (Dynamic(2.0), QuasiMLE()):
        memory = kind.start(1e12)
        for _ in range(100):
            memory, estimates[kind] = kind.update(memory, 1.0, UnitVariance(1.0, 1.0), 0)
    assert float(estimates[Dynamic(2.0)]) == pytest.approx(1.0, rel=1e12 * np.exp(-50))
    assert float(estimates[QuasiMLE()]) == pytest.approx(1e12 / 101, rel=1e-9)


def test_the_floor_forgets_altogether_what_lies_before_its_window() -> None:
    """A single residual of 1e6 counts, divided by the samples of the window so far, until the next but one begins."""
    kind = Dynamic(2.0, floor=0.1)
    memory, found = kind.start(0.0), []
    for residual in (1e6, *[0.0] * 40):
        memory, estimate = kind.update(memory, residual, UnitVariance(1.0, 1.0), 0)
        found.append(float(estimate))
    recent = 1e12 * np.exp(-np.arange(41) / 2) / (1 + np.cumsum(np.exp(-np.arange(1, 42) / 2)))  # and the guess
    floor = 0.1 * 1e12 / np.arange(1, 42)
    inside = np.arange(41) < 2 * WINDOW
    np.testing.assert_allclose(found, np.where(inside, np.maximum(recent, floor), recent), rtol=1e-6)


def test_data_at_most_double_a_residual() -> None:
    """A residual of 10 of which 9 come from data counts as 2; one that data have made smaller counts as it is."""
    np.testing.assert_allclose(without_data(np.array([10.0, -10.0, 1.0]), np.array([9.0, -9.0, -9.0])), [2.0, 2.0, 1.0])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"memory": -1.0}, r"Dynamic: memory is -1\.0; it must be a finite number, 0 or more\."),
        ({"memory": float("nan")}, r"Dynamic: memory is nan; it must be a finite number, 0 or more\."),
    ],
)
def test_dynamic_refuses(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Dynamic(**settings)
