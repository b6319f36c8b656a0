"""Batch identification: from records, a model and priors to the posterior."""

import time as clock
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpyro.distributions as dist

from probsysid._internal.errors import InputError, ModelWarning, SamplingWarning
from probsysid._internal.files import locked, write_atomically
from probsysid._internal.statistics import log_mean_exp
from probsysid._internal.validation import is_real, is_whole
from probsysid.data.record import Record
from probsysid.inference.posterior_from_run import posterior_from_run
from probsysid.inference.progress import ProgressBar
from probsysid.model.fingerprint import describe_prior, exact_numbers, fingerprint, model_program
from probsysid.model.model import Model
from probsysid.model.problem import Problem, default_noise
from probsysid.model.process_noise_prior import with_default_priors
from probsysid.odefilter.solver import Solver
from probsysid.parallel.default import default_executor
from probsysid.parallel.executor import Executor
from probsysid.posterior.diagnostics.residuals import find_doubts
from probsysid.posterior.diagnostics.sampling_check import SamplingCheck, check_populations, compare_fresh
from probsysid.posterior.diagnostics.solver_check import SolverCheck, at_level, refine_until_adequate
from probsysid.posterior.diagnostics.variance_decomposition import decompose, log_likelihood, without_process_noise
from probsysid.posterior.draws import scalars
from probsysid.posterior.importance_sampling import LogTarget, fitted_sample
from probsysid.posterior.posterior import Posterior
from probsysid.smc import adaptive_substeps, ibis
from probsysid.smc import checkpoint as disk
from probsysid.smc.adaptive_substeps import MultilevelTarget, first_level
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import Sampler
from probsysid.targets.batch_target import BatchTarget

CHECKPOINT_SECONDS = 30.0
"""Time between checkpoints: an interruption costs at most this much work."""

Notice = Callable[[IBISState, StepInfo], None]


def identify(
    model: Model,
    record: Record | Sequence[Record],
    priors: Mapping[Any, Any],
    noise: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    *,
    solver: Solver = Solver(),
    sampler: Sampler = Sampler(),
    process_noise: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    notice: Notice | None = None,
    executor: Executor | None = None,
) -> Posterior:
    """The posterior of a model's parameters given one record or several.

    Args:
        model: the ODE and its outputs.
        record: the data; several records share the parameters, each with its own initial state.
        priors: a distribution from `probsysid.dist` for each parameter; a number fixes it; a tuple of names has a joint
            prior.
        noise: standard deviation of each output's noise: a number, or a prior to infer it.  Outputs not named get a
            wide prior around a tenth of the output's own standard deviation.
        initial: of each physical component at the first sample: a number if it is known exactly, or a distribution.
            One mapping for all records, or one for each.
        solver: settings of the integration.
        sampler: settings of the sampling.
        process_noise: white-noise forces by coordinate, for what the model leaves out, d x^(n-1) = f dt + s dW: a prior
            or a number for s, in units of x^(n-1) per root second, or `"auto"` for a wide prior from the data's scale.
        seed: every random decision follows from it.
        progress: show a progress bar, if on a terminal.
        checkpoint: a file in which the run is saved from time to time; if it exists, the run resumes from it.
        checkpoint_seconds: time between checkpoints.
        notice: called after every range of samples with the state of the run and what the step did.
        executor: what evaluates particles, such as `Threads(cores=2)`; by default all cores, or all devices.
    """
    records = _records(record)
    problem = _problem(model, records, priors, noise, initial, process_noise or {})
    check_seed(seed)
    target = BatchTarget(problem, solver, records, sampler.particles, executor or default_executor())
    options = _RunOptions(int(seed), progress, checkpoint, checkpoint_seconds, notice)
    return _sample(target, sampler, options)


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


