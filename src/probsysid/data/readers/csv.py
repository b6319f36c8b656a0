"""Text files: columns separated by comma, semicolon, tab or blanks, with decimal point or decimal comma."""

import codecs
import io
import re
import warnings
from csv import reader
from pathlib import Path

import pandas as pd
from pandas.api.types import is_numeric_dtype

from probsysid._internal.errors import InputError
from probsysid._internal.memory import check_memory
from probsysid.data.readers.table import Table, first_line

SEPARATORS = (";", "\t", ",")
INSPECTED_LINES = 20
"""The number of lines from which separator and decimal mark are found."""

MOST_COLUMNS = 10_000

MEMORY = 12
"""Bytes of memory for each byte of a file: the text, its lines, and the table."""

NOT_FOR_FILES = ("undefined", "punycode", "idna", "unicode-escape", "raw-unicode-escape", "unicode_escape", "utf-7")

MINUS = "\u2212"
"""The typographical minus sign, which some programs write."""

QUOTED = re.compile(r'"[^"]*"')

GROUP_MARK = re.compile(r"[^-+\deE]")
"""Whatever stands between the digits of a number: decimal marks and separators of thousands."""

_GROUPED = {
    mark: re.compile(
        rf"[-+]?\d{{1,3}}([{others} '’\u00a0\u202f]\d{{3}})+({re.escape(mark)}\d*)?([eE][-+]?\d+)?", re.ASCII
    )
    for mark, others in ((".", ","), (",", "."))
}
"""By decimal mark, numbers with separated thousands: 1,234.5 or 1.234,5 or 1 234,5 or 1'234.5."""

_PLAIN = {
    mark: re.compile(rf"[-+]?(\d+{re.escape(mark)}?\d*|{re.escape(mark)}\d+)([eE][-+]?\d+)?|nan|NaN|[-+]?inf", re.ASCII)
    for mark in (".", ",")
}

_COMMA_GROUPS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(,\d{3}|\.\d*)", re.ASCII)
"""Numbers in which commas can only separate thousands."""

_COMMA_NUMBER = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?", re.ASCII)


class EncodingError(InputError):
    """The file is text in an encoding other than the one assumed."""


def read(path: Path, separator: str | None, decimal: str | None, encoding: str | None, skip: int) -> Table:
    """The columns of a text file.  Without a header, the columns are named 1, 2, ...

    Blank lines, and lines that begin with # or %, are left out.
    """
    lines = _decoded(path, encoding).splitlines()
    kept = [k for k in range(skip, len(lines)) if lines[k].strip() and not lines[k].lstrip().startswith(("#", "%"))]
    if not kept:
        raise InputError(f"{path}: there are no lines with data{f' after the {skip} skipped' if skip else ''}.")
    body = [lines[k].replace(MINUS, "-") for k in kept]
    separator = separator if separator is not None else _separator(body[:INSPECTED_LINES])
    mark = decimal or _decimal(body[1:INSPECTED_LINES], separator)
    header = _cells(body[0], separator)
    named = not all(_is_number(cell, mark) for cell in header)
    names = header if named else [str(j + 1) for j in range(len(header))]
    _check_names(path, names)
    data, numbers = body[named:], [k + 1 for k in kept[named:]]
    if not data:
        raise InputError(f"{path}: there is a header and no data below it.")
    frame = _frame(path, data, names, separator, mark, numbers)
    if decimal is None and len(body) > INSPECTED_LINES and not all(map(is_numeric_dtype, frame.dtypes)):
        mark, before = _decimal(body[1:], separator), mark  # the first lines may have whole numbers only
        frame = frame if mark == before else _frame(path, data, names, separator, mark, numbers)
    return Table(path, {name: _ungrouped(frame[name], mark) for name in names}, lambda k: f"line {numbers[k]}")


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
    """The first of semicolon, tab and comma that occurs in the first line and at least as often in the second; those
    inside quotation marks do not count."""
    first, lines = lines[0], [QUOTED.sub("", line) for line in lines]
    for candidate in SEPARATORS:
        counts = [line.count(candidate) for line in lines]
        if counts[0] > 0 and (len(counts) < 2 or counts[1] >= counts[0]):
            return candidate
    for candidate in SEPARATORS:
        if candidate in lines[0]:
            return candidate
    return r"\s+" if len(_cells(first, r"\s+")) > 1 else ","


