"""Bouc-Wen hysteresis (paper, section 4.1): simulated training data, the benchmark's two test records.

The training record is made as the paper says: a random-phase multisine of 2000 lines from 0.5 to 100 Hz, ramped up
over the first tenth, 208 N at its peak; integrated by RK4 at 131072 Hz; acceleration at 4096 Hz with noise of 5 % of
its RMS.
"""

from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from probsysid.benchmarks.data import locate, read
from probsysid.model import Model
from probsysid.record import Record
from probsysid.simulate import simulate

TRUTH = {"m": 2.0, "c": 10.0, "k": 5e4, "alpha": 5e4, "beta": 1e3, "gamma": 0.8, "delta": -1.1}

UNITS = {"m": "kg", "c": "N s/m", "k": "N/m", "alpha": "N/m", "beta": "1/m", "gamma": "", "delta": ""}

TRAIN_RATE = 4096
SIMULATION_RATE = 131072
DURATION = 3.0
PEAK = 208.0
NOISE = 0.05
TEST_RATE = 750

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
"""The same seen by the test records' sensor."""


def priors() -> dict[str, dist.Distribution]:
    """The paper's Gaussians (its second numbers are variances), cut at zero, where they have no mass to speak of.

    Cut at zero they are sampled in log coordinates, where the ridge of beta, gamma and delta is straight.
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


@cache
def training_record(seed: int = 0) -> Record:
    """Acceleration measured with noise, and the force."""
    random = np.random.default_rng(seed)
    frequencies = np.linspace(0.5, 100.0, 2000)
    phases = random.uniform(0, 2 * np.pi, len(frequencies))
    fine = np.arange(round(DURATION * SIMULATION_RATE) + 1) / SIMULATION_RATE
    force = np.zeros_like(fine)
    for frequency, phase in zip(frequencies, phases, strict=True):
        force += np.cos(2 * np.pi * frequency * fine + phase)
    force *= PEAK / np.max(np.abs(force)) * np.minimum(fine / (0.1 * DURATION), 1.0)
    exact = simulate(
        model,
        {name: np.array([value]) for name, value in TRUTH.items()},
        np.zeros((3, 1)),
        Record(inputs={"force": force}, dt=1 / SIMULATION_RATE, intersample="linear"),
        steps=1,
    )[0]["acceleration"][0]
    every = SIMULATION_RATE // TRAIN_RATE
    samples = round(DURATION * TRAIN_RATE)
    acceleration = exact[::every][:samples]
    noise = NOISE * np.sqrt(np.mean(acceleration**2))
    return Record(
        inputs={"force": force[::every][:samples]},
        outputs={"acceleration": acceleration + noise * random.standard_normal(samples)},
        dt=1 / TRAIN_RATE,
        intersample="bandlimited",
        units={"force": "N", "acceleration": "m/s^2"},
        name="Bouc-Wen, simulated training record",
    )


def test_record(which: str, folder: str | Path | None = None) -> tuple[Record, int]:
    """A test record and the samples to leave out of scores.

    The multisine is one period of a steady state: two periods are simulated, the first is left out.
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
