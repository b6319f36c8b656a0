"""Guess which column of a data file is what, from names, units and values."""

import re
from dataclasses import dataclass

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.readers import Table
from probsysid.data.readers.sample_times import SECONDS, sample_times
from probsysid.study.catalogue import CatalogueModel

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

SI = {
    **dict.fromkeys(("deg", "°", "degree", "degrees"), ("rad", np.pi / 180)),
    **{"mm": ("m", 1e-3), "cm": ("m", 1e-2), "um": ("m", 1e-6), "µm": ("m", 1e-6)},
    **{"mm/s": ("m/s", 1e-3), "deg/s": ("rad/s", np.pi / 180), "°/s": ("rad/s", np.pi / 180)},
    **{"mm/s^2": ("m/s^2", 1e-3)},
    **{"kN": ("N", 1e3), "mN": ("N", 1e-3), "Nmm": ("N m", 1e-3), "kNm": ("N m", 1e3)},
}
"""Unit -> SI unit and factor, for units that would give constants in odd units, or sines of degrees."""


@dataclass(frozen=True)
class Columns:
    """The role of each column."""

    time: str | None
    inputs: dict[str, str]
    outputs: dict[str, str]
    others: tuple[str, ...]


def guess_columns(table: Table, entry: CatalogueModel) -> Columns:
    """Assign columns to time, inputs and outputs, by their names first and then by their order."""
    names = [name for name in table.names if _usable(table, name)]
    if not names:
        raise InputError(f"{table.path}: there is no {table.kind} with numbers.")
    time = next((n for n in table.names if _word(n) in TIMES and _is_time(table, n)), None)
    if time is None:
        time = next((n for n in names[:1] if _is_time(table, n) and len(names) > 1), None)
    left = [name for name in names if name != time]
    inputs = _guess_inputs(left, entry)
    left = [name for name in left if name not in inputs.values()]
    outputs: dict[str, str] = {}
    for name in left:
        kind = _kind(name, entry)
        if kind is not None and kind not in outputs:
            outputs[kind] = name
    if not outputs and left:
        outputs[next(iter(entry.quantities))] = left[0]
    others = tuple(name for name in left if name not in outputs.values())
    return Columns(time, inputs, outputs, others)


def _guess_inputs(names: list[str], entry: CatalogueModel) -> dict[str, str]:
    """A column for each input; one without a telling name only if a column is left for an output."""
    left, inputs = list(names), {}
    for wanted in entry.inputs:
        found = next((n for n in left if _word(n) in (wanted, *INPUTS)), None)
        rest = [n for n in left if _kind(n, entry) is None]
        if found is None and len(left) > 1:
            found = (rest or left)[0]
        if found is not None:
            inputs[wanted] = found
            left.remove(found)
    return inputs


def _usable(table: Table, name: str) -> bool:
    try:
        return bool(np.sum(np.isfinite(table.numbers(name))) > 1)
    except InputError:
        return False


def _word(name: str) -> str:
    """A name without unit, case and number: `F [N]` -> f, `x_1` -> x."""
    bare = re.sub(r"[\[(].*?[\])]", "", name).strip().lower()
    bare = bare.rsplit(".", 1)[-1]
    return re.sub(r"[_\s]*\d*$", "", bare).strip()


def unit_of(name: str) -> str:
    """The unit in a header such as `F [N]` or `x (mm)`; `y(:,1)` has none."""
    found = re.search(r"\[([^\]]+)\]|\(([^)]+)\)", name)
    unit = (found[1] or found[2]).strip() if found else ""
    return "" if ":" in unit or "," in unit else unit


def numbers(table: Table, column: str) -> np.ndarray:
    """A column in SI units, if its header names the unit."""
    return table.numbers(column) * SI.get(unit_of(column), ("", 1.0))[1]


def _kind(name: str, entry: CatalogueModel) -> str | None:
    """The quantity of the model that a column seems to measure."""
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


def times(table: Table, columns: Columns, remarks: list[str]) -> np.ndarray:
    """Sample times; remarks on assumptions are appended."""
    if columns.time is None:
        length = len(table.raw(next(iter((*columns.inputs.values(), *columns.outputs.values())))))
        remarks.append("no time column was found: dt = 1.0 stands in for the sampling step in seconds; change it.")
        return np.arange(float(length))
    found = sample_times(table, columns.time, time_unit(columns.time), "auto")
    remarks += [f"{note}." for note in found.notes]
    return found.time


def time_unit(name: str) -> str:
    """The unit in the header of a time column; seconds if there is none."""
    unit = unit_of(name).lower().replace("µ", "u").replace("sec", "s").replace("seconds", "s")
    return unit if unit in SECONDS else "s"
