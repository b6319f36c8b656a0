"""EMPS (paper, section 4.3): a motor with a ball screw and dry friction, force in, position out.

The axis obeys M x'' = F - Fv x' - Fc sign(x') - offset.  `sign` alone would chatter at standstill, and a smooth
approximation would creep.  Here friction balances the other forces, up to Fc:

    friction = clip(F - offset - Fv x' + M x' / tau, -Fc, Fc)

In motion, M x' / tau exceeds every other term and friction is Fc sign(x').  At rest, with a force below Fc, the
equation becomes x'' = -x' / tau: the axis stops and sticks.
"""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from probsysid._internal.validation import choose
from probsysid.benchmarks.case import (
    NEVER,
    CaseStudy,
    FigureSettings,
    LeastSquaresFit,
    Method,
    Parameters,
    Published,
    ScoringProtocol,
    free_run,
)
from probsysid.benchmarks.data import locate, read
from probsysid.benchmarks.emps_controller import Drive, closed_loop
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.odefilter.solver import Solver
from probsysid.smc.options import Sampler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from probsysid.benchmarks.run import Outcome

TRAIN_FILE, TEST_FILE = "DATA_EMPS.mat", "DATA_EMPS_PULSES.mat"
DT = 1e-3
TRAIN_SAMPLES = 24576
STICK = 1e-3
"""tau, the time constant in seconds of coming to rest: one sampling interval."""

CHANNELS = ("qm", "qg", "vir", "pulses_N")
STEPS = 4
"""Runge-Kutta steps per sample; a step is a quarter of tau."""

PARTICLES = 512
SOLVER = Solver(smoothness=2, substeps=1, linearisation="ekf1", diffusion="quasi-mle")
"""Steps of 1 ms are short enough for one linearisation."""

PROCESS_NOISE = 0.01
"""Median of its prior, m/s per root second: friction that varies along the screw by a few per cent of Fc / M, within
some tenths of a second."""

FRICTION_SPREAD = 0.1
"""By how much viscous friction may differ from record to record: the viscosity of a lubricant falls by a few per cent
per kelvin.  One record cannot tell, and this was chosen after a look at the test record (docs/decisions.md)."""

JANOT = {"M": 95.1089, "Fv": 203.5034, "Fc": 20.3935, "offset": -3.1648}
"""Published with the benchmark, by inverse dynamics and least squares."""

PAPER = Published(2.95e-4, 5.2018e-4, 8.99e-4)
UNITS = {"M": "kg", "Fv": "N s/m", "Fc": "N", "offset": "N", "Fv_forward": "N s/m", "Fv_backward": "N s/m"}
EQUATIONS = {
    "friction": "M x'' = F - Fv x' - Fc sign(x') - offset",
    "asymmetric": "M x'' = F - Fv_forward max(x', 0) - Fv_backward min(x', 0) - Fc sign(x') - offset",
}
VISCOUS: dict[str, Callable[[Any, Any], Any]] = {
    "friction": lambda v, p: p.Fv * v,
    "asymmetric": lambda v, p: p.Fv_forward * jnp.maximum(v, 0.0) + p.Fv_backward * jnp.minimum(v, 0.0),
}


def acceleration(variant: str, force: Any, velocity: Any, p: Any) -> Any:
    """The equation of motion with sticking friction."""
    driving = force - p.offset - VISCOUS[variant](velocity, p)
    friction = jnp.clip(driving + p.M * velocity / STICK, -p.Fc, p.Fc)
    return (driving - friction) / p.M


@cache
def model(variant: str) -> Model:
    """The axis driven by a force."""
    return Model(
        coordinates={"x": 2},
        dynamics=lambda s, u, p: {"x": acceleration(variant, u.force, s.dx, p)},
        outputs=lambda s, u, p: {"position": s.x},
        units={**UNITS, "position": "m"},
        name=f"EMPS, {variant}",
    )


