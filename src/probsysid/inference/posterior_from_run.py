"""From a finished sampler run to the posterior that users see."""

import time as clock
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from probsysid._version import __version__
from probsysid.data.record import Record
from probsysid.model.components import derivative_name
from probsysid.model.noise import forms, is_coloured
from probsysid.model.problem import Problem
from probsysid.odefilter.solver import Solver
from probsysid.posterior.diagnostics.solver_check import at_level
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.settings import RunSettings, Setup
from probsysid.posterior.summaries import prior_descriptions
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState
from probsysid.smc.options import Sampler


def posterior_from_run(
    run: IBISState,
    history: History,
    problem: Problem,
    solver: Solver,
    records: tuple[Record, ...],
    sampler: Sampler,
    seconds: float,
) -> Posterior:
    """The posterior at the present state of a run."""
    automatic = solver.substeps == "auto"
    solver = at_level(solver, run.level) if automatic else solver
    if solver.particle_filter is not None:
        points = solver.particle_filter
        solver = replace(solver, particle_filter=replace(points, particles=points.points(run.level)))
    samples = sum(record.samples for record in records) or run.samples
    particles = int(run.normalised_weights.size)
    settings = RunSettings(
        version=__version__,
        created=clock.strftime("%Y-%m-%dT%H:%M:%S"),
        model=problem.model.name,
        particles=particles,
        samples=run.samples,
        sweeps=run.work / particles / max(samples, 1),
        lost=run.lost,
        solver=repr(solver),
        sampler=repr(sampler),
        seed=run.seed,
        islands=sampler.islands,
        ess_threshold=sampler.ess,
        seconds=seconds,
        priors=prior_descriptions(problem),
        units=_units(problem, records),
        substeps=solver.steps,
        steps_chosen=automatic,
    )
    values = {name: np.asarray(v) for name, v in problem.space.values(run.flat_theta).items()}
    return Posterior(
        values=values,
        theta=run.flat_theta,
        weights=run.normalised_weights,
        evidence_by_population=run.evidence_by_population,
        history=history,
        settings=settings,
        setup=Setup((problem, solver)),
        records=records,
        shared_error=run.shared_error,
    )


def _units(problem: Problem, records: Sequence[Record]) -> dict[str, str]:
    """Units of parameters, initial values and noise levels by name; a relative spread has none."""
    model = problem.model
    units = {**model.units}
    for varying in problem.space.varying:
        if not varying.relative and varying.name in units:
            units[varying.spread_name] = units[varying.name]
    for name, order in model.coordinates.items():
        for derivative in range(order if name in model.units else 0):
            unit = model.units[name] + ("" if derivative == 0 else "/s" if derivative == 1 else f"/s^{derivative}")
            component = derivative_name(name, derivative)
            units |= {problem.initial_name(r, component): unit for r in range(len(problem.initials))}
    for name, order in model.coordinates.items():
        if name in model.units:
            units[f"process_noise.{name}"] = f"{model.units[name]}/s^{order - 0.5:g}"
    for record in records:
        units |= {f"noise.{name}": unit for name, unit in record.units.items() if name in model.output_names}
    units |= {f"noise.{name}": "" for name, form in forms(problem.noise).items() if form.log}
    units |= {f"noise.{name}.time": "s" for name, noise in problem.noise.items() if is_coloured(noise)}
    return units
