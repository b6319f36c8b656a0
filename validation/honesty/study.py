"""The honesty matrix: problems times likelihoods times steps per sample, on the same data sets with the same sampler.

Truths are drawn from the prior.  Then the z-scores (mean - truth) / sd of an exact posterior have a mean square of
exactly 1, and its intervals have their nominal coverage, however few data there are.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import probsysid as ps
from probsysid._internal.errors import SamplingError
from probsysid.inference.identify import sample_all
from probsysid.posterior.diagnostics.solver_check import refine_until_adequate
from probsysid.smc import ibis, pilot
from probsysid.smc.adaptive_substeps import first_level
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState
from validation.honesty.methods import METHODS, PEERS, SAMPLER
from validation.honesty.problems import PROBLEMS, HonestyProblem
from validation.workers import each

SETS = 20
MORE = {"auto": 3 * SETS, "gold": 3 * SETS}
"""Data sets of the default method and of the gold standard, which need smaller standard errors."""

ALL = METHODS | PEERS

ROUNDS = (5, 10, SETS)
"""Every cell gets this number of data sets before any gets more: an interrupted study is a smaller study."""


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix."""

    problem: HonestyProblem
    method: str
    steps: int

    @property
    def name(self) -> str:
        return f"{self.problem.name}-{self.method}" + (f"-{self.steps}" if self.steps else "")


def cells(problems: Sequence[str] = (), methods: Sequence[str] = ()) -> list[Cell]:
    """All cells, or those of the given problems and methods."""
    return [
        Cell(PROBLEMS[problem], method, steps)
        for problem in problems or PROBLEMS
        for method in methods or METHODS
        for steps in ALL[method][1]
    ]


def identify(target: Any, problem: HonestyProblem, sampler: ps.Sampler, seed: int) -> tuple[IBISState, History]:
    """As `probsysid.identify`, with programs that are compiled already."""
    history = History(sampler.islands)
    run = ibis.start(target, sampler, seed, first_level(target))
    run = sample_all(run, history, target, sampler, _ignore, _ignore)
    run, step = pilot.certify(run, target, sampler)
    history.rejuvenations.extend(step.rejuvenations)
    if target.adaptive:
        run, _, _, more = refine_until_adequate(run, target, sampler, lambda run: values_of(run, target, problem))
        history.rejuvenations.extend(more)
    return run, history


def _ignore(*_: Any) -> None:
    """Neither progress nor checkpoints."""


def values_of(run: IBISState, target: Any, problem: HonestyProblem) -> dict[str, np.ndarray]:
    """Constants of all particles by name; a target with a problem of its own may have further quantities."""
    space = getattr(target, "problem", problem).space
    values = {name: np.asarray(value) for name, value in space.values(run.flat_theta).items()}
    return {name: values[name] for name in problem.typical}


def score(run: IBISState, target: Any, problem: HonestyProblem, index: int) -> dict[str, Any]:
    """Truth, posterior mean and sd, and the fraction of the posterior below the truth, of every quantity."""
    weights = run.normalised_weights
    truth, particles = problem.truth(index), values_of(run, target, problem)
    result = {}
    for name, value in {**particles, **problem.quantities(particles)}.items():
        true = {**truth, **problem.quantities(truth)}[name]
        mean = float(weights @ value)
        sd = float(np.sqrt(weights @ (value - mean) ** 2))
        result[name] = {"truth": true, "mean": mean, "sd": sd, "rank": float(weights @ (value < true))}
    return result


def run_one(cell: Cell, index: int, sampler: ps.Sampler = SAMPLER) -> dict[str, Any]:
    """Run one data set of one cell; losing all particles is a result as well."""
    problem = cell.problem
    began = time.process_time()
    target = ALL[cell.method][0](problem, problem.record(index), cell.steps)
    try:
        run, history = identify(target, problem, sampler, seed=index)
    except SamplingError as error:
        return {"failed": str(error)}
    return {
        "quantities": score(run, target, problem, index),
        "steps": 2**run.level if target.adaptive else target.steps if cell.method == "gold" else cell.steps,
        "sweeps": run.work / sampler.particles / target.samples,
        "cpu seconds": time.process_time() - began,
        "acceptance": float(np.mean([r.acceptance for r in history.rejuvenations])) if history.rejuvenations else 1.0,
        "ess": float(1 / np.sum(run.normalised_weights**2)),
        "lost": run.lost,
    }


def run_named(problem: str, method: str, steps: int, index: int) -> dict[str, Any]:
    """`run_one` by names, for a worker."""
    return run_one(Cell(PROBLEMS[problem], method, steps), index)


def run(
    folder: Path,
    problems: Sequence[str] = (),
    methods: Sequence[str] = (),
    sets: int | None = None,
    seed: int = 0,
    again: bool = False,
    cluster: ps.Cluster | None = None,
) -> None:
    """Run the data sets of the cells; those in the folder are repeated only with `again`."""
    chosen = cells(problems, methods)
    everything = [(cell, 1000 * seed + index) for cell, index in _order(chosen, sets)]
    if again:
        for cell, index in everything:
            _path(folder, cell, index).unlink(missing_ok=True)
    work = [(cell, index) for cell, index in everything if not _path(folder, cell, index).exists()]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("honesty", total=len(work))
        calls = [(cell.problem.name, cell.method, cell.steps, index) for cell, index in work]
        for place, result in each(run_named, calls, cluster):
            cell, index = work[place]
            _write(_path(folder, cell, index), result)
            progress.update(task, description=f"{cell.name}, data set {index}", advance=1)


def _order(chosen: Sequence[Cell], sets: int | None) -> Iterator[tuple[Cell, int]]:
    """A few data sets of every cell first, then more."""
    wanted = {cell: MORE.get(cell.method, SETS) if sets is None else sets for cell in chosen}
    first = 0
    for last in sorted({*ROUNDS, *wanted.values()}):
        for cell in chosen:
            yield from ((cell, index) for index in range(first, min(last, wanted[cell])))
        first = last


def _path(folder: Path, cell: Cell, index: int) -> Path:
    return folder / cell.name / f"{index:04d}.json"


def _write(path: Path, result: dict[str, Any]) -> None:
    """Write a result atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {**result, "date": time.strftime("%Y-%m-%d"), "version": ps.__version__}
    path.with_suffix(".partial").write_text(json.dumps(facts))
    path.with_suffix(".partial").rename(path)


def read(folder: Path, cell: Cell) -> dict[int, dict[str, Any]]:
    """The results of a cell by data set."""
    return {int(path.stem): json.loads(path.read_text()) for path in sorted((folder / cell.name).glob("*.json"))}
