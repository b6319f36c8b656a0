"""From records, a model and priors to the posterior."""

import time as clock
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist

from probsysid._internal.errors import InputError, ModelWarning
from probsysid._internal.files import locked, write_atomically
from probsysid._internal.validation import is_whole
from probsysid.data.record import Record
from probsysid.inference.progress import ProgressBar
from probsysid.model.fingerprint import describe_prior, exact_numbers, fingerprint, model_program
from probsysid.model.model import Model
from probsysid.model.problem import Problem
from probsysid.odefilter.solver import Solver
from probsysid.posterior.diagnostics.residuals import judged
from probsysid.posterior.diagnostics.solver_check import chosen, refine_until_adequate
from probsysid.posterior.diagnostics.solver_check import facts as adequacy_facts
from probsysid.posterior.diagnostics.variance_decomposition import log_likelihood, split, without_model_error
from probsysid.posterior.posterior import Posterior, prior_descriptions, scalars
from probsysid.smc import adaptive_substeps, ibis
from probsysid.smc import checkpoint as disk
from probsysid.smc.adaptive_substeps import MultilevelTarget, first_level
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import Sampler
from probsysid.targets.batch_target import BatchTarget

CHECKPOINT_SECONDS = 30.0
"""Time between checkpoints: an interruption costs at most this much work."""

NOISE_SPREAD = 2.0
"""Standard deviation of the log of a noise level that nothing is known of: a factor of 50 either way."""


