"""The rules of the house hold: where things are, how long they are, and which way they import."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "probsysid"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| `(\S+\.py)` \| `(\w+)` \|$", PAGE, flags=re.MULTILINE)
FILES = sorted(SOURCE.rglob("*.py"))

LONGEST_FILE, LONGEST_FUNCTION, MOST_METHODS = 400, 50, 15
REASON = "Longer than 400 lines because"
"""A longer file says why at its top."""


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def nodes(kind: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, kind):
                yield path.relative_to(SOURCE), node


def test_newcomers_find_thirty_answers() -> None:
    assert len(ROWS) >= 30


@pytest.mark.parametrize(("question", "file", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_every_answer_exists(question: str, file: str, name: str) -> None:
    defined = [getattr(node, "name", None) for node in tree(SOURCE / file).body]
    assert name in defined, f"{question}: {file} has no {name}"


def test_every_folder_says_what_it_is_for() -> None:
    for folder in {path.parent for path in FILES}:
        text = ast.get_docstring(tree(folder / "__init__.py"))
        assert text, f"{folder.relative_to(SOURCE)}/__init__.py says nothing"


def test_no_file_is_too_long() -> None:
    long = [p for p in FILES if len(p.read_text().splitlines()) > LONGEST_FILE and REASON not in p.read_text()[:2000]]
    assert not long, f"longer than {LONGEST_FILE} lines: {long}"


def test_no_function_is_too_long() -> None:
    long = [
        f"{path}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path, node in nodes(ast.FunctionDef)
        if node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert not long, long


def test_no_class_has_too_many_methods() -> None:
    many = [
        f"{path}: {node.name} has {count}"
        for path, node in nodes(ast.ClassDef)
        if not node.name.startswith("_") and (count := len(_public_methods(node))) > MOST_METHODS
    ]
    assert not many, many


def _public_methods(node: ast.ClassDef) -> list[str]:
    return [item.name for item in node.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]


def test_nothing_writes_to_dict_or_reads_private_names_of_jax() -> None:
    for path in FILES:
        text = path.read_text()
        assert not re.search(r"__dict__(\s*\[.*\]\s*=|\s*\|=|\.update)", text), path
        assert "_cache_size" not in text, path


def test_there_are_no_import_cycles() -> None:
    """Late imports count, except those that the architecture allows; imports for type checkers do not."""
    graph = grimp.build_graph("probsysid", exclude_type_checking_imports=True, cache_dir=None)
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    for line in allowed["ignore_imports"]:
        importer, imported = line.split(" -> ")
        graph.remove_import(importer=importer, imported=imported)
    found = {
        module: graph.find_upstream_modules(module) & graph.find_downstream_modules(module) for module in graph.modules
    }
    assert not {module: sorted(others) for module, others in found.items() if others}
