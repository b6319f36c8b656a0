"""SMC^2 against the library particles: the same models, priors and data in both.

    python -m validation.smc2 [SEEDS [SAMPLES [PYTHON]]]

Stochastic volatility, y ~ N(0, exp(x)) with the level x of an AR(1), and Poisson counts of rate exp(x).  Means,
standard deviations and evidence over seeds, processor seconds, and effective samples per second: the variance of the
posterior over that of its mean between runs, divided by the time of one.  PYTHON is that of an environment with
particles (perf/requirements-peers.txt); without it, that of `perf/peers_environment.py`.
"""

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import probsysid as ps
from perf.peers_environment import peers_python
from probsysid import dist

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "validation-smc2.md"
SEEDS, SAMPLES, PARTICLES, POINTS = 20, 200, 256, 64
TRUTH = {"k": 0.2, "mu": 1.0, "s": 0.3}
PRIORS = {"k": dist.LogNormal(-1.5, 0.5), "mu": dist.Normal(0.0, 1.0), "s": dist.LogNormal(-1.0, 0.5)}
QUANTITIES = ("log k", "mu", "log s")


def model(outputs: Any) -> ps.Model:
    return ps.Model({"x": 1}, lambda s, u, p: {"x": -p.k * (s.x - p.mu)}, outputs, diffusion=lambda s, u, p: {"x": p.s})


MODELS = {
    "volatility": model(lambda s, u, p: {"y": dist.Normal(0.0, jnp.exp(0.5 * s.x))}),
    "counts": model(lambda s, u, p: {"y": dist.Poisson(jnp.exp(s.x))}),
}


def data(name: str, samples: int) -> np.ndarray:
    """Simulated in the steps of both."""
    random, x, found = np.random.default_rng(7), 0.0, []
    k = TRUTH["k"]
    decay = 1 - k + k**2 / 2 - k**3 / 6 + k**4 / 24
    for t in range(samples):
        x = TRUTH["mu"] + decay * (x - TRUTH["mu"]) + TRUTH["s"] * random.standard_normal() if t else x
        found.append(np.exp(0.5 * x) * random.standard_normal() if name == "volatility" else random.poisson(np.exp(x)))
    return np.array(found, dtype=float)


def ours(name: str, outputs: np.ndarray, guide: str, seed: int) -> dict[str, Any]:
    wall, began = time.perf_counter(), time.process_time()
    solver = ps.ParticleFilter(POINTS, guide, substeps=1)  # type: ignore[arg-type]
    record, sampler = ps.Record(outputs={"y": outputs}, dt=1.0), ps.Sampler(particles=PARTICLES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.SamplingWarning)
        found = ps.identify(MODELS[name], record, PRIORS, initial={"x": 0.0}, solver=solver, sampler=sampler, seed=seed)
    columns = found.columns
    logs = np.stack([np.log(columns["k"]), columns["mu"], np.log(columns["s"])])
    mean = logs @ found.weights
    settings = found.setup.solver.particle_filter
    assert settings is not None
    return {
        "mean": mean.tolist(),
        "sd": np.sqrt((logs - mean[:, None]) ** 2 @ found.weights).tolist(),
        "evidence": found.log_evidence,
        "points": settings.particles,
        "seconds": time.process_time() - began,
        "wall": time.perf_counter() - wall,
    }


def peers(name: str, outputs: np.ndarray, seeds: int, python: str) -> list[dict[str, Any]]:
    command = [python, str(HERE / "smc2_worker.py"), name, str(seeds), str(PARTICLES), str(POINTS)]
    found = subprocess.run(command, input=json.dumps(outputs.tolist()), capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(found.stderr)
    return [json.loads(line) for line in found.stdout.splitlines()]


def row(method: str, runs: list[dict[str, Any]]) -> str:
    """Means and standard errors over seeds, and the speed."""
    mean, sd = (np.array([run[name] for run in runs]) for name in ("mean", "sd"))
    evidence = np.array([run["evidence"] for run in runs])
    count, spread = len(runs), mean.var(axis=0, ddof=1)
    seconds, wall = (float(np.mean([run[key] for run in runs])) for key in ("seconds", "wall"))
    effective = np.mean(sd**2, axis=0) / spread
    # evidences average as themselves, not as logarithms
    top = evidence.max()
    ratio = np.exp(evidence - top)
    log_mean, error = top + np.log(ratio.mean()), ratio.std(ddof=1) / ratio.mean() / np.sqrt(count)
    numbers = [
        f"{m:.3f} ± {np.sqrt(v / count):.3f} ({s:.3f})"
        for m, v, s in zip(mean.mean(axis=0), spread, sd.mean(axis=0), strict=True)
    ]
    points = int(np.median([run["points"] for run in runs]))
    slowest = float(effective.min())
    speed = [f"{log_mean:.2f} ± {error:.2f}", f"{points}", f"{seconds:.1f}", f"{wall:.1f}", f"{slowest:.0f}"]
    return f"| {' | '.join([method, *numbers, *speed, f'{slowest / seconds:.2g}'])} |"


def study(seeds: int, samples: int, python: str | None) -> str:
    head = ("method", *QUANTITIES, "log evidence", "points", "processor s", "s", "effective", "effective per s")
    lines = []
    for name in MODELS:
        outputs = data(name, samples)
        lines += [f"\n## {name.capitalize()}, {samples} samples\n", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for guide in ("ekf", "none") if name == "counts" else ("none",):
            ours(name, outputs, guide, 999)  # compiles
            lines.append(row(f"probsysid, guide {guide}", [ours(name, outputs, guide, seed) for seed in range(seeds)]))
            print(lines[-1], flush=True)
        if python is not None:
            lines.append(row("particles 0.4", peers(name, outputs, seeds, python)))
            print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    given = sys.argv[1:]
    seeds, samples = (int(given[i]) if len(given) > i else known for i, known in ((0, SEEDS), (1, SAMPLES)))
    python, why = (Path(given[2]), "") if len(given) > 2 else peers_python()
    if python is None:
        print(f"particles is left out: {why}")
    tables = study(seeds, samples, None if python is None else str(python))
    PAGE.write_text(
        f"# Validation: SMC² against another library\n\nMade by `python -m validation.smc2 {seeds} {samples}`.\n\n"
        f"The same models, priors and data; {PARTICLES} particles and {POINTS} points to begin with in both, {seeds} "
        "seeds. Posterior means over seeds ± their standard error, and in parentheses the mean posterior standard "
        "deviation; the mean evidence; points at the end (median); processor and clock seconds per run, programs "
        "compiled before; effective samples of a run, for the worst quantity, from the spread of its mean over "
        f"seeds.\n{tables}\n"
    )


if __name__ == "__main__":
    main()
