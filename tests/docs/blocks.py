"""Code blocks of Markdown pages, and the names that they call."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import probsysid as ps

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

_FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


class CodeBlock(NamedTuple):
    """One fenced block of code."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[CodeBlock]:
    """All blocks of a page; those indented in a list lose the indent."""
    content = page.read_text()
    for found in _FENCE.finditer(content):
        indent, language, text = found.groups()
        text = re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)
        yield CodeBlock(page, content.count("\n", 0, found.start()) + 2, language.strip(), text)


def python_blocks(page: Path) -> list[CodeBlock]:
    return [block for block in blocks(page) if block.language == "python"]


def commands(page: Path) -> list[list[str]]:
    """Lines of a page that call the command line, split into words."""
    lines = [line for block in blocks(page) if block.language in ("", "sh") for line in block.text.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("probsysid ")]


def with_keywords(source: str, function: str, names: Iterable[str]) -> ast.Module:
    """The program with `name=name` for each of the names in calls of `ps.function` that do not give it."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"ps.{function}":
            given = {word.arg for word in node.keywords}
            node.keywords += [ast.keyword(name, ast.Name(name, ast.Load())) for name in names if name not in given]
    return ast.fix_missing_locations(tree)


def wrong_calls(source: str) -> list[str]:
    """Names of `ps` that do not exist, and keywords that their functions do not take."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("ps", "dist"):
            owner = ps if node.value.id == "ps" else ps.dist
            if not hasattr(owner, node.attr):
                found.append(f"{node.value.id}.{node.attr} does not exist")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found += _wrong_keywords(node.func, [word.arg for word in node.keywords if word.arg])
    return found


def _wrong_keywords(function: ast.Attribute, words: list[str]) -> list[str]:
    if not (isinstance(function.value, ast.Name) and function.value.id == "ps") or not hasattr(ps, function.attr):
        return []
    taken = inspect.signature(getattr(ps, function.attr)).parameters
    return [f"ps.{function.attr} takes no {word}" for word in words if word not in taken]
