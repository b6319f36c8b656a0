"""White-noise forces, d x^(n-1) = f dt + s dW, against exact linear stochastic differential equations."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag, expm

import probsysid as ps
from probsysid import dist
from probsysid.model.noise import NoiseForm, NoiseValues
from probsysid.model.particle import Particle
from probsysid.model.problem import Problem
from probsysid.model.process_noise_prior import default_prior
from probsysid.odefilter.arrays.step import ArrayFilter
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.smoothing.smoother import smooth
from probsysid.odefilter.smoothing.trajectory import trace
from probsysid.odefilter.unrolled.step import UnrolledFilter
from probsysid.parallel.threads import Threads
from probsysid.posterior.diagnostics.variance_decomposition import log_likelihood
from probsysid.posterior.simulate import simulate

DT, NOISE, LEVEL, SAMPLES = 0.3, 0.2, 0.7, 12
OUTPUTS = np.cos(np.arange(SAMPLES)) + np.random.default_rng(0).normal(size=SAMPLES)
FORMS = pytest.mark.parametrize("form", [UnrolledFilter, ArrayFilter])


def linear_model(coefficients: Sequence[float]) -> tuple[ps.Model, np.ndarray]:
    """x^(n) = sum of coefficients times (x, ..., x^(n-1)), x measured; and the matrix of the system of first order."""
    order = len(coefficients)
    names = ["d" * i + "x" for i in range(order)]

    def dynamics(s: Any, u: Any, p: Any) -> dict[str, Any]:
        return {"x": sum(a * getattr(s, name) for a, name in zip(coefficients, names, strict=True))}

    matrix = np.eye(order, k=1)
    matrix[-1] = coefficients
    return ps.Model({"x": order}, dynamics, lambda s, u, p: {"y": s.x}), matrix


def exact(
    matrix: np.ndarray, start: np.ndarray, correlation_time: float | None = None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Log likelihood, smoothed means and variances of x: the joint Gaussian of all samples, by van Loan's integral.
    The noise is white unless it has a correlation time."""
    order = len(matrix)
    force = np.zeros((order, order))
    force[-1, -1] = LEVEL**2
    block = expm(np.block([[-matrix, force], [np.zeros((order, order)), matrix.T]]) * DT)
    transition = block[order:, order:].T
    covariance = transition @ block[:order, order:]
    stacked = np.eye(order * SAMPLES)
    for k in range(1, SAMPLES):  # states are sums of kicks, each carried on by later transitions
        rows = slice(order * k, order * (k + 1))
        stacked[rows, : order * k] = transition @ stacked[order * (k - 1) : order * k, : order * k]
    mean = stacked[:, :order] @ start
    prior = stacked @ block_diag(np.zeros((order, order)), *[covariance] * (SAMPLES - 1)) @ stacked.T
    seen = np.arange(SAMPLES) * order
    apart = DT * np.abs(np.subtract.outer(np.arange(SAMPLES), np.arange(SAMPLES)))
    noise = np.eye(SAMPLES) if correlation_time is None else np.exp(-apart / correlation_time)
    total = prior[np.ix_(seen, seen)] + NOISE**2 * noise
    miss = OUTPUTS - mean[seen]
    likelihood = -0.5 * (miss @ np.linalg.solve(total, miss) + np.linalg.slogdet(2 * np.pi * total)[1])
    gain = prior[:, seen] @ np.linalg.inv(total)
    smoothed = prior - gain @ prior[seen]
    return likelihood, (mean + gain @ miss)[seen], np.diag(smoothed)[seen]


def found(
    form: type[ODEFilter],
    coefficients: Sequence[float],
    further: int,
    steps: int,
    start: np.ndarray,
    correlation_time: float | None = None,
) -> tuple[float, np.ndarray, np.ndarray]:
    """The same by the filter, with `further` derivatives more than the order."""
    model, _ = linear_model(coefficients)
    order = len(coefficients)
    ode_filter = form(model, Layout((order,), (order + further,)), ps.EKF1(), ps.Dynamic(2.0))
    record = ps.Record(inputs={}, outputs={"y": OUTPUTS}, dt=DT)
    initial = [np.full(1, value) for value in start]
    noise: Any = np.full(1, NOISE)
    if correlation_time is not None:
        noise = NoiseValues(noise, None, np.full(1, correlation_time), NoiseForm())
    particle = Particle({}, [noise], initial, [np.zeros(1)] * order, [np.full(1, LEVEL)])
    trajectory = trace(ode_filter, particle, prepare(record, ode_filter, steps), record.time)
    states = smooth(trajectory, ode_filter.layout)
    mean, factor = states.mean[::steps, 0, 0], states.factor[::steps, 0, :, 0]
    return -float(np.sum(trajectory.energy)), mean, np.sum(factor**2, axis=1)


