"""What the names of columns say: words for time, inputs and outputs, units in headers, and runs of one experiment."""

import re

import numpy as np

TIMES = ("t", "time", "times", "zeit", "timestamp", "sec", "seconds", "datetime", "date", "ts", "hours", "days")
STEPS = {
    **dict.fromkeys(("ts", "dt", "step", "sampling_time", "samplingtime", "sampletime", "h"), "step"),
    **dict.fromkeys(("fs", "samplerate", "sampling_rate", "samplingrate", "sampling_frequency"), "rate"),
}
"""Columns or variables with a single number: seconds per sample, or samples per second."""

INPUTS = (
    *("u", "f", "force", "input", "in", "torque", "moment", "current", "i", "iq", "voltage", "volt", "flow", "drive"),
    *("excitation", "load", "command", "cmd", "pump", "heater", "power", "dose", "infusion", "injection"),
)
OUTPUTS = (
    *("y", "x", "pos", "position", "disp", "displacement", "q", "angle", "theta", "phi", "output", "out", "level"),
    *("response", "temperature", "temp", "conc", "concentration", "plasma", "cp", "height"),
)
KINDS = {
    "acceleration": ("acc", "accel", "acceleration", "a", "ddx", "xdd"),
    "velocity": ("vel", "velocity", "speed", "v", "dx", "xd", "rate", "omega", "rpm"),
}
DRUG = ("conc", "concentration", "plasma", "cp")
"""Outputs of pharmacokinetics."""

TRAINING = ("est", "id", "train", "training", "estimation", "ident", "identification")
TESTING = ("val", "vad", "test", "testing", "valid", "validation")
"""Parts of names that say which run a column belongs to."""

_SI = {
    **dict.fromkeys(("deg", "°", "degree", "degrees"), ("rad", np.pi / 180)),
    **{"mm": ("m", 1e-3), "cm": ("m", 1e-2), "um": ("m", 1e-6), "µm": ("m", 1e-6)},
    **{"mm/s": ("m/s", 1e-3), "deg/s": ("rad/s", np.pi / 180), "°/s": ("rad/s", np.pi / 180)},
    **{"mm/s^2": ("m/s^2", 1e-3), "g": ("m/s^2", 9.80665), "rpm": ("rad/s", np.pi / 30)},
    **{"kN": ("N", 1e3), "mN": ("N", 1e-3), "Nmm": ("N m", 1e-3), "kNm": ("N m", 1e3)},
}
PER = {"h": 3600.0, "hr": 3600.0, "min": 60.0, "d": 86400.0, "day": 86400.0}


def SI(unit: str) -> tuple[str, float] | None:
    """SI unit and factor, for units that would give constants in odd units, or sines of degrees; rates per second,
    since the equations' time is in seconds."""
    if unit in _SI:
        return _SI[unit]
    over, _, per = unit.rpartition("/")
    return (f"{over}/s", 1 / PER[per]) if over and per in PER else None


def tokens(name: str) -> list[str]:
    """The words of a name without unit, indices and numbers: `uEst [V]` -> u, est."""
    bare = re.sub(r"[\[({].*?[\])}]", "", name).strip().rsplit(".", 1)[-1]
    split = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", bare).lower()
    return [part for part in re.split(r"[_\s]+", split) if part and not part.isdigit()]


def word_of(name: str) -> str:
    """A name without unit, case, number and run: `F [N]` -> f, `x_1` -> x, `uEst` -> u."""
    words = [word for word in tokens(name) if word not in (*TRAINING, *TESTING)] or tokens(name)
    return re.sub(r"\d+$", "", "_".join(words)).strip("_")


def unit_of(name: str) -> str:
    """The unit in a header such as `F [N]` or `x (mm)`; `y(:,1)` has none."""
    found = re.search(r"\[([^\]]+)\]|\(([^)]+)\)", name)
    unit = (found[1] or found[2]).strip() if found else ""
    return "" if ":" in unit or "," in unit else unit


def identifier(column: str) -> str:
    """A name for a channel: `Block temperature (°C)` -> block_temperature."""
    bare = re.sub(r"[\[({].*?[\])}]", "", column).strip().lower()
    name = re.sub(r"_+", "_", re.sub(r"\W", "_", bare)).strip("_")
    return name if name[:1].isalpha() else f"output_{name}".rstrip("_")


def run_of(name: str) -> tuple[str, str]:
    """What tells the runs of a file apart: `uEst` -> (Est, ""), `Y_id{3}(:,1)` -> (id, 3)."""
    cell = re.search(r"\{(\d+)\}", name)
    bare = re.sub(r"[\[({].*?[\])}]", "", name).rsplit(".", 1)[-1]
    words = re.split(r"[_\s]+", re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", bare))
    word = next((w for w in words if w.lower() in (*TRAINING, *TESTING)), "")
    return word, cell[1] if cell else ""


def in_run(name: str, run: tuple[str, str]) -> str:
    """The name of the same column in another run."""
    word, cell = run_of(name)
    other = name.replace(f"{{{cell}}}", f"{{{run[1]}}}") if cell else name
    return re.sub(rf"(?<![a-z]){word}|{word}(?![a-z])", run[0], other, count=1) if word else other


def other_runs(names: tuple[str, ...], used: tuple[str, ...]) -> list[tuple[str, str]]:
    """Further runs for which every used column exists, training before testing."""
    own = {run_of(name) for name in used}
    if len(own) != 1 or own == {("", "")}:
        return []
    (mine,) = own
    runs = dict.fromkeys(run_of(name) for name in names if run_of(name) != mine)
    found = [run for run in runs if all(in_run(name, run) in names for name in used)]
    return sorted(found, key=lambda run: run[0].lower() in TESTING)
