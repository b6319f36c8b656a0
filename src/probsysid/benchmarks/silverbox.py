"""Silverbox (paper, section 4.2): an electronic Duffing oscillator, input and output in volts.

Trained on 3072 samples of one multisine realisation, tested in free run on the arrow head and on other realisations.
The circuit is not quite a Duffing oscillator: it has a constant force, and a little quadratic stiffness.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from probsysid._internal.validation import choose
from probsysid.benchmarks.candidates import SELECTED, Candidates
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
from probsysid.benchmarks.silverbox_terms import BASE, PHASES, TERMS
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.model.priors import Prior
from probsysid.odefilter.solver import Solver
from probsysid.selection.extension import extended
from probsysid.selection.terms import Names
from probsysid.smc.options import Sampler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from probsysid.benchmarks.run import Outcome

DT = 2**14 / 10e6
"""Sampling interval, from the benchmark's clock of 10 MHz."""

TRAIN = slice(49277, 52349)
"""The paper's samples 49,278 to 52,350, counted from one: 3072 of them."""

LEAD = 1000
"""Samples simulated before a part of the record, from the input alone, until the transient has decayed (e-fold in
about 30 samples)."""

TESTS = {
    "arrow": slice(1000, 40001),
    "arrow_full": slice(150, 40575),
    "arrow_no_extrapolation": slice(150, 32100),
    "multisine": slice(105762, 127400),
}
"""Scored samples: the paper's, then those of nonlinear-benchmarks without its 50 samples for initialisation."""

PAPER = {"arrow": Published(1.0567e-3, 1.8249e-3, 2.9516e-3)}

PAPER_NOISE = 1e-6
"""The paper fixes the noise at this order of magnitude, in volts."""

GUESS = {"m": 5.4e-6, "c": 2.2e-4, "k": 1.0, "k3": 4.0, "offset": 0.0, "k2": 0.0}
"""Starting point of least-squares fits: a resonance at 68 Hz, stiffness one, a few per cent of damping."""

STEPS = 4
"""Runge-Kutta steps per sample."""

PARTICLES = 512
UNITS = {"m": "s^2", "c": "s", "k": "", "k3": "1/V^2", "offset": "V", "k2": "1/V"}
EQUATIONS = {
    "duffing": "m x'' + c x' + k x + k3 x^3 = u",
    "duffing-offset": "m x'' + c x' + k x + k3 x^3 = u + offset",
    "duffing-offset-quadratic": "m x'' + c x' + k x + k2 x^2 + k3 x^3 = u + offset",
}
RESTORING: dict[str, Callable[[Any, Any], Any]] = {
    "duffing": lambda x, p: p.k * x + p.k3 * x**3,
    "duffing-offset": lambda x, p: p.k * x + p.k3 * x**3 - p.offset,
    "duffing-offset-quadratic": lambda x, p: p.k * x + p.k2 * x**2 + p.k3 * x**3 - p.offset,
}
"""Static force against position."""


@cache
def model(variant: str) -> Model:
    """The oscillator with one of the restoring forces."""
    restoring = RESTORING[variant]
    return Model(
        coordinates={"x": 2},
        dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - restoring(s.x, p)) / p.m},
        outputs=lambda s, u, p: {"position": s.x},
        units={**UNITS, "position": "V"},
        name=f"Silverbox, {variant}",
    )


def priors(variant: str) -> dict[str, dist.Distribution]:
    """Wide priors: log-normal for positive constants, normal around zero for offset and quadratic stiffness."""
    chosen = {
        "m": dist.LogNormal(-12.0, 0.5),
        "c": dist.LogNormal(-8.0, 1.0),
        "k": dist.LogNormal(0.0, 0.5),
        "k3": dist.LogNormal(1.0, 1.0),
        "offset": dist.Normal(0.0, 0.05),
        "k2": dist.Normal(0.0, 1.0),
    }
    return {name: chosen[name] for name in model(variant).parameter_names}


