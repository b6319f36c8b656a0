"""Decomposition of posterior variance by source: measurement noise, integration error, model error.

The share of a source is the variance that would vanish without it.  Without integration error means integrated so
finely that none is left, without model error means without process noise.  The log likelihood is computed for
all particles both ways; the curvature of the difference, found by regression, is the information that the source costs.
This needs the width of the other posterior and not its location, so it works where the two lie far apart, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from probsysid._internal.statistics import ess_of_weights
from probsysid.data.record import Record
from probsysid.model.problem import Problem
from probsysid.odefilter.solver import Solver
from probsysid.parallel.executor import Executor
from probsysid.smc.proposals import cholesky, moments
from probsysid.targets.batch_target import BatchTarget

FINER = 4
"""Factor on the number of integration steps that counts as free of integration error."""

FEWEST = 2
"""Effective particles per coefficient of the regression; with fewer the shares are NaN."""

Difference = Float[np.ndarray, " particle"]


def decompose(
    theta: Float[np.ndarray, "dimension particle"],
    weights: Float[np.ndarray, " particle"],
    values: Mapping[str, Float[np.ndarray, " particle"]],
    differences: Mapping[str, Difference],
) -> pd.DataFrame:
    """Shares of each quantity's variance, one column per source; the rest is noise.

    `differences` holds, for a source, the log likelihood without it minus that with it.  NaN where there are too few
    particles.
    """
    kept = (weights > 0) & np.all([np.isfinite(d) for d in differences.values()], axis=0)
    if kept.sum() <= len(theta):
        unknown = pd.DataFrame(np.nan, index=list(values), columns=["noise", *differences])
        return unknown.rename_axis("parameter")
    weights = weights[kept] / weights[kept].sum()
    mean, covariance = moments(theta[:, kept], weights)
    white = np.linalg.solve(cholesky(covariance), theta[:, kept] - mean[:, None])
    precisions = {name: np.eye(len(white)) - curvature(white, weights, d[kept]) for name, d in differences.items()}
    shares = {
        name: {source: _share(white, weights, value[kept], p) for source, p in precisions.items()}
        for name, value in values.items()
    }
    table = pd.DataFrame.from_dict(shares, orient="index", columns=list(differences))
    total = table.sum(axis=1, skipna=False)
    table = table.div(total.clip(lower=1.0), axis=0)
    table.insert(0, "noise", (1 - total).clip(lower=0.0))
    table.index.name = "parameter"
    return table


def coefficients(dimension: int) -> int:
    """Of a quadratic function."""
    return 1 + dimension + dimension * (dimension + 1) // 2


def curvature(
    white: Float[np.ndarray, "dimension particle"], weights: Float[np.ndarray, " particle"], values: Difference
) -> Float[np.ndarray, "dimension dimension"]:
    """Matrix of second derivatives of a function of the whitened coordinates, by weighted quadratic regression."""
    dimension = len(white)
    rows, columns = np.triu_indices(dimension)
    products = white[rows] * white[columns] * np.where(rows == columns, 0.5, 1.0)[:, None]
    design = np.concatenate([np.ones((1, white.shape[1])), white, products])
    if ess_of_weights(weights) < FEWEST * len(design):
        return np.full((dimension, dimension), np.nan)
    root = np.sqrt(weights)
    solution = np.linalg.lstsq((design * root).T, values * root, rcond=None)[0]
    result = np.zeros((dimension, dimension))
    result[rows, columns] = result[columns, rows] = solution[1 + dimension :]
    return result


def _share(white: np.ndarray, weights: np.ndarray, value: np.ndarray, precision: np.ndarray) -> float:
    """Fraction of a quantity's variance that vanishes when the whitened precision grows from one to this."""
    if not np.all(np.isfinite(precision)):
        return float("nan")
    slope = (white * weights) @ (value - weights @ value)
    scales, directions = np.linalg.eigh(precision)
    along = directions.T @ slope
    return float(np.clip(1 - np.sum(along**2 / np.maximum(scales, 1.0)) / np.sum(along**2), 0.0, 1.0))


def log_likelihood(
    problem: Problem,
    solver: Solver,
    records: Sequence[Record],
    theta: Float[np.ndarray, "dimension particle"],
    executor: Executor,
) -> Difference:
    """Log likelihood of all samples, for each particle."""
    target = BatchTarget(problem, solver, records, theta.shape[1], executor)
    _, likelihood, energy = target.sweep(theta, target.samples)
    return likelihood - energy


def without_process_noise(problem: Problem, theta: np.ndarray) -> tuple[Problem, np.ndarray]:
    """The same problem without process noise, and the particles without its coordinates."""
    rows = [
        row
        for site in problem.space.sites
        if not str(site.name).startswith("process_noise.")
        for row in range(site.start, site.start + site.size)
    ]
    return replace(problem, process_noise={}), theta[rows]
