"""A study to start from: columns guessed from their names, priors from the scales of the data."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.readers import Table, read_table
from probsysid.data.readers.csv import EncodingError
from probsysid.data.readers.sample_times import SECONDS, sample_times
from probsysid.study.catalogue import CHAIN, CatalogueModel, ParameterHint, look_up
from probsysid.study.toml_writer import quoted

TIMES = ("t", "time", "times", "zeit", "timestamp", "sec", "seconds", "ts", "datetime", "date")
INPUTS = (
    "u",
    "f",
    "force",
    "input",
    "in",
    "torque",
    "current",
    "voltage",
    "volt",
    "flow",
    "drive",
    "excitation",
    "load",
)
OUTPUTS = (
    "y",
    "x",
    "pos",
    "position",
    "disp",
    "displacement",
    "q",
    "angle",
    "theta",
    "output",
    "out",
    "level",
    "response",
)
KINDS = {
    "acceleration": ("acc", "accel", "acceleration", "a", "ddx", "xdd"),
    "velocity": ("vel", "velocity", "speed", "v", "dx", "xd", "rate"),
}
MOST_TRAINING = 3000
"""Samples to train on at first: enough to see whether a study works, few enough for a short run."""

MOST_OTHERS = 8
"""Columns that are not used but offered as outputs, in comments."""

FIRST_GUESS_SPREAD = 1.5
"""Standard deviation of the log of a first guess: a factor of 4.5 either way, 20 at two."""

SI = {
    **dict.fromkeys(("deg", "°", "degree", "degrees"), ("rad", np.pi / 180)),
    **{"mm": ("m", 1e-3), "cm": ("m", 1e-2), "um": ("m", 1e-6), "µm": ("m", 1e-6)},
    **{"mm/s": ("m/s", 1e-3), "deg/s": ("rad/s", np.pi / 180), "°/s": ("rad/s", np.pi / 180)},
    **{"mm/s^2": ("m/s^2", 1e-3)},
    **{"kN": ("N", 1e3), "mN": ("N", 1e-3), "Nmm": ("N m", 1e-3), "kNm": ("N m", 1e3)},
}
"""Units that would give constants in odd units, or the sine of degrees: what they are turned into, and how."""

OWN = CatalogueModel(
    "my oscillator",
    {"x": 2},
    {"x": "(force - c*dx - k*x)/m"},
    {"position": "x", "velocity": "dx", "acceleration": "ddx"},
    {"force": "N"},
    {
        "m": ParameterHint("kg", "mass", (1, -1, 2)),
        "c": ParameterHint("N s/m", "viscous damping", (1, -1, 1), 0.1),
        "k": ParameterHint("N/m", "stiffness", (1, -1, 0)),
    },
)
"""What a study without a catalogue's model begins with."""

OWN_FREE = CatalogueModel(
    "my free oscillation",
    {"x": 2},
    {"x": "-2*d*dx - omega**2*x"},
    OWN.quantities,
    {},
    {
        "omega": ParameterHint("rad/s", "natural frequency", (0, 0, -1)),
        "d": ParameterHint("1/s", "decay rate", (0, 0, -1), 0.05),
    },
)
"""The same where the data have no column left for an input: a free decay tells no masses."""


@dataclass(frozen=True)
class Columns:
    """Which column is what."""

    time: str | None
    inputs: dict[str, str]
    outputs: dict[str, str]
    others: tuple[str, ...]


@dataclass(frozen=True)
class Scales:
    """Typical force, length and time of the data."""

    force: float
    length: float
    time: float

    def guess(self, hint: ParameterHint) -> float:
        """A parameter of the size that its dimension and the scales give."""
        a, b, c = hint.dimension
        return float(hint.factor * self.force**a * self.length**b * self.time**c)


def new_study(path: Path, data: Path, model: str | None, masses: int | None) -> tuple[str, list[str]]:
    """The text of a study file for a data file, and remarks on what was guessed."""
    table, encoding = _read(data)
    entry = _own(table) if model is None else look_up(model, masses)
    columns = guess_columns(table, entry)
    remarks = _remarks(columns, entry)
    for column in (*columns.inputs.values(), *columns.outputs.values()):
        if unit_of(column) in SI:
            remarks.append(f"{column!r} is turned into {SI[unit_of(column)][0]}.")
    if encoding:
        remarks.append(f"the file is not UTF-8; it is read as {encoding}.")
    time, step = _times(table, columns, remarks)
    scales = data_scales(table, columns, time)
    file = os.path.relpath(data.absolute(), path.absolute().parent)
    sections = [
        _head(path.stem),
        _data(table, columns, entry, file, encoding, len(time), step),
        _model(model, masses, entry, columns),
        _parameters(entry, scales),
        _rest(table, columns, entry, scales),
    ]
    return "\n".join(sections), remarks


