"""Fenrir and DALTON against their definitions, which share nothing with the package but the model's functions.

*Brute force*: the states of all steps, all ODE residuals and all data as one Gaussian (numpy).  *Backwards*: the
textbook's filter without data, its smoother's kernels, and a Kalman filter that runs backwards on them (50 digits), as
Fenrir is defined and as ProbNumDiffEq.jl computes it.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from probsysid.model.model import Model
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.data_given_ode import DataGivenODE
from probsysid.odefilter.diffusion import Dynamic, Fixed, Given, QuasiMLE
from probsysid.odefilter.filter import VectorisedFilter
from tests.odefilter.bruteforce import Affine, Joint
from tests.odefilter.cases import Case
from tests.odefilter.differentiate import gradients
from tests.odefilter.problems import multisine, step_times
from tests.odefilter.textbook import Moments, Textbook, block_diagonal, cholesky, digits, forward, transition
from tests.odefilter.textbook import process as process_noise

# Round-off, as in test_linear_gaussian.py: the prior's standard deviations are up to 1e4 times the posterior's.
TOLERANCE = 1e-8

DIGITS = digits(40)


def decay() -> Model:
    """First order; linear output."""
    return Model({"x": 1}, lambda s, u, p: {"x": u.force - p.rate * s.x - 0.5 * s.x**3}, lambda s, u, p: {"y": s.x})


def oscillator() -> Model:
    """Second order; position, and acceleration."""
    return Model(
        {"x": 2},
        lambda s, u, p: {"x": u.force - 0.3 * s.dx - p.rate * s.x - 0.7 * s.x**3},
        lambda s, u, p: {"position": s.x, "acceleration": s.ddx},
    )


def coupled() -> Model:
    """Orders 2 and 1."""
    return Model(
        {"x": 2, "z": 1},
        lambda s, u, p: {"x": u.force - 0.3 * s.dx - p.rate * s.x - s.z * s.z, "z": s.dx * s.x - 0.7 * s.z},
        lambda s, u, p: {"position": s.x, "mixture": 0.5 * s.x - s.z + 0.5 * u.force},
    )


def bent() -> Model:
    """Nonlinear in the output, too."""
    return Model(
        {"x": 2},
        lambda s, u, p: {"x": u.force - 0.3 * s.dx - p.rate * s.x - 0.7 * s.x**3},
        lambda s, u, p: {"square": s.x + 0.3 * s.x**2 + 0.1 * s.ddx},
    )


def case_of(model: Model, smoothness: tuple[int, ...], seed: int, samples: int = 7, **settings: Any) -> Case:
    rng = np.random.default_rng(seed)
    substeps, uniform = settings.get("substeps", 1), settings.get("uniform", True)
    gaps = np.full(samples - 1, 0.25) if uniform else rng.uniform(0.1, 0.4, samples - 1)
    time = np.concatenate([[0.0], np.cumsum(gaps)])
    outputs = rng.normal(size=(samples, len(model.output_names)))
    outputs[rng.uniform(size=outputs.shape) < 0.25] = np.nan
    frequencies, phases = rng.uniform(0, 0.3, 3), rng.uniform(0, 2 * np.pi, 3)
    physical, particles = len(model.physical_names), 2
    settings.setdefault("diffusion", Fixed(0.8))
    return Case(
        model=model,
        smoothness=smoothness,
        time=time,
        outputs=outputs,
        noise=rng.uniform(0.1, 0.5, (outputs.shape[1], particles)),
        initial_mean=rng.normal(size=(physical, particles)),
        initial_sd=rng.uniform(0.0, 0.3, (physical, particles)),
        parameters={"rate": rng.uniform(1, 3, particles)},
        grid=0.4 * multisine(step_times(time, substeps), frequencies, phases, 0),
        inputs=0.4 * multisine(time, frequencies, phases, max(smoothness) + 2)[:, None, :],
        **settings,
    )


class Walk(NamedTuple):
    """Of a textbook filter: where it linearises, and the states themselves."""

    predicted: list[np.ndarray]
    """Mean at every step, before the ODE."""
    variance: list[np.ndarray]
    departed: list[np.ndarray]
    """Mean at every sample, before a restart."""
    arrived: list[np.ndarray]
    """Mean at every sample, before its data."""
    states: list[Moments]
    """At every step."""


class GivenInTurn:
    """In place of the textbook's estimator of one coordinate's diffusion."""

    def __init__(self, variances: list[float]):
        self.left = list(variances)

    def update(self, *_: Any) -> Any:
        return DIGITS.convert(self.left.pop(0))


def walk(case: Case, particle: int, variance: list[np.ndarray] | None = None) -> Walk:
    """The filter without data, or with data and given squared diffusions."""
    book = Textbook(case.change(joint=variance is not None), particle, DIGITS)
    seen = np.full(case.outputs.shape, np.nan) if variance is None else case.outputs
    if variance is not None:
        book.estimators = [GivenInTurn(list(column)) for column in np.array(variance).T]
    state = book.start()
    found = Walk([], [], [], [state.mean], [])
    state, _ = book.observe(state, seen[0], book.inputs[0])
    found.states.append(state)
    for k in range(1, case.samples):
        h = DIGITS.convert(case.steps[k])
        found.departed.append(state.mean)
        if case.restarts:
            state = book.restart(state, book.inputs[k - 1])
        for j in range(case.substeps):
            a = block_diagonal([transition(q, h) for q in case.smoothness], DIGITS)
            found.predicted.append(a @ state.mean)
            state, variance = book.step(state, h, book.grid[k, j])
            found.variance.append(np.array(variance, dtype=float))
            found.states.append(state)
        found.arrived.append(state.mean)
        state, _ = book.observe(state, seen[k], book.inputs[k])
        found.states[-1] = state
    return found


def brute_force(case: Case, particle: int, along: Walk, variance: list[np.ndarray]) -> Joint:
    """All states as one Gaussian, with the ODE linearised along a walk."""
    book = Textbook(case, particle)
    size, physical, highest = book.size, book.physical, book.highest
    steps = (case.samples - 1) * case.substeps
    joint = Joint(columns=len(physical) + steps * (size + len(highest)) + case.outputs.size)

    def complete(state: Affine, at: np.ndarray, inputs: np.ndarray) -> Affine:
        """Linearised at a mean of the physical components."""
        exact = Textbook(case, particle, DIGITS)
        zero = DIGITS.zeros(len(physical), len(physical))
        base = np.array(exact.complete(list(at), zero, inputs).mean, dtype=float)
        slopes = [slope(exact, at, inputs, i) for i in range(len(physical))]
        change = np.stack(slopes, axis=1)
        at = np.array(at, dtype=float)
        return Affine(base + change @ (state.mean[physical] - at), change @ state.weights[physical])

    def slope(exact: Textbook, at: np.ndarray, inputs: np.ndarray, i: int) -> np.ndarray:
        """The column of the map's Jacobian: its covariance with the i-th physical component."""
        covariance = DIGITS.zeros(len(physical), len(physical))
        covariance[i, i] = DIGITS.convert(1)
        return np.array(exact.complete(list(at), covariance, inputs).covariance[:, physical[i]], dtype=float)

    def observe(state: Affine, k: int) -> None:
        seen = [*physical, *highest]
        at = np.array(along.arrived[k], dtype=float)[seen]
        values, slopes = gradients(lambda x: book.measured(x, list(book.inputs[k][:, 0])), list(at))
        values, slopes = np.array(values, dtype=float), np.array(slopes, dtype=float)
        for i, y in enumerate(case.outputs[k]):
            if not np.isnan(y):
                joint.known_until.append(len(joint.rows))  # rows that are data
                joint.rows.append(slopes[i] @ state.weights[seen] + book.noise[i] * joint.fresh(1)[0])
                joint.misses.append(y - values[i] - slopes[i] @ (state.mean[seen] - at))
                joint.samples.append(k)

    mean, sd = book.initial
    at = DIGITS.array(np.array(mean))
    state = Affine(np.zeros(size), np.zeros((size, joint.columns)))
    state.mean[physical] = mean
    state.weights[physical] = np.array(sd)[:, None] * joint.fresh(len(physical))
    state = complete(state, at, Textbook(case, particle, DIGITS).inputs[0])
    observe(state, 0)
    for k in range(1, case.samples):
        if case.restarts:
            exact = along.departed[k - 1][physical]
            state = complete(state, exact, Textbook(case, particle, DIGITS).inputs[k - 1])
        for j in range(case.substeps):
            step = (k - 1) * case.substeps + j
            h = case.steps[k]
            a = np.array(block_diagonal([transition(q, h) for q in case.smoothness], book.numbers), dtype=float)
            pairs = zip(variance[step], case.smoothness, strict=True)
            q = block_diagonal([process_noise(q, DIGITS.convert(h)) * float(v) for v, q in pairs], DIGITS)
            root = np.array(cholesky(q, DIGITS), dtype=float)
            state = Affine(a @ state.mean, a @ state.weights + root @ joint.fresh(size))
            at = np.array(along.predicted[step], dtype=float)[physical]
            values, slopes = gradients(lambda x: book.field(x, list(book.grid[k, j])), list(at))  # noqa: B023
            values, slopes = np.array(values, dtype=float), np.array(slopes, dtype=float)
            slopes = slopes if book.full else 0 * slopes
            spread = case.ode_noise * joint.fresh(len(highest))
            joint.rows.extend(state.weights[highest] - slopes @ state.weights[physical] + spread)
            joint.misses.extend(values + slopes @ (state.mean[physical] - at) - state.mean[highest])
            joint.samples.extend([k] * len(highest))
        observe(state, k)
    return joint


