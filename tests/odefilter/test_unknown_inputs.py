"""Unknown inputs against exact linear stochastic differential equations: the joint Gaussian of all samples."""

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from scipy.linalg import block_diag, expm

import probsysid as ps
from probsysid.model.kernels import Kernel
from probsysid.model.latent_processes import LatentProcesses
from probsysid.model.problem import Problem
from probsysid.odefilter.arrays.step import ArrayFilter
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.smoothing.smoother import smooth
from probsysid.odefilter.smoothing.trajectory import trace
from probsysid.odefilter.unrolled.step import UnrolledFilter

DT, NOISE, SAMPLES, LOAD = 0.3, 0.1, 10, 0.4
OUTPUTS = 0.3 * np.cos(np.arange(SAMPLES)) + 0.1 * np.random.default_rng(0).normal(size=SAMPLES)
RECORD = ps.Record({"load": np.full(SAMPLES, LOAD)}, {"y": OUTPUTS}, dt=DT)
FORCE_NOISE = 0.2
FORCES = np.where(np.arange(SAMPLES) % 4 < 2, 0.5 * np.sin(np.arange(SAMPLES)), np.nan)
"""Measured here and there, with noise."""
OSCILLATOR = ps.Model(
    {"x": 2}, lambda s, u, p: {"x": u.force + u.load - 0.3 * s.dx - 2 * s.x}, lambda s, u, p: {"y": s.x}
)
MATERN = {nu: ps.Matern(nu, scale=0.8, length=1.5) for nu in (0.5, 1.5, 2.5)}
WAVE = ps.QuasiPeriodic(scale=0.8, period=2.0, length=3.0)


