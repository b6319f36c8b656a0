"""Ten systems to learn from: each simulated independently of the package, with noise, and described by a study.

`python examples/gallery/systems.py FOLDER` writes the data files and the studies.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

Values = Mapping[str, float]


@dataclass(frozen=True)
class System:
    """How data come about, and the study that is to find the constants again."""

    title: str
    about: str
    truth: Values
    slope: Callable[[Any, Any, Any], list[float]]
    """`slope(state, inputs, truth)`: derivatives of the state."""
    start: tuple[float, ...]
    time: np.ndarray
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, Callable[[np.ndarray, Mapping[str, np.ndarray], Any], np.ndarray]]
    """Column -> function of states (one row each), inputs and truth."""
    noise: Mapping[str, float]
    study: str
    """From `[model]` on."""
    channels: str
    """The tables of inputs and outputs."""

    def measure(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Columns of the data file: inputs are held between samples."""
        path = [np.array(self.start, dtype=float)]
        for k in range(len(self.time) - 1):
            u = {name: float(values[k]) for name, values in self.inputs.items()}
            span = (self.time[k], self.time[k + 1])
            found = solve_ivp(lambda _, s, u=u: self.slope(s, u, self.truth), span, path[-1], rtol=1e-8, atol=1e-10)
            path.append(found.y[:, -1])
        states, random = np.stack(path, axis=1), np.random.default_rng(seed)
        measured = {name: function(states, self.inputs, self.truth) for name, function in self.outputs.items()}
        noisy = {name: y + self.noise[name] * random.standard_normal(len(y)) for name, y in measured.items()}
        return {"t": self.time, **self.inputs, **noisy}

    def write(self, folder: Path, name: str) -> Path:
        """Data and study in a folder; returns the study's path."""
        columns = self.measure()
        rows = zip(*columns.values(), strict=True)
        text = ",".join(columns) + "\n" + "".join(",".join(f"{v:.7g}" for v in row) + "\n" for row in rows)
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
        path = folder / f"{name}.toml"
        path.write_text(self.study_text(name), encoding="utf-8")
        return path

    def study_text(self, name: str) -> str:
        split = 3 * len(self.time) // 4
        return f"""\
title = "{self.title}"

[data]
file = "{name}.csv"
time = "t"
train = {{ samples = [0, {split}] }}
test = {{ samples = [{split}, "end"] }}

{self.channels.strip()}

{self.study.strip()}

[sampler]
particles = 256
"""


