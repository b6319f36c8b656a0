"""A small Duffing problem that several tests share: its filter compiles once a process."""

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.posterior.simulate import simulate

TRUTH = {"m": 1.0, "c": 0.1, "k": 1.0, "k3": 0.5}
NOISE = 0.02
DT = 0.1

model = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
    outputs=lambda s, u, p: {"position": s.x},
    units={"m": "kg"},
    name="Duffing oscillator",
)

PRIORS = {
    "m": dist.LogNormal(0, 0.3),
    "c": dist.LogNormal(-2, 1.0),
    "k": dist.LogNormal(0, 0.5),
    "k3": dist.LogNormal(-1, 1.0),
}
INITIAL = {"x": 0.0, "dx": 0.0}
SOLVER = ps.Solver(smoothness=4, substeps=1, linearisation="ekf1", diffusion="quasi-mle")  # quick to compile


def measure(samples: int, seed: int = 0, intersample: str = "linear") -> ps.Record:
    """A multisine force and the position it causes from rest, with noise."""
    random = np.random.default_rng(seed)
    time = DT * np.arange(samples)
    force = 0.3 * sum(np.cos(w * time + random.uniform(0, 2 * np.pi)) for w in np.linspace(0.3, 3, 12))
    record = ps.Record(inputs={"force": force}, outputs={"position": np.zeros(samples)}, dt=DT, intersample=intersample)
    exact = simulate(model, {k: np.array([v]) for k, v in TRUTH.items()}, np.zeros((2, 1)), record, 8)
    noisy = exact[0]["position"][0] + NOISE * random.standard_normal(samples)
    return record.replace(outputs={"position": noisy}, units={"position": "m"})


def options(**changes: object) -> dict:
    """Arguments of identify and Identifier."""
    given = {
        "priors": PRIORS,
        "noise": {"position": dist.LogNormal(-4, 1.0)},
        "initial": INITIAL,
        "solver": SOLVER,
        "sampler": ps.Sampler(particles=128, recover=False),  # too few to be trusted always
    }
    return {**given, **changes}