LONG = pytest.mark.long


@FORMS
@pytest.mark.parametrize(
    ("order", "steps"),
    [(1, 1), (2, 3), *(pytest.param(*case, marks=LONG) for case in ((1, 3), (2, 1), (3, 1), (3, 3)))],
)
def test_integrals_of_white_noise_are_exact(form: type[ODEFilter], order: int, steps: int) -> None:
    """x^(n) = s w: nothing is left to the integration, and steps and smoothness make no difference."""
    start = np.ones(order)
    coefficients = [0.0] * order
    for value, expected in zip(
        found(form, coefficients, 2, steps, start), exact(np.eye(order, k=1), start), strict=True
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-8, atol=1e-8)


@FORMS
def test_integrals_of_white_noise_are_exact_under_coloured_noise(form: type[ODEFilter]) -> None:
    """What the smoother reverts is process noise, steps within an interval and the ageing of the noise."""
    start = np.ones(2)
    values = found(form, [0.0, 0.0], 1, 2, start, correlation_time=0.5)
    for value, expected in zip(values, exact(np.eye(2, k=1), start, correlation_time=0.5), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-8, atol=1e-8)


SYSTEMS = {"relaxation": [-0.8], "oscillator": [-2.0, -0.3]}


@pytest.mark.parametrize(
    ("name", "further"),
    [
        ("oscillator", 2),
        *(pytest.param(*case, marks=LONG) for case in (("oscillator", 1), ("relaxation", 1), ("relaxation", 2))),
    ],
)
def test_linear_equations_converge_to_the_exact_likelihood(name: str, further: int) -> None:
    """With the step, at order 2 or more: what remains is the error of the mean's integration, of which with
    q = order + 2 and 16 steps per sample less than 1e-7 is left."""
    coefficients = SYSTEMS[name]
    start = np.ones(len(coefficients))
    expected = exact(linear_model(coefficients)[1], start)
    errors = []
    for steps in (2, 4, 16):
        values = found(ArrayFilter, coefficients, further, steps, start)
        errors.append(max(np.max(np.abs(np.subtract(*pair))) for pair in zip(values, expected, strict=True)))
    assert errors[1] < errors[0] / 2**2 and errors[2] < errors[1] / 4**2
    assert errors[-1] < (1e-5 if further == 1 else 1e-7)


HELD = ps.Record(
    {"u": np.random.default_rng(0).uniform(1, 3, 20)},
    {"y": 1.5 + 0.3 * np.random.default_rng(1).normal(size=20)},
    dt=0.5,
    intersample="zoh",
)
SATURATING = ps.Model({"x": 1}, lambda s, u, p: {"x": u.u - s.x**2}, lambda s, u, p: {"y": s.x})


def held(form: type[ODEFilter], steps: int) -> tuple[float, np.ndarray]:
    """Log likelihood, and the standard deviation at a sample and one step after it, where the input jumps."""
    ode_filter = form(SATURATING, Layout((1,), (3,)), ps.EKF1(), ps.Dynamic(2.0), restarts=True)
    particle = Particle({}, [np.full(1, NOISE)], [np.ones(1)], [np.zeros(1)], [np.full(1, 0.3)])
    trajectory = trace(ode_filter, particle, prepare(HELD, ode_filter, steps), HELD.time)
    rows = trajectory.filtered.factor[[5 * steps, 5 * steps + 1], 0, :, 0]
    return -float(np.sum(trajectory.energy)), np.sqrt(np.sum(rows**2, axis=1))


def test_what_is_known_of_the_state_survives_a_jump_of_the_input() -> None:
    """Over a step of h = 1/32 the variance P becomes P + (s^2 - 2 |J| P) h: with s = 0.3, P = 0.01 and J = -3, by 9 %
    more, and the standard deviation by 4 %, half of it for errors of the order of h.  The likelihood has converged:
    halving the step leaves it where it was, to what its linearisation at the end of each step is worth, 1e-3."""
    coarse, fine = held(ArrayFilter, 8), held(ArrayFilter, 16)
    before, after = fine[1]
    assert after / before == pytest.approx(1.04, abs=0.02)
    assert fine[0] == pytest.approx(coarse[0], abs=1e-3)


@LONG
def test_both_forms_agree_where_inputs_jump() -> None:
    np.testing.assert_allclose(held(UnrolledFilter, 4)[0], held(ArrayFilter, 4)[0], rtol=1e-9)


