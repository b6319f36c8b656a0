"""Checks that are made of a finished posterior: integration, sources of variance, residuals."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from probsysid._internal.errors import InputError
from probsysid._internal.validation import check_index
from probsysid.parallel.executor import Executor
from probsysid.posterior.diagnostics.advice import find_doubts
from probsysid.posterior.diagnostics.residuals import Residuals, analyse
from probsysid.posterior.diagnostics.solver_check import compare
from probsysid.posterior.diagnostics.variance_decomposition import (
    FINER,
    decompose,
    log_likelihood,
    without_process_noise,
)
from probsysid.posterior.draws import some_draws
from probsysid.posterior.point_states import check_simulated
from probsysid.posterior.summaries import shares_table
from probsysid.targets.batch_target import BatchTarget

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior


def residuals(posterior: "Posterior", output: str | None, record: int) -> Residuals:
    """Whitened one-step prediction errors of an output on a training record."""
    names = posterior.setup.problem.model.output_names
    output = names[0] if output is None else output
    if output not in names:
        raise InputError(f"there is no output {output!r}; the model has: {', '.join(names)}.")
    if not posterior.errors:
        raise InputError("this posterior has no residuals; those of a stream come with checked().")
    check_index("record", record, len(posterior.errors))
    found = analyse(posterior.errors[record][:, names.index(output)])
    if found is None:
        raise InputError(f"{output!r} has too few measured samples on record {record} to judge residuals by.")
    return found


def uncertainty(posterior: "Posterior", executor: Executor) -> pd.DataFrame:
    """Share of each quantity's variance by source."""
    shares = checked(posterior, executor).variance_shares
    assert shares is not None
    return shares_table(shares)


def checked(posterior: "Posterior", executor: Executor) -> "Posterior":
    """The posterior with a verdict on its integration, and the residuals that a stream leaves out."""
    if posterior.variance_shares is not None:
        return posterior
    check_simulated(posterior, "the verdict on the integration")
    if not posterior.records:
        raise InputError("this posterior has no records, which a verdict needs; load it with records=...")
    if not posterior.errors:
        return checked(_with_errors(posterior, executor), executor)
    problem, solver = posterior.setup.problem, posterior.setup.solver
    records, theta = posterior.records, posterior.theta
    steps = solver.steps
    base = log_likelihood(problem, solver, records, theta, executor)
    twice = log_likelihood(problem, replace(solver, substeps=2 * steps), records, theta, executor)
    finest = log_likelihood(problem, replace(solver, substeps=FINER * steps), records, theta, executor)
    differences = {"integration": finest - base}
    if problem.process_noise:
        plain, rest = without_process_noise(problem, theta)
        differences["model error"] = log_likelihood(plain, solver, records, rest, executor) - base
    found = compare(posterior.weights, twice - base, posterior.columns, steps, 2 * steps)
    shares = decompose(theta, posterior.weights, posterior.columns, differences)
    return replace(posterior, check=found, variance_shares=shares.to_dict(orient="index"))


def _with_errors(posterior: "Posterior", executor: Executor) -> "Posterior":
    problem, solver = posterior.setup.problem, posterior.setup.solver
    target = BatchTarget(problem, solver, posterior.records, len(posterior.weights), executor)
    errors = target.one_step_errors(*some_draws(posterior.theta, posterior.weights))
    adequate = posterior.check is None or posterior.check.adequate
    theta, weights = posterior.theta, posterior.weights
    found = find_doubts(errors, problem, posterior.records, theta, weights, fixed_steps=False, adequate=adequate)
    return replace(posterior, errors=errors, doubts=tuple(found))
