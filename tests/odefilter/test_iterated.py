"""The linearisation renewed at the state that it has led to."""

from typing import Any

import numpy as np
import pytest

import probsysid as ps

TIMES = 0.35 * np.arange(12)


def linear(s: Any, u: Any, p: Any) -> dict[str, Any]:
    return {"x": -2.0 * s.x - 0.3 * s.dx}


def van_der_pol(s: Any, u: Any, p: Any) -> dict[str, Any]:
    return {"x": 2.0 * (1 - s.x**2) * s.dx - s.x}


def solution(dynamics: Any, iterations: int) -> ps.Solution:
    solver = ps.Solver(smoothness=3, substeps=1, linearisation=ps.EKF1(iterations=iterations))
    return ps.solve(ps.Model({"x": 2}, dynamics), {}, TIMES, initial={"x": 1.0}, solver=solver)


def miss(found: ps.Solution) -> float:
    """How far the filtered mean is from the ODE, the worst of all steps."""
    x, dx, ddx = np.moveaxis(np.asarray(found.trajectory.filtered.mean[..., 0]), -1, 0)[:3]
    return float(np.max(np.abs(ddx - (2.0 * (1 - x**2) * dx - x))))


@pytest.mark.long
def test_a_linear_ode_needs_no_iteration() -> None:
    once, again = solution(linear, 0), solution(linear, 2)
    np.testing.assert_allclose(again.mean["x"], once.mean["x"], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(again.sd["x"], once.sd["x"], rtol=1e-9, atol=1e-14)


@pytest.mark.long
def test_iterated_to_the_end_the_mean_obeys_the_ode() -> None:
    """Linearised once, it obeys the tangent at the prediction; the limit of iteration obeys the ODE itself."""
    assert miss(solution(van_der_pol, 0)) > 0.1
    assert miss(solution(van_der_pol, 6)) < 1e-6


def test_iterations_are_counted() -> None:
    with pytest.raises(ps.InputError, match=r"EKF1: iterations is -1; it must be a whole number, 0 or more\."):
        ps.EKF1(iterations=-1)
