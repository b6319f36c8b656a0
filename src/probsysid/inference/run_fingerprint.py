"""The fingerprint of a run: a checkpoint is resumed only by the run that wrote it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpyro.distributions as dist

from probsysid.data.record import Record
from probsysid.inference.argument_checks import Method
from probsysid.model.fingerprint import describe_prior, exact_numbers, fingerprint, model_program
from probsysid.model.noise import forms, quantities
from probsysid.model.priors import Prior
from probsysid.model.problem import Problem
from probsysid.odefilter.solver import Solver
from probsysid.smc.options import Sampler


def problem_fingerprint(problem: Problem, solver: Solver, sampler: Sampler, seed: int, *data: Any) -> str:
    """A text that changes whenever the same seed would give other numbers."""
    given: dict[Any, Prior] = {**problem.priors, **quantities(problem.noise)}
    given |= {f"process_noise.{k}": v for k, v in problem.process_noise.items()}
    given |= {f"{k}.spread": v for k, v in problem.varies.items() if not isinstance(v, str)}
    for r, initial in enumerate(problem.initials):
        given |= {f"initial[{r}].{k}": v for k, v in initial.items()}
    words = [f"{k}: {describe_prior(v) if isinstance(v, dist.Distribution) else repr(v)}" for k, v in given.items()]
    words += [f"noise of {k}: {form}" for k, form in forms(problem.noise).items()]
    words += [f"{k}: {v}" for k, v in problem.varies.items() if isinstance(v, str)]
    words += [repr((process, problem.latent.measured)) for process in problem.latent.processes]
    settings = (repr(solver), repr(replace(sampler, recover=True, budget=1.0, seconds=None)), str(seed))
    numbers = exact_numbers(list(given.values()))
    return fingerprint(model_program(problem.model), "\n".join(words), *settings, numbers, *data)


def run_fingerprint(
    problem: Problem, records: Sequence[Record], solver: Solver, sampler: Sampler, method: Method, seed: int
) -> str:
    """A text that changes whenever the posterior of a whole run would."""
    numbers = [[record.time, dict(record.inputs), dict(record.outputs)] for record in records]
    between = [sorted((k, type(v).__name__) for k, v in dict(r.intersample).items()) for r in records]
    return problem_fingerprint(problem, solver, sampler, seed, repr((sampler, method, between)), *numbers)