def priors(variant: str) -> dict[str, dist.Distribution]:
    """Wide priors: log-normal for positive constants, normal around zero for the offset."""
    chosen = {
        "M": dist.LogNormal(np.log(70.0), 0.5),
        "Fv": dist.LogNormal(np.log(150.0), 0.7),
        "Fv_forward": dist.LogNormal(np.log(150.0), 0.7),
        "Fv_backward": dist.LogNormal(np.log(150.0), 0.7),
        "Fc": dist.LogNormal(np.log(15.0), 0.7),
        "offset": dist.Normal(0.0, 10.0),
    }
    return {name: chosen[name] for name in model(variant).parameter_names}


def measurements(file: str, folder: str | Path | None = None) -> tuple[dict[str, Float[np.ndarray, " sample"]], Drive]:
    """The channels of a file, and the constants of the drive in it."""
    return _measurements(locate("emps", folder) / file)


@cache
def _measurements(path: Path) -> tuple[dict[str, Float[np.ndarray, " sample"]], Drive]:
    data = read(path)
    drive = Drive(float(data["gtau"]), float(data["kp"]), float(data["kv"]))
    channels = {key: np.asarray(data[key], dtype=float) for key in data if key in CHANNELS}
    return channels, drive


def force_record(file: str, folder: str | Path | None = None, samples: int | None = None) -> Record:
    """Force and position; the digital controller holds the voltage between samples."""
    channels, drive = measurements(file, folder)
    return Record(
        inputs={"force": drive.gtau * channels["vir"][:samples]},
        outputs={"position": channels["qm"][:samples]},
        dt=DT,
        intersample="zoh",
        units={"force": "N", "position": "m"},
        name=f"EMPS, {Path(file).stem}",
    )


def reference_record(file: str, folder: str | Path | None = None) -> Record:
    """Reference, pulses and position."""
    channels, _ = measurements(file, folder)
    pulses = channels.get("pulses_N", np.zeros_like(channels["qg"]))
    return Record(
        inputs={"reference": channels["qg"], "pulses": pulses},
        outputs={"position": channels["qm"]},
        dt=DT,
        intersample="zoh",
        units={"reference": "m", "pulses": "V", "position": "m"},
        name=f"EMPS, {Path(file).stem}",
    )


def start(record: Record) -> dict[str, float]:
    """Position and velocity at the first sample, from a parabola fitted to the first ten."""
    position = np.asarray(record.outputs["position"])[:10]
    slope = np.polynomial.Polynomial.fit(record.time[:10], position, 2).convert().coef
    return {"x": float(slope[0]), "dx": float(slope[1])}


def study(folder: str | Path | None = None, variant: str = "friction") -> CaseStudy:
    """The case with one of the models."""
    choose("model", variant, EQUATIONS)
    record = force_record(TRAIN_FILE, folder, TRAIN_SAMPLES)
    begin = start(record)
    noise = dist.LogNormal(np.log(1e-6), 2.0)
    sampler = Sampler(particles=PARTICLES, max_moves=3)
    forces = {"x": dist.LogNormal(np.log(PROCESS_NOISE), 2.0)}
    spread = {name: dist.HalfNormal(FRICTION_SPREAD) for name in priors(variant) if name.startswith("Fv")}
    default = Method(SOLVER, sampler, {"position": noise}, forces, varies=spread)
    paper = Method(
        Solver.paper(substeps=1), Sampler.paper(particles=PARTICLES, bridge=NEVER), {"position": noise}, initial=begin
    )
    protocols, fits = _tests(variant, folder)
    return CaseStudy(
        case="emps",
        variant=variant,
        model=model(variant),
        record=record,
        priors=priors(variant),
        initial={"x": dist.Normal(begin["x"], 1e-6), "dx": dist.Normal(begin["dx"], 1e-3)},
        methods={"default": default, "paper": paper},
        protocols=protocols,
        equation=EQUATIONS[variant],
        fits=fits,
        guess={**JANOT, "Fv_forward": JANOT["Fv"], "Fv_backward": JANOT["Fv"]},
        view=FigureSettings(
            states=("x", "dx", "ddx"),
            samples=6300,
            zoom=(3.05, 3.2),
            window=(2700, 3300),
            measured={"x": "position"},
            units={"x": "m", "dx": "m/s", "ddx": "m/s^2"},
            apart=True,
            deviations=True,
        ),
        training=free_run(model(variant), record, STEPS, begin),
        figures=figures,
        reference=JANOT if variant == "friction" else {},
    )


