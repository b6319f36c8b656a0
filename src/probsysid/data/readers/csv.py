"""Text files: columns separated by comma, semicolon, tab or blanks, with decimal point or decimal comma."""

import codecs
import io
import re
import warnings
from pathlib import Path

import pandas as pd

from probsysid._internal.errors import InputError
from probsysid._internal.memory import check_memory
from probsysid.data.readers.table import Table

SEPARATORS = (";", "\t", ",")
INSPECTED_LINES = 20
"""The number of lines from which separator and decimal mark are found."""

MOST_COLUMNS = 10_000

MEMORY = 12
"""Bytes of memory for each byte of a file: the text, its lines, and the table."""

NOT_FOR_FILES = ("undefined", "punycode", "idna", "unicode-escape", "raw-unicode-escape", "unicode_escape", "utf-7")

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan|NaN|inf|[-+]inf", re.ASCII)
_COMMA_NUMBER = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?", re.ASCII)


class EncodingError(InputError):
    """The file is text in an encoding other than the one assumed."""


def read(path: Path, separator: str | None, decimal: str | None, encoding: str | None, skip: int) -> Table:
    """The columns of a text file.  Without a header, the columns are named 1, 2, ..."""
    content = _decoded(path, encoding)
    lines = content.splitlines()[skip:]
    first = next((k for k, line in enumerate(lines) if line.strip() and not line.lstrip().startswith(("#", "%"))), None)
    if first is None:
        raise InputError(f"{path}: there are no lines with data{f' after the {skip} skipped' if skip else ''}.")
    body = lines[first:]
    separator = separator if separator is not None else _separator(body[:INSPECTED_LINES])
    decimal = decimal or _decimal(body[1:INSPECTED_LINES], separator)
    header = [cell.strip().strip('"') for cell in _split(body[0], separator)]
    named = not all(_is_number(cell, decimal) for cell in header)
    names = header if named else [str(j + 1) for j in range(len(header))]
    _check_names(path, names)
    data = body[1:] if named else body
    if not any(line.strip() for line in data):
        raise InputError(f"{path}: there is a header and no data below it.")
    offset = skip + first + named
    frame = _frame(path, data, names, separator, decimal, offset)
    blank = [k for k, line in enumerate(data) if not line.strip()]  # pandas skips these
    return Table(path, {name: frame[name] for name in names}, lambda k: f"line {_line(k, blank) + offset + 1}")


def _line(row: int, blank: list[int]) -> int:
    """The index of the line on which a row of the frame stands."""
    for k in blank:
        if k <= row:
            row += 1
    return row


def _decoded(path: Path, encoding: str | None) -> str:
    _check_encoding(path, encoding)
    check_memory(str(path), MEMORY * path.stat().st_size)
    raw = path.read_bytes()
    chosen = encoding or ("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    try:
        content = raw.decode(chosen)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise EncodingError(
            f"{path}: line {line} is not {chosen.removesuffix('-sig')} text (byte 0x{raw[error.start]:02x}); "
            "set encoding, such as encoding = 'latin-1'."
        ) from None
    except UnicodeError as error:
        raise EncodingError(f"{path} is not {chosen.removesuffix('-sig')} text ({error}).") from None
    if "\x00" in content:
        raise InputError(f"{path} holds binary data, not text; is its ending right?")
    return content


def _check_encoding(path: Path, encoding: str | None) -> None:
    """Raise unless it is an encoding that text files have; others are for host names and programs, and slow."""
    if encoding is None:
        return
    try:
        known = codecs.lookup(encoding)
    except (LookupError, ValueError):
        known = None
    if known is None or not getattr(known, "_is_text_encoding", True) or known.name in NOT_FOR_FILES:
        raise InputError(f"{path}: the encoding {encoding!r} is unknown; try 'utf-8' or 'latin-1'.")


def _separator(lines: list[str]) -> str:
    """The first of semicolon, tab and comma that occurs in the first line and at least as often in the second."""
    for candidate in SEPARATORS:
        counts = [line.count(candidate) for line in lines if line.strip()]
        if counts[0] > 0 and (len(counts) < 2 or counts[1] >= counts[0]):
            return candidate
    for candidate in SEPARATORS:
        if candidate in lines[0]:
            return candidate
    return r"\s+" if len(lines[0].split()) > 1 else ","


def _decimal(lines: list[str], separator: str) -> str:
    """A comma if some cell is a number with a comma and none has a point; integers decide nothing."""
    if separator == ",":
        return "."
    cells = [cell.strip() for line in lines for cell in _split(line, separator)]
    return "," if any(_COMMA_NUMBER.fullmatch(cell) for cell in cells) and not any("." in c for c in cells) else "."


def _split(line: str, separator: str) -> list[str]:
    return line.split() if separator == r"\s+" else line.split(separator)


def _is_number(cell: str, decimal: str) -> bool:
    return _NUMBER.fullmatch(cell.replace(decimal, ".")) is not None


def _check_names(path: Path, names: list[str]) -> None:
    if len(names) > MOST_COLUMNS:
        raise InputError(f"{path}: the first line has {len(names)} cells; at most {MOST_COLUMNS} columns can be read.")
    seen: set[str] = set()
    for name in names:
        if name in seen and name:
            raise InputError(f"{path}: two columns are called {name!r}; rename one.")
        seen.add(name)
    for j, name in enumerate(names):  # a column without a name, such as the index that spreadsheets write
        if not name:
            names[j] = f"column {j + 1}"


def _frame(path: Path, data: list[str], names: list[str], separator: str, decimal: str, offset: int) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                io.StringIO("\n".join(data)),
                sep=separator,
                decimal=decimal,
                header=None,
                names=names,
                index_col=False,
                skipinitialspace=True,
                low_memory=False,
                comment="#",
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError, ValueError) as error:
        match = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if match:
            where = f"line {int(match[2]) + offset} has {match[3]} cells, expected {len(names)}"
        else:
            where = _longer_line(data, names, separator, offset) or str(error).splitlines()[0].rstrip(".")
        raise InputError(f"{path}: {where}.") from None


def _longer_line(data: list[str], names: list[str], separator: str, offset: int) -> str | None:
    """A description of the first line with more cells than there are columns."""
    for k, line in enumerate(data):
        cells = len(_split(line, separator))
        if cells > len(names):
            return f"line {k + offset + 1} has {cells} cells, expected {len(names)}"
    return None
