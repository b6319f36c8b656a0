"""Models and data for the tests.  Dynamics use plain arithmetic, so the textbook filter can evaluate them too."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from probsysid.model.model import Model
from tests.odefilter.cases import Case, input_derivatives


def duffing(outputs: Any = None) -> Model:
    """A mass on a hardening spring, forced."""
    return Model(
        {"x": 2},
        lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
        outputs or (lambda s, u, p: {"position": s.x}),
        name="Duffing oscillator",
    )


def bouc_wen() -> Model:
    """Hysteresis; nu = 1."""
    return Model(
        {"x": 2, "z": 1},
        lambda s, u, p: {
            "x": (u.force - p.c * s.dx - p.k * s.x - s.z) / p.m,
            "z": p.alpha * s.dx - p.beta * (p.gamma * abs(s.dx) * s.z + p.delta * s.dx * abs(s.z)),
        },
        lambda s, u, p: {"acceleration": s.ddx},
        name="Bouc-Wen oscillator",
    )


def multisine(time: np.ndarray, frequencies: np.ndarray, phases: np.ndarray, order: int) -> np.ndarray:
    """A sum of cosines and its time derivatives, (time, derivative)."""
    angular = 2 * np.pi * frequencies
    return np.stack(
        [
            np.sum(angular**k * np.cos(angular * time[..., None] + phases + k * np.pi / 2), axis=-1)
            for k in range(order + 1)
        ],
        axis=-1,
    )


def step_times(time: np.ndarray, substeps: int) -> np.ndarray:
    """End of each step, (sample, substep); the first sample repeats the first time."""
    ends = time[:-1, None] + np.diff(time)[:, None] * np.arange(1, substeps + 1) / substeps
    return np.concatenate([np.full((1, substeps), time[0]), ends])


def mixed(orders: Sequence[int], outputs: int) -> Model:
    """Coupled coordinates of any orders, damped and weakly nonlinear, with outputs of all kinds.

    The k-th output measures a mixture of a position, the highest derivative of another coordinate, the input, and a
    product of two components.
    """
    names = ["x", "y", "z"][: len(orders)]

    def dynamics(s: Any, u: Any, p: Any) -> dict[str, Any]:
        s = vars(s) if hasattr(s, "__dict__") and "_values" not in vars(s) else s
        result = {}
        for c, (name, order) in enumerate(zip(names, orders, strict=True)):
            value = p.gain * u.force - p.cubic * s[name] ** 3
            for i in range(order):
                value = value - (p.stiffness + 0.3 * c) * (1 + 0.5 * i) * s["d" * i + name]
            for other in names:
                if other != name:
                    value = value + p.coupling * s[other] / (2 + s[other] * s[other])
            result[name] = value
        return result

    def measured(s: Any, u: Any, p: Any) -> dict[str, Any]:
        s = vars(s) if hasattr(s, "__dict__") and "_values" not in vars(s) else s
        result = {}
        for k in range(outputs):
            name, other = names[k % len(names)], names[(k + 1) % len(names)]
            highest = s["d" * orders[names.index(other)] + other]
            result[f"output_{k}"] = s[name] + 0.5 * k * highest + 0.2 * (k % 2) * s[other] ** 2 + 0.1 * p.gain * u.force
        return result

    return Model(dict(zip(names, orders, strict=True)), dynamics, measured)


def random_case(
    rng: np.random.Generator,
    orders: Sequence[int],
    smoothness: Sequence[int],
    outputs: int,
    samples: int,
    particles: int,
    substeps: int = 1,
    missing: float = 0.0,
    **settings: Any,
) -> Case:
    """Numbers of order one, drawn at random; the data need not come from the model.

    Inputs are smooth but for small jumps at the samples: a jump of order one inside a step contradicts the prior, whose
    answer is a state a hundred times larger, and soon infinite.
    """
    uniform = settings.get("uniform", True)
    gaps = np.full(samples - 1, 0.2) if uniform else rng.uniform(0.1, 0.35, samples - 1)
    model = mixed(orders, outputs)
    time = np.concatenate([[0.0], np.cumsum(gaps)])
    frequencies, phases = rng.uniform(0, 0.3, 3), rng.uniform(0, 2 * np.pi, 3)
    inputs = multisine(time, frequencies, phases, input_derivatives(model, smoothness))
    data = rng.normal(size=(samples, outputs))
    data[rng.uniform(size=data.shape) < missing] = np.nan
    physical = sum(orders)
    settings.setdefault("process_noise", None)
    return Case(
        model=model,
        smoothness=tuple(smoothness),
        time=time,
        outputs=data,
        noise=rng.uniform(0.2, 0.6, (outputs, particles)),
        initial_mean=rng.normal(size=(physical, particles)),
        initial_sd=rng.uniform(0.05, 0.5, (physical, particles)),
        parameters={
            "gain": rng.uniform(0.5, 1.5, particles),
            "cubic": rng.uniform(0, 0.3, particles),
            "stiffness": rng.uniform(0.5, 1.5, particles),
            "coupling": rng.uniform(-0.5, 0.5, particles),
        },
        grid=0.4 * multisine(step_times(time, substeps), frequencies, phases, 0),
        inputs=0.4 * (inputs + 0.02 * rng.normal(size=inputs.shape))[:, None, :],
        substeps=substeps,
        **settings,
    )
