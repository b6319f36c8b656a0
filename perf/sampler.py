"""Where the time of a run goes: the share outside the filter kernel, on the Silverbox record.

python perf/sampler.py [--particles N] [--samples T] [--json FILE]

Reads SNLS80mV.mat from the folder `silverbox` in the folder named by PROBSYSID_DATA.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import scipy.io

import probsysid as ps
from probsysid import dist
from probsysid.experiment import Experiment
from probsysid.identify import identify

FIRST = 49277

duffing = ps.Model(
    coordinates={"x": 2},
    dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
    outputs=lambda s, u, p: {"position": s.x},
    name="Duffing oscillator",
)


def silverbox(samples: int) -> ps.Record:
    """The training record of the paper, or its beginning."""
    data = scipy.io.loadmat(Path(os.environ["PROBSYSID_DATA"]) / "silverbox" / "SNLS80mV.mat")
    force, position = data["V1"].ravel(), data["V2"].ravel()
    record = ps.Record(
        inputs={"force": force - force.mean()},
        outputs={"position": position},
        dt=2**14 / 10e6,
        intersample="bandlimited",
    )
    return record[FIRST : FIRST + samples]


def run(record: ps.Record, particles: int) -> ps.Posterior:
    start = record.outputs["position"][0]
    return identify(
        duffing,
        record,
        priors={
            "m": dist.LogNormal(-12, 0.3),
            "c": dist.LogNormal(-8, 1.0),
            "k": dist.LogNormal(0, 0.5),
            "k3": dist.LogNormal(1, 1.0),
        },
        initial={"x": dist.Normal(start, 1e-2), "dx": dist.Normal(0, 30)},
        solver=ps.Solver(smoothness=3, substeps=2),
        sampler=ps.Sampler(particles=particles),
    )


class Clock:
    """Time spent in the filter, waiting for its results: by the clock, and of the processor."""

    def __init__(self) -> None:
        self.seconds = self.processor = 0.0
        for name in ("advance", "one_step_errors"):
            setattr(Experiment, name, self._timed(getattr(Experiment, name)))

    def _timed(self, original: Callable[..., object]) -> Callable[..., object]:
        def timed(*arguments: object) -> object:
            began, busy = time.perf_counter(), time.process_time()
            result = jax.block_until_ready(original(*arguments))
            self.seconds += time.perf_counter() - began
            self.processor += time.process_time() - busy
            return result

        return timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--particles", type=int, default=1024)
    parser.add_argument("--samples", type=int, default=3072)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    record = silverbox(options.samples)
    run(silverbox(64), options.particles)  # compiles what the long run does not have to compile again
    clock = Clock()
    began, busy = time.perf_counter(), time.process_time()
    posterior = run(record, options.particles)
    total, processor = time.perf_counter() - began, time.process_time() - busy
    result = {
        "seconds": total,
        "filter_seconds": clock.seconds,
        "processor_seconds": processor,
        "share_outside": 1 - clock.processor / processor,
        "sweeps": posterior.settings["sweeps"],
        "rejuvenations": len(posterior.rejuvenations()),
        "nanoseconds_per_particle_sample": 1e9
        * clock.seconds
        / (posterior.settings["sweeps"] * options.particles * record.samples),
        "log_evidence": posterior.log_evidence,
        "log_evidence_error": posterior.log_evidence_error,
        "acceptance": float(np.mean(posterior.rejuvenations()["acceptance"])),
    }
    for name, value in result.items():
        print(f"{name:34s} {value:.4g}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
