"""Bouc-Wen hysteresis (paper, section 4.1): simulated training data, the benchmark's two test records.

The training record is made as in the paper: a random-phase multisine of 2000 lines from 0.5 to 100 Hz, ramped up
over the first tenth, 208 N at its peak; integrated by RK4 at 131072 Hz; acceleration at 4096 Hz with noise of 5 % of
its RMS.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

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
    Published,
    ScoringProtocol,
    free_run,
)
from probsysid.benchmarks.data import locate, read
from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.odefilter.solver import Solver
from probsysid.posterior.simulate import simulate
from probsysid.smc.options import Sampler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from probsysid.benchmarks.run import Outcome

TRUTH = {"m": 2.0, "c": 10.0, "k": 5e4, "alpha": 5e4, "beta": 1e3, "gamma": 0.8, "delta": -1.1}

UNITS = {"m": "kg", "c": "N s/m", "k": "N/m", "alpha": "N/m", "beta": "1/m", "gamma": "", "delta": ""}

RECORD_SEED = 6
"""Seed of phases and noise of the training record.  The attainable error depends on them; of 24 seeds, this one has the
limit closest to 1.10 and 2.76 um, known from an earlier record: docs/benchmarks.md."""

TRAIN_RATE = 4096
SIMULATION_RATE = 131072
DURATION = 3.0
PEAK = 208.0
LINES = 2000
RAMP = 0.1
NOISE = 0.05
TEST_RATE = 750
TEST_STEPS = 8
"""Runge-Kutta steps per sample of the test records, 6000 Hz.  With true parameters, the error on the multisine is
0.252 um at 8 and 0.242 um at 16 steps, on the sine sweep 2.56 um at both."""

PARTICLES = 512
PAPER = {
    "multisine": Published(7.1967e-7, 2.4772e-6, 6.2220e-6),
    "sinesweep": Published(4.6313e-6, 5.4017e-6, 6.6416e-6),
}

model = Model(
    coordinates={"x": 2, "z": 1},
    dynamics=lambda s, u, p: {
        "x": (u.force - p.c * s.dx - p.k * s.x - s.z) / p.m,
        "z": p.alpha * s.dx - p.beta * (p.gamma * jnp.abs(s.dx) * s.z + p.delta * s.dx * jnp.abs(s.z)),
    },
    outputs=lambda s, u, p: {"acceleration": s.ddx},
    units={**UNITS, "acceleration": "m/s^2"},
    name="Bouc-Wen oscillator",
)

position_model = Model(
    coordinates=model.coordinates,
    dynamics=model.dynamics,
    outputs=lambda s, u, p: {"position": s.x},
    units={**UNITS, "position": "m"},
    name="Bouc-Wen oscillator",
)
"""The same system with the output of the test records."""

states_model = Model(
    coordinates=model.coordinates,
    dynamics=model.dynamics,
    outputs=lambda s, u, p: {"x": s.x, "dx": s.dx, "z": s.z, "ddx": s.ddx},
    units=UNITS,
    name="Bouc-Wen oscillator",
)
"""The same system with all states as outputs."""


def priors() -> dict[str, dist.Distribution]:
    """The paper's Gaussians (its second numbers are variances), truncated at zero, where their mass is negligible.

    Truncated, they are sampled in log coordinates, where the ridge of beta, gamma and delta is straight.
    """
    means_variances = {
        "m": (2.1, 0.011),
        "c": (8.8, 6.97),
        "k": (5.9e4, 2.18e8),
        "alpha": (4.4e4, 1.74e8),
        "beta": (8.6e2, 6.66e4),
        "gamma": (0.93, 0.0541),
    }
    positive = {
        name: dist.TruncatedNormal(mean, variance**0.5, low=0.0) for name, (mean, variance) in means_variances.items()
    }
    return {**positive, "delta": dist.TruncatedNormal(-1.3, 0.1056**0.5, high=0.0)}


def multisine(random: np.random.Generator) -> Float[np.ndarray, " fine"]:
    """The force at the simulation rate: random phases, ramped up, scaled to its peak.

    Computed as a matrix product: with t = a + b, exp(i w (a + b)) = exp(i w a) exp(i w b).
    """
    frequencies = np.linspace(0.5, 100.0, LINES)
    phases = random.uniform(0, 2 * np.pi, LINES)
    count = round(DURATION * SIMULATION_RATE) + 1
    block = 1024
    coarse = np.exp(2j * np.pi * np.outer(np.arange(0, count, block) / SIMULATION_RATE, frequencies) + 1j * phases)
    force = (coarse @ np.exp(2j * np.pi * np.outer(frequencies, np.arange(block) / SIMULATION_RATE))).real.ravel()
    force = force[:count] * PEAK / np.max(np.abs(force[:count]))
    return force * np.minimum(np.arange(count) / (RAMP * DURATION * SIMULATION_RATE), 1.0)


@cache
def exact(seed: int = RECORD_SEED) -> dict[str, Float[np.ndarray, " sample"]]:
    """True states, acceleration and force at the training rate, and standard normal noise."""
    random = np.random.default_rng(seed)
    force = multisine(random)
    fine = Record(inputs={"force": force}, dt=1 / SIMULATION_RATE, intersample="linear")
    truth = {name: np.array([value]) for name, value in TRUTH.items()}
    outputs = simulate(states_model, truth, np.zeros((3, 1)), fine, steps=1)[0]
    every, samples = SIMULATION_RATE // TRAIN_RATE, round(DURATION * TRAIN_RATE)
    kept = {name: values[0, ::every][:samples] for name, values in outputs.items()}
    return {**kept, "force": force[::every][:samples], "noise": random.standard_normal(samples)}


@cache
def training_record(seed: int = RECORD_SEED) -> Record:
    """The force, and the acceleration with noise."""
    true = exact(seed)
    acceleration = true["ddx"]
    return Record(
        inputs={"force": true["force"]},
        outputs={"acceleration": acceleration + noise_level(acceleration) * true["noise"]},
        dt=1 / TRAIN_RATE,
        intersample="bandlimited",
        units={"force": "N", "acceleration": "m/s^2"},
        name="Bouc-Wen, simulated training record",
    )


def noise_level(acceleration: Float[np.ndarray, " sample"]) -> float:
    """5 % of the RMS."""
    return float(NOISE * np.sqrt(np.mean(acceleration**2)))


def test_record(which: str, folder: str | Path | None = None) -> tuple[Record, int]:
    """A test record, and the number of samples at its start that are not scored.

    The multisine is one period of a steady state: two periods are simulated, and the second is scored.
    """
    place = locate("bouc-wen", folder)
    force = read(place / f"uval_{which}.mat")[f"uval_{which}"]
    position = read(place / f"yval_{which}.mat")[f"yval_{which}"]
    units = {"force": "N", "position": "m"}
    if which == "multisine":
        twice = {"force": np.tile(force, 2)}, {"position": np.tile(position, 2)}
        record = Record(*twice, dt=1 / TEST_RATE, intersample="periodic", units=units, name=which)
        return record, len(force)
    record = Record(
        {"force": force}, {"position": position}, dt=1 / TEST_RATE, intersample="bandlimited", units=units, name=which
    )
    return record, 0


def study(folder: str | Path | None = None, variant: str = "bouc-wen", *, official: bool = True) -> CaseStudy:
    """The case with the paper's priors; `official=False` tests on records simulated from the true parameters."""
    choose("model", variant, {"bouc-wen": variant})
    record = training_record()
    protocols = tuple(_protocol(which, folder) for which in PAPER) if official else (_simulated_test(),)
    training = free_run(model, record, steps=4)
    measured = np.asarray(record.outputs["acceleration"])
    fine = LeastSquaresFit("Laplace posterior on the same training record, finely integrated", measured, training)
    true = exact()
    sampler = Sampler(particles=PARTICLES, max_moves=4)
    short = Solver(smoothness={"x": 3, "z": 2}, substeps=1, linearisation="ekf1", diffusion="quasi-mle")
    noise = {"acceleration": noise_level(true["ddx"])}
    return CaseStudy(
        case="bouc-wen",
        variant=variant,
        model=model,
        record=record,
        priors=priors(),
        initial={"x": 0.0, "dx": 0.0, "z": 0.0},
        methods={
            "default": Method(short, sampler),
            "paper": Method(Solver.paper(substeps=1), Sampler.paper(particles=PARTICLES, bridge=NEVER), noise),
        },
        protocols=protocols,
        equation="m x'' + c x' + k x + z = u,  z' = alpha x' - beta (gamma |x'| z + delta x' |z|)",
        fits={p.name: fine for p in protocols},
        guess=TRUTH,
        view=FigureSettings(
            states=("x", "dx", "z", "ddx"),
            samples=4096,
            zoom=(0.8, 0.84),
            window=(1600, 3000),
            measured={"ddx": "acceleration"},
            units={"x": "m", "dx": "m/s", "z": "N", "ddx": "m/s^2"},
            truth={name: true[name] for name in ("x", "dx", "z", "ddx")},
        ),
        training=training,
        truth=TRUTH,
        figures=figures,
    )