def steps(levels: int, count: int, size: float, seed: int) -> np.ndarray:
    """Random levels, each held for a while."""
    return np.repeat(np.random.default_rng(seed).normal(0, size, levels), -(-count // levels))[:count]


def grid(count: int, step: float) -> np.ndarray:
    return step * np.arange(count)


SYSTEMS: dict[str, System] = {
    "duffing": System(
        "Hardening spring",
        "A mass on a spring that stiffens, shaken by a random force.",
        {"m": 1.0, "c": 0.2, "k": 4.0, "k3": 6.0},
        lambda s, u, p: [s[1], (u["force"] - p["c"] * s[1] - p["k"] * s[0] - p["k3"] * s[0] ** 3) / p["m"]],
        (0.0, 0.0),
        grid(240, 0.1),
        {"force": steps(60, 240, 2.0, 1)},
        {"position": lambda s, u, p: s[0]},
        {"position": 0.01},
        """
[model]
catalogue = "duffing"

[parameters]
m = { prior = "LogNormal(log(1.5), 0.7)", unit = "kg" }
c = { prior = "LogNormal(log(0.3), 1)", unit = "N s/m" }
k = { prior = "LogNormal(log(6), 0.7)", unit = "N/m" }
k3 = { prior = "LogNormal(log(3), 1)", unit = "N/m^3" }

[initial]
x = 0.0
dx = 0.0
""",
        """
[data.inputs]
force = { column = "force", unit = "N", intersample = "zoh" }

[data.outputs]
position = { column = "position", unit = "m" }
""",
    ),
    "pendulum": System(
        "Free pendulum",
        "A pendulum released from 70 degrees, with friction in its bearing.",
        {"omega": 5.0, "d": 0.1},
        lambda s, u, p: [s[1], -2 * p["d"] * s[1] - p["omega"] ** 2 * np.sin(s[0])],
        (1.2, 0.0),
        grid(200, 0.05),
        {},
        {"angle": lambda s, u, p: s[0]},
        {"angle": 0.01},
        """
[model]
catalogue = "free-pendulum"

[parameters]
omega = { prior = "LogNormal(log(4), 0.5)", unit = "rad/s" }
d = { prior = "LogNormal(log(0.05), 1)", unit = "1/s" }

[initial]
theta = "Normal(1.2, 0.05)"
dtheta = "Normal(0, 0.2)"
""",
        """
[data.outputs]
angle = { column = "angle", unit = "rad" }
""",
    ),
    "motor": System(
        "Motor with friction",
        "The speed of a drive with viscous and dry friction, its current in steps.",
        {"k": 40.0, "a": 2.0, "f": 8.0},
        lambda s, u, p: [p["k"] * u["current"] - p["a"] * s[0] - p["f"] * np.tanh(50 * s[0])],
        (0.0,),
        grid(240, 0.02),
        {"current": 1.5 + steps(24, 240, 0.7, 2)},
        {"speed": lambda s, u, p: s[0]},
        {"speed": 0.2},
        """
[model]
catalogue = "motor"

[parameters]
k = { prior = "LogNormal(log(30), 1)", unit = "rad/s^2/A" }
a = { prior = "LogNormal(log(1), 1)", unit = "1/s" }
f = { prior = "LogNormal(log(5), 1)", unit = "rad/s^2" }

[initial]
speed = "Normal(0, 1)"
""",
        """
[data.inputs]
current = { column = "current", unit = "A", intersample = "zoh" }

[data.outputs]
speed = { column = "speed", unit = "rad/s" }
""",
    ),
    "drug": System(
        "Infusion of a drug",
        "Concentration in the blood after an infusion of one hour, fifteen samples in a day.",
        {"CL": 4.2 / 3600, "V": 28.0},
        lambda s, u, p: [(u["dose"] - p["CL"] * s[0]) / p["V"]],
        (0.0,),
        3600 * np.array([0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24.0]),
        {"dose": np.where(np.arange(16) < 4, 200 / 3600, 0.0)},
        {"concentration": lambda s, u, p: s[0]},
        {"concentration": 0.15},
        """
[model]
catalogue = "one-compartment"

[parameters]
CL = { prior = "LogNormal(log(0.001), 1)", unit = "L/s" }
V = { prior = "LogNormal(log(40), 0.5)", unit = "L" }

[initial]
conc = 0.0
""",
        """
[data.inputs]
dose = { column = "dose", unit = "mg/s", intersample = "zoh" }

[data.outputs]
concentration = { column = "concentration", unit = "mg/L" }
""",
    ),
    "heater": System(
        "Heated block",
        "Temperature above the room's of a block with a switched heater.",
        {"gain": 0.8, "T": 300.0},
        lambda s, u, p: [(p["gain"] * u["drive"] - s[0]) / p["T"]],
        (0.0,),
        grid(160, 20.0),
        {"drive": 40.0 * (steps(16, 160, 1.0, 3) > 0)},
        {"response": lambda s, u, p: s[0]},
        {"response": 0.3},
        """
[model]
catalogue = "first-order-lag"

[parameters]
gain = { prior = "LogNormal(log(1), 1)", unit = "K/W" }
T = { prior = "LogNormal(log(200), 1)", unit = "s" }

[initial]
x = "Normal(0, 1)"
""",
        """
[data.inputs]
drive = { column = "drive", unit = "W", intersample = "zoh" }

[data.outputs]
response = { column = "response", unit = "K" }
""",
    ),
    "van-der-pol": System(
        "Self-excited oscillation",
        "A limit cycle, started far inside it.",
        {"mu": 1.5, "a": 0.8, "omega": 3.0},
        lambda s, u, p: [s[1], p["mu"] * (1 - s[0] ** 2 / p["a"] ** 2) * s[1] - p["omega"] ** 2 * s[0]],
        (0.1, 0.0),
        grid(240, 0.05),
        {},
        {"position": lambda s, u, p: s[0]},
        {"position": 0.03},
        """
[model]
catalogue = "van-der-pol"

[parameters]
mu = { prior = "LogNormal(0, 0.7)", unit = "1/s" }
a = { prior = "LogNormal(0, 0.5)", unit = "m" }
omega = { prior = "LogNormal(log(2.5), 0.3)", unit = "rad/s" }

[initial]
x = "Normal(0.1, 0.05)"
dx = "Normal(0, 0.3)"
""",
        """
[data.outputs]
position = { column = "position", unit = "m" }
""",
    ),
    "lotka-volterra": System(
        "Predators and prey",
        "Two populations, both counted every quarter of a year, in years and thousands.",
        {"a": 0.6, "b": 0.03, "c": 0.8, "d": 0.025},
        lambda s, u, p: [p["a"] * s[0] - p["b"] * s[0] * s[1], -p["c"] * s[1] + p["d"] * s[0] * s[1]],
        (30.0, 8.0),
        grid(100, 0.25),
        {},
        {"prey": lambda s, u, p: s[0], "predators": lambda s, u, p: s[1]},
        {"prey": 1.5, "predators": 1.0},
        """
[model]
catalogue = "lotka-volterra"

[parameters]
a = { prior = "LogNormal(log(0.5), 0.5)" }
b = { prior = "LogNormal(log(0.05), 0.7)" }
c = { prior = "LogNormal(log(0.5), 0.5)" }
d = { prior = "LogNormal(log(0.05), 0.7)" }

[initial]
prey = "LogNormal(log(30), 0.2)"
predators = "LogNormal(log(8), 0.2)"
""",
        """
[data.outputs]
prey = "prey"
predators = "predators"
""",
    ),
    "tanks": System(
        "Cascaded tanks",
        "A pump fills a tank that drains into another, whose level is measured.",
        {"k1": 0.06, "k2": 0.05, "k3": 0.05, "k4": 0.05},
        lambda s, u, p: [
            -p["k1"] * np.sqrt(max(s[0], 1e-6)) + p["k4"] * u["flow"],
            p["k2"] * np.sqrt(max(s[0], 1e-6)) - p["k3"] * np.sqrt(max(s[1], 1e-6)),
        ],
        (4.0, 5.0),
        grid(200, 4.0),
        {"flow": 2.5 + 0.8 * np.tanh(steps(20, 200, 1.0, 4))},
        {"level": lambda s, u, p: s[1]},
        {"level": 0.05},
        """
[model]
catalogue = "cascaded-tanks"

[parameters]
k1 = { prior = "LogNormal(log(0.05), 0.5)" }
k2 = { prior = "LogNormal(log(0.05), 0.5)" }
k3 = { prior = "LogNormal(log(0.05), 0.5)" }
k4 = { fixed = 0.05, description = "from the pump's data sheet" }

[initial]
h1 = "Normal(4, 1)"
h2 = "Normal(5, 0.1)"
""",
        """
[data.inputs]
flow = { column = "flow", unit = "V", intersample = "zoh" }

[data.outputs]
level = "level"
""",
    ),
    "friction": System(
        "Spring with dry friction",
        "An oscillator with dry friction, its velocity measured.",
        {"m": 2.0, "c": 0.5, "k": 20.0, "F_c": 1.0},
        lambda s, u, p: [
            s[1],
            (u["force"] - p["c"] * s[1] - p["k"] * s[0] - p["F_c"] * np.tanh(200 * s[1])) / p["m"],
        ],
        (0.0, 0.0),
        grid(240, 0.05),
        {"force": steps(40, 240, 6.0, 5)},
        {"velocity": lambda s, u, p: s[1]},
        {"velocity": 0.02},
        """
[model]
catalogue = "coulomb"

[parameters]
m = { prior = "LogNormal(log(3), 0.7)", unit = "kg" }
c = { prior = "LogNormal(log(0.3), 1)", unit = "N s/m" }
k = { prior = "LogNormal(log(15), 0.7)", unit = "N/m" }
F_c = { prior = "LogNormal(log(0.5), 1)", unit = "N" }

[initial]
x = 0.0
dx = 0.0
""",
        """
[data.inputs]
force = { column = "force", unit = "N", intersample = "zoh" }

[data.outputs]
velocity = { column = "velocity", unit = "m/s" }
""",
    ),
    "acceleration": System(
        "Accelerometer only",
        "An oscillator of which only the acceleration is measured.",
        {"m": 1.2, "c": 0.6, "k": 30.0},
        lambda s, u, p: [s[1], (u["force"] - p["c"] * s[1] - p["k"] * s[0]) / p["m"]],
        (0.0, 0.0),
        grid(240, 0.05),
        {"force": steps(60, 240, 5.0, 6)},
        {"acceleration": lambda s, u, p: (u["force"] - p["c"] * s[1] - p["k"] * s[0]) / p["m"]},
        {"acceleration": 0.1},
        """
[model]
catalogue = "linear-sdof"

[parameters]
m = { prior = "LogNormal(0, 0.7)", unit = "kg" }
c = { prior = "LogNormal(log(0.5), 1)", unit = "N s/m" }
k = { prior = "LogNormal(log(20), 0.7)", unit = "N/m" }

[initial]
x = "Normal(0, 0.05)"
dx = "Normal(0, 0.2)"
""",
        """
[data.inputs]
force = { column = "force", unit = "N", intersample = "zoh" }

[data.outputs]
acceleration = { column = "acceleration", unit = "m/s^2" }
""",
    ),
}


def write_all(folder: Path) -> list[Path]:
    """Every data file and every study."""
    folder.mkdir(parents=True, exist_ok=True)
    return [system.write(folder, name) for name, system in SYSTEMS.items()]


if __name__ == "__main__":
    for written in write_all(Path(sys.argv[1] if len(sys.argv) > 1 else "gallery")):
        print(written)
