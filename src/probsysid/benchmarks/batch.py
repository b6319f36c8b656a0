"""Run case studies one after the other, with results on disk after each, so that an interrupted batch continues."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.traceback import Traceback

from probsysid._internal.errors import ClusterError, InputError, SamplingError
from probsysid._internal.files import write_atomically
from probsysid._internal.validation import check_seed, choose
from probsysid.benchmarks import bouc_wen, emps, pendulum, silverbox, tanks
from probsysid.benchmarks.candidates import SELECTED, Candidates, choose_terms
from probsysid.benchmarks.case import CaseStudy
from probsysid.benchmarks.data import VARIABLE, locate
from probsysid.benchmarks.result import Failure, write_results
from probsysid.benchmarks.run import FAILURE, REPORT, Finished, Outcome, finished, run, save, save_failure
from probsysid.benchmarks.table import evidence_table, parameter_table, score_table
from probsysid.parallel.cluster import Cluster
from probsysid.parallel.published import packed, unpacked
from probsysid.parallel.threads import Threads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cases = Mapping[str, tuple[Callable[..., CaseStudy], tuple[str, ...]]]

CASES: Cases = {
    "bouc-wen": (bouc_wen.study, ("bouc-wen",)),
    "silverbox": (silverbox.study, (*silverbox.EQUATIONS, SELECTED)),
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
        cluster: where runs are carried out; None for this process.
    """

    particles: int | None = None
    seed: int = 0
    data: Path | None = None
    out: Path = Path("benchmarks")
    json: Path | None = None
    again: bool = False
    cluster: Cluster | None = None


Execute = Callable[[CaseStudy, str, BatchOptions, Path, Console], Finished]
"""Run a study with a method and write its results into a folder."""


def identify_and_write(
    study: CaseStudy, method: str, options: BatchOptions, folder: Path, console: Console
) -> Finished:
    """Identify, score, and write posterior, figures and report; choose the model's terms first, where it is to be."""
    if study.candidates is not None:
        if method != METHODS[0]:
            raise InputError(f"method is {method!r}, but terms are chosen by the default method; leave it out.")
        study = _with_terms(study, study.candidates, method, options, folder, console)
    outcome = run(
        study,
        method=method,
        particles=options.particles,
        seed=options.seed,
        progress=True,
        executor=options.cluster,
    )
    write_all(outcome, folder)
    console.print(parameter_table(outcome))
    console.print(f"posterior, figures and report in {folder}/")
    return Finished(study, outcome.result, outcome.context)


def _with_terms(
    study: CaseStudy, candidates: Candidates, method: str, options: BatchOptions, folder: Path, console: Console
) -> CaseStudy:
    """The study with the terms that the evidence prefers; the search is kept in the folder, and resumes from there."""
    settings = study.methods[method]
    chosen = choose_terms(candidates, settings, options.seed, folder / "search", console, options.cluster)
    console.print(f"chosen: {chosen.study.equation}", repr(chosen.selection), sep="\n")
    summary = {**chosen.selection.summary(), "version": chosen.version, "versions": dict(chosen.evidences)}
    write_atomically(folder / "search.json", json.dumps(summary, indent=2).encode())
    own = chosen.study.figures

    def figures(outcome: Outcome) -> "dict[str, Figure]":
        return {"tree": chosen.selection.tree(), **({} if own is None else own(outcome))}

    return replace(chosen.study, figures=figures)


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
    pairs = list(product(studies, methods))
    runs: dict[int, Finished] = {}
    failures: list[str] = []
    for k, found in _carried_out(pairs, options, console, execute, everything=everything):
        if isinstance(found, Exception):  # the remaining runs are still carried out
            if not everything or isinstance(found, ClusterError):
                raise found
            _record_failure(found, *pairs[k], options, failures, console)
            continue
        runs[k] = found
        if options.json is not None:  # rewritten after every run, so that an interruption loses none of them
            write_results(options.json, [runs[k].result for k in sorted(runs)], always_list=everything)
    if runs:
        in_order = [runs[k] for k in sorted(runs)]
        console.print(score_table(in_order))
        console.print(evidence_table(in_order))
    if failures:
        raise SamplingError("; ".join(failures))


