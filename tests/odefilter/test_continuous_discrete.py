"""The continuous-discrete extended Kalman filter against joint Gaussians, and against the ODE filter."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.linalg import block_diag, expm

import probsysid as ps
from probsysid.model.noise import NoiseForm, NoiseValues
from probsysid.model.particle import Particle
from probsysid.odefilter import filter_inputs, runge_kutta
from probsysid.odefilter.arrays.step import ArrayFilter
from probsysid.odefilter.continuous_discrete import ContinuousDiscreteEKF
from probsysid.odefilter.filter import SampleFilter, filter_for
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.runge_kutta import MOST_WRITTEN_OUT
from probsysid.parallel.threads import Threads
from probsysid.posterior.simulate import simulate
from tests.odefilter.test_process_noise import LEVEL, NOISE, OUTPUTS, SYSTEMS, driven_record, exact, linear_model


def log_likelihood(
    model: ps.Model, record: ps.Record, particle: Particle, steps: int, joint: bool = True, own: bool = False
) -> float:
    """By the extended Kalman filter, or by the ODE filter."""
    ode_filter: SampleFilter
    if own:
        layout = ps.Solver().layout(model)
        ode_filter = ArrayFilter(model, layout, ps.EKF1(), ps.Dynamic(2.0))  # it compiles sooner than an unrolled one
        samples = filter_inputs.with_room(filter_inputs.prepare(record, ode_filter, steps))
    else:
        ode_filter = ContinuousDiscreteEKF(model, joint)
        samples = runge_kutta.prepare(record, model, steps)
    packed, vectorised = PackedSamples.of(samples), filter_for(ode_filter, Threads(cores=1))
    state, first = vectorised.start(particle, packed)
    _, energies = vectorised.advance(state, particle, packed, 1, record.samples)
    rows = np.asarray(energies)[: record.samples - 1]
    return -float(np.asarray(first)[0, 0] + rows[:, 0].sum())


def one(values: Sequence[float]) -> list[Any]:
    """Values of a single particle."""
    return [np.full(1, value) for value in values]


def of_linear(coefficients: Sequence[float], steps: int) -> tuple[float, float]:
    """Log likelihood of a linear equation with all components one at the start, found and exact."""
    model, matrix = linear_model(coefficients)
    start = np.ones(len(matrix))
    particle = Particle({}, one([NOISE]), one(start), one(0 * start), one([LEVEL]))
    record = ps.Record({}, {"y": OUTPUTS}, dt=0.3)
    return log_likelihood(model, record, particle, steps), exact(matrix, start)[0]


@pytest.mark.parametrize("order", [1, 2])
def test_integrals_of_white_noise_are_exact(order: int) -> None:
    found, expected = of_linear([0.0] * order, 3)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("coefficients", [*SYSTEMS.values(), pytest.param([0.0, 0.0, 0.0], marks=pytest.mark.long)])
def test_linear_equations_converge_at_order_four(coefficients: list[float]) -> None:
    """Twice the steps, a sixteenth of the error, up to the next order: here 15.2 to 16.5."""
    errors = np.array([np.subtract(*of_linear(coefficients, steps)) for steps in (2, 4, 8)])
    np.testing.assert_allclose(errors[:-1] / errors[1:], 16.0, rtol=0.08)
    assert abs(errors[-1]) < 1e-4


# Two coordinates, two outputs, an input: x'' = u - 2 x - 0.3 x' - z + s w, z' = x' - 0.5 z + s w

COUPLED = ps.Model(
    {"x": 2, "z": 1},
    lambda s, u, p: {"x": u.force - 2 * s.x - 0.3 * s.dx - s.z, "z": s.dx - 0.5 * s.z},
    lambda s, u, p: {"position": s.x, "acceleration": s.ddx},
)
MATRIX = np.array([[0.0, 1.0, 0.0], [-2.0, -0.3, -1.0], [0.0, 1.0, -0.5]])
START, START_SD = np.array([0.5, -0.2, 0.1]), np.array([0.3, 0.2, 0.4])
SAMPLES, NOISES, FORCES = 9, (0.1, 0.4), (0.6, 0.3)


def coupled_record(intersample: str) -> ps.Record:
    """Any numbers will do; some are missing."""
    random = np.random.default_rng(1)
    time = np.cumsum(random.uniform(0.2, 0.4, SAMPLES)) if intersample == "zoh" else 0.3 * np.arange(SAMPLES)
    outputs = {name: random.standard_normal(SAMPLES) for name in COUPLED.output_names}
    outputs["position"][[0, 4]] = np.nan
    outputs["acceleration"][[4, 5]] = np.nan
    return ps.Record({"force": random.standard_normal(SAMPLES)}, outputs, time=time, intersample=intersample)


def joint_gaussian(record: ps.Record, forces: Sequence[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What was measured, its mean and its covariance: both outputs at all samples.  The mean is a free run with very
    fine steps, the rest van Loan's integral between samples."""
    outputs, _, _ = simulate(COUPLED, {}, START[:, None], record, steps=64)
    size, diffusion = len(MATRIX), np.diag([0.0, forces[0] ** 2, forces[1] ** 2])
    stacked = np.eye(size * SAMPLES)
    kicks = [np.diag(START_SD**2)]
    for k, length in enumerate(np.diff(record.time), start=1):
        block = expm(np.block([[-MATRIX, diffusion], [np.zeros((size, size)), MATRIX.T]]) * length)
        transition = block[size:, size:].T
        kicks.append(transition @ block[:size, size:])
        rows = slice(size * k, size * (k + 1))
        stacked[rows, : size * k] = transition @ stacked[size * (k - 1) : size * k, : size * k]
    states = stacked @ block_diag(*kicks) @ stacked.T
    seen = np.kron(np.eye(SAMPLES), np.stack([[1.0, 0.0, 0.0], MATRIX[1]]))
    covariance = seen @ states @ seen.T + np.diag(np.tile(np.square(NOISES), SAMPLES))
    measured = np.stack([record.outputs[name] for name in COUPLED.output_names], axis=1).ravel()
    mean = np.stack([outputs[name][0] for name in COUPLED.output_names], axis=1).ravel()
    return measured, mean, covariance