def whole_record(folder: str | Path | None = None) -> Record:
    """All samples, with the mean of the input removed."""
    return _whole_record(locate("silverbox", folder))


@cache
def _whole_record(place: Path) -> Record:
    data = read(place / "SNLS80mV.mat")
    force = np.asarray(data["V1"], dtype=float)
    return Record(
        inputs={"force": force - force.mean()},
        outputs={"position": np.asarray(data["V2"], dtype=float)},
        dt=DT,
        intersample="bandlimited",
        units={"force": "V", "position": "V"},
        name="Silverbox",
    )


def study(folder: str | Path | None = None, variant: str = "duffing") -> CaseStudy:
    """The case with one of the models."""
    choose("model", variant, {**EQUATIONS, SELECTED: None})
    record = whole_record(folder)
    if variant == SELECTED:
        return _selected(record)
    return _case(record, variant, model(variant), priors(variant), EQUATIONS[variant])


def _case(
    record: Record, variant: str, model: Model, priors: Mapping[str, dist.Distribution], equation: str
) -> CaseStudy:
    """A model on the whole record."""
    train = record[TRAIN]
    measured, training = np.asarray(train.outputs["position"]), _with_lead(model, record, TRAIN)
    fit = LeastSquaresFit("Laplace posterior on the same training record, finely integrated", measured, training)
    protocols = tuple(_protocol(name, model, record) for name in TESTS)
    default = Method(Solver(), Sampler(particles=PARTICLES, max_moves=4))
    paper = Method(
        Solver.paper(substeps=1),
        Sampler.paper(particles=PARTICLES, bridge=NEVER),
        noise={"position": PAPER_NOISE},
        initial=_first_state(record),
    )
    return CaseStudy(
        case="silverbox",
        variant=variant,
        model=model,
        record=train,
        priors=priors,
        initial=_initial(train, model),
        methods={"default": default, "paper": paper},
        protocols=protocols,
        equation=equation,
        fits={p.name: fit for p in protocols} if variant in EQUATIONS else {},
        guess=GUESS,
        view=FigureSettings(
            states=("x", "dx"),
            samples=train.samples,
            zoom=(float(train.time[1500]), float(train.time[1560])),
            window=(300, 1500),
            measured={"x": "position"},
            units={"x": "V", "dx": "V/s"},
            apart=True,
        ),
        training=training,
        figures=lambda outcome: figures(outcome, record),
    )


def _initial(train: Record, model: Model) -> dict[str, Prior]:
    """At the first sample: near the measurement; states of terms, whose transients are over, at zero."""
    start = float(train.outputs["position"][0])
    own = dict.fromkeys(model.physical_names, 0.0)
    return {**own, "x": dist.Normal(start, 1e-2), "dx": dist.Normal(0.0, 30.0)}


def _selected(record: Record) -> CaseStudy:
    """Terms chosen by evidence, with the phase of the anti-alias filters."""

    def undone(phase: float) -> Record:
        return record.allpass(lambda f: phase * (f / 200.0) ** 3) if phase else record

    def chosen(names: Names, version: str) -> CaseStudy:
        terms = TERMS.chosen(names)
        found = extended(BASE, terms, ("force",))
        joined: dict[Any, Any] = dict(base_priors)
        for term in terms:
            joined |= term.priors
        equation = f"m x'' + c x' + k x = u with {TERMS.label(names)}; {version}"
        return _case(undone(versions[version]), SELECTED, found, joined, equation)

    base_priors = {name: prior for name, prior in priors("duffing").items() if name != "k3"}
    versions = {f"phase {phase}": phase for phase in PHASES}
    base = chosen(frozenset(), "phase 0.5")
    initial = {name: prior for name, prior in base.initial.items() if name in ("x", "dx")}
    training = {version: undone(phase)[TRAIN] for version, phase in versions.items()}
    return replace(base, candidates=Candidates(BASE, base_priors, initial, TERMS, training, "phase 0.5", chosen))


