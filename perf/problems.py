"""The oscillators that kernels are timed on, with their data.

Nothing here needs probsysid or JAX, so that the other libraries' environment can read it too.  Dynamics and outputs
use operators only and work on numbers and arrays of any kind.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

SAMPLES = 513
"""The first sample has no step before it: 512 steps."""
PARTICLES = 1024

Function = Callable[[Any, Any, Any], dict[str, Any]]


@dataclass(frozen=True)
class Problem:
    """A model, its true constants, and how its record is made."""

    name: str
    coordinates: Mapping[str, int]
    smoothness: tuple[int, ...]
    dynamics: Function
    outputs: Function
    parameters: Mapping[str, float]
    dt: float
    force: float
    """Root-mean-square of the multisine input."""
    band: tuple[float, float]
    """Its lowest and highest frequency, in hertz."""
    noise: float
    """Standard deviation of the measurement noise."""
    initial_sd: tuple[float, ...]
    """Of each physical component."""
    diffusion: tuple[float, ...]
    """Square root of each coordinate's diffusion, near the final running estimate: for libraries that fix it."""


DUFFING = Problem(
    name="duffing",
    coordinates={"x": 2},
    smoothness=(3,),
    dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x * s.x * s.x) / p.m},
    outputs=lambda s, u, p: {"position": s.x},
    parameters={"m": 5.9e-6, "c": 2.1e-4, "k": 1.0, "k3": 4.0},  # like the Silverbox's
    dt=1 / 610.35,
    force=0.05,
    band=(5.0, 120.0),
    noise=1e-3,
    initial_sd=(1e-3, 1.0),
    diffusion=(4e8,),
)

BOUC_WEN = Problem(
    name="bouc_wen",
    coordinates={"x": 2, "z": 1},
    smoothness=(3, 2),
    dynamics=lambda s, u, p: {
        "x": (u.force - p.c * s.dx - p.k * s.x - s.z) / p.m,
        "z": p.alpha * s.dx - p.beta * (p.gamma * abs(s.dx) * s.z + p.delta * s.dx * abs(s.z)),
    },
    outputs=lambda s, u, p: {"acceleration": s.ddx},
    # the benchmark of Noel and Schoukens, nu = 1
    parameters={"m": 2.0, "c": 10.0, "k": 5e4, "alpha": 5e4, "beta": 1e3, "gamma": 0.8, "delta": -1.1},
    dt=1 / 750,
    force=50.0,
    band=(5.0, 150.0),
    noise=0.5,
    initial_sd=(1e-5, 1e-3, 1.0),
    diffusion=(4.5e5, 2.2e8),
)

PROBLEMS = (DUFFING, BOUC_WEN)


def chain(masses: int) -> Problem:
    """Masses in a row, each tied to the next by a hardening spring and a damper and the last to the ground; the first
    one is forced and measured.  Four state components per mass."""

    def dynamics(s: Any, u: Any, p: Any) -> dict[str, Any]:
        x, v = ([getattr(s, f"{prefix}x{i}") for i in range(masses)] for prefix in ("", "d"))
        stretch, speed = ([a - b for a, b in zip(y, [*y[1:], 0.0], strict=True)] for y in (x, v))
        force = [p.k * d + p.k3 * d * d * d + p.c * e for d, e in zip(stretch, speed, strict=True)]
        return {f"x{i}": (pull - force[i]) / p.m for i, pull in enumerate([u.force, *force[:-1]])}

    return Problem(
        name=f"chain of {masses}",
        coordinates={f"x{i}": 2 for i in range(masses)},
        smoothness=(3,) * masses,
        dynamics=dynamics,
        outputs=lambda s, u, p: {"position": s.x0},
        parameters={"m": 1.0, "c": 10.0, "k": 1.6e4, "k3": 5e3},  # 20 Hz each
        dt=1 / 500,
        force=8e3,
        band=(5.0, 60.0),
        noise=1e-2,
        initial_sd=(1e-2, 1.0) * masses,
        diffusion=(3e7,) * masses,
    )


CHAINS = tuple(chain(masses) for masses in (2, 3, 4, 5))
"""States of 8, 12, 16 and 20."""


@dataclass(frozen=True)
class Data:
    """What a filter reads."""

    force: Callable[[Any], Any]
    """The input as a function of time."""
    inputs: np.ndarray
    """Force and its time derivative at every sample: (sample, 2)."""
    halfway: np.ndarray
    """Force in the middle of the interval before each sample, for Runge-Kutta."""
    outputs: np.ndarray
    """Measured output at every sample."""
    parameters: Mapping[str, np.ndarray]
    """One array over particles for each parameter."""
    initial: np.ndarray
    """Mean of each physical component; the same for all particles."""


