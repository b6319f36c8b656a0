"""Cost of a stream: latency of `Identifier.update` and `submit`, the real-time factor, and the age of the posterior.

python perf/online.py [--case NAME] [--samples N] [--particles N] [--milliseconds MS] [--given | --no-pilot]
    [--json FILE]

Feeds each benchmark's training record in blocks of at most so many milliseconds, with the case's own settings but for
the solver, which chooses its steps unless the case's own is asked for (--given).  Inputs are linear between samples
where the benchmark's are band-limited, which would require future samples.  The first pass is not timed: it compiles.
Then: all blocks as fast as they go (`update`), and in real time without waiting (`submit`), where the age of the
posterior, asked every 10 ms, is the time since the newest sample that is in it was due.  Reads the data from the folder
named by PROBSYSID_DATA.
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


def identifier(study: CaseStudy, record: ps.Record, options: argparse.Namespace) -> ps.Identifier:
    method = study.methods["default"]
    noise = {name: default_noise(name, (record,)) for name in study.model.output_names} | dict(method.noise)
    return ps.Identifier(
        study.model,
        study.priors,
        noise,
        study.initial if method.initial is None else method.initial,
        dt=record.dt,
        intersample="zoh" if study.case == "emps" else "linear",
        solver=method.solver if options.given else ps.Solver(pilot=not options.no_pilot),
        sampler=replace(method.sampler, particles=options.particles or method.sampler.particles),
        process_noise=method.process_noise,
    )


def block(record: ps.Record, first: int, last: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    return {n: v[first:last] for n, v in record.inputs.items()}, {n: v[first:last] for n, v in record.outputs.items()}


def quantiles(seconds: list[float]) -> dict[str, float]:
    """In milliseconds."""
    if not seconds:
        return {"count": 0}
    p50, p99, largest = 1e3 * np.quantile(seconds, [0.5, 0.99, 1.0])
    return {"count": len(seconds), "p50_ms": float(p50), "p99_ms": float(p99), "max_ms": float(largest)}


def updates(online: ps.Identifier, record: ps.Record, size: int, watch: Watch) -> dict[str, Any]:
    """Block by block, waiting for each, and a look at the posterior at the end."""
    plain: list[float] = []
    rejuvenated: list[float] = []
    watch.seen()
    began, busy = time.perf_counter(), time.process_time()
    for first in range(0, record.samples, size):
        given = block(record, first, first + size)
        start = time.perf_counter()
        online.update(*given)
        (rejuvenated if watch.seen() else plain).append(time.perf_counter() - start)
    total, processor = time.perf_counter() - began, time.process_time() - busy
    start = time.perf_counter()
    assert np.isfinite(online.posterior.log_evidence)
    duration = record.samples * record.dt
    return {
        "update": quantiles(plain),
        "update_with_rejuvenation": quantiles(rejuvenated),
        "real_time_factor": total / duration,
        "real_time_factor_processor": processor / duration,
        "posterior_s": time.perf_counter() - start,
        "pilot": online.run.pilot,
        "rejuvenations": len(online.posterior.history.rejuvenations),
    }


def submissions(online: ps.Identifier, record: ps.Record, size: int) -> dict[str, Any]:
    """In real time without waiting: how old the posterior is, and when it has caught up."""
    calls: list[float] = []
    ages: list[float] = []
    began, first = time.perf_counter(), 0
    while first < record.samples or online.lag:
        now = time.perf_counter() - began
        if first < record.samples and now >= min(first + size, record.samples) * record.dt:
            start = time.perf_counter()
            online.submit(*block(record, first, first + size))
            calls.append(time.perf_counter() - start)
            first += size
        elif now < record.samples * record.dt:
            ages.append(now - online.run.samples * record.dt)
        time.sleep(min(0.01, size * record.dt / 4))
    fed = time.perf_counter() - began - record.samples * record.dt
    online.close()
    return {"submit": quantiles(calls), "age_of_posterior": quantiles(ages), "caught_up_after_s": fed}


def measure(study: CaseStudy, options: argparse.Namespace, watch: Watch) -> dict[str, Any]:
    record = study.record[: options.samples]
    size = max(int(options.milliseconds / 1000 / record.dt), 1)

    def fresh() -> ps.Identifier:
        return identifier(study, record, options)

    updates(fresh(), record, size, watch)  # compiles every program that the others need
    result = {"samples": record.samples, "duration_s": record.samples * record.dt, "block": size}
    result |= updates(fresh(), record, size, watch)
    result |= submissions(fresh(), record, size)
    return result


def show(name: str, result: Mapping[str, Any]) -> None:
    print(f"{name}: {result['samples']} samples, {result['duration_s']:.3g} s, {result['block']} at once")
    for key, value in result.items():
        if isinstance(value, dict):
            print(f"  {key:28s}" + "  ".join(f"{k} {v:.3g}" for k, v in value.items()))
        elif key not in ("samples", "duration_s", "block"):
            print(f"  {key:28s}{value:.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, help="one of them; all if not given")
    parser.add_argument("--samples", type=int, help="how much of each record; all if not given")
    parser.add_argument("--milliseconds", type=float, default=50.0, help="length of a block; 0 for single samples")
    solver = parser.add_mutually_exclusive_group()
    solver.add_argument("--given", action="store_true", help="the solver of the case")
    solver.add_argument("--no-pilot", action="store_true", help="the probabilistic solver from beginning to end")
    parser.add_argument("--particles", type=int, help="in place of the case's own number")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    watch = Watch()
    results = {}
    for name in [options.case] if options.case else CASES:
        results[name] = measure(CASES[name](), options, watch)
        show(name, results[name])
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