def driven_record(k3: float, level: float, seed: int) -> ps.Record:
    """x'' = f - 0.2 x' - x - k3 x^3 + level * white noise, by Heun's method with 64 steps per sample."""
    random, step = np.random.default_rng(seed), 0.2 / 64
    state, time, positions = np.array([1.0, 0.0]), 0.0, [1.0]

    def force(t: Any) -> Any:
        return 0.5 * np.cos(0.9 * t) + 0.3 * np.sin(1.7 * t)

    def rate(x: np.ndarray, t: float) -> np.ndarray:
        return np.array([x[1], force(t) - 0.2 * x[1] - x[0] - k3 * x[0] ** 3])

    for _ in range(399):
        for _ in range(64):
            first = rate(state, time)
            state = state + step / 2 * (first + rate(state + step * first, time + step))
            state[1] += level * np.sqrt(step) * random.normal()
            time += step
        positions.append(state[0])
    measured = np.array(positions) + 0.01 * random.normal(size=400)
    return ps.Record({"force": force(np.arange(400) * 0.2)}, {"y": measured}, dt=0.2, intersample="bandlimited")


@pytest.mark.parametrize("k3", [pytest.param(0.0, marks=LONG), 0.5])
def test_the_level_of_a_known_force_is_recovered_at_any_step(k3: float) -> None:
    """Everything else is known; a grid over s.  400 increments would give s to 1 / sqrt(800) = 3.5 %, of which noise
    costs some: the maximum must lie within 4 times 6 %, and move with the step by no more than the grid's spacing."""
    model = ps.Model(
        {"x": 2}, lambda s, u, p: {"x": u.force - 0.2 * s.dx - s.x - k3 * s.x**3}, lambda s, u, p: {"y": s.x}
    )
    levels = 0.2 * np.exp(np.linspace(-0.6, 0.6, 61))
    for seed in (0, 1):
        record = driven_record(k3, 0.2, seed)
        problem = Problem.make(model, {}, {"y": 0.01}, [{"x": 1.0, "dx": 0.0}], {"x": dist.LogNormal(0.0, 1.0)})
        best = []
        for steps in (1, 2, 4):
            solver = ps.Solver(substeps=steps, linearisation="ekf1")
            found = log_likelihood(problem, solver, [record], np.log(levels)[None], Threads(cores=1))
            best.append(levels[np.argmax(found)])
        assert abs(np.log(best[0] / 0.2)) < 4 * 0.06
        np.testing.assert_allclose(best, best[0], rtol=0.021)


def test_simulations_have_the_variance_of_the_force() -> None:
    """x' = -x + s w from 0: variance s^2 (1 - exp(-2 t)) / 2, drawn by 4000 particles: 2.2 %, here 4 times that."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": -s.x}, lambda s, u, p: {"y": s.x})
    record = ps.Record(inputs={}, outputs={"y": np.zeros(5)}, dt=0.25)
    outputs, _, _ = simulate(model, {}, np.zeros((1, 4000)), record, process_noise={"x": np.full(4000, LEVEL)})
    expected = LEVEL**2 * (1 - np.exp(-2 * record.time[1:])) / 2
    np.testing.assert_allclose(np.var(outputs["y"][:, 1:], axis=0), expected, rtol=4 * np.sqrt(2 / 4000))


def test_the_default_prior_has_the_scale_of_the_data() -> None:
    """A position of 2 sin(3 t): velocities have a spread of 3 sqrt(2), a radian takes 1/3 s; a tenth of one per root of
    the other.  The strongest line of the spectrum is known to half a line of 30."""
    model = ps.Model({"x": 2}, lambda s, u, p: {"x": -p.k * s.x}, lambda s, u, p: {"y": 5 * s.x})
    time = np.arange(630) * 0.1
    record = ps.Record(inputs={}, outputs={"y": 10 * np.sin(3 * time)}, dt=0.1)
    prior = default_prior(model, {"k": dist.LogNormal(2.0, 0.1)}, [record], "x")
    assert float(np.exp(prior.loc)) == pytest.approx(0.1 * 3 * np.sqrt(2) * np.sqrt(3), rel=0.05)


def test_a_coordinate_that_no_output_depends_on_has_no_default_prior() -> None:
    model = ps.Model({"x": 1, "z": 1}, lambda s, u, p: {"x": -s.x, "z": -s.z}, lambda s, u, p: {"y": s.x})
    record = ps.Record(inputs={}, outputs={"y": np.arange(9.0)}, dt=0.1)
    with pytest.raises(ps.InputError, match="process_noise of 'z' is 'auto', but no measured output depends on 'z'"):
        default_prior(model, {}, [record], "z")
