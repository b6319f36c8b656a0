"""Measured forces, hidden: the Silverbox and EMPS, with constants from another part of the data.

Needs the data (PROBSYSID_DATA).
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.benchmarks import emps, silverbox
from validation.inputs import kalman
from validation.inputs.score import input_scores, kept, run

SILVERBOX, TRAINED, HIDDEN = "duffing-offset-quadratic", 1024, 600
TRAINED_FILES = Path(__file__).resolve().parents[1] / "results" / "inputs" / "trained"

NOISES = np.logspace(-1, 1.5, 6)
"""Of the augmented Kalman filter, relative to the noise that training found."""


def silverbox_force(seed: int, nu: float = 1.5) -> dict[str, Any]:
    """Constants from 1024 samples with their input; then 600 of another realisation without."""
    whole = silverbox.whole_record()
    first = silverbox.TRAIN.start
    train = whole[first : first + TRAINED]
    model, start = silverbox.model(SILVERBOX), {"x": dist.Normal(0.0, 0.1), "dx": dist.Normal(0.0, 30.0)}
    noise = {"position": dist.LogNormal(-8.0, 1.0)}
    trained = kept(
        TRAINED_FILES / f"silverbox-{seed}.nc",
        lambda: run(model, train, silverbox.priors(SILVERBOX), noise, start, seed=seed)[0],
    )
    begin = silverbox.TESTS["multisine"].start
    hidden = whole[begin : begin + HIDDEN]
    kernel = ps.Matern(nu, scale=dist.LogNormal(np.log(0.05), 1.0), length=dist.LogNormal(np.log(2e-3), 1.0))
    posterior, facts = run(
        model,
        hidden,
        ps.prior_from(trained),
        ps.prior_from(trained, "noise"),
        start,
        unknown={"force": kernel},
        seed=seed,
    )
    level = trained.mean("noise.position")
    constants = SimpleNamespace(**{name: trained.mean(name) for name in model.parameter_names})
    force = hidden.input_at(hidden.time)[:, 0]
    positions = np.asarray(hidden.outputs["position"])
    restoring = silverbox.RESTORING[SILVERBOX]
    rival = kalman.best(
        lambda x, v, f: (f - constants.c * v - restoring(x, constants)) / constants.m,
        positions,
        force,
        hidden.dt or 1.0,
        (float(np.std(positions)), float(np.std(np.diff(positions)) / (hidden.dt or 1.0)), float(np.std(force))),
        float(np.std(force)) * np.logspace(0.5, 3.0, 11),
        level * NOISES,
    )
    return facts | input_scores(posterior, "force") | {"kalman": rival, "nu": nu, "noise": level}


def emps_force(seed: int, nu: float = 0.5) -> dict[str, Any]:
    """Constants from 4000 samples with their force; then the following 3000 without."""
    whole = emps.force_record(emps.TRAIN_FILE)
    train, hidden = whole[:4000:], whole[4000:7000]
    model = emps.model("friction")
    noise: dict[str, Any] = {"position": dist.LogNormal(np.log(1e-5), 1.0)}
    options: dict[str, Any] = {"solver": emps.SOLVER, "particles": 128, "seed": seed}
    forced = {"x": dist.LogNormal(np.log(emps.PROCESS_NOISE), 1.0)}
    trained = kept(
        TRAINED_FILES / f"emps-{seed}.nc",
        lambda: run(model, train, emps.priors("friction"), noise, emps.start(train), process_noise=forced, **options)[
            0
        ],
    )
    begin = emps.start(hidden)
    posterior, facts = run(
        model,
        hidden,
        ps.prior_from(trained),
        ps.prior_from(trained, "noise"),
        {"x": dist.Normal(begin["x"], 1e-4), "dx": dist.Normal(begin["dx"], 1e-2)},
        unknown={"force": ps.Matern(nu, scale=dist.LogNormal(np.log(20.0), 1.0), length=dist.LogNormal(-2.0, 1.5))},
        **options,
    )
    constants = SimpleNamespace(**{name: trained.mean(name) for name in model.parameter_names})
    force = hidden.input_at(hidden.time)[:, 0]
    positions = np.asarray(hidden.outputs["position"])

    def acceleration(x: float, v: float, f: float) -> float:
        driving = f - constants.offset - constants.Fv * v
        friction = min(max(driving + constants.M * v / emps.STICK, -constants.Fc), constants.Fc)
        return float((driving - friction) / constants.M)

    level = trained.mean("noise.position")
    rival = kalman.best(
        acceleration,
        positions,
        force,
        emps.DT,
        (float(np.std(positions)), 0.1, float(np.std(force))),
        float(np.std(force)) * np.logspace(0.0, 2.0, 5),
        level * NOISES[1::2],
    )
    return facts | input_scores(posterior, "force") | {"kalman": rival, "nu": nu, "noise": level}