def identify(
    model: Model,
    record: Record | Sequence[Record],
    priors: Mapping[Any, Any],
    noise: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    *,
    solver: Solver = Solver(),
    sampler: Sampler = Sampler(),
    model_error: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: bool = False,
    checkpoint: str | Path | None = None,
    notice: Callable[[IBISState, StepInfo], None] | None = None,
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
        model_error: as in `Solver`, given here instead.
        seed: every random decision follows from it.
        progress: show a progress bar, if on a terminal.
        checkpoint: a file to save the run in from time to time; if it exists, the run goes on from there.
        notice: called after every stretch of samples with the run as it is then, and what it went through.
    """
    records = _records(record)
    problem = _problem(model, records, priors, noise, initial, solver, model_error)
    check_seed(seed)
    experiment = BatchTarget(problem, records, sampler.particles)
    path = None if checkpoint is None else Path(checkpoint)
    began = clock.perf_counter()
    with locked(path) if path is not None else nullcontext():
        numbers = [data.numbers[: record.samples] for data, record in zip(experiment.data, records, strict=True)]
        mark = problem_fingerprint(problem, sampler, seed, numbers)
        run, history = _run(experiment, sampler, seed, mark, progress, path, notice)
        facts: dict[str, Any] = {}
        if experiment.adaptive:
            run, facts = _settled(run, history, experiment, sampler)
        errors = _one_step_errors(run, experiment)
    facts["doubts"] = judged(errors, problem.model.output_names, problem.noise, problem.solver.substeps != "auto")
    for sentence in facts["doubts"]:
        warnings.warn(sentence, ModelWarning, stacklevel=2)
    seconds = clock.perf_counter() - began
    return replace(posterior_of(run, history, problem, records, sampler, facts, seconds), errors=errors)


def _one_step_errors(run: IBISState, target: Any) -> tuple[np.ndarray, ...]:
    target = target.at(run.level) if target.adaptive else target
    return target.one_step_errors(run.flat_theta, run.normalised_weights)


def _settled(
    run: IBISState, history: History, experiment: BatchTarget, sampler: Sampler
) -> tuple[IBISState, dict[str, Any]]:
    """The run at an adequate accuracy, and what there is to say about it."""
    space = experiment.problem.space

    def values(run: IBISState) -> dict[str, np.ndarray]:
        return scalars({name: np.asarray(value) for name, value in space.values(run.flat_theta).items()})

    adjusted, found, finer, rejuvenations = refine_until_adequate(run, experiment, sampler, values)
    nothing = StepInfo(np.empty((0, sampler.islands)), np.empty((0, sampler.islands)))
    history.add(adaptive_substeps.with_change(nothing, run, adjusted, rejuvenations))
    differences = {"integration": adaptive_substeps.log_ratios(adjusted, finer).ravel()}
    problem, theta = experiment.problem, adjusted.flat_theta
    if problem.model_error:
        plain, rest = without_model_error(replace(problem, solver=chosen(problem.solver, adjusted.level)), theta)
        without = log_likelihood(plain, experiment.records, rest)
        differences["model error"] = without - adjusted.log_likelihood.ravel()
    shares = split(theta, adjusted.normalised_weights, values(adjusted), differences)
    return adjusted, adequacy_facts(found, shares)


def posterior_of(
    run: IBISState,
    history: History,
    problem: Problem,
    records: tuple[Record, ...],
    sampler: Sampler,
    facts: Mapping[str, Any],
    seconds: float,
) -> Posterior:
    """The posterior with the facts that tables and reports show."""
    automatic = problem.solver.substeps == "auto"
    if automatic:
        problem = replace(problem, solver=chosen(problem.solver, run.level))
    units = {**problem.model.units}
    coordinates = problem.model.coordinates
    units |= {f"initial.{name}": unit for name, unit in problem.model.units.items() if name in coordinates}
    for record in records:
        units |= {f"noise.{name}": unit for name, unit in record.units.items() if name in problem.model.output_names}
    settings = {
        "sampler": repr(sampler),
        "islands": sampler.islands,
        "ess_threshold": sampler.ess,
        "seconds": seconds,
        "priors": prior_descriptions(problem),
        "steps_chosen": automatic,
        "units": units,
        **facts,
    }
    return Posterior.from_run(run, history, problem, records, settings)


def _run(
    target: MultilevelTarget,
    sampler: Sampler,
    seed: int,
    mark: str,
    progress: bool,
    path: Path | None,
    notice: Callable[[IBISState, StepInfo], None] | None,
) -> tuple[IBISState, History]:
    if path is not None and path.exists():
        run, history, _ = disk.unpack(path, mark)
        run = adaptive_substeps.restored(run, target)
    else:
        run, history = ibis.start(target, sampler, seed, first_level(target)), History(sampler.islands)

    def save(run: IBISState) -> None:
        if path is not None:
            write_atomically(path, disk.pack(run, history, mark))

    with ProgressBar(progress, target.samples, sampler) as bar:

        def tell(run: IBISState, step: StepInfo) -> None:
            bar.update(run, step)
            if notice is not None:
                notice(run, step)

        run = sample_all(run, history, target, sampler, tell, save)
    return run, history


def sample_all(
    run: IBISState,
    history: History,
    target: MultilevelTarget,
    sampler: Sampler,
    notice: Callable[[IBISState, StepInfo], None],
    save: Callable[[IBISState], None],
) -> IBISState:
    """Bring in every sample that there is, saving from time to time, at the end, and when stopped."""
    whole = sampler.path == "likelihood"
    saved = clock.monotonic()
    try:
        while run.samples < target.samples:
            run, step = _temper_all(run, target, sampler) if whole else adaptive_substeps.forward(run, target, sampler)
            history.add(step)
            notice(run, step)
            if clock.monotonic() - saved > CHECKPOINT_SECONDS:
                save(run)
                saved = clock.monotonic()
    finally:
        save(run)
    return run


def _temper_all(run: IBISState, target: MultilevelTarget, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """The whole record at once, and then a look at the accuracy."""
    if not target.adaptive:
        return ibis.temper_all(run, target, sampler)
    run, step = ibis.temper_all(run, target.at(run.level), sampler)
    adjusted, rejuvenations = adaptive_substeps.adjust(run, target, sampler)
    return adjusted, adaptive_substeps.with_change(step, run, adjusted, rejuvenations)


def problem_fingerprint(problem: Problem, sampler: Sampler, seed: int, *data: Any) -> str:
    """Changes whenever the same seed would give other numbers."""
    given = {**problem.priors, **{f"noise.{k}": v for k, v in problem.noise.items()}}
    given |= {f"model_error.{k}": v for k, v in problem.model_error.items()}
    for r, initial in enumerate(problem.initials):
        given |= {f"initial[{r}].{k}": v for k, v in initial.items()}
    words = [f"{k}: {describe_prior(v) if isinstance(v, dist.Distribution) else repr(v)}" for k, v in given.items()]
    settings = (repr(problem.solver), repr(sampler), str(seed))
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
    solver: Solver,
    model_error: Mapping[str, Any] | None,
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
    return Problem.make(model, solver, priors, levels, initials, model_error)


def default_noise(name: str, records: Sequence[Record]) -> Any:
    """A wide prior around a tenth of the output's standard deviation; 1 where it was never measured."""
    measured = [np.asarray(record.outputs[name]) for record in records if name in record.outputs]
    values = np.concatenate(measured) if measured else np.empty(0)
    values = values[np.isfinite(values)]
    spread = float(np.std(values)) if len(values) else 0.0
    return dist.LogNormal(np.log(0.1 * spread), NOISE_SPREAD) if spread > 0 else 1.0


def check_seed(seed: Any) -> None:
    """Raise unless it is a whole number, 0 or more."""
    if not is_whole(seed) or seed < 0:
        raise InputError(f"seed is {seed!r}; it must be a whole number, 0 or more.")
