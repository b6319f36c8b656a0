"""`python -m validation.sampling_verdict`: how often is a run called not to be trusted, good ones and bad ones?

Duffing data sets of the honesty study.  Made worse on purpose: too few particles, one move per rejuvenation, and moves
without the proposal ratio.  Whether a run is really bad is decided by a reference, 4096 particles on the same data: a
mean off by more than half a standard deviation, a standard deviation by more than a factor of 1.65, or the log evidence
by more than one.  False alarms are those of runs that are not bad, missed alarms the trust in runs that are.  Besides,
runs on two other systems from which one of two modes was deleted (`deleted_modes.py`), and what the verdict costs.

Writes its part of docs/validation-sampling.md; runs are kept in validation/results.
"""

import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import probsysid as ps
from probsysid.inference import assessment
from probsysid.smc.moves import PAPER
from tests.smc.test_ibis import WithoutProposalRatio
from validation import deleted_modes
from validation.honesty.problems import PROBLEMS
from validation.kept import Kept
from validation.sampling_page import VERDICT, table, write_part

KEPT = Kept("verdict")

GOOD = "all defaults"
RUNS = {
    GOOD: (60, ps.Sampler()),
    "256 particles": (20, ps.Sampler(recover=False, particles=256)),
    "128 particles": (20, ps.Sampler(recover=False, particles=128)),
    "64 particles": (20, ps.Sampler(recover=False, particles=64)),
    "64 particles, all else default": (20, ps.Sampler(particles=64)),
    "32 particles": (20, ps.Sampler(recover=False, particles=32)),
    "32 particles, all else default": (20, ps.Sampler(particles=32)),
    "256 particles, one move per rejuvenation": (20, ps.Sampler(recover=False, particles=256, max_moves=1)),
    "without the proposal ratio": (20, ps.Sampler(recover=False, move=WithoutProposalRatio(PAPER))),
}
"""Number of data sets, and the sampler; without recovery but for those that say default."""

REFERENCE = ps.Sampler(recover=False, particles=4096)
PRICED = 10
"""Data sets on which the price is measured."""

DELETED = 20
"""Runs from which a mode is deleted, of each system."""

LARGE = 0.5
"""Error of a mean in standard deviations, and of a log standard deviation, that makes a run bad."""


@contextmanager
def _metered(seconds: dict[str, float]) -> Iterator[None]:
    """Count the processor seconds of the verdict: fresh draws, and the search for modes."""
    with patch.multiple(
        assessment,
        confirm=_timed(assessment.confirm, "fresh draws", seconds),
        search_lost_modes=_timed(assessment.search_lost_modes, "search for modes", seconds),
    ):
        yield


def _timed(function: Any, name: str, seconds: dict[str, float]) -> Any:
    def timed(*arguments: Any) -> Any:
        began = time.process_time()
        try:
            return function(*arguments)
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.process_time() - began

    return timed


def run(sampler: ps.Sampler, seed: int) -> dict[str, Any]:
    """One run as plain data."""
    problem, seconds = PROBLEMS["duffing"], dict[str, float]()
    record = problem.record(seed)
    began = time.process_time()
    try:
        with _metered(seconds):
            found = ps.identify(
                problem.model, record, problem.priors, problem.noise, problem.initial, sampler=sampler, seed=seed
            )
    except ps.SamplingError as error:
        return {"status": "failed", "words": str(error)}
    seconds["all"] = time.process_time() - began
    mean, sd = _moments(found)
    return {
        "status": found.sampling.status,
        "words": found.sampling_verdict,
        "mean": mean.tolist(),
        "sd": sd.tolist(),
        "log_evidence": found.log_evidence,
        "moved_again": sum(r.sample == record.samples - 1 for r in found.history.rejuvenations),
        "seconds": seconds,
    }


