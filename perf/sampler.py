"""Profile of a run: the share of time outside the filter kernel, on the Silverbox case.

python perf/sampler.py [--particles N] [--samples T] [--json FILE]

Two runs: the case as `probsysid benchmark silverbox` runs it, and one with the cheapest sufficient filter, fixed
at two steps per sample, where everything else takes a larger share.  Reads SNLS80mV.mat from the folder `silverbox` in
the folder named by PROBSYSID_DATA.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import probsysid as ps
from probsysid.benchmarks import silverbox
from probsysid.inference.identify import identify
from probsysid.targets.batch_target import BatchTarget

LIGHT = ps.Solver(smoothness=3, substeps=2, linearisation="ekf1", diffusion="quasi-mle")


def run(samples: int, **changes: Any) -> ps.Posterior:
    """The case on the first samples of its record, with other settings where given."""
    study = silverbox.study()
    method = study.methods["default"]
    settings = {"solver": method.solver, "sampler": method.sampler} | changes
    return identify(study.model, study.record[:samples], priors=study.priors, initial=study.initial, **settings)


class Clock:
    """Time spent in the filter, waiting for its results: by the clock, and of the processor."""

    def __init__(self) -> None:
        self.seconds = self.processor = 0.0
        self.inside = False
        for name in ("advance", "sweep", "one_step_errors"):
            setattr(BatchTarget, name, self._timed(getattr(BatchTarget, name)))

    def _timed(self, original: Callable[..., object]) -> Callable[..., object]:
        def timed(*arguments: object) -> object:
            if self.inside:  # a sweep calls `advance` for every chunk without waiting for it
                return original(*arguments)
            self.inside = True
            began, busy = time.perf_counter(), time.process_time()
            result = jax.block_until_ready(original(*arguments))
            self.seconds += time.perf_counter() - began
            self.processor += time.process_time() - busy
            self.inside = False
            return result

        return timed


def measured(clock: Clock, samples: int, **changes: Any) -> dict[str, float]:
    """The figures of one run, without compilation."""
    run(64, **changes)
    clock.seconds = clock.processor = 0.0
    began, busy = time.perf_counter(), time.process_time()
    posterior = run(samples, **changes)
    total, processor = time.perf_counter() - began, time.process_time() - busy
    history = posterior.history.table()
    return {
        "seconds": total,
        "filter_seconds": clock.seconds,
        "processor_seconds": processor,
        "share_outside": 1 - clock.processor / processor,
        "particles": len(posterior.weights),
        "sweeps": posterior.settings.sweeps,
        "rejuvenations": len(history),
        "moves": int(np.sum(history["moves"])),
        "log_evidence": posterior.log_evidence,
        "log_evidence_error": posterior.log_evidence_error,
        "acceptance": float(np.mean(history["acceptance"])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--particles", type=int, help="in place of the case's own number")
    parser.add_argument("--samples", type=int, default=3072)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sampler = silverbox.study().methods["default"].sampler
    if options.particles:
        sampler = replace(sampler, particles=options.particles)
    clock = Clock()
    result: dict[str, Any] = measured(clock, options.samples, sampler=sampler)
    result["light"] = measured(clock, options.samples, sampler=replace(sampler, particles=1024), solver=LIGHT)
    for title, figures in (("the case", result), ("the lightest filter", result["light"])):
        print(title)
        for name, value in figures.items():
            if name != "light":
                print(f"  {name:32s} {value:.4g}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
