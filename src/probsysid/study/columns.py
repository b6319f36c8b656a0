"""Guess which column of a data file is what: from names and units first, then from values; every guess has a reason."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.readers import Table
from probsysid.data.readers.sample_times import SECONDS, sample_times
from probsysid.study.catalogue import CatalogueModel
from probsysid.study.choices import Choices
from probsysid.study.column_names import INPUTS, KINDS, OUTPUTS, SI, STEPS, TIMES, identifier, run_of, unit_of, word_of
from probsysid.study.first_look import follows, is_held

BY_NAME, GIVEN, HELD = "by its name", "as given", "it is held between samples, as the output of a converter is"
NO_RUN = ("", "")
ORDER, DRIVES = "the first column that is left", "the other column follows it"


@dataclass(frozen=True)
class Columns:
    """The role of each column."""

    time: str | None
    dt: float | None
    """Seconds per sample, where no column has the times."""
    inputs: dict[str, str]
    outputs: dict[str, str]
    others: tuple[str, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Channel, `time` or `dt` -> why."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Column -> unit, where the user has given it."""

    @property
    def used(self) -> tuple[str, ...]:
        return (*(() if self.time is None else (self.time,)), *self.inputs.values(), *self.outputs.values())

    def unit(self, column: str) -> str:
        """As given, or as in the column's header."""
        return self.units.get(column, unit_of(column))

    def in_si(self, column: str, default: str = "") -> tuple[str, float]:
        """The unit a channel is turned into, and the factor."""
        return SI(self.unit(column)) or (self.unit(column) or default, 1.0)

    def numbers(self, table: Table, column: str) -> np.ndarray:
        """A column in SI units, if its unit is known."""
        return table.numbers(column) * self.in_si(column)[1]


def guess_columns(table: Table, entry: CatalogueModel, choices: Choices | None = None) -> Columns:
    """Assign columns to time, inputs and outputs: as the user says, else by names, values and order."""
    choices = choices or Choices()
    names = [name for name in table.names if _usable(table, name)]
    if not names:
        raise InputError(f"{table.path}: there is no {table.kind} with numbers.")
    reasons: dict[str, str] = {}
    given = [column for _, column in (*choices.inputs, *choices.outputs)]
    time = _guess_time(table, [n for n in names if n not in given], choices, reasons)
    dt = _guess_step(table, choices, reasons) if time is None else None
    left = _alike(table, [name for name in names if name != time], time or next(iter(given), None))
    inputs = _given(choices.inputs, entry.inputs, reasons)
    taken = {column for _, column in choices.outputs}
    free = [name for name in left if name not in taken and name not in inputs.values()]
    if not choices.inputs and not choices.no_input:
        inputs = _guess_inputs(table, free, entry, bool(taken), reasons)
    free = [name for name in free if name not in inputs.values()]
    outputs = _given(choices.outputs, entry.quantities, reasons)
    if not choices.outputs:
        outputs = _guess_outputs(table, free, entry, reasons)
    others = tuple(name for name in names if name not in (time, *inputs.values(), *outputs.values()))
    return Columns(time, dt, inputs, outputs, others, reasons, choices.units)


def _given(
    chosen: Sequence[tuple[str | None, str]], wanted: Mapping[str, object], reasons: dict[str, str]
) -> dict[str, str]:
    """Columns that the user has named, under the names of the model where she has not named those."""
    free = [name for name in wanted if name not in [channel for channel, _ in chosen]]
    found = {}
    for channel, column in chosen:
        like = next((name for name in free if name == identifier(column)), None)
        name = channel or like or (free[0] if free else identifier(column))
        free = [other for other in free if other != name]
        found[name] = column
        reasons[name] = GIVEN
    return found


def _guess_time(table: Table, names: list[str], choices: Choices, reasons: dict[str, str]) -> str | None:
    if choices.dt is not None:
        return None
    if choices.time is not None:
        reasons["time"] = GIVEN
        return choices.time
    named = next((n for n in names if word_of(n) in TIMES and _is_time(table, n)), None)
    if named is not None:
        reasons["time"] = BY_NAME
        return named
    first = next((n for n in names[:1] if _is_time(table, n) and len(names) > 1), None)
    if first is not None:
        reasons["time"] = "it is the first column, and it increases throughout"
    return first


