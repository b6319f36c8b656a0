"""The cascaded tanks with overflow and leaks: a real system whose model is not quite right.

Schoukens and Noël (2017), *Three benchmarks addressing open challenges in nonlinear system identification*.  The
posterior has one mode, on a curved ridge: its covariance has a condition number of 4e10 in the sampling coordinates.
"""

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import probsysid as ps
from probsysid.benchmarks.data import VARIABLE

dist = ps.dist

PRIORS = {
    **{name: dist.LogNormal(np.log(0.05), 0.7) for name in ("k1", "k2", "k3", "k4")},
    "ko": dist.LogNormal(np.log(0.2), 0.7),
    "k5": dist.Uniform(0.0, 1.0),
    "l1": dist.Normal(0.0, 0.01),
    "l2": dist.Normal(0.0, 0.01),
    "d": dist.Normal(0.0, 0.02),
}
NOISE = {"level": dist.LogNormal(np.log(0.2), 1.0)}
INITIAL = {"h1": dist.TruncatedNormal(5.0, 2.0, low=0.0), "h2": dist.Normal(5.2, 0.2)}


def soft(x: jax.Array) -> jax.Array:
    """A ramp with a rounded corner."""
    return 0.1 * jax.nn.softplus(x / 0.1)


def root(x: jax.Array) -> jax.Array:
    """Torricelli's law, with a finite slope at the empty tank."""
    return jnp.sqrt(jnp.maximum(x, 1e-3))


def derivatives(s: Any, u: Any, p: Any) -> dict[str, Any]:
    over, spill = p.ko * soft(s.h1 - 10.0), p.ko * soft(s.h2 - 10.0)
    return {
        "h1": p.k4 * u.pump - p.k1 * root(s.h1) - over - p.l1 * s.h1 + p.d,
        "h2": p.k2 * root(s.h1) - p.k3 * root(s.h2) + p.k5 * over - spill - p.l2 * s.h2,
    }


MODEL = ps.Model({"h1": 1, "h2": 1}, derivatives, outputs=lambda s, u, p: {"level": s.h2}, name="cascaded tanks")


def record(part: str = "Est") -> ps.Record:
    """The training record, or the validation record ("Val")."""
    table = pd.read_csv(Path(os.environ[VARIABLE]) / "tanks" / "dataBenchmark.csv")
    return ps.Record({"pump": table[f"u{part}"].to_numpy()}, {"level": table[f"y{part}"].to_numpy()}, dt=4.0)


SOLVER = ps.Solver(conditioning="solver", substeps=2)
"""As accurate as the sampling needs, and the data correct no state: output error."""
