"""Cost per sample of each smoothness, at the number of steps that the data need.

python -m validation.smoothness [--problem NAME ...] [--json FILE]

For particles of one posterior, likelihoods with every smoothness and number of steps are compared with those of a fine
Runge-Kutta integration (`loss`: fraction of the effective sample size that the difference would cost), and timed.  The
cases outside the honesty matrix are compared with the filter at its finest level; the Silverbox needs PROBSYSID_DATA.
Set JAX_ENABLE_COMPILATION_CACHE=false to measure compile times.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.benchmarks import silverbox
from probsysid.inference.identify import sample_all
from probsysid.model.noise import default_noise
from probsysid.model.problem import Problem
from probsysid.parallel.default import default_executor
from probsysid.posterior.simulate import simulate
from probsysid.smc import ibis
from probsysid.smc.adaptive_substeps import FINEST, TOLERANCE, LevelEvaluation, first_level, loss
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState
from probsysid.targets.batch_target import BatchTarget
from validation.honesty.problems import PROBLEMS
from validation.honesty.runge_kutta import RungeKuttaTarget

SAMPLER = ps.Sampler(particles=256, islands=1)
BEYOND = (1, 2, 3, 4)
"""Derivatives in the prior beyond the order of the ODE."""
LARGEST = 11
"""Components of the largest state tried: larger programs take minutes to compile."""
LEVELS = range(FINEST)
STEPS = 64
"""Runge-Kutta steps per sample of the record simulated here."""


@dataclass(frozen=True)
class SmoothnessCase:
    """A problem with its data, and the target that counts as exact; None for the filter at its finest level."""

    problem: Problem
    record: ps.Record
    exact: Any = None


def honesty(name: str) -> SmoothnessCase:
    """The first data set of a system of the honesty matrix."""
    problem = PROBLEMS[name]
    record = problem.record(0)
    asked = Problem.make(problem.model, problem.priors, problem.noise, [problem.initial], None)
    return SmoothnessCase(asked, record, RungeKuttaTarget(problem, record, problem.fine))


def silverbox_training() -> SmoothnessCase:
    """The training record of the benchmark, with noise and initial state inferred."""
    study = silverbox.study()
    noise = {"position": default_noise("position", [study.record])}
    problem = Problem.make(study.model, study.priors, noise, [study.initial], None)
    return SmoothnessCase(problem, study.record)


def linear_input() -> SmoothnessCase:
    """A Duffing oscillator at 20 samples per period with a force linear between samples, whose derivatives jump."""
    model = PROBLEMS["duffing"].model
    random = np.random.default_rng(0)
    lines, dt, samples = np.linspace(0.2, 2.5, 40), 0.25, 2000
    angles = dt * np.arange(samples)[:, None] * lines + random.uniform(0, 2 * np.pi, len(lines))
    record = ps.Record(inputs={"force": np.cos(angles).sum(axis=1) / np.sqrt(60)}, dt=dt, intersample="linear")
    truth = {"m": 1.0, "c": 0.2, "k": 1.0, "k3": 0.5}
    values = {name: np.array([value]) for name, value in truth.items()}
    outputs, _, _ = simulate(model, values, np.array([[0.5], [-0.3]]), record, STEPS)
    noisy = outputs["position"][0] + 0.1 * random.standard_normal(samples)
    priors = {name: dist.LogNormal(np.log(value), 0.4) for name, value in truth.items()}
    initial = {"x": dist.Normal(0.0, 1.0), "dx": dist.Normal(0.0, 1.0)}
    problem = Problem.make(model, priors, {"position": dist.LogNormal(-2.1, 0.5)}, [initial], None)
    return SmoothnessCase(problem, record.replace(outputs={"position": noisy}))


CASES: dict[str, Callable[[], SmoothnessCase]] = {
    **{name: lambda name=name: honesty(name) for name in PROBLEMS},  # type: ignore[misc]
    "linear-input": linear_input,
    "silverbox": silverbox_training,
}


def posterior(case: SmoothnessCase) -> IBISState:
    """Particles of the posterior with the default solver."""
    target = BatchTarget(case.problem, ps.Solver(pilot=False), (case.record,), SAMPLER.particles, default_executor())
    run = ibis.start(target, SAMPLER, 0, first_level(target))
    return sample_all(run, History(1), target, SAMPLER, _ignore, _ignore)


def _ignore(*_: Any) -> None:
    """Neither progress nor checkpoints."""


def likelihood(target: Any, theta: Any) -> np.ndarray:
    """Log likelihood of the whole record."""
    _, before, last = target.sweep(theta, target.samples)
    return before - last


def target_with(case: SmoothnessCase, beyond: int) -> BatchTarget:
    """The problem with this number of derivatives beyond the order."""
    smoothness = {name: order + beyond for name, order in case.problem.model.coordinates.items()}
    solver = ps.Solver(smoothness=smoothness)
    return BatchTarget(case.problem, solver, (case.record,), SAMPLER.particles, default_executor())


def measure(case: SmoothnessCase) -> dict[str, Any]:
    """Loss and cost for every smoothness and number of steps."""
    compiling = {beyond: seconds for beyond in BEYOND if (seconds := _compiling(target_with(case, beyond))) is not None}
    run = posterior(case)
    theta = run.flat_theta
    finest = case.exact or target_with(case, 3).at(FINEST)
    exact = likelihood(finest, theta).reshape(run.log_likelihood.shape)
    results = {
        beyond: {
            "seconds to compile": seconds,
            "levels": [_at_level(target_with(case, beyond).at(level), run, exact) for level in LEVELS],
        }
        for beyond, seconds in compiling.items()
    }
    return {"default level": run.level, "samples": case.record.samples, "beyond": results}


def _compiling(target: BatchTarget) -> float | None:
    """Processor seconds of compilation; None if the state is too large."""
    if target.filters[0].ode_filter.layout.size > LARGEST:
        return None
    theta = target.sample_prior(jax.random.key(0), SAMPLER.particles)
    began = time.process_time()
    likelihood(target.at(0), theta)
    return time.process_time() - began


def _at_level(target: BatchTarget, run: IBISState, exact: np.ndarray) -> dict[str, float]:
    likelihood(target, run.flat_theta)  # warm
    began = time.process_time()
    found = likelihood(target, run.flat_theta)
    seconds = time.process_time() - began
    with np.errstate(invalid="ignore"):
        shifted = exact - found.reshape(exact.shape) + run.log_likelihood
    lost = loss(run, LevelEvaluation(None, shifted))
    cost = 1e9 * seconds / (run.log_weights.size * target.samples)
    return {"loss": lost, "seconds": seconds, "nanoseconds per sample": cost}


HEADER = """| beyond the order | compile s | loss at 1, 2, 4, ... steps | ns per sample | cheapest that will do |
|---|---|---|---|---|"""


def table(measured: dict[str, Any]) -> str:
    """A table with one line per smoothness."""
    return "\n".join([HEADER, *(_line(beyond, found) for beyond, found in measured["beyond"].items())])


def _line(beyond: int, found: dict[str, Any]) -> str:
    levels = found["levels"]
    good = [(row["nanoseconds per sample"], 2**i) for i, row in enumerate(levels) if row["loss"] <= TOLERANCE]
    best = f"{min(good)[0]:.0f} ns, {min(good)[1]} steps" if good else "none"
    losses = ", ".join(f"{row['loss']:.2g}" for row in levels)
    costs = ", ".join(f"{row['nanoseconds per sample']:.0f}" for row in levels)
    return f"| {beyond} | {found['seconds to compile']:.1f} | {losses} | {costs} | {best} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation.smoothness", description=__doc__)
    parser.add_argument("--problem", action="append", default=[], choices=list(CASES))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = {}
    for name in given.problem or CASES:
        results[name] = measure(CASES[name]())
        print(
            f"\n{name} (the default took {2 ** results[name]['default level']} steps)\n{table(results[name])}",
            flush=True,
        )
        if given.json:
            given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
