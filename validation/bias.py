"""Biases of order 1 / N over many runs on conjugate problems, and a check of the reported evidence error.

A run's estimates of mean, covariance and evidence are compared with the closed form after every sample; the average
difference over 200 runs is the bias.  The reported error of the evidence is compared with its true error.
"""

from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import probsysid as ps
from probsysid.smc.evidence import evidence_error
from tests.smc.conjugate import Rate, Regression, estimate

RUNS = 200
PROBLEMS = {"regression": Regression.simulated(samples=24), "rate": Rate.simulated()}
SAMPLERS = {
    "default, 4 x 128": ps.Sampler(particles=512),
    "default, 4 x 512": ps.Sampler(particles=2048),
    "gaussian, 4 x 128": ps.Sampler(particles=512, move="gaussian"),
    "random-walk, 4 x 128": ps.Sampler(particles=512, move="random-walk"),
    "mixture, 4 x 128": ps.Sampler(particles=512, move="mixture"),
}


def bias(problem: Any, sampler: ps.Sampler, runs: int) -> dict[str, float]:
    """In units of the exact posterior, worst and root mean square over samples."""
    exact = problem.exact
    found = [estimate(problem, sampler, seed) for seed in range(1000, 1000 + runs)]
    roots = np.linalg.inv(np.linalg.cholesky(exact.covariance))
    means = np.einsum("tij,rtj->rti", roots, np.array([run.mean for run in found]) - exact.mean)
    covariances = np.einsum("tij,rtjk,tlk->rtil", roots, np.array([run.covariance for run in found]), roots)
    variances = np.einsum("rtii->rti", covariances)
    by_island = np.array([run.by_island for run in found])
    relative = np.exp(by_island - exact.log_evidence[:, None])
    true = np.mean((relative[:, -1].mean(axis=-1) - 1) ** 2)
    reported = np.mean([evidence_error(row) ** 2 for row in by_island[:, -1]])
    return {
        "mean": float(np.abs(means.mean(axis=0)).max()),
        "variance": float((variances.mean(axis=0) - 1).mean()),
        "evidence": float(relative[:, -1].mean()),
        "one standard error of the mean": float(np.sqrt(means.var(axis=0).mean() / runs)),
        "one standard error of the variance": float(np.sqrt(variances.var(axis=0).mean() / runs)),
        "true over reported error": float(np.sqrt(true / reported)),
    }


def run(folder: Path, runs: int = RUNS) -> dict[str, Any]:
    cases = [(p, s) for p in PROBLEMS for s in SAMPLERS]
    return {
        f"{p}, {s}": bias(PROBLEMS[p], SAMPLERS[s], runs if "mixture" not in s else runs // 2)
        for p, s in track(cases, description="bias")
    }