def _sample(target: BatchTarget, sampler: Sampler, options: _RunOptions) -> Posterior:
    """Sample the target's posterior and check it; doubts are given as warnings to the caller of `identify`."""
    problem, solver, records = target.problem, target.solver, target.records
    path = None if options.checkpoint is None else Path(options.checkpoint)
    began = clock.perf_counter()
    with locked(path) if path is not None else nullcontext():
        numbers = [data.numbers[: record.samples] for data, record in zip(target.data, records, strict=True)]
        mark = problem_fingerprint(problem, solver, sampler, options.seed, numbers)
        run, history = _run(target, sampler, options, _Checkpoint(path, mark))
        checks: dict[str, Any] = {}
        if target.adaptive:
            run, found = _adequate(run, history, target, sampler)
            checks = found._asdict()
        errors = _one_step_errors(run, target)
        checks["sampling"] = _check_sampling(run, target, options.seed)
    if not checks["sampling"].trusted:
        warnings.warn(checks["sampling"].verdict, SamplingWarning, stacklevel=3)
    doubts = find_doubts(errors, problem.model.output_names, problem.noise, solver.substeps != "auto")
    for sentence in doubts:
        warnings.warn(sentence, ModelWarning, stacklevel=3)
    seconds = clock.perf_counter() - began
    posterior = posterior_from_run(run, history, problem, solver, records, sampler, seconds)
    return replace(posterior, errors=errors, doubts=tuple(doubts), **checks)


def _one_step_errors(run: IBISState, target: BatchTarget) -> tuple[np.ndarray, ...]:
    target = target.at(run.level) if target.adaptive else target
    return target.one_step_errors(run.flat_theta, run.normalised_weights)


class _Checks(NamedTuple):
    """Fields of the posterior."""

    check: SolverCheck
    variance_shares: dict[str, dict[str, float]]


def _adequate(run: IBISState, history: History, target: BatchTarget, sampler: Sampler) -> tuple[IBISState, _Checks]:
    """The run at an adequate number of integration steps, its verdict, and where its variance comes from."""
    problem = target.problem

    def values(run: IBISState) -> dict[str, np.ndarray]:
        return scalars({name: np.asarray(value) for name, value in problem.space.values(run.flat_theta).items()})

    adjusted, found, finer, rejuvenations = refine_until_adequate(run, target, sampler, values)
    nothing = StepInfo(np.empty((0, sampler.islands)), np.empty((0, sampler.islands)))
    history.add(adaptive_substeps.with_change(nothing, run, adjusted, rejuvenations))
    differences = {"integration": adaptive_substeps.log_ratios(adjusted, finer).ravel()}
    theta = adjusted.flat_theta
    if problem.process_noise:
        plain, rest = without_process_noise(problem, theta)
        solver = at_level(target.solver, adjusted.level)
        without = log_likelihood(plain, solver, target.records, rest, target.executor)
        differences["model error"] = without - adjusted.log_likelihood.ravel()
    shares = decompose(theta, adjusted.normalised_weights, values(adjusted), differences)
    return adjusted, _Checks(found, shares.to_dict(orient="index"))


def _check_sampling(run: IBISState, target: BatchTarget, seed: int) -> SamplingCheck:
    """Compare the populations with each other, and with as many fresh draws: one sweep over the data."""
    space = target.problem.space
    values = scalars({name: np.asarray(value) for name, value in space.values(run.flat_theta).items()})
    by_population = {name: value.reshape(run.log_weights.shape) for name, value in values.items()}
    evidence = run.evidence_by_population
    agreement = check_populations(by_population, run.log_weights, evidence)
    log_target = LogTarget(target.at(run.level) if target.adaptive else target, run.log_weights.size)
    sample = fitted_sample(run.flat_theta, run.normalised_weights, log_target, np.random.default_rng([seed, 8]))
    if sample is None:
        return agreement
    total = float(log_mean_exp(evidence))
    theta, weights = run.flat_theta, run.normalised_weights
    return replace(agreement, fresh=compare_fresh(sample.ratios, sample.theta, theta, weights, agreement, total))


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