def _guess_step(table: Table, choices: Choices, reasons: dict[str, str]) -> float | None:
    """The step, as given or from a column with a single number, such as `Ts`."""
    if choices.dt is not None:
        reasons["dt"] = GIVEN
        return choices.dt
    for name in table.names:
        kind = STEPS.get(word_of(name))
        values = _finite(table, name) if kind else np.empty(0)
        if len(np.unique(values)) == 1 and values[0] > 0:
            reasons["dt"] = f"{name!r} has the single value {values[0]:g}"
            return float(values[0] if kind == "step" else 1 / values[0])
    return None


def _alike(table: Table, names: list[str], reference: str | None) -> list[str]:
    """Columns of the same run and as long as the reference, or as most are: the channels of one record."""
    first = () if reference is None else (reference,)
    run = next((run_of(name) for name in (*first, *names) if run_of(name) != NO_RUN), NO_RUN)
    names = [name for name in names if run_of(name) in (run, NO_RUN) and word_of(name) not in TIMES]
    lengths = [len(table.raw(name)) for name in names]
    if not lengths:
        return []
    wanted = max(lengths, key=lengths.count) if reference is None else len(table.raw(reference))
    return [name for name, length in zip(names, lengths, strict=True) if length == wanted]


def _guess_inputs(
    table: Table, names: list[str], entry: CatalogueModel, output_given: bool, reasons: dict[str, str]
) -> dict[str, str]:
    """A column for each input; one without a telling name only if a column is left for an output."""
    left, inputs = list(names), {}
    for wanted in entry.inputs:
        found, why = next((n for n in left if word_of(n) in (wanted, *INPUTS)), None), BY_NAME
        if found is None and (len(left) > 1 or (output_given and left)):
            rest = [n for n in left if _kind(n, entry) is None]
            held = next((n for n in (*rest, *left) if is_held(_finite(table, n))), None)
            found, why = (held, HELD) if held is not None else _cause(table, rest, left)
        if found is not None:
            inputs[wanted] = found
            reasons[wanted] = why
            left.remove(found)
    return inputs


def _cause(table: Table, rest: list[str], left: list[str]) -> tuple[str | None, str]:
    """Of two columns without telling names the one that the other follows; else the first, if there is one."""
    if not rest:
        return None, ""
    if len(rest) != 2 or len(left) != 2:
        return rest[0], ORDER
    first, second = (table.numbers(name) for name in rest)
    if follows(first, second):
        return rest[1], DRIVES
    return rest[0], DRIVES if follows(second, first) else ORDER


def _guess_outputs(table: Table, names: list[str], entry: CatalogueModel, reasons: dict[str, str]) -> dict[str, str]:
    """A column for every quantity with a telling name; else the first that does not look like an input."""
    outputs: dict[str, str] = {}
    for name in names:
        kind = _kind(name, entry)
        if kind is not None and kind not in outputs:
            outputs[kind], reasons[kind] = name, BY_NAME
    candidates = [name for name in names if word_of(name) not in INPUTS]
    candidates = [name for name in candidates if not is_held(_finite(table, name))] or candidates
    if not outputs and candidates:
        wanted = next(iter(entry.quantities))
        outputs[wanted], reasons[wanted] = candidates[0], ORDER
    return outputs


def _finite(table: Table, name: str) -> np.ndarray:
    try:
        values = table.numbers(name)
    except InputError:
        return np.empty(0)
    return values[np.isfinite(values)]


def _usable(table: Table, name: str) -> bool:
    return len(_finite(table, name)) > 1


def _kind(name: str, entry: CatalogueModel) -> str | None:
    """The quantity of the model that a column seems to measure."""
    word, quantities = word_of(name), tuple(entry.quantities)
    numbered = re.search(r"(\d+)$", re.sub(r"[\[({].*?[\])}]", "", name).strip())
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
        assert columns.dt is not None
        return columns.dt * np.arange(float(length))
    found = sample_times(table, columns.time, time_unit(columns), "auto")
    remarks += [f"{note}." for note in found.notes]
    return found.time


def time_unit(columns: Columns) -> str:
    """The unit of the time column, as given or in its header; seconds if there is none."""
    unit = "" if columns.time is None else columns.unit(columns.time)
    unit = unit.lower().replace("µ", "u").replace("seconds", "s").replace("sec", "s").replace("hours", "h")
    return unit if unit in SECONDS else "s"
