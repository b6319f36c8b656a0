"""Cells of tables that hold a number, a name or a range stay on one line: browsers would break at every hyphen."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LONGEST = 14
"""Characters of a cell with blanks that still counts as one thing: `14.0 ± 0.6`."""


def mark_short(app: Sphinx, document: nodes.document) -> None:
    """Give short cells the class `short`."""
    for cell in document.findall(nodes.entry):
        text = cell.astext()
        if len(text) <= LONGEST or " " not in text:
            cell["classes"].append("short")


def setup(app: Sphinx) -> dict[str, Any]:
    """Run on every page when it has been read."""
    app.connect("doctree-read", mark_short)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
