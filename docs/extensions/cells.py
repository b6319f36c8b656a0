"""Scripts in cells, executed and rendered as Markdown: text, code, printed output, figures.

A line `# %%` starts a cell, `# %% [markdown]` a cell of text in comments: the percent format of notebooks, which
editors know.  `python docs/extensions/cells.py SCRIPT PAGE` runs a script in this process and writes a Markdown page;
pictures that a cell leaves in its working folder stand below it.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = re.compile(r"^# %%(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """A piece of text or of code."""

    text: bool
    source: str
    line: int
    """Of its first line, for error messages."""


def split(script: str) -> tuple[str, list[Cell]]:
    """The docstring at the top, and the cells below it."""
    title = re.match(r'\s*"""(.*?)"""', script, re.DOTALL)
    marks = [*MARK.finditer(script)]
    if title is None or not marks:
        raise ValueError("a tutorial begins with a docstring and has cells that begin with '# %%'")
    ends = [mark.start() for mark in marks[1:]] + [len(script)]
    cells = []
    for mark, end in zip(marks, ends, strict=True):
        source, line = script[mark.end() + 1 : end], script.count("\n", 0, mark.end()) + 2
        if "[markdown]" in mark[1]:
            cells.append(Cell(True, re.sub(r"^# ?", "", source, flags=re.MULTILINE).strip(), line))
        elif source.strip():
            cells.append(Cell(False, source.strip("\n"), line))
    return title[1], cells


def run(cell: Cell, script: Path, namespace: dict[str, Any]) -> str:
    """Execute a cell of code and return its output."""
    printed = io.StringIO()
    code = compile("\n" * (cell.line - 1) + cell.source, str(script), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


@contextlib.contextmanager
def elsewhere() -> Iterator[Path]:
    """A temporary working folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="probsysid-") as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def page(script: Path, target: Path) -> None:
    """Run a script and write its page, with the figures beside it."""
    docstring, cells = split(script.read_text())
    title, _, rest = docstring.strip().partition("\n")
    parts = [f"# {title.rstrip('.')}", rest.strip(), f"*This page is the output of `python examples/{script.name}`.*"]
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    target.parent.mkdir(parents=True, exist_ok=True)
    with elsewhere() as folder:
        sys.argv = [str(script), str(folder)]
        for cell in cells:
            if cell.text:
                parts.append(cell.source)
                continue
            known = set(folder.rglob("*.png"))
            printed = run(cell, script, namespace)
            parts.append(f"```python\n{cell.source.strip()}\n```")
            if printed.strip():
                parts.append(f":::{{container}} output\n```text\n{printed.rstrip()}\n```\n:::")
            for picture in sorted(set(folder.rglob("*.png")) - known, key=lambda path: path.stat().st_mtime_ns):
                name = f"{target.stem}-{picture.name}"
                shutil.copy(picture, target.with_name(name))
                parts.append(f"![{picture.stem.replace('-', ' ')}]({name})")
    target.write_text("\n\n".join(part for part in parts if part) + "\n")


if __name__ == "__main__":
    page(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
