"""What the user of `new` says about a data file: the step, the inputs, the outputs, and units."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.data.readers import Table


@dataclass(frozen=True)
class Choices:
    """Options as given; what is left out is guessed."""

    dt: float | None = None
    time: str | None = None
    inputs: tuple[tuple[str | None, str], ...] = ()
    """Name of the channel, if given, and its column."""
    outputs: tuple[tuple[str | None, str], ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    """By column."""
    no_input: bool = False


def parse_choices(
    table: Table,
    dt: float | None = None,
    fs: float | None = None,
    time: str | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    units: Sequence[str] = (),
) -> Choices:
    """Check options against the columns of the file; `--input none` says that there is none."""
    given = [name for name, value in (("--dt", dt), ("--fs", fs), ("--time", time)) if value is not None]
    if len(given) > 1:
        raise InputError(f"give one of {' and '.join(given)}, not both: each says when samples were taken.")
    for name, value in (("--dt", dt), ("--fs", fs)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} is {value:g}; it must be positive.")
    none = len(inputs) == 1 and inputs[0].lower() == "none" and inputs[0] not in table.names
    driving = () if none else tuple(_channel(table, "--input", text) for text in inputs)
    measured = tuple(_channel(table, "--output", text) for text in outputs)
    chosen = [column for _, column in (*driving, *measured)]
    for column in chosen:
        if chosen.count(column) > 1:
            raise InputError(f"{column!r} is given twice as --input or --output.")
    step = dt if fs is None else 1 / fs
    at = None if time is None else _column(table, "--time", time)
    return Choices(step, at, driving, measured, dict(_unit(table, text) for text in units), none)


def _channel(table: Table, option: str, text: str) -> tuple[str | None, str]:
    """`COLUMN` or `NAME=COLUMN`."""
    name, equals, column = text.partition("=")
    if text in table.names or not equals:
        return None, _column(table, option, text)
    if not name.strip().isidentifier():
        raise InputError(f"{option} {text!r}: {name.strip()!r} cannot be a name in equations; use letters and digits.")
    return name.strip(), _column(table, option, column.strip())


def _unit(table: Table, text: str) -> tuple[str, str]:
    column, equals, unit = text.rpartition("=")
    if not equals or not unit.strip():
        raise InputError(f"--unit is {text!r}; write COLUMN=UNIT, as in --unit 'x=mm'.")
    return _column(table, "--unit", column.strip()), unit.strip()


def _column(table: Table, option: str, name: str) -> str:
    if name in table.names:
        return name
    near = [n for n in table.names if n.split("[")[0].split("(")[0].strip() == name]
    if len(near) == 1:  # the header without its unit
        return near[0]
    if name.isdigit() and 1 <= int(name) <= len(table.names):
        return table.names[int(name) - 1]
    listed = ", ".join(table.names[:12])
    raise InputError(
        f"{option}: {table.path} has no {table.kind} {name!r}; it has: {listed}.{did_you_mean(name, table.names)}"
    )
