"""Write a first study file for a data file: columns guessed from their names, priors from the scales of the data."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.readers import Table, read_table
from probsysid.data.readers.csv import EncodingError
from probsysid.study.catalogue import CHAIN, CatalogueModel, look_up
from probsysid.study.choices import Choices
from probsysid.study.column_names import INPUTS, identifier, in_run, other_runs, run_of, word_of
from probsysid.study.columns import Columns, guess_columns, time_unit, times
from probsysid.study.data_scales import Scales, data_scales, spread
from probsysid.study.first_look import is_held
from probsysid.study.own_models import OSCILLATOR, choose_model, first_look
from probsysid.study.questions import Ask, confirmed
from probsysid.study.toml_writer import quoted

MOST_TRAINING = 3000
"""Training samples of a new study: enough to see whether it works, few enough for a short run."""

FEW = 60
"""Samples below which all are used to learn from: a part would say too little."""

MOST_RUNS = 4
"""Further runs of the same file that a new study tests on."""

FILL_IN = "FILL IN"

MOST_OTHERS = 8
"""Unused columns that are offered as outputs, in comments."""

FIRST_GUESS_SPREAD = 1.5
"""Standard deviation of the log of a first guess: a factor of 4.5 either way, of 20 at two standard deviations."""


def new_study(
    path: Path,
    data: Path,
    model: str | None,
    masses: int | None,
    choose: Callable[[Table], Choices] = lambda table: Choices(),
    ask: Ask | None = None,
) -> tuple[str, list[str]]:
    """The text of a study file for a data file, and remarks on the guesses.

    Args:
        choose: what the user says about the columns.
        ask: how to ask for what cannot be known, and to confirm what is guessed; None to ask nothing.
    """
    table, encoding = _read(data)
    choices = choose(table)
    if model is None:
        choices = confirmed(table, OSCILLATOR, choices, ask)
        entry, seen, why = choose_model(table, choices)
    else:
        entry = look_up(model, masses)
        choices = confirmed(table, entry, choices, ask)
        seen, why = first_look(table, guess_columns(table, entry, choices)), ""
    columns = guess_columns(table, entry, choices)
    _check_step(table, columns)
    remarks = _remarks(columns, entry)
    if why:
        remarks.append(f"the equation is that of a {entry.title.removeprefix('my ')}: {why}.")
    if encoding:
        remarks.append(f"the file is not UTF-8; it is read as {encoding}.")
    time = times(table, columns, remarks)
    lag = seen if seen is not None and not seen.oscillates else None
    scales = data_scales(table, columns, time, lag)
    file = os.path.relpath(data.absolute(), path.absolute().parent)
    sections = [
        _head(path.stem),
        _data(table, columns, entry, file, encoding, len(time)),
        _model(model, masses, entry, columns, why),
        _parameters(entry, scales),
        _rest(table, columns, entry, scales),
    ]
    return "\n".join(sections), remarks


def _check_step(table: Table, columns: Columns) -> None:
    """Raise if nothing says when samples were taken: priors would have a wrong scale, and nobody would notice."""
    if columns.time is None and columns.dt is None:
        raise InputError(
            f"{table.path}: no {table.kind} has sample times; give the step in seconds with --dt, the rate in hertz "
            "with --fs, or the name of the column with --time."
        )


def _read(data: Path) -> tuple[Table, str]:
    """The table of a file, and its encoding if it is not UTF-8: most likely that of western Windows."""
    try:
        return read_table(data), ""
    except EncodingError:
        return read_table(data, encoding="cp1252"), "cp1252"


def _remarks(columns: Columns, entry: CatalogueModel) -> list[str]:
    """Every guess with its reason, and what is missing."""
    remarks = []
    for kind, found in (("input", columns.inputs), ("output", columns.outputs)):
        for name, column in found.items():
            remarks.append(f"{kind} {name} is taken from {column!r} ({columns.reasons[name]}).")
    if columns.dt is not None:
        remarks.append(f"dt = {columns.dt:g} s ({columns.reasons['dt']}).")
    elif columns.time is not None:
        remarks.append(f"times are taken from {columns.time!r} ({columns.reasons['time']}).")
    for name in entry.inputs:
        if name not in columns.inputs:
            remarks.append(f"no column was found for the input {name}: name it with --input {name}=COLUMN.")
    if not columns.outputs:
        remarks.append("no column was found for an output: name it with --output COLUMN.")
    for column in (*columns.inputs.values(), *columns.outputs.values()):
        unit, factor = columns.in_si(column)
        if factor != 1.0:
            remarks.append(f"{column!r} is turned into {unit}.")
    if columns.others:
        remarks.append(f"not used: {', '.join(columns.others[:20])}{', ...' if len(columns.others) > 20 else ''}.")
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
    """The records: one with a training and a test range, or the runs that the names of columns tell apart."""
    runs = other_runs(table.names, columns.used)[:MOST_RUNS]
    header = "[[data]]" if runs else "[data]"
    lines = ["# The data.  Several files or runs: write [[data]] in place of [data], once for each."]
    split = samples if runs or samples < FEW else min(MOST_TRAINING, 2 * samples // 3)
    lines += [header, *_source(columns, file, encoding)]
    if runs:
        lines.append(f"name = {quoted(_run_name(run_of(columns.used[-1])))}")
        lines.append(f"train = {{ samples = [0, {min(samples, MOST_TRAINING)}] }}")
    else:
        lines.append("# learn from these samples, and test on those (the end is not included); or seconds = [from, to]")
        lines.append(f"train = {{ samples = [0, {split}] }}")
        lines.append(f"{'' if split < samples - 3 else '# '}test = {{ samples = [{split}, {quoted('end')}] }}")
    listed = ", ".join(repr(name) for name in table.names[:20])
    lines += ["", f"# There are: {listed}{', ...' if len(table.names) > 20 else ''}."]
    lines += _channels(table, columns, entry, header.strip("[]"))
    lines += [f"# {line}" for line in _offers(table, columns)]
    for run in runs:
        there = {**{c: in_run(c, run) for c in columns.used}}
        moved = replace(
            columns,
            time=None if columns.time is None else there[columns.time],
            inputs={name: there[c] for name, c in columns.inputs.items()},
            outputs={name: there[c] for name, c in columns.outputs.items()},
        )
        lines += ["", header, *_source(moved, file, encoding), f"name = {quoted(_run_name(run))}", 'test = "all"']
        lines += [line for line in _channels(table, moved, entry, "data") if not line.startswith("#")]
    return "\n".join(lines) + "\n"


def _source(columns: Columns, file: str, encoding: str) -> list[str]:
    lines = [f"file = {quoted(file)}"]
    lines += [f"encoding = {quoted(encoding)}"] if encoding else []
    if columns.time is None:
        return [*lines, f"dt = {columns.dt:.12g}  # seconds per sample"]
    unit = time_unit(columns)
    return [*lines, f"time = {quoted(columns.time)}", *([f"time_unit = {quoted(unit)}"] if unit != "s" else [])]


def _run_name(run: tuple[str, str]) -> str:
    return " ".join(part for part in run if part)


def _channels(table: Table, columns: Columns, entry: CatalogueModel, key: str) -> list[str]:
    """The tables of inputs and outputs."""
    lines = []
    if entry.inputs:
        lines.append(f"[{key}.inputs]")
        lines.append("# between samples an input is 'zoh' (held), 'linear', 'bandlimited' (smooth) or 'periodic'")
    for name in entry.inputs:
        column = columns.inputs.get(name)
        word = "zoh" if column is not None and is_held(table.numbers(column)) else "linear"
        unit = _unit_and_scale(columns, column or FILL_IN, entry.inputs[name])
        lines.append(f"{name} = {{ column = {quoted(column or FILL_IN)}, {unit}, intersample = {quoted(word)} }}")
    lines += [""] if entry.inputs else []
    lines += [f"[{key}.outputs]", "# an empty cell is a missing sample; scale = 1e-3 would turn mm into m"]
    for name, column in (columns.outputs or {next(iter(entry.quantities)): FILL_IN}).items():
        unit = _unit_and_scale(columns, column, entry.units.get(name, ""))
        lines.append(f"{name} = {{ column = {quoted(column)}, {unit} }}")
    return lines


def _unit_and_scale(columns: Columns, column: str, default: str) -> str:
    """Unit and scale in a channel's table: `unit = "rad", scale = 0.0174533`."""
    unit, scale = columns.in_si(column, default)
    return f"unit = {quoted(unit)}" + (f", scale = {scale:.9g}" if scale != 1.0 else "")