def _moments(found: ps.Posterior) -> tuple[np.ndarray, np.ndarray]:
    values = np.stack(list(found.columns.values()))
    mean = values @ found.weights
    return mean, np.sqrt((values - mean[:, None]) ** 2 @ found.weights)


def is_bad(found: dict[str, Any], reference: dict[str, Any]) -> bool:
    """Whether a run is really wrong."""
    if found["status"] == "failed":
        return True
    mean, sd = np.array(reference["mean"]), np.array(reference["sd"])
    off = np.max(np.abs(np.array(found["mean"]) - mean) / sd), np.max(np.abs(np.log(np.array(found["sd"]) / sd)))
    return bool(max(off) > LARGE or abs(found["log_evidence"] - reference["log_evidence"]) > 1)


def row(name: str) -> dict[str, Any]:
    """How often such runs are called not to be trusted, and how often rightly."""
    sets, sampler = RUNS[name]
    runs = [KEPT.get(f"{name}, {seed}", partial(run, sampler, seed)) for seed in range(sets)]
    alarm = np.array([found["status"] != "trusted" for found in runs])
    # a reference takes four runs: there is one where the verdict may be wrong
    doubtful = alarm if name == GOOD else ~alarm
    bad = alarm.copy()
    for seed in np.flatnonzero(doubtful):
        reference = KEPT.get(f"reference, {seed}", partial(run, REFERENCE, int(seed)))
        assert reference["status"] == "trusted"
        bad[seed] = is_bad(runs[seed], reference)
    return {
        "runs": name,
        "not trusted": f"{alarm.sum()} of {sets}",
        "trusted, and really bad": "" if name == GOOD else int(np.sum(bad & ~alarm)),
        "not trusted, and good": int(np.sum(alarm & ~bad)) if name == GOOD else "",
        "code": ", ".join(sorted({KEPT.code[f"{name}, {seed}"] for seed in range(sets)})),
    }


def price() -> str:
    """Of the verdict, in the default runs."""
    runs = [KEPT.get(f"price, {seed}", partial(run, ps.Sampler(), seed)) for seed in range(PRICED)]
    found = [run["seconds"] for run in runs[1:] if run["status"] != "failed"]
    share = {name: [100 * run[name] / run["all"] for run in found] for name in ("fresh draws", "search for modes")}
    both = np.sum(list(share.values()), axis=0)
    shares = ", ".join(f"{name} {np.median(value):.1f} %" for name, value in share.items())
    return (
        f"What the verdict costs of the processor time of runs with all defaults, after the first of a process: "
        f"{shares}, both {np.median(both):.1f} % (medians; at most {np.max(both):.1f} %). A run takes "
        f"{np.median([run['all'] for run in found]):.2f} s.\n"
    )


TEXT = """
Written by `python -m validation.sampling_verdict`: the Duffing problem of the honesty study. *Really bad* are runs with
a mean off that of 4096 particles by more than half a standard deviation, a standard deviation by more than a factor of
1.65, or the log evidence by more than one; looked at where the verdict may be wrong. Runs whose name does not say
default neither recover nor move again. Rows may be of different commits; those that are missing have not been run.

"""


def main(names: Sequence[str]) -> None:
    """Run some of the rows, by default all, and write what there is."""
    warnings.simplefilter("ignore")
    for name in names or (*RUNS, *deleted_modes.SYSTEMS):
        if name in RUNS:
            print(row(name), flush=True)
        else:
            print(KEPT.get(f"deleted, {name}", partial(deleted_modes.count, name, DELETED)), flush=True)
    rows = [row(name) for name, (sets, _) in RUNS.items() if KEPT.has(f"{name}, {seed}" for seed in range(sets))]
    words = [f"- {KEPT.found[key]}\n" for name in deleted_modes.SYSTEMS if (key := f"deleted, {name}") in KEPT.found]
    write_part(VERDICT, "\n".join([TEXT + table(rows), price(), "".join(words)]))


if __name__ == "__main__":
    main(sys.argv[1:])