def log_densities(joint: Joint, samples: int, data: bool) -> np.ndarray:
    """Of the ODE's residuals, with the data or without, up to each sample."""
    chosen = [i for i in range(len(joint.rows)) if data or i not in joint.known_until]
    _, r = np.linalg.qr(np.array(joint.rows)[chosen].T)
    white = np.linalg.solve(r.T, np.array(joint.misses)[chosen])
    terms = -np.log(np.abs(np.diag(r))) - 0.5 * white**2 - 0.5 * np.log(2 * np.pi)
    result = np.zeros(samples)
    np.add.at(result, np.array(joint.samples)[chosen].astype(int), terms)
    return np.cumsum(result)


def fenrir(case: Case, particle: int) -> np.ndarray:
    """Minus the log likelihood of the record up to each sample."""
    alone = walk(case, particle)
    joint = brute_force(case, particle, alone, alone.variance)
    return log_densities(joint, case.samples, data=False) - log_densities(joint, case.samples, data=True)


def dalton(case: Case, particle: int) -> np.ndarray:
    alone = walk(case, particle)
    data = walk(case, particle, alone.variance)
    without = brute_force(case, particle, alone, alone.variance)
    given = brute_force(case, particle, data, alone.variance)
    return log_densities(without, case.samples, data=False) - log_densities(given, case.samples, data=True)


