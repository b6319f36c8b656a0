"""`python -m validation.sampling_peers [SEEDS [TARGET ...]]`: our sampler and other libraries' on the hard posteriors.

Means, standard deviations, evidence, likelihood evaluations and processor seconds; writes its part of the page.  The
others run in an environment of their own (`perf/peers_environment.py`), on densities that are checked against ours.
"""

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from perf.peers_environment import peers_python
from probsysid import Sampler
from probsysid._internal.statistics import log_mean_exp
from probsysid.inference.confirm import confirm
from probsysid.smc import ibis
from probsysid.smc.budget import Budget
from validation import sampling_targets
from validation.kept import Kept
from validation.sampling_hard import values
from validation.sampling_page import PEERS, table, write_part
from validation.sampling_targets import HardTarget

HERE = Path(__file__).resolve().parent
WORKER = HERE / "sampling_peers_worker.py"

METHODS = (
    "blackjax, tempered",
    "blackjax, partial posteriors",
    "particles, tempered",
    "dynesty",
    "numpyro NUTS",
    "PINTS, Haario-Bardenet",
)

NAMES = ("four_modes", "banana", "funnel", "frequency", "correlated_gaussian")
"""The wandering posterior, 60 samples one after the other, is about following data: no library but ours does that
without moving after each."""

LONGEST = 900
"""Seconds by the clock that one run may take, on a machine that others use as well."""

KEPT = Kept("peers")


def ours(hard: HardTarget, seed: int) -> dict[str, Any]:
    sampler = Sampler()
    began = time.process_time()
    run = ibis.start(hard.target, sampler, seed)
    while run.samples < hard.target.samples:
        run, _ = ibis.step(run, hard.target, sampler)
    run, _, _ = confirm(run, hard.target, sampler, values, seed, Budget(np.inf))
    theta, weights = run.flat_theta, run.normalised_weights
    mean = theta @ weights
    return {
        "mean": mean.tolist(),
        "sd": np.sqrt((theta - mean[:, None]) ** 2 @ weights).tolist(),
        "log_evidence": float(log_mean_exp(run.evidence_by_population)),
        "evaluations": run.work / hard.target.samples,
        "seconds": time.process_time() - began,
    }


def theirs(python: Path, method: str, name: str, hard: HardTarget, seeds: int) -> list[dict[str, Any]]:
    """The runs that came to an end in time; one process for all seeds, since it takes seconds to start."""
    points = hard.sd[:, None] * np.random.default_rng(0).standard_normal((len(hard.sd), 20))
    given = {**hard.numbers, "points": points.T.tolist(), "dimension": len(hard.mean), "samples": hard.target.samples}
    command = [str(python), str(WORKER), method, name, str(seeds)]
    try:
        answer = subprocess.run(
            command, input=json.dumps(given), capture_output=True, text=True, timeout=LONGEST * seeds, check=True
        ).stdout
    except subprocess.TimeoutExpired as error:
        answer = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
    except subprocess.CalledProcessError as error:
        print(error.stderr[-2000:], flush=True)
        return []
    found = [json.loads(line) for line in answer.splitlines() if line.startswith("{")]
    _, likelihood, energy = hard.target.sweep(points, hard.target.samples)
    for run in found:
        np.testing.assert_allclose(run.pop("check"), likelihood - energy, rtol=1e-6, atol=1e-6)
    return found


def row(method: str, hard: HardTarget, done: list[dict[str, Any]], seeds: int) -> list[str]:
    method = method if len(done) in (0, seeds) else f"{method} ({len(done)} of {seeds} seeds)"
    if not done:
        return [hard.name, method, "no result", "", "", "", ""]
    means = [np.max(np.abs(np.array(run["mean"]) - hard.mean) / hard.sd) for run in done]
    ratios = [np.array(run["sd"]) / hard.sd for run in done]
    worst = [float(ratio[np.argmax(np.abs(np.log(ratio)))]) for ratio in ratios]
    errors = [abs(run["log_evidence"] - hard.log_evidence) for run in done if run["log_evidence"] is not None]
    return [
        hard.name,
        method,
        f"{np.median(means):.2f}",
        f"{np.median(worst):.2f}",
        f"{np.median(errors):.3f}" if errors else "",
        f"{np.median([run['evaluations'] for run in done]) / 1000:.0f}",
        f"{np.median([run['seconds'] for run in done]):.1f}",
    ]


TEXT = """
Written by `python -m validation.sampling_peers {command}`: {runs}the largest error of a mean in standard deviations,
the standard deviation furthest from the right one (as a ratio), and the error of the log evidence. The prior is the
start of all. SMC has 1024 particles; blackjax and particles take 10 moves at every temperature or sample (independence
proposals from a fitted Gaussian; random walks), numpyro four chains of 1000 draws after as many for warm-up, PINTS four
of 6000, dynesty 250 live points that walk 25 steps; a run may take {longest} s by the clock. An evaluation is one of
the likelihood, for NUTS one of likelihood and gradient. Processor seconds are without compiling for PINTS, particles
and dynesty, and with it for the first run of blackjax and NUTS, where it is most of them; these densities cost nothing,
ODE likelihoods do, so that evaluations say more. *No result*: not within that time, beside other work on the machine.

"""
HEAD = ["target", "sampler", "mean error / sd", "sd ratio", "log evidence error", "evaluations, 1000", "CPU s"]


def main(seeds: int = 3, names: Sequence[str] = NAMES) -> None:
    warnings.simplefilter("ignore")
    python, why = peers_python()
    if python is None:
        raise SystemExit(why)
    rows = []
    for name in names:
        hard, place = getattr(sampling_targets, name)(), f"{name}, {seeds}"
        own = [KEPT.get(f"probsysid, {name}, {seed}", partial(ours, hard, seed)) for seed in range(seeds)]
        rows.append(row("probsysid", hard, own, seeds))
        print(rows[-1], flush=True)
        for method in METHODS:
            found = KEPT.get(f"{method}, {place}", partial(theirs, python, method, name, hard, seeds))
            rows.append(row(method, hard, found, seeds))
            print(rows[-1], flush=True)
    command = " ".join([str(seeds), *(names if names != NAMES else ())])
    runs = f"medians over {seeds} seeds of " if seeds > 1 else "of one run, "
    write_part(
        PEERS,
        TEXT.format(command=command, runs=runs, longest=LONGEST) + table(dict(zip(HEAD, r, strict=True)) for r in rows),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, sys.argv[2:] or NAMES)
