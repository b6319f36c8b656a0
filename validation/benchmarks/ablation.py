"""Ablation: the paper's preset with some choices of the default method, and the default with one choice of the paper's.

python -m validation.benchmarks.ablation FILE.json [--particles N]

Silverbox with its whole training record, EMPS with the first part of its own.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from probsysid._internal.errors import SamplingError
from probsysid.benchmarks import emps, silverbox
from probsysid.benchmarks.case import CaseStudy, Method
from probsysid.benchmarks.run import run

PARTICLES = 128
SEEDS = {"silverbox": 3, "emps": 1}
STEPS = 4
"""Substeps of the default method on the Silverbox, in place of the automatic choice, which ends at 4 or 8."""

STROKE = 3600
"""Samples of EMPS: the forward stroke and the start of the return, so that both directions of motion are covered."""

OF_THE_SOLVER = {
    "linearisation": "linearisation",
    "conditioning": "conditioning",
    "steps": "substeps",
    "smoothness": "smoothness",
}
CHOICES = (*OF_THE_SOLVER, "noise", "model error", "start", "sampler")

FIRST: dict[str, tuple[str, ...]] = {"silverbox": (), "emps": ("sampler",)}
"""Default choices given to the paper's preset in every trial: with the paper's sampler, EMPS collapses whatever else is
changed (on 1000 samples with each of the other choices in turn: log evidences of -1.5e8 to -1.4e11, or no particles
left), after a long run."""

TOGETHER = {
    "silverbox": (
        ("noise", "steps"),
        ("noise", "linearisation"),
        ("noise", "sampler"),
        ("noise", "steps", "sampler"),
        ("noise", "linearisation", "sampler"),
        ("noise", "steps", "linearisation", "sampler"),
    ),
    "emps": (("sampler", "model error", "conditioning"),),
}
"""Combinations of default choices given to the paper's preset."""


def take(choices: tuple[str, ...], method: Method, other: Method) -> Method:
    """A method with the named choices replaced by those of another method."""
    for choice in choices:
        if choice in OF_THE_SOLVER:
            name = OF_THE_SOLVER[choice]
            method = replace(method, solver=replace(method.solver, **{name: getattr(other.solver, name)}))
        else:
            name = {"start": "initial", "model error": "process_noise"}.get(choice, choice)
            method = replace(method, **{name: getattr(other, name)})
    return method


def studies() -> list[tuple[CaseStudy, str]]:
    """The ablated cases, each with the test that it is scored on."""
    box, axis = silverbox.study(), emps.study()
    default = box.methods["default"]
    fixed = replace(default, solver=replace(default.solver, substeps=STEPS))
    return [
        (replace(box, methods={**box.methods, "default": fixed}), "arrow"),
        (replace(axis, record=axis.record[:STROKE]), "closed_loop"),
    ]


def trials(study: CaseStudy) -> Iterator[tuple[str, tuple[str, ...], Method]]:
    """Name of the base method, the choices taken from the other one, and the result; only choices that differ."""
    ours, papers = study.methods["default"], study.methods["paper"]
    differ = [choice for choice in CHOICES if _different(choice, ours, papers)]
    single = [(choice,) for choice in differ]
    first = FIRST[study.case]
    added = [first + choice for choice in single if choice[0] not in first]
    for choices in [first, *added, *TOGETHER[study.case]]:
        yield "paper", choices, take(choices, papers, ours)
    for choices in [(), *single]:
        yield "default", choices, take(choices, ours, papers)


def trial(study: CaseStudy, test: str, method: Method, particles: int, seed: int) -> dict[str, Any]:
    """Score and log evidence of one run, or the reason of its failure."""
    protocols = tuple(p for p in study.protocols if p.name == test)
    alone = replace(study, methods={"default": method}, protocols=protocols, fits={})
    try:
        result = run(alone, particles=particles, seed=seed).result
    except SamplingError as error:
        return {"failed": str(error)}
    score = result.test[test]
    return {"rmse": score.rmse_mean, "log_evidence": result.log_evidence, "sweeps": result.sweeps}


def table(rows: Sequence[Mapping[str, Any]], case: str, scale: float, unit: str) -> Iterator[str]:
    """The rows of a case as a Markdown table; a cell has one figure per seed."""
    chosen = [row for row in rows if row["case"] == case]
    yield f"| method | {chosen[0]['test']} [{unit}] | log evidence | sweeps |"
    yield "|---|---|---|---|"
    for row in chosen:
        other = {"paper": "default", "default": "paper"}[row["method"]]
        taken = f" with the {other}'s {_words(row['taken'])}" if row["taken"] else ""
        cells = zip(*(_cells(run, scale) for run in row["runs"]), strict=True)
        yield f"| {row['method']}{taken} | {' | '.join(', '.join(filter(None, cell)) for cell in cells)} |"


def _cells(run: Mapping[str, Any], scale: float) -> tuple[str, str, str]:
    """Test error, log evidence and sweeps of one run."""
    if "failed" in run:
        return "failed", "", ""
    evidence = run["log_evidence"]
    shown = f"{evidence:.0f}" if abs(evidence) < 1e6 else f"{evidence:.0e}"
    return f"{scale * run['rmse']:.3g}", shown, f"{run['sweeps']:.0f}"


def _words(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _different(choice: str, one: Method, other: Method) -> bool:
    changed = take((choice,), one, other)
    return any(getattr(changed, name) != getattr(one, name) for name in vars(one))


def main() -> None:
    """Write a list with one entry per trial."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--particles", type=int, default=PARTICLES)
    parser.add_argument("--case", choices=list(FIRST), help="this one alone; the file keeps what it has of the other")
    options = parser.parse_args()
    chosen = [options.case] if options.case else list(FIRST)
    earlier = json.loads(options.file.read_text()) if options.file.exists() else []
    rows = [row for row in earlier if row["case"] not in chosen]
    for study, test in studies():
        if study.case not in chosen:
            continue
        for name, choices, method in trials(study):
            found = [trial(study, test, method, options.particles, seed) for seed in range(SEEDS[study.case])]
            rows.append({"case": study.case, "test": test, "method": name, "taken": list(choices), "runs": found})
            print(rows[-1], flush=True)
            options.file.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