def exact(kernel: Kernel, partly: bool = False) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Log likelihood, and means and variances of x and the force at the samples: smoothed at all, filtered at the last
    but two.  The state has the known load as a component that does not move; the force may be measured in part."""
    equation = kernel.sde([part.hyperparameters for part in kernel.parts])
    latent, size = len(equation.levels), 3 + len(equation.levels)
    a, force, start = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    a[0, 1], a[1, :3] = 1.0, (-2.0, -0.3, 1.0)
    a[1, 3:] = equation.readout
    a[3:, 3:] = [[0.0 if entry is None else entry for entry in row] for row in equation.drift]
    force[3:, 3:] = np.diag([0.0 if s is None else float(s) ** 2 for s in equation.levels])
    start[3:, 3:] = np.diag(np.square(np.asarray(equation.start, dtype=float)))
    block = expm(np.block([[-a, force], [np.zeros_like(a), a.T]]) * DT)
    transition = block[size:, size:].T
    covariance = transition @ block[:size, size:]
    stacked = np.eye(size * SAMPLES)
    for k in range(1, SAMPLES):
        rows = slice(size * k, size * (k + 1))
        stacked[rows, : size * k] = transition @ stacked[size * (k - 1) : size * k, : size * k]
    mean = stacked[:, :size] @ np.array([0.0, 0.0, LOAD, *np.zeros(latent)])
    prior = stacked @ block_diag(start, *[covariance] * (SAMPLES - 1)) @ stacked.T
    readout = np.zeros((2, size))
    readout[0, 0], readout[1, 3:] = 1.0, equation.readout
    wanted = np.kron(np.eye(SAMPLES), readout)
    data = np.stack([OUTPUTS, FORCES if partly else np.full(SAMPLES, np.nan)], axis=1).ravel()
    variances = np.tile([NOISE**2, FORCE_NOISE**2], SAMPLES)

    def given(count: int) -> tuple[float, np.ndarray, np.ndarray]:
        part = np.flatnonzero(np.isfinite(data[: 2 * count]))
        seen = wanted[part]
        total = seen @ prior @ seen.T + np.diag(variances[part])
        miss = data[part] - seen @ mean
        likelihood = -0.5 * (miss @ np.linalg.solve(total, miss) + np.linalg.slogdet(2 * np.pi * total)[1])
        gain = prior @ seen.T @ np.linalg.inv(total)
        left = prior - gain @ seen @ prior
        return likelihood, wanted @ (mean + gain @ miss), np.sqrt(np.maximum(np.diag(wanted @ left @ wanted.T), 0.0))

    likelihood, means, sds = given(SAMPLES)
    count = SAMPLES - 2
    last = slice(2 * (count - 1), 2 * count)
    _, filtered, spread = given(count)
    return likelihood, means, sds, np.array([*filtered[last], *spread[last]])


@cache
def found(
    form: type[ODEFilter], kernel: Kernel, steps: int, further: int = 3, partly: bool = False
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """The same by the filter."""
    latent = LatentProcesses.make(OSCILLATOR, {}, {"force": kernel}, {}, ("force",) if partly else ())
    noise = {"y": NOISE, **({"force": FORCE_NOISE} if partly else {})}
    problem = Problem.make(OSCILLATOR, {}, noise, [{"x": 0.0, "dx": 0.0}], {}, {}, latent)
    record = RECORD.replace(outputs={"y": OUTPUTS, "force": FORCES}) if partly else RECORD
    model = problem.model
    layout = Layout(model.orders, tuple(order + further for order in model.orders))
    ode_filter = form(model, layout, ps.EKF1(), ps.Dynamic(2.0))
    particle = jax.tree.map(lambda leaf: np.full(1, leaf, dtype=float), problem.particle({}, 0))
    trajectory = trace(ode_filter, particle, prepare(record, ode_filter, steps), record.time)
    states = smooth(trajectory, layout)
    (process,) = latent.processes
    index = dict(zip(model.physical_names, layout.physical, strict=True))
    weights = np.zeros((2, layout.size))
    weights[0, 0] = 1.0
    readout = kernel.sde([part.hyperparameters for part in kernel.parts]).readout
    for name, weight in zip(process.components, readout, strict=True):
        weights[1, index[name]] = weight

    def moments(mean: Any, factor: Any) -> tuple[np.ndarray, np.ndarray]:
        return mean @ weights.T, np.linalg.norm(weights @ factor, axis=-1)

    means, sds = moments(states.mean[::steps, :, 0], states.factor[::steps, ..., 0])
    at = trajectory.filtered
    filtered = moments(at.mean[(SAMPLES - 3) * steps, :, 0], at.factor[(SAMPLES - 3) * steps, ..., 0])
    return -float(np.sum(trajectory.energy)), means.ravel(), sds.ravel(), np.concatenate(filtered)


def largest_error(form: type[ODEFilter], kernel: Kernel, steps: int, further: int = 3, partly: bool = False) -> float:
    pairs = zip(found(form, kernel, steps, further, partly), exact(kernel, partly), strict=True)
    return max(float(np.max(np.abs(np.subtract(*pair)))) for pair in pairs)


@pytest.mark.parametrize("nu", [0.5, pytest.param(1.5, marks=pytest.mark.long)])
def test_matern_forces_are_exact_up_to_the_integration_of_the_mean(nu: float) -> None:
    """The error falls by at least 2^2 with half the step; at eight steps per sample, q = order + 3, it is 1.2e-8 and
    1.6e-8 with optimised machine code, and rounding errors add 8e-8 without.  An error in a variance, a level or the
    stationary start would not go away."""
    coarse, fine = (largest_error(ArrayFilter, MATERN[nu], steps) for steps in (2, 8))
    assert fine < 2e-7 and fine < coarse / 4**2


@pytest.mark.long
@pytest.mark.parametrize("kernel", [MATERN[2.5], WAVE, MATERN[0.5] + WAVE, MATERN[0.5] * WAVE])
def test_other_kernels_are_exact_up_to_the_integration_of_the_mean(kernel: Kernel) -> None:
    coarse, fine = (largest_error(ArrayFilter, kernel, steps) for steps in (2, 8))
    assert fine < 1e-6 and fine < coarse / 4**2


@pytest.mark.long
@pytest.mark.parametrize("kernel", [MATERN[0.5], MATERN[1.5], MATERN[0.5] + WAVE])
def test_a_force_that_is_measured_in_part_and_with_noise_is_exact(kernel: Kernel) -> None:
    """At eight steps per sample 3e-9 and 1.3e-8, with optimised machine code; rounding errors add 8e-8 without."""
    assert largest_error(ArrayFilter, kernel, 8, partly=True) < 2e-7


@pytest.mark.long
def test_both_forms_agree() -> None:
    """To rounding: the conditional distributions of a stiff prior lose some digits."""
    pairs = zip(found(UnrolledFilter, MATERN[0.5], 2, 1), found(ArrayFilter, MATERN[0.5], 2, 1), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


def test_a_system_at_rest_with_process_noise_is_not_lost_to_rounding() -> None:
    """x'' = -2 x - 0.3 x' + s w from rest: residuals, and so the diffusion, are zero until data come.  Without a bound
    the log likelihood was off by orders of magnitude."""
    model = ps.Model({"x": 2}, lambda s, u, p: {"x": -0.3 * s.dx - 2 * s.x}, lambda s, u, p: {"y": s.x})
    record = ps.Record({}, {"y": OUTPUTS}, dt=DT)
    ode_filter = ArrayFilter(model, Layout((2,), (4,)), ps.EKF1(), ps.Dynamic(2.0))
    problem = Problem.make(model, {}, {"y": NOISE}, [{"x": 0.0, "dx": 0.0}], {"x": 0.8})
    particle = jax.tree.map(lambda leaf: np.full(1, leaf, dtype=float), problem.particle({}, 0))
    trajectory = trace(ode_filter, particle, prepare(record, ode_filter, 8), record.time)
    a = np.array([[0.0, 1.0], [-2.0, -0.3]])
    block = expm(np.block([[-a, np.diag([0.0, 0.64])], [np.zeros((2, 2)), a.T]]) * DT)
    transition = block[2:, 2:].T
    mean, covariance, likelihood = np.zeros(2), np.zeros((2, 2)), 0.0
    for k, y in enumerate(OUTPUTS):
        if k:
            mean, covariance = transition @ mean, transition @ (covariance @ transition.T + block[:2, 2:])
        total = covariance[0, 0] + NOISE**2
        likelihood -= 0.5 * ((y - mean[0]) ** 2 / total + np.log(2 * np.pi * total))
        gain = covariance[:, 0] / total
        mean, covariance = mean + gain * (y - mean[0]), covariance - np.outer(gain, covariance[0])
    assert -float(np.sum(trajectory.energy)) == pytest.approx(likelihood, abs=1e-6)
