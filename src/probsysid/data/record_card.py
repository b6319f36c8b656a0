"""What notebooks show for a record: its channels with their ranges and small pictures."""

from typing import TYPE_CHECKING

import numpy as np

from probsysid._internal.notebook import Card, Cell, Signal

if TYPE_CHECKING:
    from probsysid.data.record import Record


def record_card(record: "Record") -> Card:
    """A row per channel: what it is, how it behaves between samples or how much is missing, range and course."""
    sampling = "not uniform" if record.dt is None else f"every {record.dt:.6g} s"
    facts = [f"{record.samples} samples, {sampling}, from {record.time[0]:.6g} s to {record.time[-1]:.6g} s"]
    rows: list[list[Cell]] = []
    for name, word in record.intersample.items():
        values = np.asarray(record.input_at(record.time))[:, record.input_names.index(name)]
        rows.append([record.label(name), f"input, {word}", _range(values), Signal.of(record.time, values)])
    for name, values in record.outputs.items():
        missing = int(np.sum(np.isnan(values)))
        kind = f"output, {missing} missing" if missing else "output"
        rows.append([record.label(name), kind, _range(np.asarray(values)), Signal.of(record.time, np.asarray(values))])
    title = "Record" if record.name is None else f"Record {record.name}"
    return Card(title, facts, columns=("channel", "kind", "range", "course"), rows=rows)


def _range(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    return f"{known.min():.4g} to {known.max():.4g}" if len(known) else "no values"
