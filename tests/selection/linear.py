"""A model that is linear in its parameters with Gaussian priors and noise: every evidence is known exactly."""

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

import probsysid as ps
from probsysid import dist

NOISE, DT, SAMPLES, WIDTH = 0.05, 0.1, 60, 1.0
TRUE = {"base": 0.7, "b": 0.5, "d": -0.4}
NAMES = ("b", "c", "d", "e")
TIME = DT * np.arange(SAMPLES)
INPUTS = {name: np.sin((0.4 + 0.7 * i) * TIME + i) for i, name in enumerate(("base", *NAMES))}

model = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a_base * u.base}, name="integrator")
terms = ps.Terms(*(ps.Term(n, dynamics={"x": f"a_{n}*{n}"}, priors={f"a_{n}": dist.Normal(0, WIDTH)}) for n in NAMES))


def integrals() -> dict[str, np.ndarray]:
    """Of the inputs, which are linear between samples: the trapezoidal rule is exact."""
    return {n: np.concatenate([[0], np.cumsum(DT * (v[1:] + v[:-1]) / 2)]) for n, v in INPUTS.items()}


def measure(seed: int = 0) -> ps.Record:
    random = np.random.default_rng(seed)
    position = sum(TRUE[n] * v for n, v in integrals().items() if n in TRUE)
    noisy = position + NOISE * random.standard_normal(SAMPLES)
    return ps.Record(inputs=INPUTS, outputs={"x": noisy}, dt=DT, intersample="linear")


def exact_evidence(records: ps.Record | Sequence[ps.Record], names: Iterable[str]) -> float:
    """Log density of N(0, sd^2 I + w^2 F F'), F the integrals of the model's inputs; all records begin with the first
    sample."""
    listed = [records] if isinstance(records, ps.Record) else records
    found = integrals()
    features = np.stack([found[n] for n in ("base", *names)], axis=1)
    features = np.concatenate([features[: record.samples] for record in listed])
    covariance = NOISE**2 * np.eye(len(features)) + WIDTH**2 * features @ features.T
    measured = np.concatenate([np.asarray(record.outputs["x"]) for record in listed])
    size = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return float(-0.5 * (size + measured @ np.linalg.solve(covariance, measured)))


def subsets() -> list[frozenset[str]]:
    return [frozenset(c) for size in range(len(NAMES) + 1) for c in combinations(NAMES, size)]


def options(**changes: object) -> dict:
    """Arguments of `select` after the record."""
    given = {
        "priors": {"a_base": dist.Normal(0, WIDTH)},
        "noise": {"x": NOISE},
        "initial": {"x": 0.0},
        "solver": ps.Solver(substeps=1),
        "sampler": ps.Sampler(particles=128, recover=False),
    }
    return {**given, **changes}
