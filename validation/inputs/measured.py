"""Measured forces, hidden: the Silverbox and EMPS, with constants from another part of the data.

Needs the data (PROBSYSID_DATA).
"""

import time as clock
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.benchmarks import emps, silverbox
from probsysid.model.kernels import Kernel
from validation.inputs import kalman
from validation.inputs.score import input_scores, kept, run

SILVERBOX, TRAINED, HIDDEN = "duffing-offset-quadratic", 1024, 600
TRAINED_FILES = Path(__file__).resolve().parents[1] / "results" / "inputs" / "trained"

SILVERBOX_START = {"x": dist.Normal(0.0, 0.1), "dx": dist.Normal(0.0, 30.0)}
EMPS_OPTIONS: dict[str, Any] = {"solver": emps.SOLVER, "particles": 128}

SILVERBOX_SCALE, SILVERBOX_LENGTH = dist.LogNormal(np.log(0.05), 1.0), dist.LogNormal(np.log(2e-3), 1.0)
EMPS_SCALE, EMPS_LENGTH = dist.LogNormal(np.log(20.0), 1.0), dist.LogNormal(-2.0, 1.5)
SILVERBOX_KERNELS: dict[str, Kernel] = {
    "matern-1-2": ps.Matern(0.5, SILVERBOX_SCALE, SILVERBOX_LENGTH),
    "matern-3-2": ps.Matern(1.5, SILVERBOX_SCALE, SILVERBOX_LENGTH),
    "quasi-periodic": ps.QuasiPeriodic(SILVERBOX_SCALE, dist.LogNormal(np.log(0.01), 0.5), SILVERBOX_LENGTH),
}
EMPS_KERNELS: dict[str, Kernel] = {
    "matern-1-2": ps.Matern(0.5, EMPS_SCALE, EMPS_LENGTH),
    "matern-3-2": ps.Matern(1.5, EMPS_SCALE, EMPS_LENGTH),
}

NOISES = np.logspace(-1, 1.5, 6)
"""Of the augmented Kalman filter, relative to the noise that training found."""


@cache
def silverbox_parts(seed: int) -> tuple[ps.Posterior, ps.Record]:
    """Constants from 1024 samples with their input; and 600 of another realisation."""
    whole, first = silverbox.whole_record(), silverbox.TRAIN.start
    noise = {"position": dist.LogNormal(-8.0, 1.0)}
    arguments = (silverbox.model(SILVERBOX), whole[first : first + TRAINED], silverbox.priors(SILVERBOX), noise)
    trained = kept(TRAINED_FILES / f"silverbox-{seed}.nc", lambda: run(*arguments, SILVERBOX_START, seed=seed)[0])
    begin = silverbox.TESTS["multisine"].start
    return trained, whole[begin : begin + HIDDEN]


@cache
def emps_parts(seed: int) -> tuple[ps.Posterior, ps.Record]:
    """Constants from 4000 samples with their force; and the following 3000."""
    whole = emps.force_record(emps.TRAIN_FILE)
    train = whole[:4000]
    arguments = (
        emps.model("friction"),
        train,
        emps.priors("friction"),
        {"position": dist.LogNormal(np.log(1e-5), 1.0)},
    )
    forced = {"x": dist.LogNormal(np.log(emps.PROCESS_NOISE), 1.0)}
    options: dict[str, Any] = {"process_noise": forced, **EMPS_OPTIONS, "seed": seed}
    trained = kept(TRAINED_FILES / f"emps-{seed}.nc", lambda: run(*arguments, emps.start(train), **options)[0])
    return trained, whole[4000:7000]


def silverbox_force(seed: int, kernel: Kernel) -> dict[str, Any]:
    """The hidden input of the Silverbox."""
    trained, hidden = silverbox_parts(seed)
    return _inferred(silverbox.model(SILVERBOX), hidden, trained, SILVERBOX_START, kernel, seed=seed)


def emps_force(seed: int, kernel: Kernel) -> dict[str, Any]:
    """The hidden force of EMPS."""
    trained, hidden = emps_parts(seed)
    begin = emps.start(hidden)
    start = {"x": dist.Normal(begin["x"], 1e-4), "dx": dist.Normal(begin["dx"], 1e-2)}
    return _inferred(emps.model("friction"), hidden, trained, start, kernel, **EMPS_OPTIONS, seed=seed)


def _inferred(
    model: ps.Model, hidden: ps.Record, trained: ps.Posterior, start: Any, kernel: Kernel, **options: Any
) -> dict[str, Any]:
    """Error and coverage of the force, and the evidence, by which kernels are chosen."""
    priors, noise = ps.prior_from(trained), ps.prior_from(trained, "noise")
    posterior, facts = run(model, hidden, priors, noise, start, unknown={"force": kernel}, **options)
    evidence = {"log evidence": posterior.log_evidence, "its error": posterior.log_evidence_error}
    return facts | evidence | input_scores(posterior, "force")


def silverbox_kalman(seed: int) -> dict[str, Any]:
    """The augmented Kalman filter on the same samples."""
    trained, hidden = silverbox_parts(seed)
    constants = SimpleNamespace(**{name: trained.mean(name) for name in silverbox.model(SILVERBOX).parameter_names})
    restoring = silverbox.RESTORING[SILVERBOX]
    return _tuned(
        lambda x, v, f: (f - constants.c * v - restoring(x, constants)) / constants.m,
        hidden,
        trained,
        np.logspace(0.5, 3.0, 11),
        NOISES,
    )


def emps_kalman(seed: int) -> dict[str, Any]:
    """The augmented Kalman filter on the same samples."""
    trained, hidden = emps_parts(seed)
    p = SimpleNamespace(**{name: trained.mean(name) for name in emps.model("friction").parameter_names})

    def acceleration(x: float, v: float, f: float) -> float:
        driving = f - p.offset - p.Fv * v
        return float((driving - min(max(driving + p.M * v / emps.STICK, -p.Fc), p.Fc)) / p.M)

    return _tuned(acceleration, hidden, trained, np.logspace(0.0, 2.0, 5), NOISES[1::2])


def _tuned(
    acceleration: kalman.Acceleration, hidden: ps.Record, trained: ps.Posterior, rates: np.ndarray, noises: np.ndarray
) -> dict[str, Any]:
    """At the best of some rates, relative to the force, and noises, relative to what training found."""
    began = clock.process_time()
    force, positions = hidden.input_at(hidden.time)[:, 0], np.asarray(hidden.outputs["position"])
    dt, level = float(np.mean(np.diff(hidden.time))), trained.mean("noise.position")
    scales = (float(np.std(positions)), float(np.std(np.diff(positions)) / dt), float(np.std(force)))
    found = kalman.best(acceleration, positions, force, dt, scales, scales[2] * rates, level * noises)
    return found | {"seconds": clock.process_time() - began}