def _first_state(record: Record) -> dict[str, float]:
    """Position and velocity where training begins, from the measurements around it.

    A zeroth-order filter that is not conditioned on the data does not forget an uncertain initial state: its variance
    would grow without bound.
    """
    around = np.asarray(record.outputs["position"])[TRAIN.start - LEAD : TRAIN.start + LEAD]
    return {"x": float(around[LEAD]), "dx": float(_derivatives(around)[0][LEAD])}


def _protocol(name: str, model: Model, record: Record) -> ScoringProtocol:
    scored = TESTS[name]
    first = max(0, scored.start - LEAD)
    part = record[first : scored.stop].replace(name=name)
    return ScoringProtocol(name, part, free_run(model, part, STEPS), scored.start - first, paper=PAPER.get(name))


def _with_lead(
    model: Model, record: Record, part: slice
) -> Callable[[Parameters], Float[np.ndarray, "particle sample"]]:
    predict = free_run(model, record[part.start - LEAD : part.stop], STEPS)
    return lambda parameters: predict(parameters)[:, LEAD:]


def figures(outcome: "Outcome", record: Record) -> "dict[str, Figure]":
    """Input and output of the whole record, and the restoring force."""
    from probsysid.report.figures.characteristic import plot_characteristic
    from probsysid.report.figures.signals import plot_signals

    draws = {name: value[:, None] for name, value in outcome.draws(200).items()}
    constants = SimpleNamespace(**draws)
    train = outcome.study.record
    position = np.asarray(train.outputs["position"])
    grid = np.linspace(1.1 * position.min(), 1.1 * position.max(), 200)
    curves = _static_force(outcome.study, grid, draws, constants)
    velocity, acceleration = _derivatives(position)
    mass, damping = float(np.mean(draws["m"])), float(np.mean(draws["c"]))
    measured = np.asarray(train.inputs["force"]) - mass * acceleration - damping * velocity
    stiffness = float(np.mean(draws["k"]))
    force = plot_characteristic(
        grid,
        curves - stiffness * grid,
        "position x [V]",
        "restoring force minus k x [V]",
        points=(position[EDGE:-EDGE], (measured - stiffness * position)[EDGE:-EDGE]),
        difference="2 sd of the posterior [V]",
    )
    parts = {"test": TESTS["arrow"], "training": TRAIN}
    return {"restoring_force": force, "signals": plot_signals(record, parts)}


def _static_force(
    study: CaseStudy, grid: Float[np.ndarray, " point"], draws: Mapping[str, np.ndarray], constants: SimpleNamespace
) -> Float[np.ndarray, "draw point"]:
    """What holds the position: minus the mass times the acceleration from rest, without input."""
    if study.variant in RESTORING:
        return np.asarray(RESTORING[study.variant](grid[None], constants))
    state = [grid[None] if name == "x" else np.zeros((1, 1)) for name in study.model.physical_names]
    parameters = {name: draws[name] for name in study.model.parameter_names}
    (acceleration, *_) = study.model.highest_derivatives(state, [np.zeros((1, 1))], parameters)
    return -np.asarray(acceleration) * draws["m"]


EDGE = 60
"""Samples at each end where the Fourier derivatives of a truncated record are wrong."""


def _derivatives(position: Float[np.ndarray, " sample"]) -> tuple[np.ndarray, np.ndarray]:
    """Velocity and acceleration of a band-limited signal, by its Fourier series without the line through its ends."""
    line = np.linspace(position[0], position[-1], len(position))
    frequency = 2j * np.pi * np.fft.rfftfreq(len(position), DT)
    spectrum = np.fft.rfft(position - line) * (np.abs(frequency) < 2 * np.pi * 260.0)
    slope = (position[-1] - position[0]) / (DT * (len(position) - 1))
    first = np.fft.irfft(frequency * spectrum, len(position)) + slope
    return first, np.fft.irfft(frequency**2 * spectrum, len(position))
