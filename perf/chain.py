"""A chain of masses identified by default: ten constants, three measured positions.

python perf/chain.py [--masses 20] [--samples 2000] [--particles 1024]

Two runs with different seeds: the first compiles what it needs.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import probsysid as ps
from probsysid import dist
from probsysid.posterior.simulate import simulate

DT, NOISE, STIFFNESSES, DAMPINGS = 0.2, 0.02, 5, 3

TRUTH = {
    **{f"k{i}": 1 + 0.1 * i for i in range(STIFFNESSES)},
    **{f"c{i}": 0.05 + 0.02 * i for i in range(DAMPINGS)},
    "cubic": 0.3,
    "m": 1.0,
}


def model(masses: int) -> ps.Model:
    """Between two walls, springs and dampers of several kinds in turn; the first mass is pushed."""

    def dynamics(s: Any, u: Any, p: Any) -> dict[str, Any]:
        x = [0.0, *(getattr(s, f"x{i}") for i in range(masses)), 0.0]
        v = [0.0, *(getattr(s, f"dx{i}") for i in range(masses)), 0.0]
        force = []
        for i in range(masses + 1):
            stretch, rate = x[i + 1] - x[i], v[i + 1] - v[i]
            stiffness, damping = getattr(p, f"k{i % STIFFNESSES}"), getattr(p, f"c{i % DAMPINGS}")
            force.append(stiffness * stretch + p.cubic * stretch**3 + damping * rate)
        pull = [u.force, *[0.0] * (masses - 1)]
        return {f"x{i}": (force[i + 1] - force[i] + pull[i]) / p.m for i in range(masses)}

    sensors = {"first": "x0", "middle": f"x{masses // 2}", "last": f"x{masses - 1}"}
    coordinates = {f"x{i}": 2 for i in range(masses)}
    return ps.Model(coordinates, dynamics, lambda s, u, p: {name: getattr(s, x) for name, x in sensors.items()})


def record(chain: ps.Model, samples: int) -> ps.Record:
    random, time_axis = np.random.default_rng(0), DT * np.arange(samples)
    force = sum(np.cos(w * time_axis + random.uniform(0, 2 * np.pi)) for w in np.linspace(0.1, 2.2, 30))
    inputs = ps.Record({"force": np.asarray(force)}, dt=DT, intersample="linear")
    start = np.zeros((len(chain.physical_names), 1))
    outputs, _, _ = simulate(chain, {name: np.array([value]) for name, value in TRUTH.items()}, start, inputs, 16)
    noisy = {name: values[0] + NOISE * random.standard_normal(samples) for name, values in outputs.items()}
    return inputs.replace(outputs=noisy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--masses", type=int, default=20)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--particles", type=int, default=1024)
    options = parser.parse_args()
    chain, random = model(options.masses), np.random.default_rng(1)
    data = record(chain, options.samples)
    priors = {
        name: dist.LogNormal(np.log(value) + 0.1 * random.standard_normal(), 0.3) for name, value in TRUTH.items()
    }
    for seed in range(2):
        began, busy = time.perf_counter(), time.process_time()
        found = ps.identify(
            chain,
            data,
            priors,
            dict.fromkeys(chain.output_names, NOISE),
            dict.fromkeys(chain.physical_names, 0.0),
            sampler=ps.Sampler(particles=options.particles),
            seed=seed,
        )
        seconds, processor = time.perf_counter() - began, time.process_time() - busy
        worst = max(abs(found.mean(name) - value) / found.sd(name) for name, value in TRUTH.items())
        print(f"seed {seed}: {seconds:.0f} s, {processor:.0f} s of processor time; {found.check.verdict}", flush=True)
        print(f"  sampling {found.sampling.status}, farthest constant {worst:.1f} sd from the truth", flush=True)


if __name__ == "__main__":
    main()
