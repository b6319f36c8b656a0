"""Runs from which a mode was deleted, from all populations: what the verdict is meant to see and populations cannot.

A run samples the whole posterior; its particles in one mode are kept, as many copies as make up the number again, and
its evidence is that mode's.  The checks are those of `identify`.  Two systems: the gain b^2 of a first-order system,
whose sign of b nobody can know, and the frequency of a free oscillation with its alias.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import probsysid as ps
from probsysid.inference.confirm import confirm
from probsysid.inference.mode_search import search_lost_modes
from probsysid.parallel.default import default_executor
from probsysid.posterior.diagnostics.sampling_check import SamplingCheck
from probsysid.posterior.draws import scalars
from probsysid.posterior.simulate import simulate
from probsysid.smc.budget import Budget
from probsysid.smc.ibis import IBISState
from probsysid.smc.resampling import Systematic
from probsysid.targets.batch_target import BatchTarget

SAMPLER = ps.Sampler(recover=False, particles=1024)


@dataclass(frozen=True, eq=False)
class TwoModes:
    """A system whose posterior has two modes."""

    model: ps.Model
    priors: Mapping[str, Any]
    noise: float
    initial: Mapping[str, float]
    solver: ps.Solver
    record: Callable[[int], ps.Record]
    kept: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    """Whether particles are in the mode that is kept."""


GAIN = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a * (p.b**2 * u.u - s.x)})


def _gain_record(seed: int) -> ps.Record:
    random = np.random.default_rng([41, seed])
    inputs = ps.Record({"u": np.repeat(random.standard_normal(10), 8)}, dt=0.1)
    outputs, _, _ = simulate(GAIN, {"a": np.array([1.0]), "b": np.array([1.5])}, np.zeros((1, 1)), inputs)
    return inputs.replace(outputs={"x": outputs["x"][0] + 0.05 * random.standard_normal(inputs.samples)})


def _wave_record(seed: int) -> ps.Record:
    random = np.random.default_rng([42, seed])
    return ps.Record({}, {"x": np.cos(2.0 * np.arange(40.0)) + 0.1 * random.standard_normal(40)}, dt=1.0)


SYSTEMS = {
    "gain b^2": TwoModes(
        GAIN,
        {"a": ps.dist.LogNormal(0.0, 1.0), "b": ps.dist.Normal(0.0, 2.0)},
        0.05,
        {"x": 0.0},
        ps.Solver(substeps=1),
        _gain_record,
        lambda values: values["b"] > 0,
    ),
    "frequency and alias": TwoModes(
        ps.Model({"x": 2}, lambda s, u, p: {"x": -(p.w**2) * s.x}),
        {"w": ps.dist.Uniform(0.5, 6.0)},
        0.1,
        {"x": 1.0, "dx": 0.0},
        ps.Solver(substeps=16),
        _wave_record,
        lambda values: values["w"] < np.pi,
    ),
}


def whole(system: TwoModes, seed: int) -> ps.Posterior:
    """A run that has both modes."""
    return ps.identify(
        system.model,
        system.record(seed),
        system.priors,
        {"x": system.noise},
        system.initial,
        solver=system.solver,
        sampler=SAMPLER,
        seed=seed,
    )


def verdict_without(system: TwoModes, posterior: ps.Posterior, seed: int) -> SamplingCheck:
    """The verdict on the run with one of its modes deleted."""
    solver, problem = posterior.setup.solver, posterior.setup.problem
    target = BatchTarget(problem, solver, posterior.records, SAMPLER.particles, default_executor())
    kept = posterior.weights * system.kept(posterior.columns)
    share = float(kept.sum())
    chosen = Systematic()(np.random.default_rng(seed), kept / share, SAMPLER.particles)
    # copies are dealt out: each population gets some of every part of the mode
    theta = posterior.theta[:, np.random.default_rng([seed, 1]).permutation(chosen)]
    shape = (SAMPLER.populations, SAMPLER.population_size)
    _, likelihood, energy = target.sweep(theta, target.samples)
    run = IBISState(
        samples=target.samples,
        theta=theta.reshape(len(theta), *shape),
        state=None,
        log_weights=np.zeros(shape),
        log_likelihood=(likelihood - energy).reshape(shape),
        base_evidence=posterior.evidence_by_population + np.log(share),
        seed=seed,
        islands=SAMPLER.islands,
        work=posterior.settings.sweeps * SAMPLER.particles * target.samples,
    )

    def values(theta: np.ndarray) -> dict[str, np.ndarray]:
        return scalars({name: np.asarray(value) for name, value in problem.space.values(theta).items()})

    run, found, _ = confirm(run, target, SAMPLER, values, seed, Budget(np.inf))
    effective = float(np.median(list(found.ess.values())))
    evidence = float(posterior.log_evidence + np.log(share))
    return replace(found, modes=search_lost_modes(run, target, evidence, effective, seed))


def count(name: str, runs: int) -> str:
    """How many of the runs with a deleted mode, and how many of the whole ones, are called not to be trusted."""
    system, alarms, false, by_search = SYSTEMS[name], 0, 0, 0
    for seed in range(runs):
        posterior = whole(system, seed)
        assert posterior.sampling is not None
        false += not posterior.sampling.trusted
        found = verdict_without(system, posterior, seed)
        alarms += not found.trusted
        by_search += bool(found.modes and found.modes.lost)
    return (
        f"a mode of the {name} deleted: {alarms} of {runs} not trusted ({by_search} by the search for modes), "
        f"{runs - alarms} missed; whole runs: {false} of {runs} not trusted"
    )
