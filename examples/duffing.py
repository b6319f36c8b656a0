"""Identify a Duffing oscillator from a simulated noisy record.

Run with `python examples/duffing.py [FOLDER]`; writes marginals.png, fit.png and posterior.nc.
"""

import sys
from pathlib import Path

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.report.marginals import plot_fit, plot_marginals

TRUTH = {"m": 1.0, "c": 0.1, "k": 1.0, "k3": 0.5}
NOISE = 0.02

duffing = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
    outputs=lambda s, u, p: {"position": s.x},
    units={"m": "kg", "c": "N s/m", "k": "N/m", "k3": "N/m^3"},
    name="Duffing oscillator",
)


def measure(samples: int = 600, dt: float = 0.2, seed: int = 0) -> ps.Record:
    """A random-phase multisine force, and the position it causes with noise added."""
    random = np.random.default_rng(seed)
    time = dt * np.arange(samples)
    lines = np.linspace(0.2, 4.0, 40)
    force = sum(np.cos(line * time + random.uniform(0, 2 * np.pi)) for line in lines) / np.sqrt(len(lines))
    record = ps.Record(inputs={"force": force}, dt=dt, intersample="bandlimited", units={"force": "N"})
    exact = ps.solve(duffing, TRUTH, record, solver=ps.Solver(smoothness=5, substeps=8)).mean["position"]
    noisy = exact + NOISE * random.standard_normal(samples)
    return record.replace(outputs={"position": noisy}, units={"force": "N", "position": "m"})


def main(folder: Path) -> None:
    """Identify from the first half of the record, predict the second."""
    folder.mkdir(parents=True, exist_ok=True)
    record = measure()
    train = record[:300]
    posterior = ps.identify(
        duffing,
        train,
        priors={name: dist.LogNormal(np.log(0.7 * value), 0.7) for name, value in TRUTH.items()},
        initial={"x": dist.Normal(0, 0.1), "dx": dist.Normal(0, 0.1)},
        solver=ps.Solver(smoothness=4, substeps=2),
        progress=True,
    )
    print(posterior)
    print(posterior.table().to_string())
    simulation = posterior.simulate(record, skip=300)
    scores = simulation.rmse()
    print(f"free run on the second half: rmse {scores.mean:.4f} m (noise {NOISE} m), fit {simulation.fit().mean:.1f} %")
    plot_marginals(posterior, folder / "marginals.png", truth={**TRUTH, "noise.position": NOISE})
    plot_fit(simulation, folder / "fit.png", zoom=slice(300, 450))
    posterior.save(folder / "posterior.nc")
    print(f"figures and posterior in {folder}/")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo"))
