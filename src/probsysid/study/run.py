"""Fit the models of a study and write the folder of results."""

import json
import os
import shutil
import time as clock
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from probsysid._internal.errors import ClusterError, InputError, SamplingError
from probsysid.data.readers.table import first_line
from probsysid.inference.identify import Notice
from probsysid.parallel.executor import Executor
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.settings import Setup
from probsysid.posterior.states import States
from probsysid.posterior.unknown_inputs import UnknownInputs
from probsysid.study import output_folder
from probsysid.study.candidates import CandidateModel
from probsysid.study.freerun import free_runs, smoothed, smoothed_inputs
from probsysid.study.identification import Course, identify_all
from probsysid.study.resolve import ResolvedStudy, resolve_study
from probsysid.study.results import CandidateResult, comparison, summary, versions
from probsysid.study.stopwatch import Stopwatch
from probsysid.study.study_file import read_toml, study_of
from probsysid.study.toml_writer import to_toml

Say = Callable[[str], None]
Value = TypeVar("Value")
Smoothed = TypeVar("Smoothed", States, UnknownInputs)

LONGEST_STEM = 60
"""Bytes of a record's or output's name in the name of a figure; file systems allow 255 for all of it."""


def load_study(path: Path, changes: dict[str, Any] | None = None) -> tuple[ResolvedStudy, dict[str, Any]]:
    """A study file, resolved, and its tables; `changes` are merged into its sections, such as {"sampler": {...}}."""
    tables = read_toml(path)
    for key, value in (changes or {}).items():
        inner = tables.get(key, {})
        tables[key] = {**inner, **value} if isinstance(value, dict) and isinstance(inner, dict) else value
    return resolve_study(study_of(tables, path), path), tables


def fit(
    resolved: ResolvedStudy,
    tables: dict[str, Any],
    out: Path,
    *,
    progress: bool,
    say: Say,
    between: Callable[[], None] = lambda: None,
    notice: Notice | None = None,
    executor: Executor | None = None,
) -> list[CandidateResult]:
    """Identify every model of the study and write the folder; `between` is called between its steps, and may raise.

    Checkpoints stay in `OUT.unfinished` until the folder is complete, so that a stopped run can resume.  A run that
    cannot succeed (every particle lost) leaves nothing.  `notice` is called as by `identify`, whose `executor` it is.
    """
    _rehearse(resolved, tables, out)
    left = output_folder.unfinished(out)
    fresh = not left.exists()
    left.mkdir(parents=True, exist_ok=True)
    log = Log(left / "log.txt", say, between)
    log.head(resolved)
    try:
        posteriors = identify_all(resolved, Course(left, log, progress, notice, executor))
        results = [_timed(resolved, *pair, log) for pair in zip(resolved.candidates, posteriors, strict=True)]
        between()
    except (SamplingError, InputError) as error:
        if fresh or isinstance(error, SamplingError):
            shutil.rmtree(left, ignore_errors=True)
        raise
    except (KeyboardInterrupt, ClusterError) as end:
        log.note(str(end) or "stopped")
        raise
    with output_folder.complete(out) as folder:
        for sentence in write_results(resolved, tables, results, folder, out):
            log.tell(sentence)
        log.note(f"results in {out}")
        shutil.copyfile(log.path, folder / "log.txt")
    shutil.rmtree(left, ignore_errors=True)
    return results


def _timed(resolved: ResolvedStudy, candidate: CandidateModel, posterior: Posterior, log: "Log") -> CandidateResult:
    """`work_out`, with the time that went into everything."""
    watch = log.watch(candidate.name)
    with watch.phase("states and predictions"):
        result = work_out(resolved, candidate, posterior, log.say)
    log.note(f"{candidate.name}: {watch}")
    return replace(result, watch=watch)


