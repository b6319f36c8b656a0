"""A whole identification against other samplers, at equal quality of the posterior.

python perf/end_to_end.py [--json FILE] [--particles N] [--samples T] [--peer NAME ...]

One Duffing record (`methods/duffing.py`) and the same priors for all.  Every method runs in separate processes
(`methods/with_*.py`, whose first lines say how it was set up) and hands over its draws; effective sample sizes and
agreement with a reference are computed here, in the same way for all (`effective.py`).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from effective import Reference, agreement, effective, moments, of_weights
from peers_environment import peers_python

METHODS = Path(__file__).resolve().parent / "methods"
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
FEW, DRAWS = 256, 4096
"""Particles of the run that is refined afterwards, and the number of new draws."""
LIMIT = 900.0
"""Time limit of a method, in seconds."""


@dataclass(frozen=True)
class Method:
    """A script of `methods/`, and how it is run."""

    label: str
    script: str
    particles: bool = False
    """Whether it takes a number of particles."""
    copies: bool = False
    """Whether it uses one core, so that one copy runs on each, with its own seed."""


PEERS = {
    "numpyro": Method("numpyro NUTS, Runge-Kutta in JAX", "with_numpyro.py", copies=True),
    "blackjax": Method("blackjax tempered SMC, Runge-Kutta in JAX", "with_blackjax.py", particles=True, copies=True),
    "particles": Method("particles IBIS, Runge-Kutta in numba", "with_particles.py", particles=True),
    "pints": Method("PINTS adaptive Metropolis, Runge-Kutta in numba", "with_pints.py"),
}
OURS = Method("probsysid", "with_probsysid.py", particles=True)
REFERENCE = Method("reference", "reference.py")


@dataclass(frozen=True)
class Outcome:
    """The results of one method, copies combined."""

    facts: dict[str, Any]
    draws: np.ndarray
    weights: np.ndarray | None

    @property
    def runs(self) -> int:
        """Independent runs of a population; chains count as one run together."""
        return len(self.draws) if self.facts["kind"] == "smc" else 1

    def spent(self, phases: Sequence[str], which: str) -> float:
        return sum(self.facts["phases"].get(phase, {}).get(which, 0.0) for phase in phases)


class Failed(Exception):
    """A method that gave no result."""


def run(method: Method, python: Path, options: Sequence[str], folder: Path, environment: dict[str, str]) -> Outcome:
    """Run a method, one copy per core if it uses only one."""
    copies = len(CORES) if method.copies else 1
    children = []
    for copy in range(copies):
        out = folder / f"{method.script}.{copy}.npz"
        own = [*options, "--seed", str(copy)] if method.copies else list(options)
        bind = (lambda core=CORES[copy]: os.sched_setaffinity(0, {core})) if method.copies and len(CORES) > 1 else None
        child = subprocess.Popen(
            [str(python), str(METHODS / method.script), str(out), *own],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=bind,
        )
        children.append((child, out))
    return joined([_answer(child, out) for child, out in children])


def _answer(child: "subprocess.Popen[str]", out: Path) -> Outcome:
    try:
        said, complained = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()
        raise Failed(f"it took more than {LIMIT:.0f} seconds") from None
    if child.returncode:
        raise Failed((complained.strip().splitlines() or [f"exit code {child.returncode}"])[-1])
    with np.load(out) as arrays:
        weights = arrays.get("weights")
        return Outcome(json.loads(said.strip().splitlines()[-1]), arrays["draws"], weights)


def joined(parts: Sequence[Outcome]) -> Outcome:
    """Copies that ran in parallel: wall time is that of the slowest, processor time the sum."""
    first = parts[0]
    phases = {
        name: {
            "seconds": max(part.facts["phases"][name]["seconds"] for part in parts),
            "processor_seconds": sum(part.facts["phases"][name]["processor_seconds"] for part in parts),
        }
        for name in first.facts["phases"]
    }
    evidence = None if first.facts["log_evidence"] is None else [e for p in parts for e in p.facts["log_evidence"]]
    facts = {**first.facts, "phases": phases, "log_evidence": evidence}
    if len(parts) > 1:  # every copy compiles the same program; a user would compile once
        facts["phases"]["compile"]["processor_seconds"] /= len(parts)
    weights = None if first.weights is None else np.concatenate([part.weights for part in parts])
    return Outcome(facts, np.concatenate([part.draws for part in parts]), weights)


def row(outcome: Outcome, reference: Reference, log_evidence: float) -> dict[str, Any]:
    """The figures of one method, for one run: seconds, effective samples, evidence, agreement."""
    weights = outcome.weights
    by_figure = effective(outcome.draws, weights, reference, outcome.facts["kind"])
    if weights is not None and not outcome.facts.get("balanced"):
        # by chance, means over a few runs may lie closer together than weights of independent draws allow
        by_figure = {name: min(value, of_weights(weights)) for name, value in by_figure.items()}
    least = min(by_figure.values())
    figures: dict[str, Any] = {"kind": outcome.facts["kind"], "runs": outcome.runs, "effective": least}
    figures["effective_for"] = by_figure
    timed = outcome.runs - (1 if "first" in outcome.facts["phases"] else 0)
    for which in ("seconds", "processor_seconds"):
        figures[which] = outcome.spent(("warm_up", "run"), which) / max(timed, 1)
        figures[f"compile_{which}"] = outcome.spent(("compile",), which)
        figures[f"{which}_per_effective"] = figures[which] / least
    evidence = outcome.facts["log_evidence"]
    if evidence is not None:
        spread = float(np.std(evidence, ddof=1)) if len(evidence) > 1 else None
        off = float(np.mean(evidence)) - log_evidence
        figures |= {"log_evidence": float(np.mean(evidence)), "log_evidence_sd": spread, "log_evidence_off": off}
    figures |= agreement(moments(outcome.draws, weights), reference)
    extra = ("sweeps", "temperatures", "leapfrogs_per_draw", "solver", "verdict")
    return figures | {name: outcome.facts[name] for name in extra if name in outcome.facts}


def ours(folder: Path, options: Sequence[str]) -> tuple[Outcome, dict[str, Any]]:
    """Many runs in a process with cached programs, and the cost of the very first run, which compiles."""
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder / "programs")}
    python = Path(sys.executable)
    alone = run(OURS, python, [*options, "--runs", "1"], folder, environment).facts["phases"]["first"]
    outcome = run(OURS, python, options, folder, environment)
    return outcome, {"first_process": alone, "next_process": outcome.facts["phases"]["first"]}


def measure(samples: int, particles: int, peers: Sequence[str]) -> dict[str, Any]:
    common = ["--samples", str(samples)]
    result: dict[str, Any] = {"samples": samples, "particles": particles, "methods": {}, "missing": {}}
    result |= {"few": FEW, "draws": DRAWS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _say("reference")
        exact = run(REFERENCE, Path(sys.executable), common, folder, dict(os.environ))
        reference = Reference.of(exact.draws, exact.weights)
        (log_evidence,) = exact.facts["log_evidence"]
        result["reference"] = {
            "mean": list(reference.mean),
            "sd": list(reference.sd),
            "log_evidence": log_evidence,
            **{key: exact.facts[key] for key in ("log_evidence_error", "effective", "phases")},
        }
        for name, own in (
            ("probsysid", ["--particles", str(particles)]),
            ("refined", ["--particles", str(FEW), "--draws", str(DRAWS)]),
        ):
            _say(f"{OURS.label} {' '.join(own)}")
            outcome, waits = ours(folder, [*common, *own])
            figures = row(outcome, reference, log_evidence)
            for which in ("seconds", "processor_seconds"):
                figures[f"compile_{which}"] = max(waits["first_process"][which] - figures[which], 0.0)
            result["methods"][name] = figures | waits
        result["versions"] = {"python": platform.python_version(), "numpy": np.__version__, **outcome.facts["versions"]}
        python, reason = peers_python() if peers else (None, "")
        for peer in peers:
            method = PEERS[peer]
            _say(method.label)
            try:
                if python is None:
                    raise Failed(f"the other libraries cannot be installed: {reason}")
                own = [*common, "--particles", str(particles)] if method.particles else common
                outcome = run(method, python, own, folder, dict(os.environ))
                result["methods"][peer] = row(outcome, reference, log_evidence)
                result["versions"] |= {k: v for k, v in outcome.facts["versions"].items() if k != "jax"}
            except (Failed, KeyError, ValueError) as failure:  # a failing peer must not prevent the others' figures
                result["methods"][peer], result["missing"][peer] = None, f"No figures for {peer}: {failure}."
                print(result["missing"][peer], flush=True)
    result["best_peer_over_ours"] = best_over_ours(result["methods"])
    return result | {"made": time.strftime("%Y-%m-%d"), "cores": len(CORES)}


def best_over_ours(methods: dict[str, Any]) -> dict[str, Any]:
    """The fastest peer whose posterior agrees, and its cost of an effective sample over ours, refined: above 1 ours is
    less.  And the same by what the samples are for, each time with the peer that is best at it."""
    result: dict[str, Any] = {}
    agreeing = {name: methods[name] for name in PEERS if methods.get(name) and methods[name]["agrees"]}
    for which in ("seconds", "processor_seconds"):
        costs = {name: own[which] / own["effective"] for name, own in agreeing.items()}
        ours = methods["refined"][which] / methods["refined"]["effective"]
        result[f"{which}_per_effective"] = _cheapest(costs, ours)
    for figure, effective_here in methods["refined"]["effective_for"].items():
        costs = {name: own["processor_seconds"] / own["effective_for"][figure] for name, own in agreeing.items()}
        result[figure] = _cheapest(costs, methods["refined"]["processor_seconds"] / effective_here)
    return result


def _cheapest(costs: dict[str, float], ours: float) -> dict[str, Any]:
    best = min(costs, key=costs.__getitem__, default=None)
    return {"peer": best, "ratio": None if best is None else costs[best] / ours}


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def show(result: dict[str, Any]) -> None:
    columns = ("seconds", "processor_seconds", "compile_seconds", "effective", "seconds_per_effective")
    columns += ("processor_seconds_per_effective", "log_evidence_off", "log_evidence_sd", "mean_shift", "sd_ratio")
    short = [c.replace("_per_effective", "/eff").replace("processor", "cpu") for c in columns]
    print(" " * 12 + "".join(f"{name:>18s}" for name in short))
    for name, figures in result["methods"].items():
        cells = [None if figures is None else figures.get(c) for c in columns]
        text = "".join(f"{'-':>18s}" if cell is None else f"{cell:18.4g}" for cell in cells)
        doubt = "" if figures is None or figures["agrees"] else "  does not agree with the reference"
        print(f"{name:12s}{text}{doubt}")
    print(result["best_peer_over_ours"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--particles", type=int, default=1024)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--peer", action="append", choices=[*PEERS, "none"], help="all by default; none for ours alone")
    given = parser.parse_args()
    peers = [name for name in given.peer or PEERS if name != "none"]
    result = measure(given.samples, given.particles, peers)
    show(result)
    if given.json:
        given.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