def _carried_out(
    pairs: Sequence[tuple[CaseStudy, str]],
    options: BatchOptions,
    console: Console,
    execute: Execute,
    *,
    everything: bool,
) -> Iterator[tuple[int, Finished | Exception]]:
    """Each run's index, and its results or what went wrong: one after the other, or as whole runs on a cluster."""
    waiting = []
    for k, (study, method) in enumerate(pairs):
        known = _earlier(study, method, options, console) if everything and not options.again else None
        if known is not None:
            yield k, known
        elif options.cluster is not None and everything:
            waiting.append(k)
        else:
            folder = _begun(study, method, options, console)
            try:
                yield k, execute(study, method, options, folder, console)
            except Exception as error:
                yield k, error
    if waiting and options.cluster is not None:
        yield from _on_cluster([(k, *pairs[k]) for k in waiting], options.cluster, options, console)


def _begun(study: CaseStudy, method: str, options: BatchOptions, console: Console) -> Path:
    """The folder of a run that begins."""
    folder = _folder(study, method, options)
    console.print(f"[bold]{study.title}, method {method}[/bold]: {study.record.samples} samples")
    (folder / FAILURE).unlink(missing_ok=True)
    return folder


def _on_cluster(
    runs: Sequence[tuple[int, CaseStudy, str]], cluster: Cluster, options: BatchOptions, console: Console
) -> Iterator[tuple[int, Finished | Exception]]:
    """The same as whole runs on the workers of a cluster; files are written here."""
    calls = [(packed((study, method, options.particles, options.seed), ()),) for _, study, method in runs]
    folders = [_begun(study, method, options, console) for _, study, method in runs]
    done = cluster.runs(run_packed, calls)
    for count, (place, data) in enumerate(done, 1):
        k, study, method = runs[place]
        found = unpacked(data)
        console.print(f"[bold]{study.title}, method {method}[/bold]: {count} of {len(runs)} on the cluster")
        if isinstance(found, Exception):
            yield k, found
            continue
        outcome = Outcome(study, method, options.seed, *found)
        write_all(outcome, folders[place])
        console.print(parameter_table(outcome))
        yield k, Finished(study, outcome.result, outcome.context)


def run_packed(data: bytes) -> bytes:
    """On a worker: a run's outcome but for its study, which holds compiled programs by then; or what went wrong."""
    study, method, particles, seed = unpacked(data)
    try:
        done = run(study, method=method, particles=particles, seed=seed, executor=Threads(cores=1))
        return packed((done.posterior, done.evolution, done.scores, done.bands, done.limits), ())
    except Exception as error:
        return packed(error, ())


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
    console.print(Traceback.from_exception(type(error), error, error.__traceback__))
    return f"{type(error).__name__}, {error}"


def _earlier(study: CaseStudy, method: str, options: BatchOptions, console: Console) -> Finished | None:
    """An earlier run with the same options; None if there is none or its files cannot be read."""
    folder = _folder(study, method, options)
    try:
        known = finished(study, folder, method, options.particles, options.seed)
    except InputError:
        return None
    if known is not None:
        console.print(f"[bold]{study.title}, method {method}[/bold]: is in {folder}/ (--again repeats it)")
    return known


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
        return [(name, v) for name, (_, variants) in cases.items() for v in variants if v != SELECTED]
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
    particles, out, file = options.particles, options.out, options.json
    if particles is not None and (particles < 8 or particles % 4):
        raise InputError(f"particles is {particles}; it must be a multiple of 4, at least 8.")
    if out.exists() and not out.is_dir():
        raise InputError(f"out is {str(out)!r}, which is a file; name a folder.")
    if file is not None and file.is_dir():
        raise InputError(f"json is {str(file)!r}, which is a folder; name a file.")


def _study(name: str, variant: str, folder: Path | None, console: Console, cases: Cases) -> CaseStudy:
    """The study of a case; without the official test records, Bouc-Wen is tested on a simulated one."""
    if name == "bouc-wen" and folder is None and not os.environ.get(VARIABLE):
        try:
            locate(name)
        except InputError as error:
            console.print(f"{error}; until then, the test record is simulated from the true parameters.")
            return bouc_wen.study(None, variant, official=False)
    return cases[name][0](None if folder is None else str(folder), variant)
