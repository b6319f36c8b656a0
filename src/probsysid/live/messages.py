"""What a source yields: samples with their times, and what could not be read.

A payload is a JSON object, a JSON list of them, a line of numbers separated by commas, or a packed binary block.
"""

import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from probsysid._internal.errors import first_words

Acknowledge = Callable[[int], None]
"""Called with the number of samples saved so far, once all samples of a message are on the disk."""

PACKED = b"PSB1"
"""Begins a packed block: then the number of samples (uint32) and of columns (uint16), little-endian, and the samples as
float64, row by row."""

IDLE = 0.1
"""Seconds after which a source without data says so."""

LONGEST = 4_000_000
"""Bytes of a message, so that a broken sender cannot fill the memory."""


class Message(NamedTuple):
    """Samples by column: numbers for one, arrays of one length for several."""

    values: Mapping[str, Any]
    time: Any = None
    """Seconds, of each sample; None for the next in order."""
    acknowledge: Acknowledge | None = None


class Malformed(NamedTuple):
    """A message that could not be read."""

    reason: str
    acknowledge: Acknowledge | None = None


Item = Message | Malformed | tuple[Any, Mapping[str, Any]] | None
"""What a source yields: a message, `(time, values)` for short, or None when nothing has come for a while."""


def decode(payload: bytes, columns: Sequence[str], time: str | None) -> Iterator[Message | Malformed]:
    """The messages in a payload; `columns` are those of a line or block without names, `time` is that of the time."""
    if len(payload) > LONGEST:
        yield Malformed(f"a message of {len(payload)} bytes; at most {LONGEST} are read")
        return
    try:
        if payload.startswith(PACKED):
            yield _of_columns(_unpacked(payload, len(columns)), columns, time)
        elif payload.lstrip()[:1] in (b"{", b"["):
            found = json.loads(payload.decode())
            for item in found if isinstance(found, list) else [found]:
                yield _of_object(item, time)
        else:
            yield from _of_lines(payload.decode().splitlines(), columns, time)
    except (ValueError, TypeError, KeyError, struct.error, RecursionError) as error:
        yield Malformed(first_words(error))


def packed(rows: Any) -> bytes:
    """A block of samples, one row each, as `decode` reads it."""
    numbers = np.ascontiguousarray(rows, dtype="<f8")
    return PACKED + struct.pack("<IH", *numbers.shape) + numbers.tobytes()


def _unpacked(payload: bytes, columns: int) -> np.ndarray:
    count, width = struct.unpack_from("<IH", payload, len(PACKED))
    start = len(PACKED) + struct.calcsize("<IH")
    if width != columns:
        raise ValueError(f"a block with {width} columns; the study has {columns}")
    if len(payload) != start + 8 * count * width:
        raise ValueError(f"a block of {count} samples with {len(payload)} bytes; {start + 8 * count * width} expected")
    return np.frombuffer(payload, "<f8", offset=start).reshape(count, width)


def _of_lines(lines: Sequence[str], columns: Sequence[str], time: str | None) -> Iterator[Message | Malformed]:
    """One message of all good lines, so that they are saved at once."""
    rows = []
    for line in lines:
        try:
            if line.strip():
                rows.append(_numbers(line, len(columns)))
        except ValueError as error:
            yield Malformed(first_words(error))
    if rows:
        yield _of_columns(np.array(rows), columns, time)


def _numbers(line: str, columns: int) -> np.ndarray:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != columns:
        raise ValueError(f"a line with {len(cells)} numbers; the study has {columns} columns")
    return np.array([number(cell) for cell in cells])


def number(cell: str) -> float:
    """A number; an empty cell is a missing one."""
    return float(cell) if cell else math.nan


def _of_columns(rows: np.ndarray, columns: Sequence[str], time: str | None) -> Message:
    values = dict(zip(columns, rows.T, strict=True))
    return Message(values, values.pop(time) if time is not None else None)


def _of_object(item: Any, time: str | None) -> Message:
    if not isinstance(item, dict):
        raise ValueError("JSON that is neither an object nor a list of objects")
    found = {key: _plain(value) for key, value in item.items() if key != time}
    if time is not None and time not in item:
        raise ValueError(f"there is no {time!r}, the time")
    return Message(found, _plain(item[time]) if time is not None else None)


def _plain(value: Any) -> Any:
    """JSON's null is a missing number."""
    if isinstance(value, list):
        return np.array([math.nan if item is None else item for item in value], dtype=float)
    return math.nan if value is None else value
