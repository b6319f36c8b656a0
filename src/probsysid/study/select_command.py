"""The command `select`: the terms of a model, chosen by log evidence."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from probsysid._internal.interrupts import restore_after_importing
from probsysid.study.cluster_option import ClusterOption, TlsCa, TlsCert, TlsKey, opened
from probsysid.study.commands import UNTRUSTED, StudyPath, ask_on_terminal, say_aside, told_how_to_go_on, write_summary

if TYPE_CHECKING:
    from rich.live import Live
    from rich.tree import Tree

    from probsysid.parallel.executor import Executor
    from probsysid.selection.search import Search


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(name="select")(select)


def select(
    study: StudyPath,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results. [default: STUDY-selection]", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Which model, where several have optional terms.", show_default=False)
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Models that are run at most, in place of selection.budget.", show_default=False)
    ] = None,
    particles: Annotated[int | None, typer.Option(help="In place of sampler.particles.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="In place of the study's seed.", show_default=False)] = None,
    method: Annotated[str | None, typer.Option(help="sample, or map: quicker.", show_default=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a search that was stopped.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace results that are there; their runs are used.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the summary there; - prints it.", show_default=False)
    ] = None,
    cluster: ClusterOption = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Choose terms of a model from the menu under [model.candidates], by log evidence.

    The folder holds models.csv and terms.csv (probabilities; test scores, by which nothing is chosen), summary.json,
    tree.png, the posterior and the report of the most probable model, and all runs.  A search that is stopped with
    Ctrl-C goes on with --resume.

    Exit codes: as of **fit**; 4 where the run of the most probable model is not to be trusted.

    Example: **probsysid select oscillator.toml --budget 20**
    """
    restore_after_importing()
    changes = _changes(particles, method, seed)
    target = out or study.with_name(f"{study.stem}-selection")
    where = _Where(target, resume, overwrite, quiet, json_file, _again(study, out, model, budget, changes))
    with opened(cluster, tls_ca, tls_cert, tls_key, say_aside, quiet=quiet) as executor:
        _select(study, model, budget, changes, where, executor)


class _Where(NamedTuple):
    """Where results go, and what is said."""

    target: Path
    resume: bool
    overwrite: bool
    quiet: bool
    json_file: Path | None
    again: str
    """The command that goes on."""


def _select(
    study: Path,
    model: str | None,
    budget: int | None,
    changes: dict[str, Any],
    where: _Where,
    executor: "Executor | None",
) -> None:
    from probsysid.study import output_folder, run
    from probsysid.study.menus import search_options
    from probsysid.study.selection import chosen_model, select_terms

    resolved, tables = run.load_study(study, changes)
    candidate = chosen_model(resolved, model)
    options = search_options(resolved.study.selection, budget)
    target, quiet = where.target, where.quiet
    if where.json_file is not None and str(where.json_file) != "-":
        output_folder.check_file(where.json_file)
    with output_folder.held(target), told_how_to_go_on(where.again) as between, _Progress(quiet) as shown:
        output_folder.check_free(target, resume=where.resume, overwrite=where.overwrite, ask=ask_on_terminal)
        selection, table = select_terms(
            resolved,
            tables,
            candidate,
            options,
            target,
            say=(lambda _: None) if quiet else say_aside,
            between=between,
            notice=shown.tell,
            executor=executor,
        )
    write_summary(json.dumps(selection.summary(), indent=2, allow_nan=False), where.json_file)
    if not quiet and str(where.json_file) != "-":
        _show(selection, table)
        typer.echo(f"Results in {target}; open {target / 'report.html'}")
    if not selection.best.trusted:
        typer.echo(f"probsysid: {selection.label(selection.best)}: {selection.best.verdict}", err=True)
        raise typer.Exit(UNTRUSTED)


def _changes(particles: int | None, method: str | None, seed: int | None) -> dict[str, Any]:
    given = {k: v for k, v in {"particles": particles, "method": method}.items() if v is not None}
    return ({"sampler": given} if given else {}) | ({} if seed is None else {"seed": seed})


def _again(study: Path, out: Path | None, model: str | None, budget: int | None, changes: dict[str, Any]) -> str:
    """The command that resumes a search."""
    options = {"out": out, "model": model, "budget": budget, "seed": changes.get("seed"), **changes.get("sampler", {})}
    given = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join(["probsysid", "select", str(study), *given, "--resume"])


class _Progress:
    """The tree of the models that were run so far: drawn again after each run on a terminal, else line by line."""

    def __init__(self, quiet: bool):
        self._quiet = quiet
        self._live: Live | None = None

    def __enter__(self) -> "_Progress":
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        if console.is_terminal and not self._quiet:
            self._live = Live(console=console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, search: "Search") -> None:
        """Show the search so far."""
        from probsysid.study.selection import run_line

        if self._live is not None:
            self._live.update(tree_of(search), refresh=True)
        elif not self._quiet:
            say_aside(run_line(search))


def tree_of(search: "Search") -> "Tree":
    """The models that were run, each under the nearest one before it on its way."""
    from rich.markup import escape
    from rich.tree import Tree

    best = search.ranked()[0]
    top = Tree(f"{len(search.runs)} models run, {len(search.screened())} screened")
    branches: dict[Any, Tree] = {}
    for run in sorted(search.runs.values(), key=lambda each: (len(each.names), each.number)):
        parent = search.parents.get(run.names)
        while parent is not None and parent not in branches:
            parent = search.parents.get(parent)
        text = f"{run.number}  {escape(search.terms.label(run.names))}  {run.log_evidence:.2f} +- {run.error:.2f}"
        branches[run.names] = branches.get(parent, top).add(f"[bold]{text}[/bold]" if run is best else text)
    return top


def _show(selection: Any, table: Any) -> None:
    """Models, terms and doubts on the terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    scores = [name for name in table.columns if " rmse " in name]
    shown = Table("model", "terms", "log evidence", "probability", *scores)
    for number, row in table.head(10).iterrows():
        evidence = f"{row['log_evidence']:.2f} +- {row['error']:.2f}"
        numbers = (f"{row[name]:.3g}" for name in scores)
        shown.add_row(str(number), row["terms"], evidence, f"{row['probability']:.3f}", *numbers)
    console.print(shown)
    found = sorted(selection.inclusion.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name} {share:.2f}" for name, share in found if share >= 0.01)
    console.print(f"Terms by probability: {listed or 'none'}.", markup=False)
    for sentence in (selection.alarm, *selection.notes):
        if sentence:
            console.print(f"- {sentence}", markup=False)
