"""What one likelihood costs: the filter's, Fenrir's, DALTON's and that of Runge-Kutta steps.

python perf/likelihoods.py [--particles 1024] [--samples 1024] [--substeps 1] [--rounds 5] [--json FILE]

Nanoseconds per particle and integration step on one core, the best of some rounds, and seconds to compile.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import probsysid as ps
from probsysid.model.problem import Problem
from probsysid.parallel.threads import Threads
from probsysid.targets.batch_target import BatchTarget
from validation.honesty.problems import PROBLEMS

METHODS = ("filter", "fenrir", "dalton", "runge-kutta")


def target(name: str, method: str, options: Any) -> BatchTarget:
    """Of the honesty matrix's first data set, repeated or cut to a length."""
    given = PROBLEMS[name]
    record = given.record(0)
    length = np.arange(options.samples) % record.samples
    inputs = {key: np.asarray(values)[length] for key, values in record.inputs.items()}
    outputs = {key: np.asarray(values)[length] for key, values in record.outputs.items()}
    record = ps.Record(inputs, outputs, dt=given.dt, samples=options.samples, intersample="linear")
    problem = Problem.make(given.model, given.priors, given.noise, [given.initial], None)
    likelihood = "filter" if method == "runge-kutta" else method
    solver = ps.Solver("paper", options.substeps, ps.EKF1(), ps.QuasiMLE(), likelihood=likelihood)
    found = BatchTarget(problem, solver, (record,), options.particles, Threads(cores=1))
    return found.with_runge_kutta(options.substeps) if method == "runge-kutta" else found


def measure(name: str, method: str, options: Any) -> dict[str, float]:
    """Best time of a sweep over all samples."""
    found = target(name, method, options)
    theta = np.asarray(found.sample_prior(jax.random.key(0), options.particles))
    seconds = []
    for _ in range(options.rounds + 1):
        began = time.perf_counter()
        found.sweep(theta, found.samples)
        seconds.append(time.perf_counter() - began)
    steps = options.particles * (options.samples - 1) * options.substeps
    best = min(seconds[1:])
    return {"nanoseconds": 1e9 * best / steps, "compile_seconds": seconds[0] - best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", action="append", default=[], choices=list(PROBLEMS))
    parser.add_argument("--particles", type=int, default=1024)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--substeps", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name in options.problem or ("duffing", "bouc-wen"):
        results[name] = {}
        for method in METHODS:
            found = results[name][method] = measure(name, method, options)
            print(
                f"{name:12} {method:12} {found['nanoseconds']:8.1f} ns per particle and step, "
                f"{found['compile_seconds']:5.1f} s to compile",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