def _protocol(which: str, folder: str | Path | None) -> ScoringProtocol:
    record, skip = test_record(which, folder)
    return ScoringProtocol(which, record, free_run(position_model, record, TEST_STEPS), skip, paper=PAPER[which])


def _simulated_test() -> ScoringProtocol:
    """A test on a multisine with other phases, from rest: position simulated with the true parameters, no noise."""
    force = multisine(np.random.default_rng(RECORD_SEED + 1))[:: SIMULATION_RATE // TRAIN_RATE]
    record = Record(inputs={"force": force}, dt=1 / TRAIN_RATE, intersample="bandlimited", units={"force": "N"})
    truth = {name: np.array([value]) for name, value in TRUTH.items()}
    position = simulate(position_model, truth, np.zeros((3, 1)), record, steps=TEST_STEPS)[0]["position"][0]
    record = record.replace(outputs={"position": position}, units={"force": "N", "position": "m"})
    return ScoringProtocol("simulated", record, free_run(position_model, record, steps=2))


def figures(outcome: "Outcome") -> "dict[str, Figure]":
    """The hysteresis loop: internal force against position over the last tenth of a second of training."""
    from probsysid.report.figures.characteristic import plot_loop

    draws = outcome.draws(24)
    record = outcome.study.record
    count = len(draws["m"])
    states = simulate(states_model, draws, np.zeros((3, count)), record, steps=2)[0]
    last = slice(record.samples - round(0.1 * TRAIN_RATE), None)
    true = exact()
    loop = plot_loop(
        1e3 * states["x"][:, last],
        states["z"][:, last],
        "position x [mm]",
        "hysteretic force z [N]",
        (1e3 * true["x"][last], true["z"][last]),
    )
    return {"loop": loop}
