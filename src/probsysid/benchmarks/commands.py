"""The commands `probsysid benchmark` and `probsysid data`."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import typer
from rich.console import Console

from probsysid import hosts
from probsysid.benchmarks import bouc_wen, emps, silverbox
from probsysid.benchmarks.case import Study
from probsysid.benchmarks.data import SOURCES, VARIABLE, download, locate
from probsysid.benchmarks.pictures import pictures
from probsysid.benchmarks.report import write_report
from probsysid.benchmarks.result import write_results
from probsysid.benchmarks.run import Outcome, run, save
from probsysid.benchmarks.table import evidence_table, parameter_table, score_table
from probsysid.checks import choose
from probsysid.errors import InputError, SamplingError
from probsysid.hosts import options
from probsysid.identify import check_seed

CASES: dict[str, tuple[Callable[..., Study], tuple[str, ...]]] = {
    "bouc-wen": (bouc_wen.study, ("bouc-wen",)),
    "silverbox": (silverbox.study, tuple(silverbox.EQUATIONS)),
    "emps": (emps.study, tuple(emps.EQUATIONS)),
}
"""How to make the study of a case, and its models; the paper's comes first."""

METHODS = ("default", "paper")
PIXELS = 130
WIDTH = 124
"""Columns that the tables need; a narrower terminal wraps them."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("benchmark")(benchmark)
    app.command("data")(data)


def benchmark(
    case: Annotated[str, typer.Argument(help="bouc-wen, silverbox, emps, or all: every case with all its models")],
    method: Annotated[str, typer.Option(help="default, or paper: the paper's choices to the letter")] = "default",
    model: Annotated[str | None, typer.Option(help="a model of the case; the paper's if not given")] = None,
    particles: Annotated[int | None, typer.Option(help="how many; the case's own number if not given")] = None,
    seed: Annotated[int, typer.Option(help="every random decision of the sampler follows from it")] = 0,
    data: Annotated[Path | None, typer.Option(help=f"folder with the data; else {VARIABLE}, else the cache")] = None,
    out: Annotated[Path, typer.Option(help="folder for posteriors, figures and reports")] = Path("benchmarks"),
    json: Annotated[Path | None, typer.Option(help="file for the figures")] = None,
    address: options.Address = None,
    host_count: options.Count = None,
    host_index: options.Index = None,
    host_timeout: options.Timeout = hosts.TIMEOUT,
) -> None:
    """Reproduce a published case study and score it against the paper, the limit and a trivial baseline."""
    options.join(address, host_count, host_index, host_timeout)
    matplotlib.use("Agg")
    console = Console(quiet=not hosts.first())
    console.width = max(console.width, WIDTH)
    chosen = _chosen(case, model)
    _check_options(method, particles, seed)
    _check_places(out, json)
    studies = [_study(name, variant, data, console) for name, variant in chosen]
    outcomes: list[Outcome] = []
    failures: list[str] = []
    for study in studies:
        console.print(f"[bold]{study.title}[/bold], method {method}: {study.record.samples} samples")
        try:
            outcome = run(study, method=method, particles=particles, seed=seed, progress=True)
        except SamplingError as error:
            failures.append(f"{study.title}, method {method}: {error}")
            console.print(f"failed: {error}")
            continue
        if not hosts.first():
            continue
        folder = out / f"{study.case}-{study.variant}-{method}"
        write_all(outcome, folder)
        console.print(parameter_table(outcome))
        console.print(f"posterior, figures and report in {folder}/")
        outcomes.append(outcome)
    _show(outcomes, console)
    if json is not None and outcomes:
        write_results(json, [outcome.result for outcome in outcomes])
    if failures:
        raise SamplingError("; ".join(failures))


def data(name: Annotated[str, typer.Argument(help="bouc-wen, silverbox, emps, or all")]) -> None:
    """Download a benchmark's files into the cache (or PROBSYSID_DATA), check them, and say whom to cite."""
    if name != "all":
        choose("benchmark", name, {**SOURCES, "all": None})
    for source in SOURCES.values() if name == "all" else [SOURCES[name.lower().replace("_", "-")]]:
        place = download(source.name)
        typer.echo(f"{source.name}: {', '.join(source.files)} in {place}, checksums right")
        typer.echo(f"  cite: {source.citation}")


def write_all(outcome: Outcome, folder: Path) -> None:
    """Posterior, figures as PNG, and the report."""
    from matplotlib import pyplot

    save(outcome, folder)
    images: dict[str, bytes] = {}
    for name, figure in pictures(outcome):
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=PIXELS)
        pyplot.close(figure)
        images[name] = path.read_bytes()
    write_report(outcome, images, folder / "report.html")


def _chosen(case: str, model: str | None) -> list[tuple[str, str]]:
    """Case and model of every study to run."""
    if case == "all":
        if model is not None:
            raise InputError(f"model is {model!r}, but all cases run with all their models; name one case.")
        return [(name, variant) for name, (_, variants) in CASES.items() for variant in variants]
    key = case.lower().replace("_", "-")
    choose("benchmark", case, {**CASES, "all": None})
    variants = CASES[key][1]
    wanted: Any = variants[0] if model is None else choose("model", model, {name: name for name in variants})
    return [(key, wanted)]


def _check_options(method: str, particles: int | None, seed: int) -> None:
    choose("method", method, dict.fromkeys(METHODS))
    check_seed(seed)
    if particles is not None and (particles < 8 or particles % 4):
        raise InputError(f"particles is {particles}; it must be a multiple of 4, at least 8.")


def _check_places(out: Path, json: Path | None) -> None:
    """Before a long run: whether its results can be written."""
    if out.exists() and not out.is_dir():
        raise InputError(f"out is {str(out)!r}, which is a file; name a folder.")
    if json is not None and json.is_dir():
        raise InputError(f"json is {str(json)!r}, which is a folder; name a file.")


def _study(name: str, variant: str, folder: Path | None, console: Console) -> Study:
    """The study; Bouc-Wen does without its official test records where there are none."""
    make = CASES[name][0]
    if name == "bouc-wen" and folder is None and not os.environ.get(VARIABLE):
        try:
            locate(name)
        except InputError as error:
            console.print(f"{error}; until then, the test record is simulated from the true parameters.")
            return bouc_wen.study(None, variant, official=False)
    return make(None if folder is None else str(folder), variant)


def _show(outcomes: Sequence[Outcome], console: Console) -> None:
    if outcomes:
        console.print(score_table(outcomes))
        console.print(evidence_table(outcomes))