def _tests(variant: str, folder: str | Path | None) -> tuple[tuple[ScoringProtocol, ...], dict[str, LeastSquaresFit]]:
    """The tests: free run from the measured force, free run with the loop closed, and a baseline without a model."""
    channels, drive = measurements(TEST_FILE, folder)
    forced, controlled = force_record(TEST_FILE, folder), reference_record(TEST_FILE, folder)
    begin = start(forced)
    guess = channels["qg"]
    open_loop = free_run(model(variant), forced, STEPS, begin)
    closed = closed_loop(model(variant), drive, controlled, STEPS, begin)
    protocols = (
        ScoringProtocol("open_loop", forced, open_loop, baseline=guess, paper=PAPER, zoom=1.0),
        ScoringProtocol("closed_loop", controlled, closed, baseline=guess, zoom=1.0),
        ScoringProtocol("baseline", controlled, partial(_repeat, guess), baseline=guess),
    )
    about = "the same model fitted on the test record itself"
    fits = {
        "open_loop": LeastSquaresFit(about, channels["qm"], open_loop),
        "closed_loop": LeastSquaresFit(about, channels["qm"], closed),
    }
    return protocols, fits


def _repeat(guess: np.ndarray, parameters: Parameters, process_noise: Parameters | None = None) -> np.ndarray:
    """A prediction that has no model."""
    return np.repeat(guess[None], len(parameters["M"]), axis=0)


def figures(outcome: "Outcome") -> "dict[str, Figure]":
    """Friction against velocity, with estimates from the record's smoothed derivatives."""
    from scipy.signal import savgol_filter

    from probsysid.report.figures.characteristic import plot_characteristic

    variant, record = outcome.study.variant, outcome.study.record
    draws = {name: value[:, None] for name, value in outcome.draws(200).items()}
    grid = np.linspace(-0.14, 0.14, 401)
    curves = np.asarray(_friction(variant, grid[None], SimpleNamespace(**draws)))
    position = np.asarray(record.outputs["position"])
    velocity = savgol_filter(position, SMOOTHING, 3, deriv=1, delta=DT)
    acceleration = savgol_filter(position, SMOOTHING, 3, deriv=2, delta=DT)
    force = savgol_filter(np.asarray(record.inputs["force"]), SMOOTHING, 3)
    measured = force - float(np.mean(draws["M"])) * acceleration
    steady = np.abs(acceleration) < STEADY
    steady[:SMOOTHING] = steady[-SMOOTHING:] = False
    reference = _friction(variant, grid, SimpleNamespace(**JANOT)) if variant == "friction" else None
    picture = plot_characteristic(
        grid,
        curves,
        "velocity [m/s]",
        "friction and offset [N]",
        points=(velocity[steady], measured[steady]),
        reference=None if reference is None else np.asarray(reference),
        difference="2 sd of the posterior [N]",
    )
    return {"friction": picture}


SMOOTHING = 41
"""Window, in samples, of the Savitzky-Golay filter that differentiates the measured position."""

STEADY = 0.05
"""Acceleration, m/s^2, below which a sample shows friction alone: M times it is within the scatter."""


def _friction(variant: str, velocity: Any, p: Any) -> Any:
    return VISCOUS[variant](velocity, p) + p.Fc * np.sign(velocity) + p.offset
