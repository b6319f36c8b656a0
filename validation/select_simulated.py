"""`python -m validation.select_simulated [--sets N] [--peers]`: are the true terms found on a menu of twenty?

Three oscillators with two nonlinear terms each, 500 positions with noise of 1 and 10 %.  With `--peers` pysindy gets
the same data and the same functions, once with positions and velocities, once with positions only; it runs in an
environment of its own, made from `validation/requirements-pysindy.txt`.  Writes docs/validation-select.md; results of
single sets are kept, so that more sets are added to those that are there.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.posterior.simulate import simulate
from validation.kept import Kept

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "validation-select.md"
WORKER, REQUIREMENTS = HERE / "select_pysindy_worker.py", HERE / "requirements-pysindy.txt"
PEERS = HERE.parent / ".venv-pysindy"

TERMS = {
    "quadratic": "x**2",
    "cubic": "x**3",
    "quintic": "x**5",
    "odd quadratic": "x*abs(x)",
    "sine": "sin(3*x)",
    "bilinear": "abs(x)",
    "preload": "tanh(x/0.1)",
    "quadratic damping": "dx*abs(dx)",
    "cubic damping": "dx**3",
    "damping by direction": "abs(dx)",
    "damping by position": "x*dx",
    "van der Pol damping": "x**2*dx",
    "inertial": "x*dx**2",
    "Coulomb": "tanh(dx/0.05)",
    "Stribeck": "exp(-(dx/0.2)**2)*tanh(dx/0.05)",
    "friction by position": "abs(x)*tanh(dx/0.05)",
    "offset": "1",
    "squared input": "force**2",
    "input by position": "force*x",
    "input by velocity": "force*dx",
}
SYSTEMS = {
    "Duffing with dry friction": {"cubic": 0.5, "Coulomb": 0.1},
    "asymmetric with drag": {"quadratic": 0.15, "quadratic damping": 0.3},
    "bilinear with van der Pol damping": {"bilinear": 0.3, "van der Pol damping": 0.4},
}
LINEAR = {"m": 1.0, "c": 0.1, "k": 1.0}
NOISES = (0.01, 0.1)
"""Relative to the standard deviation of the signal."""

SAMPLES, DT, TONES = 500, 0.1, 15
MODEL = ps.Model({"x": 2}, lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x) / p.m}, name="oscillator")
MENU = ps.Terms(
    *(
        ps.Term(name, {"x": f"-a{i}*{text}/m"}, priors={f"a{i}": dist.Normal(0, 1)})
        for i, (name, text) in enumerate(TERMS.items())
    )
)
METHODS = {
    "ours": "probsysid, positions",
    "stlsq states": "pysindy STLSQ, states",
    "stlsq positions": "pysindy STLSQ, positions",
    "sbr states": "pysindy SBR (Bayesian), states",
    "sbr positions": "pysindy SBR (Bayesian), positions",
}


def data(system: str, noise: float, seed: int) -> dict[str, np.ndarray]:
    """Time, force, and measured position and velocity."""
    random = np.random.default_rng([seed, list(SYSTEMS).index(system)])
    times = DT * np.arange(SAMPLES)
    tones = np.linspace(0.2, 3, TONES)
    force = 0.35 * sum(np.cos(w * times + random.uniform(0, 2 * np.pi)) for w in tones)
    bare = ps.Record({"force": force}, dt=DT)
    names = list(TERMS)
    truth = SYSTEMS[system]
    chosen = ps.Terms(*(MENU[name] for name in truth))
    parameters = {**LINEAR, **{f"a{names.index(name)}": value for name, value in truth.items()}}
    model = _measured_twice(chosen)
    arrays = {name: np.array([value]) for name, value in parameters.items()}
    exact, _, _ = simulate(model, arrays, np.zeros((2, 1)), bare)
    found = {"time": times, "force": np.asarray(force)}
    for name in ("x", "dx"):
        clean = exact[name][0]
        found[name] = clean + noise * np.std(clean) * random.standard_normal(SAMPLES)
    return found


def _measured_twice(terms: ps.Terms) -> ps.Model:
    """The true model, of which position and velocity are measured."""
    from probsysid.selection.extension import extended

    base = ps.Model(MODEL.coordinates, MODEL.dynamics, lambda s, u, p: {"x": s.x, "dx": s.dx})
    return extended(base, list(terms), ["force"])


def ours(given: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    began = time.perf_counter()
    selection = ps.select(
        MODEL,
        MENU,
        ps.Record({"force": given["force"]}, {"x": given["x"]}, dt=DT),
        priors={"m": dist.LogNormal(0, 0.5), "c": dist.LogNormal(-2, 1), "k": dist.LogNormal(0, 0.5)},
        noise={"x": dist.LogNormal(np.log(0.1 * np.std(given["x"])), 2)},
        initial={"x": 0.0, "dx": 0.0},
        solver=ps.Solver(substeps=2),
        sampler=ps.Sampler(particles=256),
        search=ps.SearchOptions(budget=8),
        seed=seed,
    )
    return {
        "terms": sorted(selection.best.names),
        "probability": float(selection.probabilities[0]),
        "likely": sorted(name for name, share in selection.inclusion.items() if share > 0.5),
        "runs": len(selection.models),
        "seconds": time.perf_counter() - began,
    }


def peers(given: dict[str, np.ndarray], method: str, seed: int) -> dict[str, Any]:
    sent = {name: values.tolist() for name, values in given.items()}
    command = [str(_python()), str(WORKER), method, str(seed)]
    text = json.dumps({"data": sent, "terms": TERMS})
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RuntimeError(answer.stderr[-2000:])
    return json.loads(answer.stdout.splitlines()[-1])


def _python() -> Path:
    """The interpreter of pysindy's environment, which is made on first use."""
    given = os.environ.get("PYSINDY_PYTHON")
    if given:
        return Path(given)
    python = PEERS / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-qq", "-r", str(REQUIREMENTS)], check=True)
    return python


