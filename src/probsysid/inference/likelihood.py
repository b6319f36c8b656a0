"""The log likelihood of given values: ours, Fenrir's, DALTON's or that of Runge-Kutta steps that count as exact.

log_likelihood(model, {"k": 1.0, "c": 0.1}, record, noise={"position": 0.1}, initial={"x": 0.0}, method="fenrir")
jax.grad(lambda k: log_likelihood(model, {"k": k, "c": 0.1}, record, ...))(1.0)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import jax.numpy as jnp

from probsysid._internal.array_types import Scalar
from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.jax_setup import check_jax
from probsysid._internal.validation import check_kind, check_mapping, shown
from probsysid.data.record import Record
from probsysid.inference.argument_checks import checked_initials, checked_records
from probsysid.model.initial_state import check_initial_names
from probsysid.model.model import Model
from probsysid.model.particle import Particle
from probsysid.model.problem import DIFFUSION
from probsysid.odefilter.differentiable import log_likelihood as of_particle
from probsysid.odefilter.diffusion import Given
from probsysid.odefilter.solver import Solver
from probsysid.targets.integrators import Integrator, ProbabilisticSolver, RungeKutta

LikelihoodMethod = Literal["filter", "fenrir", "dalton", "runge-kutta"]


def log_likelihood(
    model: Model,
    values: Mapping[str, Any],
    record: Record | Sequence[Record],
    *,
    noise: Mapping[str, Any],
    initial: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    solver: Solver = Solver(),
    method: LikelihoodMethod | None = None,
) -> Scalar:
    """The log density of the data for given parameters; `jax.grad`, `jax.jit` and the like apply to it.

    Args:
        model: the ODE and its outputs.
        values: a value for each parameter, and with an inferred diffusion for `"solver.diffusion"`.
        record: the data; of several records, the sum.
        noise: standard deviation of each output's noise.
        initial: value of each physical component at the first sample (`x`, `dx`), zero where it is not named; for
            several records one mapping, or one for each.
        solver: settings of the integration; automatic steps are one per sample.
        method: `"filter"`, `"fenrir"` or `"dalton"` (by default as the solver says), or `"runge-kutta"`, with the
            solver's number of steps.
    """
    check_kind("model", model, Model, "make one with probsysid.Model(...)")
    check_mapping("values", values, "{'m': 1.0}")
    check_mapping("noise", noise, "{'position': 0.1}")
    check_kind("solver", solver, Solver, "make one with probsysid.Solver(...)")
    check_jax()
    records = checked_records(record)
    initials = checked_initials(initial, len(records))
    solver = solver if method in (None, "runge-kutta") else replace(solver, likelihood=_checked(method))
    solver = solver.for_model(model, process_noise=False)
    integrator: Integrator = RungeKutta() if method == "runge-kutta" else ProbabilisticSolver(solver)
    total: Scalar = jnp.zeros(())
    for each, start in zip(records, initials, strict=True):
        _check_record(model, each)
        particle = _particle(model, values, noise, start, solver)
        sample_filter = integrator.sample_filter(model, each.jump_order)
        total = total + of_particle(sample_filter, particle, integrator.samples(each, sample_filter, solver.steps))
    return total


def _checked(method: Any) -> Any:
    if method not in get_args(LikelihoodMethod):
        hint = did_you_mean(str(method), get_args(LikelihoodMethod))
        raise InputError(f"method is {shown(method)}; it must be 'filter', 'fenrir', 'dalton' or 'runge-kutta'.{hint}")
    return method


def _check_record(model: Model, record: Record) -> None:
    model.check_inputs(record.input_names)
    if not any(name in record.outputs for name in model.output_names):
        listed = ", ".join(record.outputs) or "none"
        raise InputError(
            f"the record has none of the model's outputs ({', '.join(model.output_names)}); it has: {listed}."
        )


def _particle(
    model: Model, values: Mapping[str, Any], noise: Mapping[str, Any], initial: Mapping[str, Any], solver: Solver
) -> Particle:
    """The given numbers, of which any may be traced."""
    names = [DIFFUSION, *(f"{DIFFUSION}.{name}" for name in model.coordinates)]
    model.check_parameters([name for name in values if name not in names], where="values")
    check_initial_names(model, initial)
    for name in model.output_names:
        if name not in noise:
            raise InputError(f"noise has no entry for {name!r}; give its standard deviation.")
    for name in noise:
        if name not in model.output_names:
            hint = did_you_mean(str(name), model.output_names)
            raise InputError(f"noise names {name!r}; the outputs are: {', '.join(model.output_names)}.{hint}")
    numbers = {name: _number(name, value) for name, value in values.items()}
    starts = [_number(name, initial.get(name, 0.0)) for name in model.physical_names]
    return Particle(
        parameters={name: numbers[name] for name in model.parameter_names},
        noise=[_number(f"noise of {name!r}", noise[name]) for name in model.output_names],
        initial_mean=starts,
        initial_sd=[jnp.zeros(()) for _ in starts],
        diffusion=_diffusion(model, numbers, solver),
    )


def _diffusion(model: Model, numbers: Mapping[str, Scalar], solver: Solver) -> list[Scalar] | None:
    given = [name for name in numbers if name == DIFFUSION or name.startswith(f"{DIFFUSION}.")]
    if not isinstance(solver.diffusion, Given):
        if given:
            raise InputError(
                f"values names {given[0]!r}, but the solver's diffusion is {solver.diffusion!r}; take "
                "Solver(diffusion='inferred')."
            )
        return None
    found = []
    for name in model.coordinates:
        own = f"{DIFFUSION}.{name}"
        if own not in numbers and DIFFUSION not in numbers:
            raise InputError(f"the solver's diffusion is 'inferred', but values has neither {own!r} nor {DIFFUSION!r}.")
        found.append(numbers.get(own, numbers.get(DIFFUSION, jnp.zeros(()))))
    return found


def _number(name: str, value: Any) -> Scalar:
    try:
        return jnp.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {shown(value)}; it must be a number.") from None