def _decimal(lines: list[str], separator: str) -> str:
    """A comma if some cell is a number with a decimal comma and no cell has a decimal point; integers, and points that
    can only separate thousands, decide nothing."""
    cells = [cell for line in lines for cell in _cells(line, separator)]
    if any(_COMMA_GROUPS.fullmatch(cell) for cell in cells):
        return "."
    comma = any(_COMMA_NUMBER.fullmatch(cell) or ("," in cell and _GROUPED[","].fullmatch(cell)) for cell in cells)
    point = any("." in cell and not _GROUPED[","].fullmatch(cell) for cell in cells)
    return "," if comma and not point else "."


def _cells(line: str, separator: str) -> list[str]:
    """The cells of one line without blanks around them; separators inside quotation marks belong to their cell."""
    if '"' not in line:
        parts = line.split() if separator == r"\s+" else line.split(separator)
    elif separator == r"\s+":
        parts = next(reader([line.strip().replace("\t", " ")], delimiter=" ", skipinitialspace=True))
    else:
        parts = next(reader([line], delimiter=separator, skipinitialspace=True))
    return [cell.strip() for cell in parts]


def _ungrouped(column: pd.Series, decimal: str) -> pd.Series:
    """A column of numbers whose thousands are separated, as numbers; any other column as it is."""
    if is_numeric_dtype(column):
        return column
    texts = column.dropna().astype(str).str.strip()
    grouped = texts.str.fullmatch(_GROUPED[decimal])
    marks = set("".join(GROUP_MARK.findall("".join(texts[grouped])))) - {decimal}
    if not grouped.any() or len(marks) > 1 or not (grouped | texts.str.fullmatch(_PLAIN[decimal])).all():
        return column
    plain = texts.str.replace(marks.pop(), "", regex=False).str.replace(decimal, ".", regex=False)
    return pd.to_numeric(plain).astype(float).reindex(column.index)


def _is_number(cell: str, decimal: str) -> bool:
    return _PLAIN[decimal].fullmatch(cell) is not None or _GROUPED[decimal].fullmatch(cell) is not None


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


def _frame(
    path: Path, data: list[str], names: list[str], separator: str, decimal: str, numbers: list[int]
) -> pd.DataFrame:
    """The cells as numbers where they are, else as text; `numbers` are those of the lines."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO("\n".join(data)),
                sep=separator,
                decimal=decimal,
                header=None,
                names=names,
                index_col=False,
                skipinitialspace=True,
                low_memory=False,
            )
    except (
        pd.errors.ParserError,
        pd.errors.ParserWarning,
        pd.errors.EmptyDataError,
        ValueError,
        OverflowError,
    ) as error:
        wrong = _longer_line(data, names, separator, numbers) or _unclosed(data, numbers) or first_line(error)
        raise InputError(f"{path}: {wrong}.") from None
    if len(frame) != len(data):
        raise InputError(f"{path}: {_unclosed(data, numbers) or 'a cell goes over several lines'}.")
    return frame


def _longer_line(data: list[str], names: list[str], separator: str, numbers: list[int]) -> str | None:
    """A description of the first line with more cells than there are columns."""
    for line, number in zip(data, numbers, strict=True):
        cells = len(_cells(line, separator))
        if cells > len(names):
            comma = "; are decimals written with a comma? Then columns need another separator, such as a semicolon"
            hint = comma if separator == "," and cells == 2 * len(names) else ""
            return f"line {number} has {cells} cells, expected {len(names)}{hint}"
    return None


def _unclosed(data: list[str], numbers: list[int]) -> str | None:
    """A description of the first line with an odd number of quotation marks."""
    odd = next((number for line, number in zip(data, numbers, strict=True) if line.count('"') % 2), None)
    return None if odd is None else f"line {odd} has a quotation mark that is not closed"
