"""A double pendulum in free swing (Kaheman et al. 2022): two coupled angles, from large swings to small ones.

Ten masses, lengths, inertias and gravity cannot be told apart by angles alone.  Divided by m2 L1 a2, the product of the
lower arm's mass, its centre's distance and the upper arm's length, the equations have six constants that can:

    alpha phi1'' + cos(phi1 - phi2) phi2'' = -friction1 - friction2 - phi2'^2 sin(phi1 - phi2) + g1 sin(phi1)
    cos(phi1 - phi2) phi1'' + gamma phi2'' =  friction2 + phi1'^2 sin(phi1 - phi2) + g2 sin(phi2)

with friction in the upper bearing (of phi1') and in the lower one (of phi1' - phi2'), viscous and dry.  Angles are from
the upright.  The published pieces follow one another without a gap, so that those for training are one record.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from probsysid._internal.validation import choose
from probsysid.benchmarks.case import CaseStudy, FigureSettings, Method, Parameters, ScoringProtocol
from probsysid.benchmarks.data import locate, read
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.odefilter.solver import Solver
from probsysid.posterior.simulate import simulate
from probsysid.smc.options import Sampler

FILE = "DoublePendulumDataForParameterEstimation.mat"
RATE = 1000.0
EVERY = 8
"""Samples of the file per sample used: 125 Hz, some 40 per period of the faster mode."""

STICTION = 0.05
"""Angular velocity, rad/s, below which dry friction is rounded off."""

STEPS = 4
"""Runge-Kutta steps per sample of a free run."""

PARTICLES = 256

COMPONENTS = ("phi1", "dphi1", "phi2", "dphi2")
ROWS = {"phi1": 0, "phi2": 1, "dphi1": 2, "dphi2": 3}
"""Of a piece; its velocities were filtered by the authors, and serve as initial values only."""

UNITS = {
    "phi1": "rad",
    "phi2": "rad",
    "g1": "1/s^2",
    "g2": "1/s^2",
    "c1": "1/s",
    "c2": "1/s",
    "f1": "1/s^2",
    "f2": "1/s^2",
}
EQUATIONS = {
    "dry-friction": "alpha phi1'' + cos(phi1 - phi2) phi2'' = ..., friction: c1 phi1' + f1 sign(phi1'), c2, f2",
    "viscous": "alpha phi1'' + cos(phi1 - phi2) phi2'' = ..., friction: c1 phi1', c2 (phi1' - phi2')",
}

AUTHORS = {"alpha": 2.0352, "gamma": 1.1333, "g1": 120.0, "g2": 56.789, "c1": 0.08545, "c2": 0.003603}
"""From the published least-squares estimate of the ten constants."""


def derivatives(variant: str, s: Any, p: Any) -> dict[str, Any]:
    """The equations solved for both angular accelerations."""
    relative, angle = s.dphi1 - s.dphi2, s.phi1 - s.phi2
    upper, lower = p.c1 * s.dphi1, p.c2 * relative
    if variant == "dry-friction":
        upper, lower = upper + p.f1 * jnp.tanh(s.dphi1 / STICTION), lower + p.f2 * jnp.tanh(relative / STICTION)
    coupling, sine = jnp.cos(angle), jnp.sin(angle)
    first = -upper - lower - s.dphi2**2 * sine + p.g1 * jnp.sin(s.phi1)
    second = lower + s.dphi1**2 * sine + p.g2 * jnp.sin(s.phi2)
    determinant = p.alpha * p.gamma - coupling**2
    return {
        "phi1": (p.gamma * first - coupling * second) / determinant,
        "phi2": (p.alpha * second - coupling * first) / determinant,
    }


@cache
def model(variant: str) -> Model:
    """The pendulum with one of the friction laws."""
    return Model(
        coordinates={"phi1": 2, "phi2": 2},
        dynamics=lambda s, u, p: derivatives(variant, s, p),
        outputs=lambda s, u, p: {"phi1": s.phi1, "phi2": s.phi2},
        units=UNITS,
        name=f"double pendulum, {variant}",
    )


def priors(variant: str) -> dict[str, dist.Distribution]:
    """What two rods of some 20 cm suggest, within 35 %; friction within a factor of 5 to 10."""
    chosen = {
        "alpha": dist.LogNormal(np.log(2.0), 0.3),
        "gamma": dist.LogNormal(np.log(1.2), 0.3),
        "g1": dist.LogNormal(np.log(110.0), 0.3),
        "g2": dist.LogNormal(np.log(55.0), 0.3),
        "c1": dist.LogNormal(np.log(0.05), 1.0),
        "c2": dist.LogNormal(np.log(0.01), 1.0),
        "f1": dist.LogNormal(np.log(0.05), 1.5),
        "f2": dist.LogNormal(np.log(0.02), 1.5),
    }
    return {name: chosen[name] for name in model(variant).parameter_names}


def pieces(part: str = "id", folder: str | Path | None = None) -> list[Float[np.ndarray, "row _sample"]]:
    """The pieces for training, or those for validation ("vad")."""
    return [np.asarray(piece, dtype=float) for piece in read(locate("pendulum", folder) / FILE)[f"Y_{part}"]]


def angles(rows: Float[np.ndarray, "row sample"], name: str) -> Record:
    """Samples of both angles as a record."""
    outputs = {angle: rows[ROWS[angle]] for angle in ("phi1", "phi2")}
    return Record({}, outputs, dt=EVERY / RATE, units={"phi1": "rad", "phi2": "rad"}, name=f"Double pendulum, {name}")


def study(folder: str | Path | None = None, variant: str = "dry-friction") -> CaseStudy:
    """The case with one of the models."""
    choose("model", variant, EQUATIONS)
    training, tests = pieces("id", folder), [piece[:, ::EVERY] for piece in pieces("vad", folder)]
    record, test = angles(np.hstack(training)[:, ::EVERY], "training"), angles(np.hstack(tests), "validation")
    noise = {angle: dist.LogNormal(np.log(1e-3), 2.0) for angle in ("phi1", "phi2")}
    forces = {angle: dist.LogNormal(np.log(0.05), 2.0) for angle in ("phi1", "phi2")}
    begin = first_row(training[0])
    widths = {"phi1": 0.01, "phi2": 0.01, "dphi1": 0.5, "dphi2": 0.5}
    return CaseStudy(
        case="pendulum",
        variant=variant,
        model=model(variant),
        record=record,
        priors=priors(variant),
        initial={name: dist.Normal(begin[name], widths[name]) for name in COMPONENTS},
        methods={
            "default": Method(Solver(substeps=1), Sampler(particles=PARTICLES), noise, forces),
            "paper": Method(Solver.paper(substeps=1), Sampler.paper(particles=PARTICLES), noise, initial=begin),
        },
        protocols=tuple(
            ScoringProtocol(f"validation_{angle}", _only(test, angle), _by_piece(variant, tests, angle), zoom=2.0)
            for angle in ("phi1", "phi2")
        ),
        equation=EQUATIONS[variant],
        fits={},
        guess={},
        reference=AUTHORS,
        view=FigureSettings(
            states=("phi1", "phi2"),
            samples=1000,
            zoom=(2.0, 4.0),
            window=(100, 500),
            measured={"phi1": "phi1", "phi2": "phi2"},
            units={"phi1": "rad", "phi2": "rad"},
        ),
    )


def first_row(piece: Float[np.ndarray, "row sample"]) -> dict[str, float]:
    """The state at the first sample of a piece."""
    return {name: float(piece[ROWS[name], 0]) for name in COMPONENTS}


def _only(record: Record, output: str) -> Record:
    return record.replace(outputs={output: record.outputs[output]})


def _by_piece(
    variant: str, tests: list[Float[np.ndarray, "row _sample"]], angle: str
) -> Callable[..., Float[np.ndarray, "particle sample"]]:
    """A `ScoringProtocol.predict`: a free run of every piece from its first row, one after the other."""

    def predict(
        parameters: Parameters, process_noise: Parameters | None = None
    ) -> Float[np.ndarray, "particle sample"]:
        given = {name: np.asarray(parameters[name]) for name in model(variant).parameter_names}
        count = len(next(iter(given.values())))
        found = []
        for piece in tests:
            start = np.repeat(np.array(list(first_row(piece).values()))[:, None], count, axis=1)
            outputs, _, _ = simulate(model(variant), given, start, angles(piece, ""), STEPS, process_noise or None)
            found.append(outputs[angle])
        return np.concatenate(found, axis=1)

    return predict
