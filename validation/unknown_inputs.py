"""A Duffing oscillator under an unmeasured force: the case of Rogers, Worden and Cross (2020), parameters included.

    python -m validation.unknown_inputs [SETS] [PAGE]

The force is a Matern process with nu = 1/2, the displacement is measured.  For every data set: normalised mean square
errors of displacement, velocity and force, the share of samples within the 90 % band of the force, and whether the 90 %
intervals of the constants and hyperparameters hold the truth.  With a PAGE the table is written there.
"""

import sys
import time as clock
from pathlib import Path

import numpy as np

import probsysid as ps
from probsysid import dist

TRUTH = {"c": 0.2, "k": 1.0, "k3": 0.5, "force.scale": 1.0, "force.length": 5.0}
DT, FINE, SAMPLES, NOISE = 0.1, 50, 400, 0.002

DUFFING = ps.Model(
    {"x": 2},
    lambda s, u, p: {"x": u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3},
    lambda s, u, p: {"position": s.x},
)
PRIORS = {name: dist.LogNormal(np.log(TRUTH[name]) + 0.2, 0.5) for name in ("c", "k", "k3")}
FORCE = ps.Matern(0.5, scale=dist.LogNormal(0.3, 0.7), length=dist.LogNormal(1.3, 0.7))


def data_set(seed: int) -> tuple[ps.Record, np.ndarray]:
    """A record with the true force as an input that is not used; and the true velocity."""
    random, step = np.random.default_rng(seed), DT / FINE
    decay = np.exp(-step / TRUTH["force.length"])
    x, v, f = 0.0, 0.0, TRUTH["force.scale"] * random.normal()
    rows = []
    for _ in range(SAMPLES):
        rows.append((x, v, f))
        for _ in range(FINE):
            v += step * (f - TRUTH["c"] * v - TRUTH["k"] * x - TRUTH["k3"] * x**3)
            x += step * v
            f = decay * f + TRUTH["force.scale"] * np.sqrt(1 - decay**2) * random.normal()
    positions, velocities, forces = np.array(rows).T
    measured = positions + NOISE * random.normal(size=SAMPLES)
    return ps.Record({"force": forces}, {"position": measured}, dt=DT), np.stack([positions, velocities])


def study(seed: int, known: bool) -> dict[str, float]:
    """The scores of one data set; with known constants only the hyperparameters are inferred."""
    record, states = data_set(seed)
    priors = {name: TRUTH[name] for name in PRIORS} if known else PRIORS
    began = clock.process_time()
    posterior = ps.identify(
        DUFFING,
        record,
        priors,
        {"position": NOISE},
        {"x": 0.0, "dx": 0.0},
        unknown={"force": FORCE},
        sampler=ps.Sampler(particles=256),
        seed=seed,
    )
    seconds = clock.process_time() - began
    found, smoothed = posterior.inputs(draws=100), posterior.states(draws=100)
    errors = {
        name: 100 * np.mean((smoothed.mean[name] - true) ** 2) / np.var(true)
        for name, true in zip(("x", "dx"), states, strict=True)
    }
    low, high = ({name: posterior.quantile(name, q) for name in posterior.columns} for q in (0.05, 0.95))
    inside = [low[name] <= TRUTH[name] <= high[name] for name in posterior.columns]
    return {
        "x": errors["x"],
        "dx": errors["dx"],
        "force": found.nmse("force"),
        "coverage": 100 * found.coverage("force"),
        "held": float(np.sum(inside)),
        "of": float(len(inside)),
        "steps": float(posterior.settings.substeps),
        "seconds": seconds,
    }


def main() -> None:
    sets = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    head = "| data set | constants | x [%] | x' [%] | force [%] | force in its band [%] | held | steps | seconds |"
    lines = [head, "|---" * 9 + "|"]
    print("\n".join(lines), flush=True)
    for seed in range(sets):
        for known in (True, False):
            row = study(seed, known)
            held = f"{row['held']:.0f} of {row['of']:.0f}"
            errors = " | ".join(f"{row[name]:.2g}" for name in ("x", "dx", "force"))
            lines.append(
                f"| {seed} | {'known' if known else 'inferred'} | {errors} | {row['coverage']:.0f} | {held} | "
                f"{row['steps']:.0f} | {row['seconds']:.0f} |"
            )
            print(lines[-1], flush=True)
    if len(sys.argv) > 2:
        title = "# Unknown inputs: a Duffing oscillator under an unmeasured force\n\n"
        text = f"Written by `python -m validation.unknown_inputs {sets} PAGE`. {(__doc__ or '').split('.  ')[1]}.\n\n"
        Path(sys.argv[2]).write_text(title + text + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