def _run(
    target: MultilevelTarget, sampler: Sampler, options: _RunOptions, keep: _Checkpoint
) -> tuple[IBISState, History]:
    """Start or resume, and process all samples."""
    saved = keep.load()
    if saved is not None:
        run, history = adaptive_substeps.restored(saved[0], target), saved[1]
    else:
        run, history = ibis.start(target, sampler, options.seed, first_level(target)), History(sampler.islands)
    with ProgressBar(options.progress, target.samples, sampler) as bar:

        def tell(run: IBISState, step: StepInfo) -> None:
            bar.update(run, step)
            if options.notice is not None:
                options.notice(run, step)

        def save(run: IBISState) -> None:
            keep.save(run, history)

        run = sample_all(run, history, target, sampler, tell, save, options.checkpoint_seconds)
    return run, history


def sample_all(
    run: IBISState,
    history: History,
    target: MultilevelTarget,
    sampler: Sampler,
    notice: Notice,
    save: Callable[[IBISState], None],
    save_seconds: float = CHECKPOINT_SECONDS,
) -> IBISState:
    """Process all samples of the target, saving from time to time, at the end, and when interrupted."""
    whole = sampler.path == "likelihood"
    saved = clock.monotonic()
    try:
        while run.samples < target.samples:
            run, step = _temper_all(run, target, sampler) if whole else adaptive_substeps.forward(run, target, sampler)
            history.add(step)
            notice(run, step)
            if clock.monotonic() - saved > save_seconds:
                save(run)
                saved = clock.monotonic()
    finally:
        save(run)
    return run


def _temper_all(run: IBISState, target: MultilevelTarget, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """The whole record at once, followed by an adjustment of the number of substeps."""
    if not target.adaptive:
        return ibis.temper_all(run, target, sampler)
    run, step = ibis.temper_all(run, target.at(run.level), sampler)
    adjusted, rejuvenations = adaptive_substeps.adjust(run, target, sampler)
    return adjusted, adaptive_substeps.with_change(step, run, adjusted, rejuvenations)


def problem_fingerprint(problem: Problem, solver: Solver, sampler: Sampler, seed: int, *data: Any) -> str:
    """A text that changes whenever the same seed would give other numbers."""
    given = {**problem.priors, **{f"noise.{k}": v for k, v in problem.noise.items()}}
    given |= {f"process_noise.{k}": v for k, v in problem.process_noise.items()}
    for r, initial in enumerate(problem.initials):
        given |= {f"initial[{r}].{k}": v for k, v in initial.items()}
    words = [f"{k}: {describe_prior(v) if isinstance(v, dist.Distribution) else repr(v)}" for k, v in given.items()]
    settings = (repr(solver), repr(sampler), str(seed))
    numbers = exact_numbers(list(given.values()))
    return fingerprint(model_program(problem.model), "\n".join(words), *settings, numbers, *data)


def _records(record: Record | Sequence[Record]) -> tuple[Record, ...]:
    records = (record,) if isinstance(record, Record) else tuple(record)
    if not records:
        raise InputError("there is no record to identify from.")
    for r, item in enumerate(records):
        if not isinstance(item, Record):
            raise InputError(f"record {r} is a {type(item).__name__}; make it a probsysid.Record.")
    return records


def _problem(
    model: Model,
    records: tuple[Record, ...],
    priors: Mapping[Any, Any],
    noise: Mapping[str, Any] | None,
    initial: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    process_noise: Mapping[str, Any],
) -> Problem:
    for record in records:
        model.check_inputs(record.input_names)
        if not any(name in record.outputs for name in model.output_names):
            known = ", ".join(record.outputs) or "none"
            raise InputError(
                f"the record has none of the model's outputs ({', '.join(model.output_names)}); it has: {known}."
            )
    levels = {name: default_noise(name, records) for name in model.output_names} | dict(noise or {})
    initials = [initial or {}] * len(records) if initial is None or isinstance(initial, Mapping) else list(initial)
    if len(initials) != len(records):
        raise InputError(f"initial has {len(initials)} entries for {len(records)} records; give one for each.")
    return Problem.make(model, priors, levels, initials, with_default_priors(model, priors, records, process_noise))


def check_seed(seed: Any) -> None:
    """Raise unless it is a whole number, 0 or more."""
    if not is_whole(seed) or seed < 0:
        raise InputError(f"seed is {seed!r}; it must be a whole number, 0 or more.")
