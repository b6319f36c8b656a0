"""Write a first study file for a data file: columns guessed from their names, priors from the scales of the data."""

import os
import re
from pathlib import Path

import numpy as np

from probsysid.data.readers import Table, read_table
from probsysid.data.readers.csv import EncodingError
from probsysid.study.catalogue import CHAIN, CatalogueModel, ParameterHint, look_up
from probsysid.study.columns import SI, Columns, guess_columns, numbers, time_unit, times, unit_of
from probsysid.study.data_scales import Scales, data_scales, spread
from probsysid.study.toml_writer import quoted

MOST_TRAINING = 3000
"""Training samples of a new study: enough to see whether it works, few enough for a short run."""

MOST_OTHERS = 8
"""Unused columns that are offered as outputs, in comments."""

FIRST_GUESS_SPREAD = 1.5
"""Standard deviation of the log of a first guess: a factor of 4.5 either way, of 20 at two standard deviations."""

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
"""The model of a new study without a model of the catalogue."""

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
"""The same if the data have no column for an input: a free decay does not identify the mass."""


def new_study(path: Path, data: Path, model: str | None, masses: int | None) -> tuple[str, list[str]]:
    """The text of a study file for a data file, and remarks on the guesses."""
    table, encoding = _read(data)
    entry = _own(table) if model is None else look_up(model, masses)
    columns = guess_columns(table, entry)
    remarks = _remarks(columns, entry)
    for column in (*columns.inputs.values(), *columns.outputs.values()):
        if unit_of(column) in SI:
            remarks.append(f"{column!r} is turned into {SI[unit_of(column)][0]}.")
    if encoding:
        remarks.append(f"the file is not UTF-8; it is read as {encoding}.")
    time = times(table, columns, remarks)
    scales = data_scales(table, columns, time)
    file = os.path.relpath(data.absolute(), path.absolute().parent)
    sections = [
        _head(path.stem),
        _data(table, columns, entry, file, encoding, len(time)),
        _model(model, masses, entry, columns),
        _parameters(entry, scales),
        _rest(table, columns, entry, scales),
    ]
    return "\n".join(sections), remarks


def _read(data: Path) -> tuple[Table, str]:
    """The table of a file, and its encoding if it is not UTF-8: most likely that of western Windows."""
    try:
        return read_table(data), ""
    except EncodingError:
        return read_table(data, encoding="cp1252"), "cp1252"


def _own(table: Table) -> CatalogueModel:
    """A first equation: with a force if there is a column that may be one."""
    columns = guess_columns(table, OWN)
    return OWN if columns.inputs else OWN_FREE


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


def _head(title: str) -> str:
    return f"""\
# A probsysid study.  Look through every line, then:
#   probsysid check {title}.toml      is it consistent, do the priors reach the data, how long will it take?
#   probsysid fit {title}.toml        identify, and write a folder with a report

title = {quoted(title)}
seed = 0
"""


def _data(table: Table, columns: Columns, entry: CatalogueModel, file: str, encoding: str, samples: int) -> str:
    lines = [
        "# The data.  Several files or runs: write [[data]] in place of [data], once for each.",
        "[data]",
    ]
    lines.append(f"file = {quoted(file)}")
    lines += [f"encoding = {quoted(encoding)}"] if encoding else []
    if columns.time is None:
        lines.append("dt = 1.0                     # seconds per sample: CHANGE THIS")
    else:
        unit = time_unit(columns.time)
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
        word = _intersample(table, columns.inputs.get(name))
        unit = _unit_and_scale(column, entry.inputs[name])
        lines.append(f"{name} = {{ column = {quoted(column)}, {unit}, intersample = {quoted(word)} }}")
    lines += [""] if entry.inputs else []
    lines += ["[data.outputs]", "# an empty cell is a missing sample; scale = 1e-3 would turn mm into m"]
    for name, column in (columns.outputs or {next(iter(entry.quantities)): "FILL IN"}).items():
        lines.append(f"{name} = {{ column = {quoted(column)}, {_unit_and_scale(column, entry.units.get(name, ''))} }}")
    for column in _offered(table, columns)[:MOST_OTHERS]:
        lines.append(f"# {_identifier(column)} = {{ column = {quoted(column)}, {_unit_and_scale(column, '')} }}")
    return "\n".join(lines) + "\n"


def _unit_and_scale(column: str, default: str) -> str:
    """Unit and scale in a channel's table: `unit = "rad", scale = 0.0174533`."""
    unit, scale = SI.get(unit_of(column), (unit_of(column) or default, 1.0))
    return f"unit = {quoted(unit)}" + (f", scale = {scale:.9g}" if scale != 1.0 else "")


def _identifier(column: str) -> str:
    """A name for a channel: `Block temperature (°C)` -> block_temperature."""
    bare = re.sub(r"[\[(].*?[\])]", "", column).strip().lower()
    name = re.sub(r"_+", "_", re.sub(r"\W", "_", bare)).strip("_")
    return name if name[:1].isalpha() else f"output_{name}".rstrip("_")


def _offered(table: Table, columns: Columns) -> list[str]:
    """Unused columns that may be outputs of the same record: of the same length and the same MATLAB structure."""
    used = next(iter((*columns.outputs.values(), *columns.inputs.values())), None)
    if used is None:
        return []
    alike = [name for name in columns.others if name.rpartition(".")[0] == used.rpartition(".")[0]]
    return [name for name in alike if len(table.raw(name)) == len(table.raw(used))]


def _intersample(table: Table, column: str | None) -> str:
    """Zero-order hold if over 30 % of the samples repeat the previous one, as those of a converter do; else linear."""
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
            centre, sd = (guess, abs(guess)) if hint.factor < 0 else (0.0, 3 * guess)
            prior = f"Normal({_round(centre)}, {_round(sd)})"
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
                values = numbers(table, measured[name])
                finite = values[np.isfinite(values)]
                centre, scale = float(finite[0]) if len(finite) else 0.0, spread(values)
                lines.append(f"{name} = {quoted(f'Normal({_round(centre)}, {_round(0.3 * scale)})')}")
            else:
                lines.append(f"{name} = {quoted(f'Normal(0, {_round(scale)})')}")
    output = next(iter(columns.outputs), "position")
    size = spread(numbers(table, columns.outputs[output])) if columns.outputs else 1.0
    lines.append(f"""
# The noise of each output is inferred with a wide prior unless it is given here.
[noise]
# {output} = {quoted(f"LogNormal(log({_round(0.03 * size)}), 1)")}

[solver]
# substeps = 2                 # integration steps per sample, if `check` calls for more than one

[sampler]
particles = 512              # 128 for a first look
# refine = 8192              # fresh draws at the end, a sweep each: smooth histograms, precise quantiles""")
    return "\n".join(lines) + "\n"


def _round(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"
