"""docs/validation-sampling.md, a page of which every part is written by a study of its own."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "validation-sampling.md"

FIRST = ""
"""The part without a heading."""
VERDICT, ATTACKS, FEW, EXCITABLE = "The verdict", "Attacks", "Few particles", "An excitable system"
COVERAGE, PEERS = "Error of the evidence", "Other libraries"
PARTS = (VERDICT, ATTACKS, FEW, EXCITABLE, COVERAGE, PEERS)
"""Headings, in their order."""


def write_part(title: str, text: str) -> None:
    """Replace a part of the page: the first, without a title, or one under a heading."""
    first, *others = PAGE.read_text().split("\n## ")
    parts = {FIRST: first} | dict(part.split("\n", 1) for part in others) | {title: text}
    headings = [title for title in PARTS if title in parts]
    PAGE.write_text("\n## ".join([parts[FIRST], *(f"{heading}\n{parts[heading]}" for heading in headings)]))


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows by column name."""
    rows = list(rows)
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([str(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
