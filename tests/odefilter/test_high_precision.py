"""The fast filter against the textbook filter in 50-digit arithmetic, on two systems of the benchmarks."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from tests.odefilter.cases import Case, input_derivatives, physical_mean
from tests.odefilter.problems import bouc_wen, duffing, multisine, step_times
from tests.odefilter.textbook import Textbook, digits

TOLERANCE = 1e-8


def simulated(case: Case, force: Any, output: Any, noise: float, seed: int) -> Case:
    """The case with data: a fine integration, plus noise, for the parameters of particle 0."""
    p = {name: float(value[0]) for name, value in case.parameters.items()}
    model = case.model

    def field(t: float, state: np.ndarray) -> list[float]:
        values = dict(zip(model.physical_names, state, strict=True))
        names = type("Namespace", (), values)()
        inputs = type("Namespace", (), {"force": force(np.array(t), 0)[0]})()
        highest = model.dynamics(names, inputs, type("Namespace", (), p)())
        derivatives = []
        for name, order in model.coordinates.items():
            derivatives += [values["d" * (i + 1) + name] for i in range(order - 1)] + [highest[name]]
        return derivatives

    solution = solve_ivp(
        field, case.time[[0, -1]], case.initial_mean[:, 0], t_eval=case.time, method="DOP853", rtol=1e-9, atol=1e-14
    )
    clean = np.array([output(state, field(t, state)) for t, state in zip(case.time, solution.y.T, strict=True)])
    rng = np.random.default_rng(seed)
    return case.change(outputs=(clean + noise * rng.normal(size=len(clean)))[:, None])


def forced(model: Any, smoothness: tuple[int, ...], dt: float, samples: int, force: Any, **settings: Any) -> Case:
    time = dt * np.arange(samples)
    return Case(
        model,
        smoothness,
        time=time,
        outputs=np.zeros((samples, 1)),
        grid=force(step_times(time, 1), 0)[:, :, :1],
        inputs=force(time, input_derivatives(model, smoothness))[:, None, :],
        **settings,
    )


def silverbox_case() -> Case:
    """A Duffing oscillator of the Silverbox's size: resonance at 70 Hz, 610 samples per second, 2 mV of noise."""
    dt = 1 / 610.35
    rng = np.random.default_rng(0)
    frequencies, phases = np.linspace(5, 150, 30), rng.uniform(0, 2 * np.pi, 30)

    def force(time: np.ndarray, order: int) -> np.ndarray:
        return 0.01 * multisine(time, frequencies, phases, order)

    mass = 5.2e-6
    spread = np.array([1.0, 1.05, 0.9])  # three particles: the truth and two others
    case = forced(
        duffing(),
        (3,),
        dt,
        100,
        force,
        parameters={"m": mass * spread, "c": 2.2e-4 / spread, "k": 1.0 * spread**2, "k3": 3.8 * spread},
        noise=np.full((1, 3), 2e-3),
        initial_mean=np.zeros((2, 3)),
        initial_sd=np.array([[1e-2] * 3, [3.0] * 3]),
    )
    return simulated(case, force, lambda state, derivative: state[0], 2e-3, seed=1)


def bouc_wen_case() -> Case:
    """The benchmark's parameters, 4096 samples per second of a measured acceleration with 5 % of noise."""
    rng = np.random.default_rng(0)
    frequencies, phases = np.linspace(0.5, 100, 60), rng.uniform(0, 2 * np.pi, 60)

    def force(time: np.ndarray, order: int) -> np.ndarray:
        return 20.0 * multisine(time, frequencies, phases, order)

    spread = np.array([1.0, 1.1])
    parameters = {"m": 2.0, "c": 10.0, "k": 5e4, "alpha": 5e4, "beta": 1e3, "gamma": 0.8, "delta": -1.1}
    case = forced(
        bouc_wen(),
        (3, 2),
        1 / 4096,
        100,
        force,
        parameters={name: value * spread for name, value in parameters.items()},
        noise=np.full((1, 2), 2.0),
        initial_mean=np.zeros((3, 2)),
        initial_sd=np.array([[1e-5] * 2, [1e-2] * 2, [1.0] * 2]),
    )
    return simulated(case, force, lambda state, derivative: derivative[1], 2.0, seed=1)


@pytest.mark.parametrize("make", [pytest.param(silverbox_case, marks=pytest.mark.long), bouc_wen_case])
def test_energies_and_final_means_over_100_samples(make: Any) -> None:
    """Measured on both: energies within 3e-14, means within 6e-13 standard deviations."""
    case = make()
    energies, packed = case.run()
    means = physical_mean(case, packed)
    numbers = digits(50)
    for n in range(case.particles):
        expected = Textbook(case, n, numbers).run()
        # In nats: the scale of an energy is 1.
        exact = np.array(expected.energy, dtype=float)
        np.testing.assert_allclose(energies[:, n], exact, rtol=TOLERANCE, atol=TOLERANCE)
        mean, covariance = expected.points[-1]
        sd = np.sqrt(np.diag(covariance).astype(float))
        assert np.max(np.abs(means[:, n] - mean.astype(float)) / sd) < TOLERANCE
        velocities = [float(point.mean[1]) for point in expected.points]
        assert min(velocities) < 0 < max(velocities)  # the kinks of Bouc-Wen's model are crossed
    # The data are informative: no other particle has a lower energy than the truth.
    assert np.argmin(energies.sum(axis=0)) == 0
