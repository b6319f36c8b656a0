"""Run case studies one after the other, with results on disk after each, so that an interrupted batch continues."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.console import Console

from probsysid._internal.errors import InputError, SamplingError
from probsysid._internal.validation import check_seed, choose
from probsysid.benchmarks import bouc_wen, emps, pendulum, silverbox, tanks
from probsysid.benchmarks.case import CaseStudy
from probsysid.benchmarks.data import VARIABLE, locate
from probsysid.benchmarks.result import Failure, write_results
from probsysid.benchmarks.run import FAILURE, REPORT, Finished, Outcome, finished, run, save, save_failure
from probsysid.benchmarks.table import evidence_table, parameter_table, score_table

Cases = Mapping[str, tuple[Callable[..., CaseStudy], tuple[str, ...]]]

CASES: Cases = {
    "bouc-wen": (bouc_wen.study, ("bouc-wen",)),
    "silverbox": (silverbox.study, tuple(silverbox.EQUATIONS)),
    "emps": (emps.study, tuple(emps.EQUATIONS)),
    "pendulum": (pendulum.study, tuple(pendulum.EQUATIONS)),
    "tanks": (tanks.study, tuple(tanks.EQUATIONS)),
}
"""The function that makes the study of a case, and the case's models; the paper's model comes first."""

ALL = "all"
METHODS = ("default", "paper")
PIXELS = 130
"""Resolution of the figures, dots per inch."""

WIDTH = 124
"""Columns of the tables; a narrower terminal wraps them."""


@dataclass(frozen=True)
class BatchOptions:
    """Options common to all runs of a batch.

    Args:
        particles: their number; None for the case's own.
        seed: of the sampler.
        data: folder with the data; None for the environment's or the cache.
        out: folder for posteriors, figures and reports.
        json: file for the results.
        again: repeat runs whose results are in `out` already.
    """

    particles: int | None = None
    seed: int = 0
    data: Path | None = None
    out: Path = Path("benchmarks")
    json: Path | None = None
    again: bool = False


Execute = Callable[[CaseStudy, str, BatchOptions, Path, Console], Finished]
"""Run a study with a method and write its results into a folder."""


def identify_and_write(
    study: CaseStudy, method: str, options: BatchOptions, folder: Path, console: Console
) -> Finished:
    """Identify, score, and write posterior, figures and report."""
    outcome = run(study, method=method, particles=options.particles, seed=options.seed, progress=True)
    write_all(outcome, folder)
    console.print(parameter_table(outcome))
    console.print(f"posterior, figures and report in {folder}/")
    return Finished(study, outcome.result, outcome.context)


def run_batch(
    case: str,
    method: str | None = None,
    model: str | None = None,
    options: BatchOptions = BatchOptions(),
    *,
    cases: Cases = CASES,
    execute: Execute = identify_and_write,
) -> None:
    """Run one case, or every case with all its models and methods; a failing run does not stop the others."""
    console = Console()
    console.width = max(console.width, WIDTH)
    everything = case == ALL
    chosen = _chosen(case, model, cases)
    methods = _methods(method, everything)
    _check_options(options)
    studies = [_study(name, variant, options.data, console, cases) for name, variant in chosen]
    runs: list[Finished] = []
    failures: list[str] = []
    for study, way in product(studies, methods):
        try:
            found = _one_run(study, way, options, console, execute, reuse=everything and not options.again)
        except Exception as error:  # the remaining runs are still carried out
            if not everything:
                raise
            _record_failure(error, study, way, options, failures, console)
            continue
        runs.append(found)
        if options.json is not None:  # rewritten after every run, so that an interruption loses none of them
            write_results(options.json, [run.result for run in runs], always_list=everything)
    if runs:
        console.print(score_table(runs))
        console.print(evidence_table(runs))
    if failures:
        raise SamplingError("; ".join(failures))


def _one_run(
    study: CaseStudy, method: str, options: BatchOptions, console: Console, execute: Execute, *, reuse: bool
) -> Finished:
    """The result of an earlier run with the same options if it may be reused, otherwise that of a new run."""
    folder, title = _folder(study, method, options), f"{study.title}, method {method}"
    known = _earlier(study, folder, method, options) if reuse else None
    if known is not None:
        console.print(f"[bold]{title}[/bold]: is in {folder}/ (--again repeats it)")
        return known
    console.print(f"[bold]{title}[/bold]: {study.record.samples} samples")
    (folder / FAILURE).unlink(missing_ok=True)
    return execute(study, method, options, folder, console)


def _folder(study: CaseStudy, method: str, options: BatchOptions) -> Path:
    return options.out / f"{study.case}-{study.variant}-{method}"


def _record_failure(
    error: Exception, study: CaseStudy, method: str, options: BatchOptions, failures: list[str], console: Console
) -> None:
    """A failing preset of the paper is a finding, kept for the page of results; other failures fail the batch."""
    described = _described(error, console)
    if method != "paper" or not isinstance(error, SamplingError):
        failures.append(f"{study.title}, method {method}: {described}")
        return
    count = study.methods[method].sampler.particles if options.particles is None else options.particles
    failure = Failure(
        case=study.case,
        model=study.variant,
        method=method,
        particles=count,
        seed=options.seed,
        sentence=described,
    )
    save_failure(failure, _folder(study, method, options))


def _described(error: Exception, console: Console) -> str:
    """A failure in one sentence; an unexpected exception is also printed with its traceback."""
    if isinstance(error, (InputError, SamplingError)):
        console.print(f"failed: {error}")
        return str(error)
    console.print_exception()
    return f"{type(error).__name__}, {error}"


def _earlier(study: CaseStudy, folder: Path, method: str, options: BatchOptions) -> Finished | None:
    """An earlier run with the same options; None if there is none or its files cannot be read."""
    try:
        return finished(study, folder, method, options.particles, options.seed)
    except InputError:
        return None


def write_all(outcome: Outcome, folder: Path) -> None:
    """Write posterior, figures (PNG) and report."""
    import matplotlib
    from matplotlib import pyplot

    from probsysid.benchmarks.figures import pictures  # drawing takes a second to import
    from probsysid.benchmarks.report import write_report

    matplotlib.use("Agg")
    (folder / REPORT).unlink(missing_ok=True)  # written last: its presence marks a complete folder
    save(outcome, folder)
    images: dict[str, bytes] = {}
    for name, figure in pictures(outcome):
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=PIXELS)
        pyplot.close(figure)
        images[name] = path.read_bytes()
    write_report(outcome, images, folder / REPORT)


def _chosen(case: str, model: str | None, cases: Cases) -> list[tuple[str, str]]:
    """Case and model of every study to run."""
    if case == ALL:
        if model is not None:
            raise InputError(f"model is {model!r}, but all cases run with all their models; name one case.")
        return [(name, variant) for name, (_, variants) in cases.items() for variant in variants]
    key = case.lower().replace("_", "-")
    choose("benchmark", case, {**cases, ALL: None})
    variants = cases[key][1]
    wanted: str = variants[0] if model is None else choose("model", model, {name: name for name in variants})
    return [(key, wanted)]


def _methods(method: str | None, everything: bool) -> tuple[str, ...]:
    """The methods to run with."""
    if method is None:
        return METHODS if everything else METHODS[:1]
    choose("method", method, dict.fromkeys(METHODS))
    return (method.lower(),)


def _check_options(options: BatchOptions) -> None:
    """Raise before a long run if its options are wrong or its results could not be written."""
    check_seed(options.seed)
    particles, out, json = options.particles, options.out, options.json
    if particles is not None and (particles < 8 or particles % 4):
        raise InputError(f"particles is {particles}; it must be a multiple of 4, at least 8.")
    if out.exists() and not out.is_dir():
        raise InputError(f"out is {str(out)!r}, which is a file; name a folder.")
    if json is not None and json.is_dir():
        raise InputError(f"json is {str(json)!r}, which is a folder; name a file.")


def _study(name: str, variant: str, folder: Path | None, console: Console, cases: Cases) -> CaseStudy:
    """The study of a case; without the official test records, Bouc-Wen is tested on a simulated one."""
    if name == "bouc-wen" and folder is None and not os.environ.get(VARIABLE):
        try:
            locate(name)
        except InputError as error:
            console.print(f"{error}; until then, the test record is simulated from the true parameters.")
            return bouc_wen.study(None, variant, official=False)
    return cases[name][0](None if folder is None else str(folder), variant)
