"""From a csv file to a report on four systems, as a new user does it: `python -m validation.first_hour [FOLDER]`.

Two files are simulated (a drive, a drug), two are real: the cascaded tanks and a free pendulum, from PROBSYSID_DATA.
Every command and what it says goes to docs/first-hour.md, with wall and processor times.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

PAGE = Path(__file__).parents[1] / "docs" / "first-hour.md"
WIDTH = 110

HEAD = """\
# The first hour

From a csv or mat file to a report, with nothing but the command line: what is typed, what is said, and how long it
takes. `python -m validation.first_hour` runs it again and writes this page.

{machine}

| system | commands and edits | wall time | processor time | ends |
|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Trial:
    """A system, how its file comes about, and what a user does with it."""

    name: str
    title: str
    about: str
    prepare: Callable[[Path], None]
    new: str
    edits: Sequence[tuple[str, str, str]] = ()
    """Text in the study, what replaces it, and why."""
    truth: dict[str, float] = field(default_factory=dict)


def drive(folder: Path) -> None:
    """The speed of a drive, 1 kHz, its current in steps; no column of times."""
    random = np.random.default_rng(1)
    current = np.clip(np.repeat(random.normal(0, 1.2, 40), 100), -2, 2)
    speed = [0.0]
    for u in current[:-1]:
        found = solve_ivp(
            lambda _, w, u=u: 312.5 * u - 2.5 * w - 83.33 * np.tanh(w / 0.02), (0, 1e-3), speed[-1:], rtol=1e-8
        )
        speed.append(float(found.y[0, -1]))
    measured = np.array(speed) + random.normal(0, 1.0, len(current))
    _csv(folder / "drive.csv", "iq [A],speed [rad/s]", current, measured)


def drug(folder: Path) -> None:
    """A concentration after an infusion of one hour, fifteen samples, 8 % relative noise."""
    random = np.random.default_rng(1)
    hours = np.array([0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 10, 12, 16, 24.0])
    clearance, volume, rate = 4.2, 28.0, 200.0
    decay = clearance / volume
    level = rate / clearance * (1 - np.exp(-decay * np.minimum(hours, 1))) * np.exp(-decay * np.maximum(hours - 1, 0))
    measured = level * np.exp(random.normal(0, 0.08, len(hours)))
    _csv(folder / "pk.csv", "time (h),dose (mg/h),conc (mg/L)", hours, np.where(hours < 1, rate, 0.0), measured)


def _csv(path: Path, header: str, *columns: np.ndarray) -> None:
    np.savetxt(path, np.stack(columns, axis=1), delimiter=",", header=header, comments="", fmt="%.6g")


def copied(*parts: str) -> Callable[[Path], None]:
    """A file of the benchmark data."""

    def copy(folder: Path) -> None:
        shutil.copy(Path(os.environ["PROBSYSID_DATA"]).joinpath(*parts), folder / parts[-1])

    return copy


SWING = "SinglePendulumDataForParameterEstimation.mat"
TRIALS = [
    Trial(
        "pk",
        "Drug",
        "Fifteen concentrations after an infusion (simulated: CL = 4.2 L/h = 0.001167 L/s, V = 28 L).",
        drug,
        "probsysid new pk --data pk.csv",
        truth={"CL": 4.2 / 3600, "V": 28.0},
    ),
    Trial(
        "drive",
        "Drive",
        "Current and speed at 1 kHz, without times (simulated: k = 312.5, a = 2.5, f = 83.33).",
        drive,
        "probsysid new drive --data drive.csv --fs 1000",
        truth={"k": 312.5, "a": 2.5, "f": 83.33},
    ),
    Trial(
        "pendulum",
        "Pendulum",
        "Measured free swings in MATLAB's cells; angles from the upright, so that hanging is pi.",
        copied("pendulum", SWING),
        f"probsysid new pendulum --model free-pendulum --data {SWING}",
        [(', unit = "rad" }', ', unit = "rad", offset = -3.14159265 }', "angles count from hanging"),
         ('theta = "Normal(1.5, 0.31)"', 'theta = "Normal(-1.6, 0.3)"', "and so does the first one")],
    ),
    Trial(
        "tanks",
        "Tanks",
        "Measured levels of two cascaded tanks that overflow, which the equations do not know.",
        copied("tanks", "dataBenchmark.csv"),
        "probsysid new tanks --model cascaded-tanks --data dataBenchmark.csv",
        [("[noise]\n", "[noise]\nlevel = { upper = 10.0 }\n", "as check says: the sensor clips at 10 V"),
         ("particles = 512 ", "particles = 256 ", "a first look")],
    ),
]  # fmt: skip


@dataclass
class Course:
    """What was typed and said, and the time it took."""

    lines: list[str] = field(default_factory=list)
    wall: float = 0.0
    processor: float = 0.0

    def run(self, command: str, folder: Path) -> None:
        """A command in a folder; its time counts."""
        words = command.split()
        full = [sys.executable, "-m", *words]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        done = subprocess.run(
            full, cwd=folder, capture_output=True, text=True, env={**os.environ, "COLUMNS": str(WIDTH)}
        )
        seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.wall, self.processor = self.wall + seconds, self.processor + used
        said = re.sub(r"[ \t]+$", "", done.stdout + done.stderr, flags=re.MULTILINE).strip()
        self.lines.append(
            f"$ {command}\n{said}\n({seconds:.0f} s, {used:.0f} s of processor time, exit code {done.returncode})"
        )
        print(self.lines[-1], flush=True)


def attempt(trial: Trial, folder: Path) -> Course:
    """All that a user does."""
    trial.prepare(folder)
    course, study = Course(), folder / f"{trial.name}.toml"
    study.unlink(missing_ok=True)
    course.run(trial.new, folder)
    course.run(f"probsysid check {study.name}", folder)
    for old, new, why in trial.edits:
        text = study.read_text()
        assert old in text, old
        study.write_text(text.replace(old, new))
        course.lines.append(f"(in the study: {new.strip()}    because {why})")
    course.run(f"probsysid fit {study.name} --overwrite", folder)
    return course


def ending(text: str) -> str:
    """In a few words, from what the fit said."""
    verdict = "not to be trusted" if "not to be trusted" in text else "sampling trusted"
    doubt = "the model is doubted" if "look: one-step" in text else "no doubt about the model"
    return f"{verdict}; {doubt}"


def main(folder: Path) -> None:
    """Run all trials and write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    cores, load = os.cpu_count(), os.getloadavg()[0]
    machine = f"Made {time.strftime('%Y-%m-%d')} on {cores} cores at a load of {load:.0f}: processor times count."
    rows, parts = [], []
    for trial in TRIALS:
        course = attempt(trial, folder)
        steps = f"3 commands, {len(trial.edits)} edits"
        times = f"{course.wall / 60:.1f} min | {course.processor:.0f} s"
        rows.append(f"| [{trial.title}](#{trial.title.lower()}) | {steps} | {times} | {ending(course.lines[-1])} |")
        told = "\n\n".join(course.lines)
        parts.append(f"## {trial.title}\n\n{trial.about}\n\n```text\n{told}\n```\n")
        PAGE.write_text(HEAD.format(machine=machine) + "\n".join(rows) + "\n\n" + "\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="probsysid-")))
