"""Choose the terms of a study's model, and write the folder of results."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from probsysid._internal.errors import InputError
from probsysid.parallel.executor import Executor
from probsysid.selection.kept import Kept
from probsysid.selection.options import SearchOptions
from probsysid.selection.result import Selection
from probsysid.selection.search import Search
from probsysid.selection.select import Notice, searched
from probsysid.study import output_folder
from probsysid.study.candidates import CandidateModel
from probsysid.study.freerun import free_runs
from probsysid.study.resolve import ResolvedStudy
from probsysid.study.run import Log, Say, used_study

SCORED = 20
"""Models that are simulated on test ranges, the most probable first."""


def chosen_model(resolved: ResolvedStudy, name: str | None) -> CandidateModel:
    """The model with optional terms, by name where there are several."""
    found = {c.name: c for c in resolved.candidates if c.menu is not None}
    if not found:
        raise InputError(
            f"{resolved.path} has no optional terms to choose from; write them under [model.candidates], "
            "as docs/selection.md shows."
        )
    if name is None and len(found) > 1:
        raise InputError(f"several models have optional terms: {', '.join(found)}; name one with --model.")
    if name is not None and name not in found:
        raise InputError(f"there is no model {name!r} with optional terms; there are: {', '.join(found)}.")
    return found[name] if name is not None else next(iter(found.values()))


def select_terms(
    resolved: ResolvedStudy,
    tables: dict[str, Any],
    candidate: CandidateModel,
    options: SearchOptions,
    out: Path,
    *,
    say: Say,
    between: Callable[[], None],
    notice: Notice | None = None,
    executor: Executor | None = None,
) -> tuple[Selection, pd.DataFrame]:
    """Search the menu of a model and write the folder; the models and their test scores as a table.

    Runs stay in `OUT.unfinished` until the folder is complete, so that a stopped search resumes; then they are in
    `OUT/runs`, from which one with a larger budget goes on.
    """
    assert candidate.menu is not None
    left = output_folder.unfinished(out)
    left.mkdir(parents=True, exist_ok=True)
    log = Log(left / "log.txt", say, between)
    log.head(resolved)
    runs = left / "runs"
    if (out / "runs").is_dir() and not runs.exists():
        shutil.copytree(out / "runs", runs)

    def told(search: Search) -> None:
        log.note(run_line(search))
        if notice is not None:
            notice(search)
        between()

    try:
        selection = searched(candidate.menu, options, Kept.at(runs), told, executor)
        log.say("simulating the models")
        table = with_scores(resolved, selection)
    except KeyboardInterrupt:
        log.note("stopped")
        raise
    with output_folder.complete(out) as folder:
        for sentence in _written(resolved, tables, selection, table, folder, out):
            log.tell(sentence)
        shutil.copytree(runs, folder / "runs")
        log.note(f"results in {out}")
        shutil.copyfile(log.path, folder / "log.txt")
    shutil.rmtree(left, ignore_errors=True)
    return selection, table


def run_line(search: Search) -> str:
    """The newest run in words."""
    run = max(search.runs.values(), key=lambda each: each.number)
    best = search.ranked()[0]
    state = "the best so far" if best is run else f"best: model {best.number}"
    if not math.isfinite(run.log_evidence):
        return f"model {run.number}, {search.terms.label(run.names)}: {run.verdict}"
    evidence = f"log evidence {run.log_evidence:.2f} +- {run.error:.2f}"
    return f"model {run.number}, {search.terms.label(run.names)}: {evidence}, {run.seconds:.0f} s; {state}"


def with_scores(resolved: ResolvedStudy, selection: Selection) -> pd.DataFrame:
    """The models, with the root mean square errors of their free runs on training and test ranges, for a look."""
    table = selection.table()
    for model in selection.models[:SCORED]:
        if not math.isfinite(model.log_evidence):
            continue
        try:
            runs = free_runs(model.posterior, resolved.measured, resolved.study.report.draws)
        except (ValueError, ArithmeticError, RuntimeError):
            continue
        for run in runs:
            several = f" {run.measured.name}" if len(resolved.measured) > 1 else ""
            for which, outputs in run.scores().items():
                for output, scores in outputs.items():
                    table.loc[model.number, f"{which} rmse {output}{several}"] = scores["rmse"]
    return table


def _written(
    resolved: ResolvedStudy,
    tables: dict[str, Any],
    selection: Selection,
    table: pd.DataFrame,
    folder: Path,
    out: Path,
) -> list[str]:
    """Numbers first; sentences about what could not be drawn after them."""
    (folder / "study.toml").write_text(used_study(resolved, tables, out), encoding="utf-8")
    table.to_csv(folder / "models.csv")
    terms = {"probability": selection.inclusion, "error": selection.inclusion_errors}
    pd.DataFrame(terms).rename_axis("term").to_csv(folder / "terms.csv")
    summary = {"title": resolved.title, **selection.summary()}
    scores = json.loads(table.filter(like=" rmse ").reset_index().to_json(orient="records"))
    content = json.dumps({**summary, "scores": scores}, indent=2, allow_nan=False)
    selection.posterior.save(folder / "posterior.nc")
    (folder / output_folder.MARK).write_text(content, encoding="utf-8")
    found = []
    for name, draw in (
        ("tree.png", lambda: selection.tree(folder / "tree.png")),
        ("report.html", lambda: selection.posterior.report(folder / "report.html")),
    ):
        try:
            draw()
        except Exception as error:  # after a long search, a picture must not lose the numbers
            found.append(f"{name} could not be drawn ({error})")
    return found