def work_out(resolved: ResolvedStudy, candidate: CandidateModel, posterior: Posterior, say: Say) -> CandidateResult:
    """Solver check, states and free runs of a posterior; a step that fails is reported and the others continue."""
    if posterior.records and posterior.variance_shares is None:
        say(f"checking the integration of {candidate.name}")
        checked = _attempt(posterior.checked)
        posterior = checked if isinstance(checked, Posterior) else posterior
    posterior, problems = _refined(resolved, posterior, say)
    problems += [doubt.rstrip(".") for doubt in posterior.doubts]
    if posterior.sampling is not None and not posterior.sampling.trusted:
        problems.insert(0, posterior.sampling_verdict.rstrip("."))
    if posterior.check is not None and not posterior.check.adequate:
        problems.append(posterior.verdict.rstrip("."))
    states: dict[int, States] = {}
    inputs: dict[int, UnknownInputs] = {}
    if resolved.study.report.states:
        say(f"smoothing the states of {candidate.name}")
        states = _by_record(resolved, partial(smoothed, posterior), "the states", problems)
        if candidate.problem.latent:
            say(f"smoothing the unknown inputs of {candidate.name}")
            inputs = _by_record(resolved, partial(smoothed_inputs, posterior), "the unknown inputs", problems)
    say(f"simulating {candidate.name}")
    runs = _attempt(lambda: free_runs(posterior, resolved.measured, resolved.study.report.draws))
    if isinstance(runs, Exception):
        problems.append(f"the posterior could not be simulated ({runs})")
        return CandidateResult(candidate, posterior, states, [], tuple(problems), inputs=inputs)
    for run in runs:
        if run.failed:
            total = run.failed + len(run.simulation.weights)
            problems.append(f"{run.failed} of {total} free runs on {run.measured.name} did not stay finite")
    return CandidateResult(candidate, posterior, states, runs, tuple(problems), inputs=inputs)


def _by_record(
    resolved: ResolvedStudy, work: Callable[[int], Smoothed], what: str, problems: list[str]
) -> dict[int, Smoothed]:
    """What is smoothed on each training record; a sentence is added to the problems where that fails."""
    results: dict[int, Smoothed] = {}
    for index, item in enumerate(resolved.trained):
        found = _attempt(partial(work, index))
        if not isinstance(found, Exception) and all(np.all(np.isfinite(mean)) for mean in found.mean.values()):
            results[index] = found
        else:
            why = f" ({found})" if isinstance(found, Exception) else ""
            problems.append(f"{what} on {item.name} could not be smoothed{why}")
    return results


def _refined(resolved: ResolvedStudy, posterior: Posterior, say: Say) -> tuple[Posterior, list[str]]:
    """The posterior with fresh draws if the study asks for them and it has none yet, and the error if that failed."""
    draws = resolved.study.sampler.refine
    if (
        draws is None
        or posterior.settings.method == "map"
        or posterior.settings.run_particles != len(posterior.weights)
    ):
        return posterior, []
    say(f"taking {draws} fresh draws")
    found = _attempt(lambda: posterior.refined(draws, seed=resolved.study.seed))
    return (posterior, [str(found).rstrip(".")]) if isinstance(found, Exception) else (found, [])


def _attempt(work: Callable[[], Value]) -> Value | Exception:
    """The return value, or the exception: after a long run, a failing figure must not lose the rest."""
    try:
        return work()
    except (ValueError, ArithmeticError, RuntimeError, MemoryError) as error:
        return error


# Files


def write_results(
    resolved: ResolvedStudy, tables: dict[str, Any], results: list[CandidateResult], folder: Path, out: Path
) -> list[str]:
    """Write every file of the folder; with several models, each gets a subfolder.

    Numbers come first.  What cannot be drawn after that is returned as sentences, and the numbers stay.
    """
    from probsysid.study.report_views import write_study_page  # Bokeh takes long to import

    study = used_study(resolved, tables, out)
    (folder / "study.toml").write_text(study, encoding="utf-8")
    places = [folder if len(results) == 1 else folder / result.candidate.name for result in results]
    for result, place in zip(results, places, strict=True):
        place.mkdir(exist_ok=True)
        result.posterior.save(place / "posterior.nc")
        result.table().to_csv(place / "summary.csv")
        result.posterior.history.table().to_csv(place / "rejuvenations.csv", index=False)
    if len(results) > 1:
        comparison(results).to_csv(folder / "comparison.csv")
    content = json.dumps(summary(resolved, results), indent=2, allow_nan=False)
    (folder / output_folder.MARK).write_text(content, encoding="utf-8")
    drawings = [drawing for pair in zip(results, places, strict=True) for drawing in _figures(*pair)]
    page = folder / "report.html"
    drawings.append((page, lambda: write_study_page(page, resolved, results, study)))
    return [sentence for path, draw in drawings if (sentence := _drawn(path, draw))]


def _drawn(path: Path, draw: Callable[[], object]) -> str:
    """A sentence about what went wrong, or none: after a long run, a picture must not lose the numbers."""
    try:
        path.parent.mkdir(exist_ok=True)
        draw()
    except Exception as error:
        path.unlink(missing_ok=True)
        return f"{path.name} could not be drawn ({first_line(error)})"
    return ""


def used_study(resolved: ResolvedStudy, tables: dict[str, Any], out: Path) -> str:
    """The study as used, with paths of data files relative to the folder of results."""

    def moved(section: dict[str, Any]) -> dict[str, Any]:
        file = Path(section["file"])
        if file.is_absolute():
            return section
        return {**section, "file": os.path.relpath(resolved.path.absolute().parent / file, out.absolute())}

    data = tables["data"]
    used = {**tables, "data": [moved(s) for s in data] if isinstance(data, list) else moved(data)}
    text = to_toml(used)
    if tomllib.loads(text) != used:
        raise InputError(f"{resolved.path} cannot be written again as TOML; simplify its keys and texts.")
    return text


