"""Iterated EKF: the linearisation renewed at the corrected mean."""

from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid.odefilter import iwp
from probsysid.odefilter.arrays.batched import Batched
from probsysid.odefilter.arrays.lapack import Lapack
from probsysid.odefilter.arrays.residuals import residual_variance_ratios
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.unrolled.residuals import residual_variance_ratio

TIMES = 0.35 * np.arange(12)


def linear(s: Any, u: Any, p: Any) -> dict[str, Any]:
    return {"x": -2.0 * s.x - 0.3 * s.dx}


def van_der_pol(s: Any, u: Any, p: Any) -> dict[str, Any]:
    return {"x": 2.0 * (1 - s.x**2) * s.dx - s.x}


def solution(dynamics: Any, iterations: int) -> ps.Solution:
    """With a fixed diffusion: an estimated one would come from another residual."""
    solver = ps.Solver(smoothness=3, substeps=1, linearisation=ps.EKF1(iterations=iterations), diffusion=1.0)
    return ps.solve(ps.Model({"x": 2}, dynamics), {}, TIMES, initial={"x": 1.0}, solver=solver)


def miss(found: ps.Solution) -> float:
    """The largest ODE residual of the filtered mean over all steps."""
    x, dx, ddx = np.moveaxis(np.asarray(found.trajectory.filtered.mean[..., 0]), -1, 0)[:3]
    return float(np.max(np.abs(ddx - (2.0 * (1 - x**2) * dx - x))))


@pytest.mark.long
def test_a_linear_ode_needs_no_iteration() -> None:
    once, again = solution(linear, 0), solution(linear, 2)
    np.testing.assert_allclose(again.mean["x"], once.mean["x"], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(again.sd["x"], once.sd["x"], rtol=1e-9, atol=1e-14)


@pytest.mark.long
def test_iterated_to_convergence_the_mean_satisfies_the_ode() -> None:
    """Linearised once, it satisfies the tangent at the prediction; the limit of iteration satisfies the ODE itself."""
    assert miss(solution(van_der_pol, 0)) > 0.1
    assert miss(solution(van_der_pol, 6)) < 1e-6


def unrolled_ratios(layout: Layout, jacobian: np.ndarray) -> list[Any]:
    return [residual_variance_ratio(layout, list(row), c) for c, row in enumerate(jacobian)]


RATIOS = {
    "unrolled": unrolled_ratios,
    "batched": lambda layout, jacobian: residual_variance_ratios(layout, jacobian, Batched()),
    "LAPACK": lambda layout, jacobian: residual_variance_ratios(layout, jacobian, Lapack()),
}


@pytest.mark.parametrize("form", RATIOS)
def test_variance_ratio_of_a_stiff_residual(form: str) -> None:
    """H Q H' over the highest derivative's entry of Q, with H = (-J, 1) and the noise of one coordinate.

    The ODE is ddx = -2 x - 6 dx + z, dz = x - 3 z.
    """
    layout, step = Layout((2, 1), (3, 2)), 0.35
    scales = layout.scales(step)
    jacobian = np.array([[-2.0, -6.0, 1.0], [1.0, 0.0, -3.0]])
    scaled = jacobian * scales[list(layout.physical)] / scales[list(layout.highest)][:, None]
    found = RATIOS[form](layout, scaled)
    for c, (first, q, h) in enumerate([([2.0, 6.0, 1.0, 0.0], 3, 2), ([3.0, 1.0, 0.0], 2, 1)]):
        unscaled = iwp.process(q) * np.outer(iwp.scale(q, step), iwp.scale(q, step))
        assert float(found[c]) == pytest.approx(first @ unscaled @ first / unscaled[h, h], rel=1e-12)
    assert float(found[0]) > 2  # the factor by which the zeroth-order variance would overestimate the squared diffusion


@pytest.mark.long
def test_the_diffusion_comes_from_the_last_linearisation() -> None:
    """All linearisations of a linear ODE are the same: the squared diffusion of its first step is z^2 / (s ratio)."""
    stiff = ps.Model({"x": 2}, lambda s, u, p: {"x": -6 * s.dx})
    times, given = 0.35 * np.arange(2), dict(initial={"x": 0.0, "dx": 1.0})
    ways = ps.EKF1(), ps.EKF1(iterations=1)
    once, again = (
        ps.solve(stiff, {}, times, **given, solver=ps.Solver(3, 1, way, ps.Dynamic())).diffusion["x"] for way in ways
    )
    row = np.array([0.0, 6.0, 1.0, 0.0])
    noise = iwp.process(3) * np.outer(iwp.scale(3, 0.35), iwp.scale(3, 0.35))
    np.testing.assert_allclose((once / again) ** 2, row @ noise @ row / noise[2, 2], rtol=1e-9)


def test_iterations_are_counted() -> None:
    with pytest.raises(ps.InputError, match=r"EKF1: iterations is -1; it must be a whole number, 0 or more\."):
        ps.EKF1(iterations=-1)
