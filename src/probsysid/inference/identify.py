"""Batch identification: from records, a model and priors to the posterior."""

import time as clock
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from probsysid._internal.errors import InputError, ModelWarning, SamplingError, SamplingWarning
from probsysid._internal.files import locked, write_atomically
from probsysid._internal.interrupts import stop_on_signals
from probsysid._internal.validation import is_real
from probsysid.data.record import Record
from probsysid.inference.argument_checks import Method, check_arguments, checked_records
from probsysid.inference.assessment import Assessed, assess
from probsysid.inference.map_run import approximate
from probsysid.inference.particle_filters import solver_for
from probsysid.inference.posterior_from_run import posterior_from_run
from probsysid.inference.problem_arguments import LatentArguments, problem_of, with_measured_inputs
from probsysid.inference.progress import Notices, ProgressBar
from probsysid.inference.recover import finished, recover
from probsysid.inference.run_fingerprint import problem_fingerprint
from probsysid.model.kernels import Kernel
from probsysid.model.model import Model
from probsysid.model.noise import AnyNoise
from probsysid.model.priors import Prior, Priors
from probsysid.model.varying import Variation
from probsysid.odefilter.solver import Solver
from probsysid.parallel.default import default_executor
from probsysid.parallel.executor import Executor
from probsysid.parallel.stoppable import stoppable
from probsysid.particlefilter.settings import ParticleFilter
from probsysid.posterior.diagnostics.advice import find_doubts
from probsysid.posterior.posterior import Posterior
from probsysid.smc import adaptive_points, adaptive_substeps, ibis, pilot
from probsysid.smc import checkpoint as disk
from probsysid.smc.adaptive_substeps import MultilevelTarget, first_level
from probsysid.smc.budget import Budget, BudgetSpent, MeteredTarget, in_words
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import Sampler
from probsysid.targets.batch_target import BatchTarget

CHECKPOINT_SECONDS = 30.0
"""Time between checkpoints: an interruption costs at most this much work."""

FIRST_PART = 0.5
"""Of the budget, for particles that follow the data."""

UNFINISHED = (
    "the budget of {budget} was spent at {where}, and the particles so far say nothing about the data after it; allow "
    "more, or take fewer particles."
)

Notice = Callable[[IBISState, StepInfo], None]


def identify(
    model: Model,
    record: Record | Sequence[Record],
    priors: Priors,
    noise: Mapping[str, AnyNoise] | None = None,
    initial: Mapping[str, Prior] | Sequence[Mapping[str, Prior]] | None = None,
    *,
    solver: Solver | ParticleFilter = Solver(),
    sampler: Sampler = Sampler(),
    method: Method = "sample",
    process_noise: Mapping[str, Prior] | None = None,
    varies: Mapping[str, Variation] | None = None,
    unknown: Mapping[str, Kernel] | None = None,
    drifts: Mapping[str, Kernel] | None = None,
    seed: int = 0,
    progress: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    notice: Notice | None = None,
    executor: Executor | None = None,
) -> Posterior:
    """The posterior of a model's parameters given one record or several, each with its own initial state.

    Args:
        model: the ODE and its outputs.
        record: the data; several records share the parameters.
        priors: a distribution from `probsysid.dist` for each parameter, or tuple of names; a number fixes it.
        noise: standard deviation of each output's noise, a number or a prior (by default a wide one); or `Noise(...)`.
        initial: of each physical component at the first sample: a number if it is known exactly, or a distribution.
        solver, sampler: settings of the integration (or a `ParticleFilter`) and of the sampling.
        method: `"sample"`, or `"map"` for a first answer within seconds: draws of the Laplace approximation.
        process_noise: white-noise forces by coordinate, d x^(n-1) = f dt + s dW: a prior or number for s, or `"auto"`.
        varies: parameters that differ between records, with a prior or a number for their spread, or `"separate"`.
        unknown, drifts: kernels, such as `Matern(...)`, of unknown inputs and of parameters that change over time.  An
            unknown input with an entry in `noise` is measured, an input or output of the record with NaN elsewhere.
        seed, progress: every random decision follows from the seed; whether to show a bar, on a terminal.
        checkpoint: a file that is saved every `checkpoint_seconds`, and from which the run resumes.
        notice: called after every range of samples with the state of the run and what it did.
        executor: what evaluates particles, such as `Threads(cores=2)`; by default all cores, or devices.
    """
    check_arguments(model, priors, noise, process_noise, varies, solver, sampler, executor, seed, method)
    records = with_measured_inputs(checked_records(record), unknown, noise)
    solver = solver_for(model, solver, noise, method)
    latent = LatentArguments(unknown or {}, drifts or {})
    problem = problem_of(model, records, priors, noise, initial, process_noise or {}, varies or {}, latent, solver)
    solver = solver.for_problem(problem)
    with stop_on_signals():
        target = BatchTarget(problem, solver, records, sampler.particles, stoppable(executor or default_executor()))
        if method == "map":
            return approximate(target, sampler, int(seed), progress)
        return _sample(target, sampler, _RunOptions(int(seed), progress, checkpoint, checkpoint_seconds, notice))