def backwards(case: Case, particle: int) -> float:
    """Fenrir as it is defined: the smoother's kernels as a prior that runs backwards, conditioned on the data."""
    alone, book = walk(case, particle), Textbook(case, particle, DIGITS)
    state, total = alone.states[-1], 0.0
    for point in range(len(alone.states) - 1, -1, -1):
        if point % case.substeps == 0:
            sample = point // case.substeps
            state, energy = book.observe(state, case.outputs[sample], book.inputs[sample])
            total += float(energy)
        if point == 0:
            return total
        before, h = alone.states[point - 1], DIGITS.convert(case.steps[-(-point // case.substeps)])
        a = block_diagonal([transition(q, h) for q in case.smoothness], DIGITS)
        pairs = zip(alone.variance[point - 1], case.smoothness, strict=True)
        q = block_diagonal([process_noise(q, h) * DIGITS.convert(v) for v, q in pairs], DIGITS)
        lower = cholesky(a @ before.covariance @ a.T + q, DIGITS)
        half = forward(lower, a @ before.covariance)  # G S G' = half' half,  G = half' lower^-1
        eye = DIGITS.array(np.eye(len(lower)))
        gain = half.T @ forward(lower, eye)
        mean = before.mean + gain @ (state.mean - a @ before.mean)
        state = Moments(mean, before.covariance - half.T @ half + gain @ state.covariance @ gain.T)
    raise AssertionError("a record has a first point")


def energies(case: Case, along_solution: bool, arrays: bool = False) -> np.ndarray:
    """The package's, summed up to each sample: (sample, particle)."""
    one = as_array_filter(case.ode_filter) if arrays else case.ode_filter
    pair = DataGivenODE(replace(one, joint=False), replace(one, joint=True, diffusion=Given()), along_solution)
    return np.cumsum(case.energies(VectorisedFilter(pair)), axis=0)


CASES = {
    "first order, q=1": case_of(decay(), (1,), 1),
    "first order, q=2, uneven": case_of(decay(), (2,), 2, uniform=False),
    "second order, q=3": case_of(oscillator(), (3,), 3),
    "second order, q=4, substeps, uneven, estimated": case_of(
        oscillator(), (4,), 4, uniform=False, substeps=2, diffusion=QuasiMLE()
    ),
    "coupled": case_of(coupled(), (3, 2), 5, diffusion=Fixed((0.8, 1.7))),
    "coupled, residual noise": case_of(coupled(), (2, 1), 6, ode_noise=0.3),
    "coupled, restarts, uneven, local": case_of(
        coupled(), (4, 2), 7, uniform=False, restarts=True, diffusion=Dynamic(2.0, floor=0.1)
    ),
}

ARRAYS = ("coupled", "coupled, residual noise", "coupled, restarts, uneven, local")


@pytest.mark.parametrize("name", CASES)
def test_fenrir_is_the_marginal_likelihood_of_the_linearised_process(name: str) -> None:
    """Of the record up to every sample; in both forms of the filter."""
    case = CASES[name]
    expected = np.stack([fenrir(case, n) for n in range(case.particles)], axis=-1)
    np.testing.assert_allclose(energies(case, True), expected, rtol=TOLERANCE, atol=TOLERANCE)
    if name in ARRAYS:
        np.testing.assert_allclose(energies(case, True, arrays=True), expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", [name for name in CASES if "restarts" not in name])
def test_fenrir_is_what_regression_backwards_gives(name: str) -> None:
    case = CASES[name]
    expected = [backwards(case, n) for n in range(case.particles)]
    brute = [fenrir(case, n)[-1] for n in range(case.particles)]
    np.testing.assert_allclose(brute, expected, rtol=TOLERANCE, atol=TOLERANCE)


BENT = case_of(bent(), (3,), 8)


@pytest.mark.parametrize("name", ["second order, q=3", "coupled", "coupled, restarts, uneven, local", "bent"])
def test_dalton_is_a_ratio_of_two_densities(name: str) -> None:
    case = {**CASES, "bent": BENT}[name]
    expected = np.stack([dalton(case, n) for n in range(case.particles)], axis=-1)
    np.testing.assert_allclose(energies(case, False), expected, rtol=TOLERANCE, atol=TOLERANCE)
    if name in ARRAYS:
        np.testing.assert_allclose(energies(case, False, arrays=True), expected, rtol=TOLERANCE, atol=TOLERANCE)
