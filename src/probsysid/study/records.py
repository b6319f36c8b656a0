"""The records of a study: read from its data files, with their training and test ranges."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.readers import Channel, read_record
from probsysid.data.readers.read import read_table
from probsysid.data.readers.table import Table
from probsysid.data.record import Record
from probsysid.study.mistakes import Mistakes
from probsysid.study.schema import ChannelSection, DataSection, RangeSection, Study

LEAST_SAMPLES = 3

TableKey = tuple[Path, str | None, str | None, str | None, int]
"""A file and the options it is read with: separator, decimal, encoding, lines to skip."""


@dataclass(frozen=True, eq=False)
class StudyRecord:
    """A record of the study with its training and test ranges."""

    key: str
    """Name of its section in messages."""
    section: DataSection
    path: Path
    record: Record
    train: slice | None
    test: slice | None
    skip: int
    """Samples at the start of the test range that are simulated but not scored."""
    notes: tuple[str, ...]
    sha256: str
    """Digest of the file as it was read."""

    @property
    def name(self) -> str:
        return self.record.name or self.path.name


def read_records(mistakes: Mistakes, study: Study, folder: Path) -> list[StudyRecord]:
    """Every record of the study that can be read; a file that several records share is read once."""
    tables: dict[TableKey, Table] = {}
    records = []
    for index, section in enumerate(study.data):
        key = data_key(study, index)
        try:
            records.append(_read_one(key, section, folder, tables, study))
        except InputError as error:
            mistakes.add(key, error)
    if len(records) == len(study.data) and not any(r.train is not None for r in records):
        mistakes.add("data.train", "no record is for training; add train = 'all' or a range.")
    names = [r.name for r in records]
    for name in names:
        if names.count(name) > 1:
            mistakes.add("data.name", f"two records are called {name!r}; give each a name of its own.")
    return records


def data_key(study: Study, index: int) -> str:
    """`data`, or `data[2]` if there are several records, counted from 1."""
    return "data" if len(study.data) == 1 else f"data[{index + 1}]"


def _read_one(key: str, section: DataSection, folder: Path, tables: dict[TableKey, Table], study: Study) -> StudyRecord:
    path = Path(section.file) if Path(section.file).is_absolute() else folder / section.file
    separator, decimal, encoding, lines = section.separator, section.decimal, section.encoding, section.skip_lines
    table_key = (path, separator, decimal, encoding, lines)
    if table_key not in tables:
        tables[table_key] = read_table(path, separator=separator, decimal=decimal, encoding=encoding, skip=lines)
    _check_gaps(tables[table_key], section, study)
    measured = {name: c for name, c in section.inputs.items() if name in study.measured_inputs}
    record, notes = read_record(
        tables[table_key],
        inputs=_channels({name: c for name, c in section.inputs.items() if name not in measured}),
        outputs=_channels({**section.outputs, **measured}),
        time=section.time,
        dt=section.dt,
        time_unit=section.time_unit,
        jitter=section.jitter,
        name=section.name,
    )
    whole = slice(0, record.samples) if section.test is None else None
    train = _range("train", section.train, record) or whole
    test = _range("test", section.test, record)
    skip = 0 if section.test is None else section.test.skip
    _check_train(train, record, section.outputs)
    if train is not None and test is not None:
        notes = (*notes, *_overlap(train, test))
    if test is not None and skip >= test.stop - test.start:
        raise InputError(f"test.skip is {skip}; the test range has only {test.stop - test.start} samples.")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return StudyRecord(key, section, path, record, train, test, skip, notes, digest)


def _channels(sections: Mapping[str, ChannelSection]) -> dict[str, Channel]:
    return {name: Channel(**dict(section)) for name, section in sections.items()}


def _check_gaps(table: Table, section: DataSection, study: Study) -> None:
    """Raise for an unknown input that has values only here and there, but no noise with which they are measured."""
    for name, channel in section.inputs.items():
        if name in study.unknown and name not in study.measured_inputs:
            gaps = np.isnan(table.numbers(channel.column))
            if np.any(gaps):
                raise InputError(
                    f"the unknown input {name!r} has no value at {table.place(int(np.argmax(gaps)))} of {table.path}; "
                    f"if the others are measurements, say with which noise: noise.{name} = ..."
                )


def _check_train(train: slice | None, record: Record, outputs: Iterable[str]) -> None:
    """Raise if the training range is too short or an output has no value in it."""
    if train is None:
        return
    if train.stop - train.start < LEAST_SAMPLES:
        raise InputError(f"train has {train.stop - train.start} samples; it needs {LEAST_SAMPLES} or more.")
    for name in outputs:
        if not np.any(np.isfinite(record.outputs[name][train])):
            raise InputError(f"output {name!r} has no value in the training range.")


def _range(word: str, part: RangeSection | None, record: Record) -> slice | None:
    """A range as indices into the record."""
    if part is None:
        return None
    first, last = part.samples if part.samples is not None else part.seconds  # type: ignore[misc]
    if part.samples is not None:
        stop = record.samples if last == "end" else last
        if first >= record.samples or stop > record.samples:
            raise InputError(f"{word}.samples is {[first, last]}; the record has {record.samples} samples.")
        return slice(first, stop)
    begin, end = float(record.time[0]), float(record.time[-1])
    tolerance = 1e-6 * (end - begin) / max(record.samples - 1, 1)
    start = int(np.searchsorted(record.time, first - tolerance))
    stop = record.samples if last == "end" else int(np.searchsorted(record.time, last - tolerance))
    if start >= stop or first > end or (last != "end" and last < begin):
        raise InputError(f"{word}.seconds is {[first, last]}; the record goes from {begin:g} to {end:g} s.")
    return slice(start, stop)


def _overlap(train: slice, test: slice) -> list[str]:
    """A note if the ranges overlap: scores on training samples are optimistic, which is allowed but reported."""
    first, stop = max(train.start, test.start), min(train.stop, test.stop)
    return [f"samples {first} to {stop} are in train and in test: scores there flatter"] if first < stop else []
