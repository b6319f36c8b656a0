"""Every code block of the pages runs; in the quick suite with few particles and one step per sample."""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import probsysid as ps
from probsysid.cli import app
from tests import duffing
from tests.docs.blocks import EXAMPLES, PAGES, commands, python_blocks, with_keywords, wrong_calls
from tests.study.shell import call

WITH_PYTHON = [page for page in PAGES if python_blocks(page)]
WITH_COMMANDS = [page for page in PAGES if commands(page)]


def named(path: Path) -> str:
    return path.stem


def known(page: Path) -> dict[str, Any]:
    """Variables that a page assumes: the README has a force and a position."""
    if page.name != "README.md":
        return {}
    record = duffing.measure(60)
    return {"F": record.inputs["force"], "y": record.outputs["position"]}


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.long] * (p.name != "README.md"), id=p.stem) for p in WITH_PYTHON]
)
@pytest.mark.parametrize(
    ("particles", "solver"),
    [(128, ps.Solver(substeps=1)), pytest.param(256, ps.Solver(), marks=pytest.mark.long)],
    ids=["small", "as it is"],
)
def test_python_runs(
    page: Path, particles: int, solver: ps.Solver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"sampler": ps.Sampler(particles=particles), "solver": solver}
    namespace: dict[str, Any] = {"np": np, **known(page), **settings}
    for block in python_blocks(page):
        text = "\n" * (block.line - 1) + block.text.replace("particles=256", f"particles={particles}")
        exec(compile(with_keywords(text, "identify", settings), str(page), "exec"), namespace)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=named)
def test_commands_exist_with_these_options(page: Path) -> None:
    root: Any = typer.main.get_command(app)
    for words in commands(page):
        if words[0] in ("COMMAND", "--help", "--install-completion"):
            continue
        assert words[0] in root.commands, words
        root.commands[words[0]].make_context(words[0], words[1:])


@pytest.mark.long
@pytest.mark.parametrize("page", ["README.md", "docs/start.md", "docs/study-files.md"])
def test_commands_run_one_after_the_other(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record = duffing.measure(90)
    columns = zip(record.time, record.inputs["force"], record.outputs["position"], strict=True)
    Path("measurement.csv").write_text("t,F,x\n" + "".join(f"{t:.2f},{u:.5f},{y:.5f}\n" for t, u, y in columns))
    for words in commands(next(path for path in PAGES if str(path).endswith(page))):
        answer = call(*words, *(["--particles", "512"] if words[0] == "fit" else []))
        assert answer.exit_code == 0, (words, answer.stderr)
    assert Path("oscillator-results/report.html").exists()


@pytest.mark.parametrize("path", [*WITH_PYTHON, *EXAMPLES], ids=named)
def test_names_and_keywords_exist(path: Path) -> None:
    sources = [path.read_text()] if path.suffix == ".py" else [block.text for block in python_blocks(path)]
    assert [wrong for source in sources for wrong in wrong_calls(source)] == []


def test_a_call_gets_the_keywords_that_it_lacks() -> None:
    tree = with_keywords("ps.identify(model, solver=mine); ps.solve(model)", "identify", ("sampler", "solver"))
    assert ast.unparse(tree) == "ps.identify(model, solver=mine, sampler=sampler)\nps.solve(model)"


def test_a_wrong_call_is_seen() -> None:
    source = "ps.Solver(substep=2); ps.identfy(); dist.Normall(0, 1)"
    expected = {"ps.identfy does not exist", "dist.Normall does not exist", "ps.Solver takes no substep"}
    assert set(wrong_calls(source)) == expected
