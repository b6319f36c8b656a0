"""The commands `probsysid benchmark` and `probsysid data`."""

import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from probsysid._internal.errors import InputError, SamplingError
from probsysid._internal.validation import choose
from probsysid.benchmarks import bouc_wen, emps, silverbox
from probsysid.benchmarks.case import CaseStudy
from probsysid.benchmarks.data import SOURCES, VARIABLE, download, locate
from probsysid.benchmarks.result import Failure, write_results
from probsysid.benchmarks.run import FAILURE, REPORT, Finished, Outcome, finished, run, save, save_failure
from probsysid.benchmarks.table import evidence_table, parameter_table, score_table
from probsysid.inference.identify import check_seed

CASES: dict[str, tuple[Callable[..., CaseStudy], tuple[str, ...]]] = {
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
    case: Annotated[
        str, typer.Argument(help="bouc-wen, silverbox, emps, or all: every case with all its models and methods")
    ],
    method: Annotated[
        str | None,
        typer.Option(
            help="default, or paper: the paper's choices to the letter; if not given, default for one case and both "
            "for all"
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="a model of the case; the paper's if not given")] = None,
    particles: Annotated[int | None, typer.Option(help="how many; the case's own number if not given")] = None,
    seed: Annotated[int, typer.Option(help="every random decision of the sampler follows from it")] = 0,
    data: Annotated[Path | None, typer.Option(help=f"folder with the data; else {VARIABLE}, else the cache")] = None,
    out: Annotated[Path, typer.Option(help="folder for posteriors, figures and reports")] = Path("benchmarks"),
    json: Annotated[Path | None, typer.Option(help="file for the figures; a list if all cases run")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="all: repeat what is in --out already, with these options and this version")
    ] = False,
) -> None:
    """Reproduce a published case study and score it against the paper, the limit and a trivial baseline."""
    console = Console()
    console.width = max(console.width, WIDTH)
    everything = case == "all"
    chosen = _chosen(case, model)
    methods = _methods(method, everything)
    _check_options(particles, seed)
    _check_places(out, json)
    studies = [_study(name, variant, data, console) for name, variant in chosen]
    runs: list[Finished] = []
    failures: list[str] = []
    for study, way in product(studies, methods):
        title, folder = f"{study.title}, method {way}", out / f"{study.case}-{study.variant}-{way}"
        known = _earlier(study, folder, way, particles, seed) if everything and not again else None
        if known is not None:
            console.print(f"[bold]{title}[/bold]: is in {folder}/ (--again repeats it)")
        else:
            console.print(f"[bold]{title}[/bold]: {study.record.samples} samples")
            (folder / FAILURE).unlink(missing_ok=True)
            try:
                known = _run(study, way, particles, seed, folder, console)
            except Exception as error:  # the other cases get their turn
                if not everything:
                    raise
                described = _described(error, console)
                if way == "paper" and isinstance(error, SamplingError):  # that its preset fails is a finding
                    _note_failure(study, way, particles, seed, folder, described)
                else:
                    failures.append(f"{title}: {described}")
        if known is not None:
            runs.append(known)
            if json is not None:  # each time anew: whatever ends the command later, these are safe
                write_results(json, [run.result for run in runs], always_list=everything)
    if runs:
        console.print(score_table(runs))
        console.print(evidence_table(runs))
    if failures:
        raise SamplingError("; ".join(failures))


def _run(study: CaseStudy, method: str, particles: int | None, seed: int, folder: Path, console: Console) -> Finished:
    """Identify, score, write everything."""
    outcome = run(study, method=method, particles=particles, seed=seed, progress=True)
    write_all(outcome, folder)
    console.print(parameter_table(outcome))
    console.print(f"posterior, figures and report in {folder}/")
    return Finished(study, outcome.result, outcome.context)


def _note_failure(study: CaseStudy, method: str, particles: int | None, seed: int, folder: Path, sentence: str) -> None:
    """For the page of results."""
    count = study.methods[method].sampler.particles if particles is None else particles
    save_failure(
        Failure(case=study.case, model=study.variant, method=method, particles=count, seed=seed, sentence=sentence),
        folder,
    )


def _described(error: Exception, console: Console) -> str:
    """A failure in a sentence; one that nobody has thought of is shown in full, too."""
    if isinstance(error, (InputError, SamplingError)):
        console.print(f"failed: {error}")
        return str(error)
    console.print_exception()
    return f"{type(error).__name__}, {error}"


def _earlier(study: CaseStudy, folder: Path, method: str, particles: int | None, seed: int) -> Finished | None:
    """An earlier run, if it can be read; one that cannot is run again."""
    try:
        return finished(study, folder, method, particles, seed)
    except InputError:
        return None


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
    import matplotlib
    from matplotlib import pyplot

    from probsysid.benchmarks.figures import pictures  # drawing takes a second to import
    from probsysid.benchmarks.report import write_report

    matplotlib.use("Agg")
    (folder / REPORT).unlink(missing_ok=True)  # it is the sign that all the rest belongs together
    save(outcome, folder)
    images: dict[str, bytes] = {}
    for name, figure in pictures(outcome):
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=PIXELS)
        pyplot.close(figure)
        images[name] = path.read_bytes()
    write_report(outcome, images, folder / REPORT)


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


def _methods(method: str | None, everything: bool) -> tuple[str, ...]:
    """The methods to run with."""
    if method is None:
        return METHODS if everything else METHODS[:1]
    choose("method", method, dict.fromkeys(METHODS))
    return (method.lower(),)


def _check_options(particles: int | None, seed: int) -> None:
    check_seed(seed)
    if particles is not None and (particles < 8 or particles % 4):
        raise InputError(f"particles is {particles}; it must be a multiple of 4, at least 8.")


def _check_places(out: Path, json: Path | None) -> None:
    """Before a long run: whether its results can be written."""
    if out.exists() and not out.is_dir():
        raise InputError(f"out is {str(out)!r}, which is a file; name a folder.")
    if json is not None and json.is_dir():
        raise InputError(f"json is {str(json)!r}, which is a folder; name a file.")


def _study(name: str, variant: str, folder: Path | None, console: Console) -> CaseStudy:
    """The study; Bouc-Wen does without its official test records where there are none."""
    make = CASES[name][0]
    if name == "bouc-wen" and folder is None and not os.environ.get(VARIABLE):
        try:
            locate(name)
        except InputError as error:
            console.print(f"{error}; until then, the test record is simulated from the true parameters.")
            return bouc_wen.study(None, variant, official=False)
    return make(None if folder is None else str(folder), variant)
