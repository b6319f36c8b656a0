"""Coloured noise against one big Gaussian over all states of all steps and the noise at all samples."""

from typing import Any

import jax
import numpy as np
import pytest

import probsysid as ps
from probsysid.model.noise import NoiseForm, NoiseValues
from probsysid.model.particle import Particle
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.diffusion import Fixed
from probsysid.odefilter.filter import VectorisedFilter
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.smoothing.smoother import smooth, smooth_record
from probsysid.odefilter.smoothing.trajectory import refine, trace
from probsysid.odefilter.unrolled.step import UnrolledFilter
from tests.odefilter.bruteforce import joint_gaussian
from tests.odefilter.cases import Case
from tests.odefilter.test_linear_gaussian import TOLERANCE, assert_same, coupled, linear_case, oscillator, relaxation

CASES = {
    "first order": linear_case(relaxation(), (2,), 1, missing=0.3, correlation_time={0: np.array([0.4, 3.0])}),
    "irregular, missing, two steps": linear_case(
        oscillator(),
        (4,),
        2,
        missing=0.4,
        uniform=False,
        substeps=2,
        correlation_time={0: np.array([0.02, 1.0])},
    ),
    "restarts, two coloured outputs": linear_case(
        oscillator(),
        (3,),
        4,
        missing=0.2,
        restarts=True,
        substeps=2,
        uniform=False,
        correlation_time={0: np.array([0.7, 50.0]), 1: np.array([0.3, 0.1])},
    ),
    "an inexact ODE, coloured and white outputs": linear_case(
        coupled(),
        (3, 2),
        3,
        missing=0.2,
        ode_noise=0.3,
        diffusion=Fixed((0.8, 1.7)),
        correlation_time={2: np.array([0.5, 2.0])},
    ),
}


QUICK = "first order"
SEEN = {(QUICK, True), ("restarts, two coloured outputs", True), (QUICK, False), (list(CASES)[-1], False)}
"""Cases of the quick suite in both forms, written out or not: each compiles for seconds, the largest ten when it is
written out."""


@pytest.mark.parametrize(
    ("name", "unrolled"),
    [
        pytest.param(name, unrolled, marks=[pytest.mark.long] * ((name, unrolled) not in SEEN))
        for unrolled in (True, False)
        for name in CASES
    ],
)
def test_energies_and_filtered_states_equal_the_joint_gaussian(name: str, unrolled: bool) -> None:
    case = CASES[name]
    ode_filter: Any = case.ode_filter if unrolled else as_array_filter(case.ode_filter)
    energies = case.energies(VectorisedFilter(ode_filter))
    trajectory = Case.trace(case)
    for particle in range(case.particles):
        joint = joint_gaussian(case, trajectory.variance[1:, :, particle], particle)
        np.testing.assert_allclose(energies[:, particle], joint.energies(case.samples), rtol=TOLERANCE, atol=TOLERANCE)
        for point in range(0, len(joint.states), case.substeps):
            expected = joint.filtered(point)
            factor = trajectory.filtered.factor[point, : case.layout.size, :, particle]
            mean = trajectory.filtered.mean[point, : case.layout.size, particle]
            np.testing.assert_allclose(mean, expected.mean, rtol=TOLERANCE, atol=TOLERANCE)
            np.testing.assert_allclose(factor @ factor.T, expected.covariance, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", [n if n == QUICK else pytest.param(n, marks=pytest.mark.long) for n in CASES])
def test_smoothed_states_equal_the_joint_gaussian(name: str) -> None:
    """Both forms; at all steps, between them, and by chunks of two samples that are filtered again on the way back."""
    case = CASES[name]
    size = case.layout.size
    between = 0.3 * case.time[2] + 0.7 * case.time[3]
    ode_filter = as_array_filter(case.ode_filter)
    refined, _ = refine(case.trace(), case.layout, np.array([between]))
    trajectories = refined, trace(ode_filter, case.particle, case.sample, case.time)
    record = smooth_record(jax.random.key(0), ode_filter, case.particle, case.sample, case.time, 2 * case.substeps)
    for trajectory, extra in zip(trajectories, ((between,), ()), strict=True):
        found = smooth(trajectory, case.layout)
        diffusion = np.full(((case.samples - 1) * case.substeps, len(case.smoothness)), variances(case))
        for n in range(case.particles):
            joint = joint_gaussian(case, diffusion, n, extra)
            scale = np.max(np.abs(found.mean[:, :size, n]), axis=0)
            for i in range(len(joint.times)):
                assert_same(found.mean[i, :size, n], found.factor[i, :size, :, n], joint.smoothed(i), scale)
            for k in range(0 if extra else case.samples):
                expected = joint.smoothed(k * case.substeps)
                sd = np.sqrt(np.maximum(np.diag(expected.covariance), 0.0))
                np.testing.assert_allclose(record.mean[k, :size, n], expected.mean, atol=TOLERANCE * max(scale))
                np.testing.assert_allclose(record.sd[k, :size, n], sd, atol=TOLERANCE * max(scale))
                noise = joint.smoothed_noise(k)
                np.testing.assert_allclose(record.mean[k, size:, n], noise.mean, atol=TOLERANCE * max(scale))
                np.testing.assert_allclose(
                    record.sd[k, size:, n] ** 2, np.diag(noise.covariance), atol=TOLERANCE * max(scale) ** 2
                )


def variances(case: Case) -> np.ndarray:
    """Squared fixed diffusion by coordinate."""
    assert isinstance(case.diffusion, Fixed)
    return np.square(case.diffusion.scale)


def solver_energies(time: float, level: float, form: Any) -> np.ndarray:
    """With a state that data do not correct and that is known exactly."""
    rng = np.random.default_rng(5)
    times = np.cumsum(rng.uniform(0.1, 0.5, 12))
    outputs = rng.normal(size=12)
    outputs[4:6] = np.nan
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": 0.0 * s.x}, lambda s, u, p: {"y": s.x})
    ode_filter = form(UnrolledFilter(model, Layout((1,), (2,)), ps.EKF1(), ps.Dynamic(2.0), joint=False))
    noise = NoiseValues(np.full(1, level), None, np.full(1, time), NoiseForm())
    particle = Particle({}, [noise], [np.zeros(1)], [np.zeros(1)])
    samples = PackedSamples.of(prepare(ps.Record(outputs={"y": outputs}, time=times), ode_filter, 1))
    vectorised = VectorisedFilter(ode_filter)
    state, first = vectorised.start(particle, samples)
    _, later = vectorised.advance(state, particle, samples, 1, 12)
    known = np.isfinite(outputs)
    covariance = level**2 * np.exp(-np.abs(times[:, None] - times[None]) / time)[np.ix_(known, known)]
    _, determinant = np.linalg.slogdet(2 * np.pi * covariance)
    exact = 0.5 * (determinant + outputs[known] @ np.linalg.solve(covariance, outputs[known]))
    return np.array([float(np.sum(first) + np.sum(np.asarray(later)[:11])), exact])


@pytest.mark.parametrize("form", [lambda given: given, as_array_filter], ids=["unrolled", "arrays"])
@pytest.mark.parametrize("time", [pytest.param(0.05, marks=pytest.mark.long), 0.7, 20.0])
def test_the_noise_alone_equals_its_joint_gaussian(time: float, form: Any) -> None:
    found, exact = solver_energies(time, 0.8, form)
    assert found == pytest.approx(exact, abs=1e-9)