def _read(data: Path) -> tuple[Table, str]:
    """The file, and its encoding if it is not UTF-8: then it is most likely that of western Windows."""
    try:
        return read_table(data), ""
    except EncodingError:
        return read_table(data, encoding="cp1252"), "cp1252"


# Guesses


def _own(table: Table) -> CatalogueModel:
    """An equation to begin with: with a force if there may be a column for one."""
    columns = guess_columns(table, OWN)
    return OWN if columns.inputs else OWN_FREE


def guess_columns(table: Table, entry: CatalogueModel) -> Columns:
    """Columns by their names, then by their order."""
    names = [name for name in table.names if _usable(table, name)]
    if not names:
        raise InputError(f"{table.path}: there is no {table.kind} with numbers.")
    time = next((n for n in table.names if _word(n) in TIMES and _is_time(table, n)), None)
    if time is None:
        time = next((n for n in names[:1] if _is_time(table, n) and len(names) > 1), None)
    left = [name for name in names if name != time]
    inputs: dict[str, str] = {}
    for wanted in entry.inputs:
        found = next((n for n in left if _word(n) in (wanted, *INPUTS)), None)
        rest = [n for n in left if _kind(n, entry) is None]
        if found is None and len(left) > 1:
            found = (rest or left)[0]
        if found is not None:
            inputs[wanted] = found
            left.remove(found)
    outputs: dict[str, str] = {}
    for name in left:
        kind = _kind(name, entry)
        if kind is not None and kind not in outputs:
            outputs[kind] = name
    if not outputs and left:
        outputs[next(iter(entry.quantities))] = left[0]
    others = tuple(name for name in left if name not in outputs.values())
    return Columns(time, inputs, outputs, others)


def _usable(table: Table, name: str) -> bool:
    try:
        return bool(np.sum(np.isfinite(table.numbers(name))) > 1)
    except InputError:
        return False


def _word(name: str) -> str:
    """The name without unit, case and numbering: `F [N]` -> f, `x_1` -> x."""
    bare = re.sub(r"[\[(].*?[\])]", "", name).strip().lower()
    bare = bare.rsplit(".", 1)[-1]
    return re.sub(r"[_\s]*\d*$", "", bare).strip()


def _identifier(column: str) -> str:
    """A name for a channel: `Block temperature (°C)` -> block_temperature."""
    bare = re.sub(r"[\[(].*?[\])]", "", column).strip().lower()
    name = re.sub(r"_+", "_", re.sub(r"\W", "_", bare)).strip("_")
    return name if name[:1].isalpha() else f"output_{name}".rstrip("_")


def unit_of(name: str) -> str:
    """The unit in a header such as `F [N]` or `x (mm)`; `y(:,1)` has none."""
    found = re.search(r"\[([^\]]+)\]|\(([^)]+)\)", name)
    unit = (found[1] or found[2]).strip() if found else ""
    return "" if ":" in unit or "," in unit else unit


def _numbers(table: Table, column: str) -> np.ndarray:
    """A column in SI units, as far as its header tells."""
    return table.numbers(column) * SI.get(unit_of(column), ("", 1.0))[1]


def _unit_and_scale(column: str, default: str) -> str:
    """How a channel's table says it: `unit = "rad", scale = 0.0174533`."""
    unit, scale = SI.get(unit_of(column), (unit_of(column) or default, 1.0))
    return f"unit = {quoted(unit)}" + (f", scale = {scale:.9g}" if scale != 1.0 else "")


def _kind(name: str, entry: CatalogueModel) -> str | None:
    """The quantity of the model that a column seems to be."""
    word, quantities = _word(name), tuple(entry.quantities)
    numbered = re.search(r"(\d+)$", re.sub(r"[\[(].*?[\])]", "", name).strip())
    for quantity in quantities:
        if word == re.sub(r"\d+$", "", quantity) and (numbered is None or quantity.endswith(numbered[1])):
            return quantity
    for kind, words in KINDS.items():
        if word in words:
            return next((q for q in quantities if q.startswith(kind)), None)
    if word in OUTPUTS:
        ending = numbered[1] if numbered else ""
        return next((q for q in quantities if q.endswith(ending)), quantities[0])
    return None


def _is_time(table: Table, name: str) -> bool:
    try:
        sample_times(table, name, "s", "auto")
    except InputError:
        return False
    return True


def _times(table: Table, columns: Columns, remarks: list[str]) -> tuple[np.ndarray, float | None]:
    if columns.time is None:
        length = len(table.raw(next(iter((*columns.inputs.values(), *columns.outputs.values())))))
        remarks.append("no time column was found: dt = 1.0 stands in for the sampling step in seconds; change it.")
        return np.arange(float(length)), 1.0
    found = sample_times(table, columns.time, _time_unit(columns.time), "auto")
    remarks += [f"{note}." for note in found.notes]
    return found.time, found.dt


