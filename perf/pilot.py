"""What certainty costs: `identify` with its defaults against the same sampler on a Runge-Kutta likelihood.

python perf/pilot.py [--problem NAME] [--sets 1,2] [--alone] [--json FILE]

The problems and data sets are those of the honesty study (`validation/honesty/problems.py`).  The Runge-Kutta run has
the fewest steps per sample, of 1, 2, 4, ..., for which importance weights to the study's finest find its posterior
adequate, by the measure that `identify` applies to its own; it does nothing after the last sample.  Processor seconds,
everything compiled before: each run is repeated, and the fastest repetition counts.  With --alone, also runs without a
pilot, which take minutes on the Bouc-Wen oscillator.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import probsysid as ps
from probsysid.posterior.diagnostics.solver_check import compare
from probsysid.smc import ibis
from probsysid.smc.ibis import IBISState
from validation.honesty.problems import PROBLEMS, HonestyProblem
from validation.honesty.runge_kutta import RungeKuttaTarget

REPETITIONS = 3


def fastest(run: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of the fastest repetition after one that compiles, and its result."""
    run()
    found = []
    for _ in range(REPETITIONS):
        began = time.process_time()
        result = run()
        found.append((time.process_time() - began, result))
    return min(found, key=lambda pair: pair[0])


def sampled(target: RungeKuttaTarget, sampler: ps.Sampler) -> IBISState:
    """All samples, and nothing else."""
    run = ibis.start(target, sampler, 0)
    while run.samples < target.samples:
        run, _ = ibis.step(run, target, sampler)
    return run


def adequate(problem: HonestyProblem, record: ps.Record, run: IBISState, steps: int) -> bool:
    """Whether the posterior is, to what matters, that of the finest steps."""
    finest = RungeKuttaTarget(problem, record, problem.fine)
    _, likelihood, energy = finest.sweep(run.flat_theta, record.samples)
    values = {name: np.asarray(value) for name, value in problem.space.values(run.flat_theta).items()}
    ratios = likelihood - energy - run.log_likelihood.ravel()
    return compare(run.normalised_weights, ratios, values, steps, problem.fine).adequate


def measure(problem: HonestyProblem, data_set: int, *, alone: bool) -> dict[str, Any]:
    record, sampler = problem.record(data_set), ps.Sampler()
    steps = 1
    while steps < problem.fine:
        seconds, run = fastest(lambda steps=steps: sampled(RungeKuttaTarget(problem, record, steps), sampler))
        if adequate(problem, record, run, steps):
            break
        steps *= 2

    def certified(**solver: Any) -> ps.Posterior:
        return ps.identify(
            problem.model, record, problem.priors, problem.noise, problem.initial, solver=ps.Solver(**solver)
        )

    default, posterior = fastest(certified)
    return {
        "problem": problem.name,
        "set": data_set,
        "default_seconds": default,
        "without_pilot_seconds": fastest(lambda: certified(pilot=False))[0] if alone else None,
        "runge_kutta_seconds": seconds,
        "runge_kutta_steps": steps,
        "ratio": default / seconds,
        "steps": posterior.check.substeps,
        "trusted": posterior.sampling.trusted,
    }


def show(row: dict[str, Any]) -> None:
    alone = row["without_pilot_seconds"]
    print(
        f"{row['problem']}, set {row['set']}: defaults {row['default_seconds']:.3g} s ({row['steps']} steps), "
        f"Runge-Kutta {row['runge_kutta_seconds']:.3g} s ({row['runge_kutta_steps']} steps), ratio {row['ratio']:.2f}"
        + (f", without a pilot {alone:.3g} s" if alone else ""),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", choices=PROBLEMS, help="one of them; all if not given")
    parser.add_argument("--sets", default="1,2", help="numbers of data sets")
    parser.add_argument("--alone", action="store_true", help="also without a pilot")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX makes a device of each core
    rows = []
    for name in [options.problem] if options.problem else PROBLEMS:
        for data_set in map(int, options.sets.split(",")):
            rows.append(measure(PROBLEMS[name], data_set, alone=options.alone))
            show(rows[-1])
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
