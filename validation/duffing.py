"""The oscillator shared by the studies, and data simulated from it."""

from collections.abc import Mapping

import numpy as np

import probsysid as ps
from probsysid.posterior.simulate import simulate

DT = 0.2
"""About 20 samples per period of the highest relevant frequency."""

FINE = 32
"""Runge-Kutta steps per sample for the truth: its error is 1e-9 of the motion."""

SOLVER = ps.Solver(smoothness=4, substeps=2, linearisation="ekf1", diffusion="quasi-mle")

MODEL = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
    outputs=lambda s, u, p: {"position": s.x},
    name="Duffing oscillator",
)


def multisine(samples: int, seed: int) -> np.ndarray:
    """A random-phase multisine around the resonance with a root mean square of about one."""
    random = np.random.default_rng(seed)
    time, lines = DT * np.arange(samples), np.linspace(0.2, 4.0, 40)
    return sum(np.cos(line * time + random.uniform(0, 2 * np.pi)) for line in lines) / np.sqrt(20)


def measured(
    force: np.ndarray, parameters: Mapping[str, float], noise: float, start: np.ndarray, random: np.random.Generator
) -> ps.Record:
    """A noisy record of the true motion."""
    record = ps.Record(inputs={"force": force}, dt=DT, intersample="linear")
    values = {name: np.array([value]) for name, value in parameters.items()}
    outputs, _, _ = simulate(MODEL, values, np.asarray(start, dtype=float)[:, None], record, FINE)
    return record.replace(outputs={"position": outputs["position"][0] + noise * random.standard_normal(len(force))})
