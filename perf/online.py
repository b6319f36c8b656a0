"""Online cost per sample: latency of `Identifier.update` and `submit`, and the real-time factor.

python perf/online.py [--case NAME] [--samples N] [--particles N] [--json FILE]

Feeds the beginning of each benchmark's training record sample by sample, with the case's own settings.  Inputs are
linear between samples where the benchmark's are band-limited, which would require future samples.  The first pass is
not timed: it compiles.  Reads the data from the folder named by PROBSYSID_DATA.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import probsysid as ps
from probsysid.benchmarks import bouc_wen, emps, silverbox
from probsysid.benchmarks.case import CaseStudy
from probsysid.inference import online as module
from probsysid.model.noise import default_noise

CASES: dict[str, Callable[[], CaseStudy]] = {
    "bouc-wen": lambda: bouc_wen.study(official=False),
    "silverbox": silverbox.study,
    "emps": emps.study,
}


class Watch:
    """Records whether particles were rejuvenated since the last query."""

    def __init__(self) -> None:
        self.rejuvenated = False
        original = module.forward

        def watched(*arguments: Any) -> Any:
            run, step = original(*arguments)
            self.rejuvenated = self.rejuvenated or bool(step.rejuvenations)
            return run, step

        module.forward = watched

    def seen(self) -> bool:
        seen, self.rejuvenated = self.rejuvenated, False
        return seen


def identifier(study: CaseStudy, record: ps.Record, particles: int | None) -> ps.Identifier:
    method = study.methods["default"]
    noise = {name: default_noise(name, (record,)) for name in study.model.output_names} | dict(method.noise)
    return ps.Identifier(
        study.model,
        study.priors,
        noise,
        study.initial if method.initial is None else method.initial,
        dt=record.dt,
        intersample="zoh" if study.case == "emps" else "linear",
        solver=method.solver,
        sampler=method.sampler if particles is None else replace(method.sampler, particles=particles),
        process_noise=method.process_noise,
    )


def sample(record: ps.Record, k: int) -> tuple[dict[str, float], dict[str, float]]:
    return {n: v[k] for n, v in record.inputs.items()}, {n: v[k] for n, v in record.outputs.items()}


def quantiles(seconds: list[float]) -> dict[str, float]:
    """In milliseconds."""
    if not seconds:
        return {"count": 0}
    p50, p99, largest = 1e3 * np.quantile(seconds, [0.5, 0.99, 1.0])
    return {"count": len(seconds), "p50_ms": float(p50), "p99_ms": float(p99), "max_ms": float(largest)}


def updates(online: ps.Identifier, record: ps.Record, watch: Watch) -> dict[str, Any]:
    """Sample by sample, waiting for each."""
    plain: list[float] = []
    rejuvenated: list[float] = []
    watch.seen()
    began, busy = time.perf_counter(), time.process_time()
    for k in range(record.samples):
        given = sample(record, k)
        start = time.perf_counter()
        online.update(*given)
        (rejuvenated if watch.seen() else plain).append(time.perf_counter() - start)
    total, processor = time.perf_counter() - began, time.process_time() - busy
    duration = record.samples * record.dt
    return {
        "update": quantiles(plain),
        "update_with_rejuvenation": quantiles(rejuvenated),
        "real_time_factor": total / duration,
        "real_time_factor_processor": processor / duration,
    }


def submissions(online: ps.Identifier, record: ps.Record) -> dict[str, Any]:
    """In real time without waiting: how far the posterior lags behind, and when it has caught up."""
    calls: list[float] = []
    largest = 0
    began = time.perf_counter()
    for k in range(record.samples):
        time.sleep(max(0.0, began + k * record.dt - time.perf_counter()))
        given = sample(record, k)
        start = time.perf_counter()
        online.submit(*given)
        calls.append(time.perf_counter() - start)
        largest = max(largest, online.lag)
    fed = time.perf_counter()
    online.close()
    return {"submit": quantiles(calls), "largest_lag": largest, "caught_up_after_s": time.perf_counter() - fed}


def measure(study: CaseStudy, samples: int, particles: int | None, watch: Watch) -> dict[str, Any]:
    record = study.record[:samples]
    updates(identifier(study, record, particles), record, watch)  # compiles every program that the others need
    result = {"samples": record.samples, "duration_s": record.samples * record.dt}
    result |= updates(identifier(study, record, particles), record, watch)
    result |= submissions(identifier(study, record, particles), record)
    return result


def show(name: str, result: Mapping[str, Any]) -> None:
    print(f"{name}: {result['samples']} samples, {result['duration_s']:.3g} s")
    for key, value in result.items():
        if isinstance(value, dict):
            print(f"  {key:28s}" + "  ".join(f"{k} {v:.3g}" for k, v in value.items()))
        elif key not in ("samples", "duration_s"):
            print(f"  {key:28s}{value:.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, help="one of them; all if not given")
    parser.add_argument("--samples", type=int, default=300, help="how much of each record")
    parser.add_argument("--particles", type=int, help="in place of the case's own number")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    watch = Watch()
    results = {}
    for name in [options.case] if options.case else CASES:
        results[name] = measure(CASES[name](), options.samples, options.particles, watch)
        show(name, results[name])
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