def _offers(table: Table, columns: Columns) -> list[str]:
    """Unused columns that may be outputs of the same record: as long, of the same structure, and no inputs."""
    used = next(iter((*columns.outputs.values(), *columns.inputs.values())), None)
    if used is None:
        return []
    alike = [name for name in columns.others if name.rpartition(".")[0] == used.rpartition(".")[0]]
    alike = [name for name in alike if len(table.raw(name)) == len(table.raw(used)) and run_of(name) == run_of(used)]
    alike = [name for name in alike if word_of(name) not in INPUTS]
    return [
        f"{identifier(column)} = {{ column = {quoted(column)}, {_unit_and_scale(columns, column, '')} }}"
        for column in alike[:MOST_OTHERS]
    ]


def _model(model: str | None, masses: int | None, entry: CatalogueModel, columns: Columns, why: str) -> str:
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
    first = next(iter(entry.quantities))
    outputs = "\n".join(
        f"{name} = {quoted(entry.quantities.get(name, first))}" for name in (columns.outputs or [first])
    )
    orders = "\n".join(f"{name} = {order}" for name, order in entry.coordinates.items())
    texts = "\n".join(f"{name} = {quoted(text)}" for name, text in entry.equations.items())
    return f"""\
# The model.  Each coordinate has the order of its equation; the equation gives its highest derivative.
# For x of order 2 the equation may use x, dx, the inputs and the parameters; outputs may also use ddx.
# Operators: + - * / **.  Functions: sin cos tan exp log sqrt abs sign tanh min max where(x < 0, a, b) ...
# Chosen for what is seen in the data ({why}): write your own equation here.
[model]

[model.coordinates]
{orders}

[model.equations]
{texts}

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
                values = columns.numbers(table, measured[name])
                finite = values[np.isfinite(values)]
                centre, scale = float(finite[0]) if len(finite) else 0.0, spread(values)
                lines.append(f"{name} = {quoted(f'Normal({_round(centre)}, {_round(0.3 * scale)})')}")
            else:
                lines.append(f"{name} = {quoted(f'Normal(0, {_round(scale)})')}")
    output = next(iter(columns.outputs), next(iter(entry.quantities)))
    size = spread(columns.numbers(table, columns.outputs[output])) if columns.outputs else 1.0
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