def _time_unit(name: str) -> str:
    unit = unit_of(name).lower().replace("µ", "u").replace("sec", "s").replace("seconds", "s")
    return unit if unit in SECONDS else "s"


def data_scales(table: Table, columns: Columns, time: np.ndarray) -> Scales:
    """Root mean squares, and the time of one radian at the strongest frequency of the first output."""
    duration = float(time[-1] - time[0]) or 1.0
    force = max((_spread(_numbers(table, name)) for name in columns.inputs.values()), default=1.0)
    if not columns.outputs:
        return Scales(force, 1.0, duration / 20)
    quantity, column = next(iter(columns.outputs.items()))
    values = _numbers(table, column)
    period = duration / max(_strongest(values[np.isfinite(values)]), 1.0)
    radian = period / (2 * np.pi)
    power = 2 if quantity.startswith("acceleration") else 1 if quantity.startswith("velocity") else 0
    return Scales(force, _spread(values) * radian**power, radian)


def _spread(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    spread = float(np.std(finite)) if len(finite) else 0.0
    return spread if spread > 0 else max(float(np.max(np.abs(finite), initial=0.0)), 1.0)


def _strongest(values: np.ndarray) -> float:
    """Periods in the record of the strongest line of its spectrum, trend removed."""
    if len(values) < 8:
        return 1.0
    index = np.arange(len(values))
    detrended = values - np.polyval(np.polyfit(index, values, 1), index)
    spectrum = np.abs(np.fft.rfft(detrended * np.hanning(len(values))))
    return float(np.argmax(spectrum[1:]) + 1)


def _remarks(columns: Columns, entry: CatalogueModel) -> list[str]:
    remarks = []
    for kind, found in (("input", columns.inputs), ("output", columns.outputs)):
        remarks += [f"{kind} {name} is taken from {column!r}." for name, column in found.items()]
    for name in entry.inputs:
        if name not in columns.inputs:
            remarks.append(f"no column was found for the input {name}: fill it in.")
    if not columns.outputs:
        remarks.append("no column was found for an output: fill it in.")
    if columns.others:
        remarks.append(f"not used: {', '.join(columns.others)}.")
    return remarks


# Text


def _head(title: str) -> str:
    return f"""\
# A probsysid study.  Look through every line, then:
#   probsysid check {title}.toml      is it consistent, do the priors reach the data, how long will it take?
#   probsysid fit {title}.toml        identify, and write a folder with a report

title = {quoted(title)}
seed = 0
"""


def _data(
    table: Table, columns: Columns, entry: CatalogueModel, file: str, encoding: str, samples: int, step: float | None
) -> str:
    lines = [
        "# The data.  Several files or runs: write [[data]] in place of [data], once for each.",
        "[data]",
    ]
    lines.append(f"file = {quoted(file)}")
    lines += [f"encoding = {quoted(encoding)}"] if encoding else []
    if columns.time is None:
        lines.append("dt = 1.0                     # seconds a sample: CHANGE THIS")
    else:
        unit = _time_unit(columns.time)
        lines.append(f"time = {quoted(columns.time)}" + (f"\ntime_unit = {quoted(unit)}" if unit != "s" else ""))
    split = min(MOST_TRAINING, max(3, 2 * samples // 3))
    lines.append("# learn from these samples, and test on those (the end is not included); or seconds = [from, to]")
    lines.append(f"train = {{ samples = [0, {split}] }}")
    lines.append(f"{'' if split < samples - 3 else '# '}test = {{ samples = [{split}, {quoted('end')}] }}")
    columns_listed = ", ".join(repr(name) for name in table.names[:20])
    lines += ["", f"# There are: {columns_listed}."]
    if entry.inputs:
        lines.append("[data.inputs]")
        lines.append("# between samples an input is 'zoh' (held), 'linear', 'bandlimited' (smooth) or 'periodic'")
    for name in entry.inputs:
        column = columns.inputs.get(name, "FILL IN")
        word = _intersample(table, columns.inputs.get(name), step)
        unit = _unit_and_scale(column, entry.inputs[name])
        lines.append(f"{name} = {{ column = {quoted(column)}, {unit}, intersample = {quoted(word)} }}")
    lines += [""] if entry.inputs else []
    lines += ["[data.outputs]", "# an empty cell is a missing sample; scale = 1e-3 would turn mm into m"]
    for name, column in (columns.outputs or {next(iter(entry.quantities)): "FILL IN"}).items():
        lines.append(f"{name} = {{ column = {quoted(column)}, {_unit_and_scale(column, entry.units.get(name, ''))} }}")
    for column in _offered(table, columns)[:MOST_OTHERS]:
        lines.append(f"# {_identifier(column)} = {{ column = {quoted(column)}, {_unit_and_scale(column, '')} }}")
    return "\n".join(lines) + "\n"


def _offered(table: Table, columns: Columns) -> list[str]:
    """Columns that are not used but may be outputs of the same record: as long, and of the same structure."""
    used = next(iter((*columns.outputs.values(), *columns.inputs.values())), None)
    if used is None:
        return []
    alike = [name for name in columns.others if name.rpartition(".")[0] == used.rpartition(".")[0]]
    return [name for name in alike if len(table.raw(name)) == len(table.raw(used))]


def _intersample(table: Table, column: str | None, step: float | None) -> str:
    """Held if most samples repeat the one before, as the output of a converter does; else straight lines."""
    if column is None:
        return "linear"
    values = table.numbers(column)
    changes = np.diff(values)
    return "zoh" if len(values) > 20 and np.mean(changes == 0) > 0.3 and np.any(changes != 0) else "linear"


def _model(model: str | None, masses: int | None, entry: CatalogueModel, columns: Columns) -> str:
    if model is not None:
        primes = {name: "'" * order for name, order in entry.coordinates.items()}
        equations = "\n".join(f"#   {name}{primes[name]} = {text}" for name, text in entry.equations.items())
        text = f"""\
# The model: one of the catalogue, or your own equations.
{equations}
[model]
catalogue = {quoted(model)}
"""
        return text + (f"masses = {masses or 2}\n" if model == CHAIN else "")
    outputs = "\n".join(f"{name} = {quoted(entry.quantities[name])}" for name in (columns.outputs or {"position": ""}))
    return f"""\
# The model.  Each coordinate has the order of its equation; the equation gives its highest derivative.
# For x of order 2 the equation may use x, dx, the inputs and the parameters; outputs may also use ddx.
# Operators: + - * / **.  Functions: sin cos tan exp log sqrt abs sign tanh min max where(x < 0, a, b) ...
[model]

[model.coordinates]
x = 2

[model.equations]
x = {quoted(entry.equations["x"])}

[model.outputs]
{outputs}
"""


def _parameters(entry: CatalogueModel, scales: Scales) -> str:
    lines = [
        "# What is known of each constant before the data.  The priors below are guesses from the scales of the data,",
        "# wide by a factor of 20 either way: replace them by what you know.  A positive constant near 5e4, give or",
        '# take half of it: "LogNormal(log(5e4), 0.5)".  Others: Normal(mean, sd), Uniform(low, high),',
        "# TruncatedNormal(mean, sd, low=0).  A plain number is fixed.",
        "[parameters]",
    ]
    for name, hint in entry.parameters.items():
        guess = scales.guess(hint)
        prior = f"LogNormal(log({_round(guess)}), {FIRST_GUESS_SPREAD})"
        if hint.signed:
            centre, spread = (guess, abs(guess)) if hint.factor < 0 else (0.0, 3 * guess)
            prior = f"Normal({_round(centre)}, {_round(spread)})"
        described = f", description = {quoted(hint.description)}"
        lines.append(f"{name} = {{ prior = {quoted(prior)}, unit = {quoted(hint.unit)}{described} }}")
    return "\n".join(lines) + "\n"


def _rest(table: Table, columns: Columns, entry: CatalogueModel, scales: Scales) -> str:
    lines = [
        "# The state at the first training sample: a number if it is known exactly, or a prior.",
        "[initial]",
    ]
    measured = {entry.quantities[name]: column for name, column in columns.outputs.items()}
    for coordinate, order in entry.coordinates.items():
        for i in range(order):
            name = "d" * i + coordinate
            scale = scales.length / scales.time**i
            if name in measured:
                values = _numbers(table, measured[name])
                finite = values[np.isfinite(values)]
                centre, scale = float(finite[0]) if len(finite) else 0.0, _spread(values)
                lines.append(f"{name} = {quoted(f'Normal({_round(centre)}, {_round(0.3 * scale)})')}")
            else:
                lines.append(f"{name} = {quoted(f'Normal(0, {_round(scale)})')}")
    output = next(iter(columns.outputs), "position")
    spread = _spread(_numbers(table, columns.outputs[output])) if columns.outputs else 1.0
    lines.append(f"""
# The noise of each output is inferred with a wide prior unless it is given here.
[noise]
# {output} = {quoted(f"LogNormal(log({_round(0.03 * spread)}), 1)")}

[solver]
# substeps = 2                 # integration steps a sample, if `check` calls for more than one

[sampler]
particles = 512              # 128 for a first look
# refine = 8192              # fresh draws at the end, a sweep each: smooth histograms, precise quantiles""")
    return "\n".join(lines) + "\n"


def _round(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"
