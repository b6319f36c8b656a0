"""On linear ODEs with Gaussian data the filter is exact: it equals one big Gaussian over all states of all steps."""

from typing import Any

import numpy as np
import pytest

from probsysid.model.model import Model
from probsysid.odefilter.diffusion import Fixed, QuasiMLE
from probsysid.odefilter.smoothing.smoother import smooth
from tests.odefilter.bruteforce import Joint, joint_gaussian
from tests.odefilter.cases import Case
from tests.odefilter.textbook import Moments

# Round-off: the brute force conditions a prior whose standard deviations are up to 1e4
# times the posterior's, so it loses 4 digits of 16 in each standard deviation and 8 in a covariance at worst.
TOLERANCE = 1e-8


def relaxation() -> Model:
    """First order, one coordinate."""
    return Model({"x": 1}, lambda s, u, p: {"x": -p.rate * s.x + u.force}, lambda s, u, p: {"y": s.x})


def oscillator() -> Model:
    """Second order; position and acceleration are measured."""
    return Model(
        {"x": 2},
        lambda s, u, p: {"x": u.force - 0.3 * s.dx - p.rate * s.x},
        lambda s, u, p: {"position": s.x, "acceleration": s.ddx},
    )


def coupled() -> Model:
    """A mass whose spring force relaxes: orders 2 and 1, three outputs, one of them a mixture."""
    return Model(
        {"x": 2, "z": 1},
        lambda s, u, p: {"x": u.force - 0.3 * s.dx - p.rate * s.x - s.z, "z": 1.5 * s.dx - 0.7 * s.z + 0.2 * s.x},
        lambda s, u, p: {"acceleration": s.ddx, "force": s.z, "mixture": s.x - 2 * s.dz + 0.5 * u.force},
    )


def linear_case(
    model: Model, smoothness: tuple[int, ...], seed: int, samples: int = 8, missing: float = 0.0, **settings: Any
) -> Case:
    rng = np.random.default_rng(seed)
    substeps = settings.get("substeps", 1)
    uniform = settings.get("uniform", True)
    gaps = np.full(samples - 1, 0.25) if uniform else rng.uniform(0.1, 0.4, samples - 1)
    outputs = rng.normal(size=(samples, len(model.output_names)))
    outputs[rng.uniform(size=outputs.shape) < missing] = np.nan
    physical, particles = len(model.physical_names), 2
    settings.setdefault("diffusion", Fixed(0.8))
    return Case(
        model=model,
        smoothness=smoothness,
        time=np.concatenate([[0.5], 0.5 + np.cumsum(gaps)]),
        outputs=outputs,
        noise=rng.uniform(0.1, 0.5, (outputs.shape[1], particles)),
        initial_mean=rng.normal(size=(physical, particles)),
        initial_sd=rng.uniform(0.1, 0.5, (physical, particles)),
        parameters={"rate": rng.uniform(1, 3, particles)},
        grid=rng.normal(size=(samples, substeps, 1)),
        inputs=rng.normal(size=(samples, 1, max(smoothness) + 2)),
        **settings,
    )


CASES = {
    "first order": linear_case(relaxation(), (2,), 1, missing=0.2),
    "second order, q=4, irregular steps": linear_case(oscillator(), (4,), 2, missing=0.3, uniform=False, substeps=2),
    "coupled, three outputs": linear_case(coupled(), (3, 2), 3, missing=0.2, diffusion=Fixed((0.8, 1.7))),
    "restarts at jumps, substeps, diffusion estimated": linear_case(
        oscillator(),
        (3,),
        4,
        missing=0.2,
        restarts=True,
        substeps=2,
        uniform=False,
        diffusion=QuasiMLE(),
    ),
    "ODE imposed up to noise": linear_case(coupled(), (2, 1), 6, ode_noise=0.3, missing=0.2),
}


LONG = ("first order", "second order, q=4, irregular steps")


@pytest.fixture(scope="module", params=[pytest.param(n, marks=[pytest.mark.long] * (n in LONG)) for n in CASES])
def traced(request: pytest.FixtureRequest) -> tuple[Case, Any, list[Joint]]:
    case = CASES[request.param]
    trajectory = case.trace()
    # The joint Gaussian takes the diffusion of each step as given: the filter's estimate, which other tests compare
    # with the textbook filter's.
    joints = [joint_gaussian(case, np.array(trajectory.variance[1:, :, n]), particle=n) for n in range(case.particles)]
    return case, trajectory, joints


def assert_same(mean: Any, factor: Any, expected: Moments, size: np.ndarray) -> None:
    """Means relative to the size of the component or its standard deviation, covariances to standard deviations."""
    sd = np.sqrt(np.diag(expected.covariance))
    assert np.max(np.abs(mean - expected.mean) / np.maximum(size, sd)) < TOLERANCE
    covariance = np.array(factor) @ np.array(factor).T
    # A component that is known exactly has no scale of its own.
    scale = np.where(sd > 1e-12 * size, sd, np.maximum(size, 1))
    assert np.max(np.abs(covariance - expected.covariance) / np.outer(scale, scale)) < TOLERANCE


def test_energies(traced: tuple[Case, Any, list[Joint]]) -> None:
    case, trajectory, joints = traced
    expected = np.stack([joint.energies(case.samples) for joint in joints], axis=-1)
    np.testing.assert_allclose(trajectory.energy, expected, rtol=TOLERANCE, atol=TOLERANCE)
    if case.model.orders == (1,):  # other tests compare `VectorisedFilter` with the textbook; compiling it is slow
        np.testing.assert_allclose(case.energies(), expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_filtered_moments(traced: tuple[Case, Any, list[Joint]]) -> None:
    _, trajectory, joints = traced
    size = np.max(np.abs(trajectory.filtered.mean), axis=0)
    for n, joint in enumerate(joints):
        np.testing.assert_allclose(trajectory.time, joint.times, rtol=1e-14)
        for i in range(len(joint.times)):
            mean, factor = trajectory.filtered.mean[i, :, n], trajectory.filtered.factor[i, :, :, n]
            assert_same(mean, factor, joint.filtered(i), size[:, n])


def test_smoothed_moments(traced: tuple[Case, Any, list[Joint]]) -> None:
    case, trajectory, joints = traced
    smoothed = smooth(trajectory, case.layout)
    size = np.max(np.abs(smoothed.mean), axis=0)
    for n, joint in enumerate(joints):
        for i in range(len(joint.times)):
            assert_same(smoothed.mean[i, :, n], smoothed.factor[i, :, :, n], joint.smoothed(i), size[:, n])


def test_innovations(traced: tuple[Case, Any, list[Joint]]) -> None:
    """The energy is that of the innovations; a missing output has none."""
    case, trajectory, _ = traced
    v, s = np.array(trajectory.innovation), np.array(trajectory.innovation_variance)
    np.testing.assert_array_equal(np.isnan(v[..., 0]), np.isnan(case.outputs))
    energy = np.nansum(np.where(np.isnan(v), np.nan, 0.5 * (np.log(2 * np.pi * s) + v**2 / s)), axis=1)
    np.testing.assert_allclose(energy, trajectory.energy, rtol=1e-12, atol=1e-12)
