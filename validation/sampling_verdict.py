"""`python -m validation.sampling_verdict`: how often is a run called not to be trusted, good ones and bad ones?

Duffing data sets of the honesty study.  Made worse on purpose: too few particles, one move per rejuvenation, and moves
without the proposal ratio.  Whether a run is really bad is decided by a reference, 4096 particles on the same data: a
mean off by more than half a standard deviation, a standard deviation by more than a factor of 1.65, or the log evidence
by more than one.  False alarms are those of runs that are not bad, missed alarms the trust in runs that are.  Besides,
runs on two other systems from which one of two modes was deleted (`deleted_modes.py`).
"""

import sys
import warnings
from functools import cache

import numpy as np

import probsysid as ps
from probsysid.smc.moves import PAPER
from tests.smc.test_ibis import WithoutProposalRatio
from validation import deleted_modes
from validation.honesty.problems import PROBLEMS

RUNS = {
    "1024 particles": (60, ps.Sampler(recover=False, particles=1024)),
    "256 particles": (20, ps.Sampler(recover=False, particles=256)),
    "128 particles": (20, ps.Sampler(recover=False, particles=128)),
    "32 particles": (20, ps.Sampler(recover=False, particles=32)),
    "one move per rejuvenation": (20, ps.Sampler(recover=False, particles=256, max_moves=1)),
    "without the proposal ratio": (20, ps.Sampler(recover=False, particles=1024, move=WithoutProposalRatio(PAPER))),
}
"""Number of data sets, and the sampler."""

REFERENCE = ps.Sampler(recover=False, particles=4096)

DELETED = 20
"""Runs from which a mode is deleted, of each system."""

LARGE = 0.5
"""Error of a mean in standard deviations, and of a log standard deviation, that makes a run bad."""


def posterior(sampler: ps.Sampler, seed: int) -> ps.Posterior | None:
    """None where sampling failed."""
    problem = PROBLEMS["duffing"]
    record = problem.record(seed)
    try:
        return ps.identify(
            problem.model, record, problem.priors, problem.noise, problem.initial, sampler=sampler, seed=seed
        )
    except ps.SamplingError:
        return None


@cache
def reference(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Means, standard deviations and log evidence."""
    found = posterior(REFERENCE, seed)
    assert found is not None and found.sampling is not None and found.sampling.trusted
    return *_moments(found), found.log_evidence


def _moments(found: ps.Posterior) -> tuple[np.ndarray, np.ndarray]:
    values = np.stack(list(found.columns.values()))
    mean = values @ found.weights
    return mean, np.sqrt((values - mean[:, None]) ** 2 @ found.weights)


def is_bad(found: ps.Posterior | None, seed: int) -> bool:
    """Whether a run is really wrong."""
    if found is None:
        return True
    mean, sd, evidence = reference(seed)
    own_mean, own_sd = _moments(found)
    off = np.max(np.abs(own_mean - mean) / sd), np.max(np.abs(np.log(own_sd / sd)))
    return bool(max(off) > LARGE or abs(found.log_evidence - evidence) > 1)


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in names or (*RUNS, *deleted_modes.SYSTEMS):
        if name in deleted_modes.SYSTEMS:
            print(deleted_modes.count(name, DELETED), flush=True)
            continue
        sets, sampler = RUNS[name]
        called, bad = [], []
        for seed in range(sets):
            found = posterior(sampler, seed)
            called.append(found is None or (found.sampling is not None and not found.sampling.trusted))
            bad.append(is_bad(found, seed))
        alarm, really = np.array(called), np.array(bad)
        missed, false = np.sum(really & ~alarm), np.sum(alarm & ~really)
        counts = f"{really.sum()} really bad, {missed} of them missed; {false} alarms for {np.sum(~really)} good ones"
        print(f"{name}: {alarm.sum()} of {sets} not trusted; {counts}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