def make_data(problem: Problem, samples: int = SAMPLES, particles: int = PARTICLES, seed: int = 0) -> Data:
    """A multisine record of the true system, finely integrated, and particles within a per cent of the truth."""
    rng = np.random.default_rng(seed)
    force = _multisine(problem, rng)
    time = problem.dt * np.arange(samples)
    outputs = _simulate(problem, lambda t: force(t)[0], samples) + problem.noise * rng.normal(size=samples)
    parameters = {name: value * np.exp(0.01 * rng.normal(size=particles)) for name, value in problem.parameters.items()}
    return Data(
        force=lambda t: force(t)[0],
        inputs=np.stack(force(time), axis=-1),
        halfway=force(time - problem.dt / 2)[0],
        outputs=outputs,
        parameters=parameters,
        initial=np.zeros(len(problem.initial_sd)),
    )


def highest(problem: Problem, physical: Any, force: Any, parameters: Mapping[str, Any]) -> list[Any]:
    """The dynamics on plain lists: physical components in, the highest derivative of each coordinate out."""
    values = problem.dynamics(_state(problem, physical), SimpleNamespace(force=force), SimpleNamespace(**parameters))
    return [values[name] for name in problem.coordinates]


def first_order(problem: Problem, physical: Any, force: Any, parameters: Mapping[str, Any]) -> list[Any]:
    """Time derivative of every physical component."""
    top = highest(problem, physical, force, parameters)
    slopes, k = [], 0
    for value, order in zip(top, problem.coordinates.values(), strict=True):
        slopes += [*physical[k + 1 : k + order], value]
        k += order
    return slopes


def measured(problem: Problem, physical: Any, force: Any, parameters: Mapping[str, Any]) -> Any:
    """The one output, with the highest derivatives taken from the dynamics."""
    state = _state(problem, physical)
    for (name, order), value in zip(
        problem.coordinates.items(), highest(problem, physical, force, parameters), strict=True
    ):
        setattr(state, "d" * order + name, value)
    (value,) = problem.outputs(state, SimpleNamespace(force=force), SimpleNamespace(**parameters)).values()
    return value


def runge_kutta(problem: Problem, x: Any, forces: tuple[Any, Any, Any], dt: float, parameters: Mapping) -> list[Any]:
    """One classical fourth-order step; `forces` at the beginning, the middle and the end."""

    def slope(point: Any, force: Any) -> list[Any]:
        return first_order(problem, point, force, parameters)

    def shifted(by: float, slopes: Any) -> list[Any]:
        return [a + by * b for a, b in zip(x, slopes, strict=True)]

    k1 = slope(x, forces[0])
    k2 = slope(shifted(dt / 2, k1), forces[1])
    k3 = slope(shifted(dt / 2, k2), forces[1])
    k4 = slope(shifted(dt, k3), forces[2])
    return [a + dt / 6 * (b + 2 * c + 2 * d + e) for a, b, c, d, e in zip(x, k1, k2, k3, k4, strict=True)]


def _state(problem: Problem, physical: Any) -> SimpleNamespace:
    names = ["d" * i + name for name, order in problem.coordinates.items() for i in range(order)]
    return SimpleNamespace(**dict(zip(names, physical, strict=True)))


def _multisine(problem: Problem, rng: np.random.Generator) -> Callable[[Any], tuple[Any, Any]]:
    """A force of many random-phase sines and its time derivative, as functions of time."""
    frequency = 2 * np.pi * np.arange(problem.band[0], problem.band[1], 2.5)
    phase = rng.uniform(0, 2 * np.pi, len(frequency))
    amplitude = problem.force * np.sqrt(2 / len(frequency))

    def force(t: Any) -> tuple[Any, Any]:
        angle = np.asarray(t)[..., None] * frequency + phase
        return amplitude * np.sin(angle).sum(-1), amplitude * (frequency * np.cos(angle)).sum(-1)

    return force


def _simulate(problem: Problem, force: Callable[[Any], Any], samples: int, substeps: int = 20) -> np.ndarray:
    x: list[Any] = [0.0 for _ in problem.initial_sd]
    step = problem.dt / substeps
    grid = force(np.arange(2 * substeps * (samples - 1) + 1) * step / 2)
    result = []
    for k in range(samples):
        start = 2 * substeps * k
        result.append(measured(problem, x, grid[start], problem.parameters))
        if k < samples - 1:
            for j in range(start, start + 2 * substeps, 2):
                x = runge_kutta(problem, x, (grid[j], grid[j + 1], grid[j + 2]), step, problem.parameters)
    return np.array(result)
