"""Identify the models of a study: one after the other, or as whole runs on the workers of a cluster."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from probsysid._internal.errors import InputError, said_later
from probsysid._internal.files import write_atomically
from probsysid.data.record import Record
from probsysid.inference.identify import Notice, identify
from probsysid.inference.run_fingerprint import run_fingerprint
from probsysid.model.problem import Problem
from probsysid.odefilter.solver import Solver
from probsysid.parallel.cluster import Cluster
from probsysid.parallel.executor import Executor
from probsysid.parallel.published import packed, unpacked
from probsysid.parallel.threads import Threads
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.settings import Setup
from probsysid.smc.options import Sampler
from probsysid.study.candidates import CandidateModel
from probsysid.study.resolve import ResolvedStudy
from probsysid.study.stopwatch import CourseOfRun

if TYPE_CHECKING:
    from probsysid.study.run import Log


class Course(NamedTuple):
    """How a study's models are identified."""

    left: Path
    """Folder of checkpoints, and of posteriors that are complete before others are."""
    log: "Log"
    progress: bool = False
    notice: Notice | None = None
    executor: Executor | None = None


def identify_all(resolved: ResolvedStudy, course: Course) -> list[Posterior]:
    """The posterior of every model.

    On a cluster, several models are whole runs, one per thread of a worker; a model that was begun without a cluster
    goes on from its checkpoint, with its particles on the cluster.
    """
    found = {c.name: p for c in resolved.candidates if (p := _complete(resolved, c, course)) is not None}
    waiting = [c for c in resolved.candidates if c.name not in found and not _checkpoint(c, course).exists()]
    if isinstance(course.executor, Cluster) and len(waiting) > 1:
        found |= _as_whole_runs(resolved, waiting, course.executor, course)
    for candidate in resolved.candidates:
        if candidate.name not in found:
            found[candidate.name] = _identify(resolved, candidate, course)
    return [found[candidate.name] for candidate in resolved.candidates]


def _checkpoint(candidate: CandidateModel, course: Course) -> Path:
    return course.left / f"{candidate.name}.npz"


def _identify(resolved: ResolvedStudy, candidate: CandidateModel, course: Course) -> Posterior:
    log, checkpoint = course.log, _checkpoint(candidate, course)
    log.say(f"identifying {candidate.name}: {', '.join(candidate.problem.space.names)}")
    resuming = checkpoint.exists()
    if resuming:
        log.note(f"going on from {checkpoint}")
    samples = sum(record.samples for record in resolved.training)
    quiet = not course.progress
    clock = CourseOfRun(samples, log.note if quiet else log.tell, often=not sys.stderr.isatty(), also=course.notice)
    try:
        posterior = _posterior(_Run.of(resolved, candidate), course.executor, course.progress, checkpoint, clock)
    except InputError as error:
        if not resuming:
            raise
        raise InputError(f"{error} To start anew, write --overwrite in place of --resume.") from None
    clock.close(log.watch(candidate.name))
    log.note(_course_of(posterior))
    return posterior


def _course_of(posterior: Posterior) -> str:
    return f"{posterior!r}; {posterior.settings.seconds:.1f} s, {posterior.settings.sweeps:.1f} sweeps"


class _Run(NamedTuple):
    """What one model's run takes."""

    problem: Problem
    records: tuple[Record, ...]
    solver: Solver
    sampler: Sampler
    method: Literal["sample", "map"]
    seed: int

    @classmethod
    def of(cls, resolved: ResolvedStudy, candidate: CandidateModel) -> "_Run":
        study = resolved.study
        return cls(
            candidate.problem, resolved.training, candidate.solver, resolved.sampler, study.sampler.method, study.seed
        )

    def fingerprint(self) -> str:
        """A text that changes whenever the posterior would."""
        return run_fingerprint(self.problem, self.records, self.solver, self.sampler, self.method, self.seed)


def _posterior(
    run: _Run, executor: Executor | None, progress: bool, checkpoint: Path | None, notice: Notice | None
) -> Posterior:
    problem = run.problem
    with said_later():
        return identify(
            problem.given_model,
            run.records,
            problem.given_priors,
            problem.noise,
            problem.initials,
            solver=run.solver,
            sampler=run.sampler,
            method=run.method,
            process_noise=problem.process_noise or None,
            varies=problem.varies or None,
            unknown=problem.latent.unknown or None,
            drifts=problem.latent.drifts or None,
            seed=run.seed,
            progress=progress,
            checkpoint=checkpoint,
            notice=notice,
            executor=executor,
        )


# Whole runs on a cluster


def _as_whole_runs(
    resolved: ResolvedStudy, candidates: Sequence[CandidateModel], cluster: Cluster, course: Course
) -> dict[str, Posterior]:
    """The posteriors of several models; each is written down as soon as it comes, so that none is lost with the
    cluster."""
    course.log.say(f"identifying {len(candidates)} models on the cluster: {', '.join(c.name for c in candidates)}")
    runs = [_Run.of(resolved, candidate) for candidate in candidates]
    calls = [(packed(tuple(run), [run.problem.model.dynamics, run.problem.model.outputs]),) for run in runs]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    found = {}
    with Progress(*columns, transient=True, disable=not course.progress) as bar:
        shown = bar.add_task("models", total=len(calls))
        for index, data in cluster.runs(run_model, calls):
            candidate, posterior = candidates[index], unpacked(data)
            course.log.note(f"{candidate.name}: {_course_of(posterior)}")
            write_atomically(_complete_path(resolved, candidate, course), _file_of(posterior, course.left))
            found[candidate.name] = _with_setup(posterior, resolved, candidate)
            bar.advance(shown)
    return found


def run_model(data: bytes) -> bytes:
    """On a worker: the posterior of one model."""
    run = _Run(*unpacked(data))
    posterior = _posterior(run, Threads(cores=1), False, None, None)
    return packed(posterior, [run.problem.model.dynamics, run.problem.model.outputs])


def _file_of(posterior: Posterior, folder: Path) -> bytes:
    """The posterior as the bytes of its file."""
    path = folder / "incoming.nc"
    try:
        posterior.save(path)
        return path.read_bytes()
    finally:
        path.unlink(missing_ok=True)


def _complete_path(resolved: ResolvedStudy, candidate: CandidateModel, course: Course) -> Path:
    return course.left / f"{candidate.name}-{_Run.of(resolved, candidate).fingerprint()[:16]}.nc"


def _complete(resolved: ResolvedStudy, candidate: CandidateModel, course: Course) -> Posterior | None:
    """A posterior that an earlier run of the same study left."""
    path = _complete_path(resolved, candidate, course)
    if not path.exists():
        return None
    course.log.note(f"{candidate.name} is complete in {path}")
    return _with_setup(Posterior.load(path), resolved, candidate)


def _with_setup(posterior: Posterior, resolved: ResolvedStudy, candidate: CandidateModel) -> Posterior:
    """The posterior with the study's own model and records."""
    solver = replace(candidate.solver, substeps=posterior.settings.substeps)
    return replace(posterior, setup=Setup((candidate.problem, solver)), records=resolved.training)