def _rehearse(resolved: ResolvedStudy, tables: dict[str, Any], out: Path) -> None:
    """Write in memory what does not depend on the results, so that it cannot fail after a long run."""
    from probsysid.study.report_views import typeset

    used_study(resolved, tables, out)
    for candidate in resolved.candidates:
        typeset(candidate.formulas)


def _figures(result: CandidateResult, place: Path) -> Iterator[tuple[Path, Callable[[], object]]]:
    """The path of every figure, and what draws it."""
    from probsysid.report.figures import plot_fit, plot_marginals

    folder = place / "figures"
    path = folder / "marginals.png"
    yield path, partial(plot_marginals, result.posterior, path)
    for index, run in enumerate(result.runs):
        for which in ("train", "test"):
            part = run.part(which)
            if part is None or not run.finite:
                continue
            for output in part.scored:
                stem = _stem(run.measured.name, index)
                path = folder / f"fit-{stem}-{which}-{_stem(output, index)}.png"
                yield path, partial(plot_fit, part, path, output=output)


def _stem(name: str, index: int) -> str:
    """A name as part of a file's name, on any file system."""
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(name).stem)
    return (
        stem
        if len(stem.encode()) <= LONGEST_STEM
        else f"{stem.encode()[:LONGEST_STEM].decode(errors='ignore')}-{index}"
    )


class Log:
    """A log file with time stamps; some lines also go to the terminal."""

    def __init__(self, path: Path, say: Say, between: Callable[[], None]):
        self.path = path
        self._say = say
        self._between = between
        self._watches: dict[str, Stopwatch] = {}

    def watch(self, model: str) -> Stopwatch:
        """The stopwatch of a model's run."""
        return self._watches.setdefault(model, Stopwatch())

    def note(self, text: str) -> None:
        """Write a line to the file."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{clock.strftime('%Y-%m-%d %H:%M:%S')}  {text}\n")

    def say(self, text: str) -> None:
        """Write a line to the file and to the user; a run may be stopped here."""
        self.tell(text)
        self._between()

    def tell(self, text: str) -> None:
        """Write a line to the file and to the user, where a run may not be stopped."""
        self.note(text)
        self._say(text)

    def head(self, resolved: ResolvedStudy) -> None:
        """Log the study, the versions, the settings and the records."""
        self.note(f"{resolved.title}: {resolved.path}")
        self.note(", ".join(f"{name} {number}" for name, number in versions().items()))
        solvers = "; ".join(dict.fromkeys(repr(candidate.solver) for candidate in resolved.candidates))
        self.note(f"{solvers}; {resolved.sampler!r}; seed {resolved.study.seed}")
        for item in resolved.measured:
            self.note(f"{item.record!r}")
            for text in item.notes:
                self.say(f"{item.name}: {text}")


def load_posteriors(out: Path) -> tuple[ResolvedStudy, dict[str, Any], list[Posterior]]:
    """The study of a folder of results, its tables, and the stored posterior of each of its models.

    The models come from the study file, so that no stored code is run; the stored posterior brings its settings.
    """
    if not (out / output_folder.MARK).exists():
        raise InputError(f"{out} is not a folder of results: it has no {output_folder.MARK}.")
    resolved, tables = load_study(out / "study.toml")
    posteriors = []
    for candidate in resolved.candidates:
        place = out if len(resolved.candidates) == 1 else out / candidate.name
        if not (place / "posterior.nc").is_file():
            raise InputError(f"{place} holds no posterior.nc; run fit again.")
        posterior = Posterior.load(place / "posterior.nc")
        if set(posterior.values) != set(candidate.problem.space.names):
            raise InputError(f"{place / 'posterior.nc'} does not belong to {out / 'study.toml'}.")
        solver = replace(candidate.solver, substeps=posterior.settings.substeps)
        posteriors.append(replace(posterior, setup=Setup((candidate.problem, solver)), records=resolved.training))
    return resolved, tables, posteriors


def load_results(out: Path) -> tuple[ResolvedStudy, dict[str, Any], list[CandidateResult]]:
    """The study of a folder of results, its tables, and its results, with states and free runs computed again."""
    resolved, tables, posteriors = load_posteriors(out)
    pairs = zip(resolved.candidates, posteriors, strict=True)
    return resolved, tables, [work_out(resolved, candidate, p, lambda _: None) for candidate, p in pairs]