@dataclass(frozen=True)
class _RunOptions:
    """Options of `identify` that concern the course of a run."""

    seed: int
    progress: bool
    checkpoint: str | Path | None
    checkpoint_seconds: float
    notice: Notice | None

    def __post_init__(self) -> None:
        seconds = self.checkpoint_seconds
        if not is_real(seconds) or not seconds >= 0:
            raise InputError(f"checkpoint_seconds is {seconds!r}; it must be a number of seconds, 0 or more.")
        if self.checkpoint is not None and (
            not isinstance(self.checkpoint, str | Path) or Path(self.checkpoint).is_dir()
        ):
            raise InputError(f"checkpoint is {self.checkpoint!r}; it must be the name of a file.")


def _sample(target: BatchTarget, sampler: Sampler, options: _RunOptions) -> Posterior:
    """Sample the target's posterior and check it; doubts are given as warnings to the caller of `identify`."""
    problem, solver, records = target.problem, target.solver, target.records
    path = None if options.checkpoint is None else Path(options.checkpoint)
    began = clock.perf_counter()
    budget = Budget.of(sampler.budget, sampler.seconds, sampler.particles, target.samples)
    with locked(path) if path is not None else nullcontext():
        numbers = [data.numbers[: record.samples] for data, record in zip(target.data, records, strict=True)]
        mark = problem_fingerprint(problem, solver, sampler, options.seed, numbers)
        run, history, error, explored = _run(target, sampler, options, _Checkpoint(path, mark), budget)
        found = None if error else assess(run, history, target, sampler, options.seed, budget, explored)
        if sampler.recover and not target.estimated and not (found and found.sampling.trusted):
            found = _recovered(found, run, history, target, sampler, options, budget)
        if found is None and not error:
            found = assess(finished(run, target), history, target, sampler, options.seed, budget)
            found = found and found.after(
                f"the budget of {in_words(sampler)} was spent at {target.describe(run.samples)}"
            )
        if found is None:
            where = target.describe(run.samples)
            raise error or SamplingError(UNFINISHED.format(budget=in_words(sampler), where=where))
    if not found.sampling.trusted:
        warnings.warn(found.sampling.verdict, SamplingWarning, stacklevel=3)
    theta, weights = found.run.flat_theta, found.run.normalised_weights
    doubts: list[str] = []
    if not target.estimated:
        given, adequate = solver.substeps != "auto", found.checks["check"].adequate
        doubts = find_doubts(found.errors, problem, records, theta, weights, given, adequate)
    for sentence in doubts:
        warnings.warn(sentence, ModelWarning, stacklevel=3)
    seconds = clock.perf_counter() - began
    posterior = posterior_from_run(found.run, found.history, problem, solver, records, sampler, seconds)
    return replace(posterior, errors=found.errors, doubts=tuple(doubts), sampling=found.sampling, **found.checks)


