"""Cascaded tanks: a pump fills an upper tank that drains into a lower one; both overflow, the lower level is measured.

Schoukens and Noël (2017), *Three benchmarks addressing open challenges in nonlinear system identification*.
Torricelli's law, leaks, and overflow that partly falls into the lower tank describe the data to some 2 % of their
range, which is ten times the noise: no model of this form is right, and process noise stands for what it leaves out.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
from jaxtyping import Float

from probsysid._internal.validation import choose
from probsysid.benchmarks.case import (
    CaseStudy,
    FigureSettings,
    Method,
    Parameters,
    ScoringProtocol,
)
from probsysid.benchmarks.data import locate
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.odefilter.solver import Solver
from probsysid.posterior.initial_estimate import InitialPrior, estimate_states
from probsysid.posterior.simulate import simulate
from probsysid.smc.options import Sampler

FILE = "dataBenchmark.csv"
DT = 4.0
FULL = 10.0
"""Level, in volts, at which the sensor of the lower tank saturates and the tanks overflow."""

START_SAMPLES = 50
"""Samples of the validation record from which its initial state is estimated, and which are not scored: the window that
the package nonlinear-benchmarks sets aside for it."""

STEPS = 4
"""Runge-Kutta steps per sample."""

PARTICLES = 512

LEVEL_NOISE = 0.02
"""Median of the prior of process noise, V per root second: a tenth of the levels' spread within the 100 s that they
take to change."""

EQUATIONS = {
    "overflow": "h1' = k4 pump - k1 sqrt(h1) - l1 h1 + d - over, "
    "h2' = k2 sqrt(h1) - k3 sqrt(h2) - l2 h2 + k5 over - spill"
}
UNITS = {
    **{name: "V^0.5/s" for name in ("k1", "k2", "k3")},
    **{name: "1/s" for name in ("k4", "ko", "l1", "l2")},
    "d": "V/s",
    "level": "V",
}


def soft(x: jax.Array) -> jax.Array:
    """A ramp with a rounded corner."""
    return 0.1 * jax.nn.softplus(x / 0.1)


def root(x: jax.Array) -> jax.Array:
    """Torricelli's law, with a finite slope at the empty tank."""
    return jnp.sqrt(jnp.maximum(x, 1e-3))


def derivatives(s: Any, u: Any, p: Any) -> dict[str, Any]:
    """Balance of both tanks, in volts of the level sensor per second."""
    over, spill = p.ko * soft(s.h1 - FULL), p.ko * soft(s.h2 - FULL)
    return {
        "h1": p.k4 * u.pump - p.k1 * root(s.h1) - over - p.l1 * s.h1 + p.d,
        "h2": p.k2 * root(s.h1) - p.k3 * root(s.h2) + p.k5 * over - spill - p.l2 * s.h2,
    }


model = Model(
    coordinates={"h1": 1, "h2": 1},
    dynamics=derivatives,
    outputs=lambda s, u, p: {"level": s.h2},
    units=UNITS,
    name="cascaded tanks",
)

PRIORS: dict[str, dist.Distribution] = {
    **{name: dist.LogNormal(np.log(0.05), 0.7) for name in ("k1", "k2", "k3", "k4")},
    "ko": dist.LogNormal(np.log(0.2), 0.7),
    "k5": dist.Uniform(0.0, 1.0),
    "l1": dist.Normal(0.0, 0.01),
    "l2": dist.Normal(0.0, 0.01),
    "d": dist.Normal(0.0, 0.02),
}
NOISE: dict[str, dist.Distribution] = {"level": dist.LogNormal(np.log(0.2), 1.0)}
INITIAL: dict[str, dist.Distribution] = {
    "h1": dist.TruncatedNormal(5.0, 2.0, low=0.0),
    "h2": dist.Normal(5.2, 0.2),
}


def record(part: str = "Est", folder: str | Path | None = None) -> Record:
    """The training record, or the validation record ("Val")."""
    table = _table(locate("tanks", folder))
    return Record(
        inputs={"pump": table[f"u{part}"].to_numpy()},
        outputs={"level": table[f"y{part}"].to_numpy()},
        dt=DT,
        units={"pump": "V", "level": "V"},
        name=f"Cascaded tanks, {part}",
    )


@cache
def _table(place: Path) -> pd.DataFrame:
    return pd.read_csv(place / FILE)


def study(folder: str | Path | None = None, variant: str = "overflow") -> CaseStudy:
    """The case with its model."""
    choose("model", variant, EQUATIONS)
    train, test = record("Est", folder), record("Val", folder)
    forces = {name: dist.LogNormal(np.log(LEVEL_NOISE), 2.0) for name in model.coordinates}
    return CaseStudy(
        case="tanks",
        variant=variant,
        model=model,
        record=train,
        priors=PRIORS,
        initial=INITIAL,
        methods={
            "default": Method(Solver(), Sampler(particles=PARTICLES), NOISE, forces),
            "paper": Method(Solver.paper(substeps=1), Sampler.paper(particles=PARTICLES), NOISE),
        },
        protocols=(ScoringProtocol("validation", test, _from_first_samples(test), START_SAMPLES, zoom=400.0),),
        equation=EQUATIONS[variant],
        fits={},
        guess={},
        view=FigureSettings(
            states=("h1", "h2"),
            samples=train.samples,
            zoom=(800.0, 1600.0),
            window=(100, 500),
            measured={"h2": "level"},
            units={"h1": "V", "h2": "V"},
        ),
    )


def _from_first_samples(test: Record) -> Callable[..., Float[np.ndarray, "particle sample"]]:
    """A `ScoringProtocol.predict` that estimates the initial state of each particle from the record's first samples."""
    first = test[:START_SAMPLES]
    begin = float(first.outputs["level"][0])
    candidates = np.stack([np.linspace(1.0, 9.0, 9), np.full(9, begin)])
    expected = InitialPrior(np.array([5.0, begin]), np.array([3.0, 0.5]), candidates)

    def predict(
        parameters: Parameters, process_noise: Parameters | None = None
    ) -> Float[np.ndarray, "particle sample"]:
        given = {name: np.asarray(parameters[name]) for name in model.parameter_names}
        noise, forces = {"level": np.asarray(parameters["noise.level"])}, process_noise or {}
        states = estimate_states(model, given, noise, forces, first, expected, 0)
        return simulate(model, given, states, test, STEPS, process_noise or None)[0]["level"]

    return predict