def coupled_particle(forces: Sequence[float | None]) -> Particle:
    levels = [None if level is None else np.full(1, level) for level in forces]
    return Particle({}, one(NOISES), one(START), one(START_SD), levels)


@pytest.mark.parametrize("intersample", ["zoh", pytest.param("linear", marks=pytest.mark.long), "bandlimited"])
def test_coupled_equations_have_the_density_of_the_joint_gaussian(intersample: str) -> None:
    """Unknown start, two outputs, missing values, any input; order four, but for inputs that jump or have kinks at
    samples only, where it is the same."""
    record = coupled_record(intersample)
    measured, mean, covariance = joint_gaussian(record, FORCES)
    kept = np.flatnonzero(~np.isnan(measured))
    expected = stats.multivariate_normal.logpdf(measured[kept], mean[kept], covariance[np.ix_(kept, kept)])
    particle = coupled_particle(FORCES)
    errors = [log_likelihood(COUPLED, record, particle, steps) - expected for steps in (2, 4, 8)]
    assert abs(errors[0]) > 10 * abs(errors[1]) > 100 * abs(errors[2])
    assert abs(errors[2]) < 1e-4


def test_a_coordinate_without_noise_has_none() -> None:
    record = coupled_record("linear")
    measured, mean, covariance = joint_gaussian(record, (FORCES[0], 0.0))
    kept = np.flatnonzero(~np.isnan(measured))
    expected = stats.multivariate_normal.logpdf(measured[kept], mean[kept], covariance[np.ix_(kept, kept)])
    assert log_likelihood(COUPLED, record, coupled_particle((FORCES[0], None)), 8) == pytest.approx(expected, abs=1e-4)


def test_under_solver_conditioning_data_do_not_correct_the_state() -> None:
    """One output after the other: each sample by its own covariance, whatever the others are."""
    record = coupled_record("linear")
    measured, mean, covariance = joint_gaussian(record, FORCES)
    expected = 0.0
    for k in range(SAMPLES):
        both = [i for i in (2 * k, 2 * k + 1) if not np.isnan(measured[i])]
        if both:
            expected += stats.multivariate_normal.logpdf(measured[both], mean[both], covariance[np.ix_(both, both)])
    found = log_likelihood(COUPLED, record, coupled_particle(FORCES), 8, joint=False)
    assert found == pytest.approx(expected, abs=1e-4)


# Nonlinear equations

DUFFING = ps.Model(
    {"x": 2}, lambda s, u, p: {"x": u.force - 0.2 * s.dx - s.x - 0.5 * s.x**3}, lambda s, u, p: {"y": s.x}
)


@pytest.mark.parametrize("kind", ["gaussian", pytest.param("student-t", marks=pytest.mark.long)])
def test_the_ode_filter_tends_to_the_same_likelihood(kind: str) -> None:
    """Both linearise the same stochastic equation at the same mean.  The filter takes its Jacobian at the end of each
    step, the start of what it neglects is linear in the step: half the step, half the difference."""
    record = driven_record(0.5, 0.2, 0)[:60]
    noise: Any = np.full(1, 0.01)
    if kind == "student-t":
        noise = NoiseValues(noise, np.full(1, 4.0), None, NoiseForm())
    particle = Particle({}, [noise], one([1.0, 0.0]), one([0.0, 0.0]), one([0.2]))
    limit = log_likelihood(DUFFING, record, particle, 16)
    assert log_likelihood(DUFFING, record, particle, 4) == pytest.approx(limit, abs=1e-3)
    errors = [log_likelihood(DUFFING, record, particle, steps, own=True) - limit for steps in (4, 8, 16)]
    assert abs(errors[1]) < 0.6 * abs(errors[0]) and abs(errors[2]) < 0.6 * abs(errors[1])
    assert abs(errors[2]) < 0.02


def test_a_model_of_many_operations_has_the_same_likelihood() -> None:
    """The stages of its steps are a loop."""
    long = ps.Model(
        {"x": 2},
        lambda s, u, p: {
            "x": u.force - 0.2 * s.dx - s.x - 0.5 * s.x**3 + sum(0.0 * jnp.sin(i * s.x) for i in range(40))
        },
        lambda s, u, p: {"y": s.x},
    )
    assert long.operations > MOST_WRITTEN_OUT > DUFFING.operations
    record = driven_record(0.5, 0.2, 0)[:20]
    particle = Particle({}, one([0.01]), one([1.0, 0.0]), one([0.1, 0.0]), one([0.2]))
    expected = log_likelihood(DUFFING, record, particle, 2)
    assert log_likelihood(long, record, particle, 2) == pytest.approx(expected, rel=1e-10)