def _recovered(
    first: Assessed | None,
    run: IBISState,
    history: History,
    target: BatchTarget,
    sampler: Sampler,
    options: _RunOptions,
    budget: Budget,
) -> Assessed | None:
    """New particles from the modes in place of a run that is not to be trusted or has not come to its end; the first
    ones where the new are no better."""
    reason = "; ".join(first.sampling.reasons) if first else f"the samples were processed up to {run.samples} only"
    level = first.run.level if first else run.level
    with Notices(options.progress) as say:
        found = recover(run.flat_theta, target, level, sampler, options.seed, budget, say)
    if found is None:
        return first and first.after("a search for modes, to start again from them, came to no end within the budget")
    history = history.copy()
    history.add(found.as_step(sampler.islands))
    second = assess(found.run, history, target, sampler, options.seed, budget)
    assert second is not None
    second = second.after(
        f"particles that followed the data were replaced by others, started from {found.origin} ({reason})"
    )
    if first is None or second.sampling.trusted or found.adapted.converged:
        return second
    return first.after(f"others, started from {found.origin}, were no better")


class _Checkpoint(NamedTuple):
    """Where a run is saved."""

    path: Path | None
    fingerprint: str

    def load(self) -> tuple[IBISState, History] | None:
        if self.path is None or not self.path.exists():
            return None
        run, history, _ = disk.unpack(self.path, self.fingerprint)
        return run, history

    def save(self, run: IBISState, history: History) -> None:
        if self.path is not None:
            write_atomically(self.path, disk.pack(run, history, self.fingerprint))


class _Run(NamedTuple):
    """A run as far as it came; where sampling failed, the one before that, and the error."""

    run: IBISState
    history: History
    error: SamplingError | None = None
    explored: IBISState | None = None
    """The finished run on the pilot, before it was taken over to the target."""


def _run(batch: BatchTarget, sampler: Sampler, options: _RunOptions, keep: _Checkpoint, budget: Budget) -> _Run:
    """Start or resume, and process all samples, or as many as half the budget allows."""
    first_part = budget.part(FIRST_PART)
    target = MeteredTarget(batch, first_part)
    saved = keep.load()
    if saved is not None:
        run, history = adaptive_substeps.restored(saved[0], target), saved[1]
    else:
        run, history = ibis.start(target, sampler, options.seed, first_level(target)), History(sampler.islands)
    with ProgressBar(options.progress, target.samples, sampler, first_part) as bar:

        def tell(run: IBISState, step: StepInfo) -> None:
            bar.update(run, step)
            if options.notice is not None:
                options.notice(run, step)

        latest = [run]

        def save(run: IBISState) -> None:
            latest[0] = run
            keep.save(run, history)

        try:
            run = sample_all(run, history, target, sampler, tell, save, options.checkpoint_seconds)
            found = _Run(run, history)
            if run.samples == target.samples:
                certified, step = pilot.certify(run, batch, sampler)
                history.add(step)
                found = _Run(certified, history, explored=run if run.pilot else None)
        except SamplingError as failed:
            found = _Run(latest[0], history, failed)
    budget.spent += first_part.spent
    return found


def sample_all(
    run: IBISState,
    history: History,
    target: MultilevelTarget,
    sampler: Sampler,
    notice: Notice,
    save: Callable[[IBISState], None],
    save_seconds: float = CHECKPOINT_SECONDS,
) -> IBISState:
    """Process all samples of the target, or as many as its budget allows; save from time to time, at the end, and when
    interrupted."""
    whole = sampler.path == "likelihood"
    saved = clock.monotonic()
    try:
        while run.samples < target.samples:
            run, step = _temper_all(run, target, sampler) if whole else pilot.forward(run, target, sampler)
            history.add(step)
            notice(run, step)
            if clock.monotonic() - saved > save_seconds:
                save(run)
                saved = clock.monotonic()
    except BudgetSpent:
        pass
    finally:
        save(run)
    return run


def _temper_all(run: IBISState, target: MultilevelTarget, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """The whole record at once, followed by an adjustment of the number of substeps."""
    if target.estimated:
        return adaptive_points.temper_all(run, target, sampler)
    if not target.adaptive:
        return ibis.temper_all(run, target, sampler)
    run, step = ibis.temper_all(run, target.at(run.level), sampler)
    adjusted, rejuvenations = adaptive_substeps.adjust(run, target, sampler)
    return adjusted, adaptive_substeps.with_change(step, run, adjusted, rejuvenations)