def judged(system: str, results: Sequence[dict[str, Any]]) -> list[Any]:
    """Shares of sets: all true terms found, a false one among them, exactly right; false terms per set; seconds."""
    truth = set(SYSTEMS[system])
    found = [set(result["terms"]) for result in results]
    return [
        float(np.mean([truth <= each for each in found])),
        float(np.mean([bool(each - truth) for each in found])),
        float(np.mean([each == truth for each in found])),
        float(np.mean([len(each - truth) for each in found])),
        float(np.median([result["seconds"] for result in results])),
    ]


def page(kept: Kept, sets: int) -> str:
    lines = [
        "# Validation of the choice of terms",
        "",
        "Written by `python -m validation.select_simulated --sets N --peers`: three oscillators with two nonlinear",
        "terms each, a menu of twenty, 500 positions with noise of 1 and 10 % of their standard deviation; priors of",
        "all coefficients are Normal(0, 1).  pysindy gets the same functions beside `x`, `dx` and the force; *states*",
        "means that it is given velocities as well, with the same relative noise; otherwise it differentiates.",
        "Thresholds of STLSQ are chosen by BIC; of SBR a term counts whose 95 % interval excludes zero.  The",
        "evidence-greedy optimiser is not in pysindy 2.1.0.",
        "",
        "| system | noise | method | sets | true terms all found | with a false term | exactly right "
        "| false terms per set | s per set |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for system in SYSTEMS:
        for noise in NOISES:
            for method, name in METHODS.items():
                keys = [_key(system, noise, method, seed) for seed in range(sets)]
                results = [kept.found[key] for key in keys if key in kept.found]
                if results:
                    true, false, exact, count, seconds = judged(system, results)
                    cells = [f"{true:.0%}", f"{false:.0%}", f"{exact:.0%}", f"{count:.2f}", f"{seconds:.1f}"]
                    row = [system, f"{noise:.0%}", name, str(len(results)), *cells]
                    lines.append(f"| {' | '.join(row)} |")
    lines += ["", "The true terms:", ""]
    lines += [
        f"- {system}: {', '.join(f'{name} `{value} {TERMS[name]}`' for name, value in truth.items())}"
        for system, truth in SYSTEMS.items()
    ]
    return "\n".join(lines) + "\n"


def _key(system: str, noise: float, method: str, seed: int) -> str:
    return f"{system}, {noise}, {method}, {seed}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation.select_simulated", description=__doc__)
    parser.add_argument("--sets", type=int, default=20, help="data sets of each system and noise")
    parser.add_argument("--peers", action="store_true", help="also pysindy")
    given = parser.parse_args()
    kept = Kept("select")
    for seed in range(given.sets):
        for system in SYSTEMS:
            for noise in NOISES:
                numbers = data(system, noise, seed)
                for method in METHODS if given.peers else ("ours",):

                    def run(method: str = method, numbers: Any = numbers, seed: int = seed) -> dict[str, Any]:
                        return ours(numbers, seed) if method == "ours" else peers(numbers, method, seed)

                    found = kept.get(_key(system, noise, method, seed), run)
                    print(f"{_key(system, noise, method, seed)}: {', '.join(found['terms'])}; {found['seconds']:.0f} s")
                    sys.stdout.flush()
        PAGE.write_text(page(kept, given.sets), encoding="utf-8")


if __name__ == "__main__":
    main()
