"""Scaling of time and memory with particles, samples, state dimension, parameters and cores.

python perf/scaling.py [--json FILE] [--part NAME ...] [--quick]

Parts: sweep (the filter over a record), identify (whole runs), afterwards (operations on a posterior), memory
(100 000 particles on the Silverbox record, from the folder named by PROBSYSID_DATA), online (an Identifier after 1000
and 10 000 samples).  Each runs in a separate process.  One core and all cores alternate, in sweeps from one
repetition to the next, in whole runs from process to process; the fastest counts.  The best possible speed-up is
measured with one process per core.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

Figures = dict[str, float]

PARTICLES = (128, 512, 2048, 8192, 16384)
SAMPLES = (128, 512, 2048, 8192)
STATES = {3: (1, 2), 4: (1, 3), 6: (1, 5), 8: (2, 3), 12: (3, 3), 16: (4, 3), 20: (5, 3), 40: (10, 3), 80: (20, 3)}
"""State dimension: masses in a chain, and smoothness of each."""
RUN_PARTICLES = (256, 1024, 4096)
RUN_SAMPLES = (250, 500, 1000, 2000)
RUN_PARAMETERS = (1, 3, 5, 7)
LATER_SAMPLES = (1000, 4000, 16000)
"""Samples of the records for operations on a posterior."""
DRAWS = 20
DEFAULT = "default"
"""In place of a number of particles: a run of `identify` with its defaults, with automatic steps."""
LONG_RUN = 2000
"""Samples of the runs against particles, on one device and on all."""
SHORTEST, LONGEST, MOST_REPEATS = 0.02, 4.0, 40
"""Least seconds per repetition of a sweep, as the processor's clock is coarse; seconds for all repetitions; most
repetitions, of which there are at least three."""
TURNS = 3
"""Repetitions of whole runs with one device, with several, and with one process per core; sweeps have one less."""
MANY = 100_000


def plain(substeps: int, smoothness: int | str = "auto", components: int = 0) -> Any:
    """A fixed number of steps per sample, with the filter that automatic steps use for so many components."""
    import probsysid as ps
    from probsysid.odefilter.solver import LARGEST_UNROLLED

    if components > LARGEST_UNROLLED:
        return ps.Solver(smoothness, substeps, linearisation="block-ekf1", conditioning="solver", diffusion="quasi-mle")
    return ps.Solver(smoothness, substeps, linearisation="ekf1", diffusion="quasi-mle")


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Exponent of the power law through the upper half of the points: below, the overhead per call shows."""
    half = len(sizes) // 2 if len(sizes) > 3 else 0
    return float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0])


def timed(function: Callable[[], Any], times: int = 1) -> Figures:
    """Seconds by the clock and of the processor, of one call."""
    began, busy = time.perf_counter(), time.process_time()
    for _ in range(times):
        function()
    spent = time.perf_counter() - began, time.process_time() - busy
    return {"seconds": spent[0] / times, "processor_seconds": spent[1] / times}


def least(*several: Figures) -> Figures:
    """The least of each figure."""
    return {name: min(figures[name] for figures in several) for name in several[0]}


def in_turns(functions: Mapping[str, Callable[[], Any]]) -> dict[str, Figures]:
    """The fastest repetition of each, interleaved: other load on the machine then affects all alike."""
    slowest = max(timed(function)["seconds"] for function in functions.values())
    times = int(np.ceil(SHORTEST / slowest))
    found = {name: timed(function, times) for name, function in functions.items()}
    for _ in range(int(np.clip(LONGEST / (times * slowest * len(functions)), 3, MOST_REPEATS))):
        found = {name: least(found[name], timed(function, times)) for name, function in functions.items()}
    return found


# Parts, each in a separate process


def sweep(quick: bool) -> dict[str, Any]:
    """The filter over a record: Duffing (state of 4) for particles and samples, chains of masses for the state.  By
    number of devices."""
    counts, lengths = PARTICLES[:2] if quick else PARTICLES, SAMPLES[:2] if quick else SAMPLES
    states = {size: STATES[size] for size in ((3, 4) if quick else STATES)}
    duffing, devices = STATES[4], sorted({1, CORES})
    result: dict[str, Any] = {str(n): {"particles": {}, "samples": {}} for n in devices}
    for count in counts:
        for n, row in _sweep(duffing, count, 512, devices)[0].items():
            result[n]["particles"][count] = row
    for length in lengths:
        for n, row in _sweep(duffing, 1024, length, devices)[0].items():
            result[n]["samples"][length] = row
    result["1"]["state"] = {}
    for size, shape in states.items():
        particles = 1024
        row, compile_seconds = _sweep(shape, particles, 128, [1])
        per_step = row["1"]["processor_seconds"] / (particles * 128) * 1e9
        result["1"]["state"][size] = {
            **row["1"],
            "nanoseconds": per_step,
            "compile_processor_seconds": compile_seconds,
        }
    return result


def _sweep(
    shape: tuple[int, int], particles: int, samples: int, devices: Sequence[int]
) -> tuple[dict[str, Figures], float]:
    """Time of one sweep by number of cores, and processor seconds of the preparation, including compilation."""
    import jax

    from probsysid.model.particle import Particle
    from probsysid.odefilter.filter import VectorisedFilter
    from probsysid.odefilter.filter_inputs import prepare
    from probsysid.odefilter.packed_samples import PackedSamples
    from probsysid.parallel.threads import Threads
    from probsysid.targets.filter_target import Batching

    masses, smoothness = shape
    ode_filter, record, solver = _chain(masses, smoothness, samples)
    random = np.random.default_rng(0)
    every = np.ones(particles)
    truth = {"m": 1.0, "c": 0.2, "k": 1.0, "k3": 0.5}
    values = Particle(
        parameters={n: v * np.exp(0.01 * random.standard_normal(particles)) for n, v in truth.items()},
        noise=[0.1 * every],
        initial_mean=[0.0 * every] * (2 * masses),
        initial_sd=[0.1 * every] * (2 * masses),
    )
    prepared, length = PackedSamples.of(prepare(record, ode_filter, solver.steps)), min(Batching().chunk, samples)
    places = [np.arange(k, k + length) for k in range(0, samples, length)]
    portions = [prepared.changed(lambda rows, at=at: rows[np.minimum(at, samples - 1)]) for at in places]
    busy = time.process_time()
    sweeps = {}
    for count in devices:
        own, chunks = VectorisedFilter(ode_filter, rows=Batching().rows(particles)), jax.device_put(portions)
        tasks = []
        for place in np.split(np.arange(particles), count):
            part = jax.device_put(jax.tree.map(lambda leaf, place=place: leaf[..., place], values))
            tasks.append(_Sweep(own, own.start(part, chunks[0])[0], part, chunks, samples))
            tasks[-1]()
        sweeps[str(count)] = partial(Threads(count).run, tasks)
    spent = time.process_time() - busy
    return in_turns(sweeps), spent


@dataclass(frozen=True)
class _Sweep:
    """One sweep of a filter, ready to go: chunk by chunk, as `BatchTarget.sweep` does it."""

    filter: Any
    state: Any
    particles: Any
    chunks: Sequence[Any]
    samples: int

    def __call__(self, given_up: Any = None) -> None:
        for state in self._states():
            state.block_until_ready()

    def _states(self) -> Iterator[Any]:
        state, left = self.state, self.samples
        for chunk in self.chunks:
            count = min(left, len(chunk))
            state, _ = self.filter.advance(state, self.particles, chunk, 0, count)
            yield state
            left -= count


def _chain(masses: int, smoothness: int, samples: int) -> tuple[Any, Any, Any]:
    """Masses in a row, each tied to the next by a hardening spring and a damper, the first one forced and measured."""
    import probsysid as ps

    def dynamics(s: Any, u: Any, p: Any) -> dict[str, Any]:
        x = [getattr(s, f"x{i}") for i in range(masses)]
        v = [getattr(s, f"dx{i}") for i in range(masses)]
        stretch = [a - b for a, b in zip(x, [*x[1:], 0.0], strict=True)]
        speed = [a - b for a, b in zip(v, [*v[1:], 0.0], strict=True)]
        force = [p.k * d + p.k3 * d * d * d + p.c * e for d, e in zip(stretch, speed, strict=True)]
        pull = [u.force, *force[:-1]]
        return {f"x{i}": (pull[i] - force[i]) / p.m for i in range(masses)}

    model = ps.Model(
        coordinates={f"x{i}": 2 for i in range(masses)},
        dynamics=dynamics,
        outputs=lambda s, u, p: {"position": s.x0},
    )
    random = np.random.default_rng(1)
    position = 0.1 * random.standard_normal(samples)
    inputs = {"force": 0.1 * random.standard_normal(samples)}
    record = ps.Record(inputs, {"position": position}, dt=0.2, intersample="linear")
    solver = plain(1, smoothness, masses * (smoothness + 1))
    return solver.ode_filter(model, record.jump_order), record, solver


def identify(quick: bool) -> dict[str, Any]:
    """Whole runs with two steps per sample, without compilation, against samples and quantities."""
    lengths, free = RUN_SAMPLES[:1] if quick else RUN_SAMPLES, RUN_PARAMETERS[:1] if quick else RUN_PARAMETERS
    return {
        "samples": {length: _run(512, length, 7) for length in lengths},
        "parameters": {number: _run(512, 500, number) for number in free},
    }


def populations(quick: bool) -> dict[str, Any]:
    """Whole runs against particles, and one with the defaults of `identify`."""
    import probsysid as ps

    counts, samples = (RUN_PARTICLES[:1], RUN_SAMPLES[0]) if quick else (RUN_PARTICLES, LONG_RUN)
    plain_runs = {count: _run(count, samples, 7) for count in counts}
    return plain_runs | {DEFAULT: _run(ps.Sampler().particles, samples, 7, ps.Solver())}


def afterwards(quick: bool) -> dict[str, Any]:
    """Operations on a posterior of 256 particles, against samples."""
    lengths = LATER_SAMPLES[:2] if quick else LATER_SAMPLES
    posteriors = {length: _identified(256, length, 7, plain(2)) for length in lengths}
    asked = {
        "states": lambda posterior: posterior.states(draws=DRAWS),
        "simulate": lambda posterior: posterior.simulate(posterior.records[0]),
        "refined": lambda posterior: posterior.refined(1024),
        "log likelihood": lambda posterior: posterior.to_arviz(),
    }
    tables = {name: {n: _second(partial(ask, p)) for n, p in posteriors.items()} for name, ask in asked.items()}
    return tables | {"slopes": slopes(tables)}


def _second(function: Callable[[], Any]) -> Figures:
    """A call after the first, which compiles."""
    function()
    return least(timed(function), timed(function))


def _identified(particles: int, samples: int, free: int, solver: Any) -> Any:
    import probsysid as ps

    model, record, priors = _oscillator(samples)
    given = {name: priors[name] if i < free else _TRUTH[name] for i, name in enumerate(priors)}
    return ps.identify(
        model,
        record,
        {name: given[name] for name in ("m", "c", "k", "k3")},
        {"position": given["noise.position"]},
        {"x": given["initial.x"], "dx": given["initial.dx"]},
        solver=solver,
        sampler=ps.Sampler(particles=particles),
    )


def _run(particles: int, samples: int, free: int, solver: Any = None) -> dict[str, float]:
    found: list[Any] = []

    def once() -> None:
        found.append(_identified(particles, samples, free, plain(2) if solver is None else solver))

    once()
    return {**least(timed(once), timed(once)), "sweeps": found[-1].settings.sweeps}


_TRUTH = {"m": 1.0, "c": 0.2, "k": 1.0, "k3": 0.5, "noise.position": 0.1, "initial.x": 0.5, "initial.dx": -0.3}


def _oscillator(samples: int) -> tuple[Any, Any, Mapping[str, Any]]:
    """The record and priors of end_to_end.py."""
    sys.path.insert(0, str(Path(__file__).resolve().parent / "methods"))
    import duffing
    import with_probsysid

    import probsysid as ps

    force, position = duffing.record(samples)
    record = ps.Record({"force": force}, {"position": position}, dt=duffing.DT, intersample="linear")
    return with_probsysid.MODEL, record, with_probsysid.PRIORS


class _Enough(Exception):
    """A run that has measured what it should."""


def memory(quick: bool) -> dict[str, Any]:
    """Peak memory of the process: the start of a run, then the whole record, resampling, one move, and the errors.

    A full run repeats what is done here and holds nothing else: the peak is the same after fewer samples.
    """
    import probsysid as ps
    from probsysid import dist
    from probsysid.benchmarks import silverbox
    from probsysid.model.problem import Problem
    from probsysid.parallel.default import default_executor
    from probsysid.smc.metropolis import ParticleBatch
    from probsysid.smc.rejuvenate import rejuvenate
    from probsysid.targets.batch_target import BatchTarget

    particles, samples = (4096, 256) if quick else (MANY, 3072)
    study = silverbox.study()
    record, priors, initial = study.record[:samples], study.priors, study.initial
    peaks = {"libraries": _peak()}
    runs: list[Any] = []

    def notice(run: Any, step: Any) -> None:
        runs[:] = [run]
        if run.samples >= 8 and step.rejuvenations:
            raise _Enough

    noise = {"position": dist.LogNormal(np.log(5e-3), 1.0)}
    solver, settings = plain(2, 3), ps.Sampler(particles=particles, max_moves=1)
    with suppress(_Enough):
        ps.identify(study.model, record, priors, noise, initial, solver=solver, sampler=settings, notice=notice)
    peaks["first_rejuvenations"] = _peak()
    (run,) = runs
    problem = Problem.make(study.model, priors, noise, [initial], None)
    target = BatchTarget(problem, solver, [record], particles, default_executor())
    del runs[:]
    state, likelihood, energy = target.sweep(run.flat_theta, record.samples)
    peaks["whole_record"] = _peak()
    shape = run.log_weights.shape
    cloud = ParticleBatch(run.theta, np.asarray(likelihood).reshape(shape), np.asarray(energy).reshape(shape), state)
    state = None
    moved, *_ = rejuvenate(cloud, run.log_weights, target, settings, record.samples - 1, 1.0, (0, 1, 0))
    peaks["resampled_and_moved"] = _peak()
    target.one_step_errors(moved.theta.reshape(len(moved.theta), -1), np.full(particles, 1 / particles))
    peaks["one_step_errors"] = _peak()
    return {"particles": particles, "samples": samples, "peak_bytes": peaks, "limit_bytes": 2_000_000_000}


def _peak() -> int:
    """Peak memory of the process so far, in bytes (Linux counts kibibytes, macOS bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def online(quick: bool) -> dict[str, Any]:
    """Size of an Identifier after some samples: its file, and the memory of the process."""
    import probsysid as ps

    marks = (100, 200) if quick else (1000, 4000, 10_000)
    model, record, priors = _oscillator(marks[-1])
    stream = ps.Identifier(
        model,
        {name: priors[name] for name in ("m", "c", "k", "k3")},
        {"position": priors["noise.position"]},
        {"x": priors["initial.x"], "dx": priors["initial.dx"]},
        dt=record.dt,
        solver=plain(2),
        sampler=ps.Sampler(particles=128),
    )
    result: dict[str, Any] = {"particles": 128, "samples": {}}
    force, position = record.inputs["force"], record.outputs["position"]
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, marks[-1], 100):
            stream.update({"force": force[first : first + 100]}, {"position": position[first : first + 100]})
            if stream.samples in marks:
                path = Path(folder) / "state.npz"
                stream.save(path)
                result["samples"][stream.samples] = {"file_bytes": path.stat().st_size, "resident_bytes": _resident()}
    (least, *_, most) = marks
    grown = {key: result["samples"][most][key] - result["samples"][least][key] for key in result["samples"][most]}
    result["bytes_per_sample"] = {key: value / (most - least) for key, value in grown.items()}
    return result


def _resident() -> int:
    """Resident memory of the process; the peak where the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return _peak()


# Together

PARTS = {"sweep": sweep, "identify": identify, "afterwards": afterwards, "memory": memory, "online": online}
CHILDREN = PARTS | {"populations": populations}


def child(part: str, quick: bool, devices: int | None = None) -> dict[str, Any] | None:
    """The figures of a part, None and a sentence where it fails."""
    print(f"{time.strftime('%H:%M:%S')} {part}{'' if devices is None else f', {devices} devices'}", flush=True)
    return _figures(part, _started(part, quick, devices))


def one_a_core(part: str, quick: bool) -> dict[str, Any] | None:
    """The figures of the slowest of several simultaneous processes, one per core, each with one device."""
    print(f"{time.strftime('%H:%M:%S')} {part}, one process per core", flush=True)
    started = [_started(part, quick, 1) for _ in range(CORES)]
    found = [_figures(part, process) for process in started]
    if any(tables is None for tables in found):
        return None
    return {size: max((tables[size] for tables in found), key=lambda row: row["seconds"]) for size in found[0]}


def _started(part: str, quick: bool, devices: int | None) -> "subprocess.Popen[str]":
    environment = os.environ | ({} if devices is None else {"PROBSYSID_DEVICES": str(devices)})
    if part == "sweep":  # compile times are those of a first run
        environment |= {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    command = [sys.executable, __file__, "--child", part, *(["--quick"] if quick else [])]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _figures(part: str, process: "subprocess.Popen[str]") -> dict[str, Any] | None:
    said, complained = process.communicate()
    if process.returncode:
        print(f"No figures for {part}: {(complained.strip().splitlines() or ['it failed'])[-1]}", flush=True)
        return None
    return json.loads(said.strip().splitlines()[-1])


def measure(parts: Sequence[str], quick: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"cores": CORES, "made": time.strftime("%Y-%m-%d")}
    if "sweep" in parts:
        result["sweep"] = sweeps(quick)
    if "identify" in parts:
        result["identify"] = runs(quick)
    for part in ("afterwards", "memory", "online"):
        if part in parts:
            result[part] = child(part, quick)
    return result


def sweeps(quick: bool) -> dict[str, Any] | None:
    """The filter over a record: the fastest of two processes some minutes apart."""
    turns = [child("sweep", quick, CORES) for _ in range(1 if quick else TURNS - 1)]
    if any(turn is None for turn in turns):
        return None
    best = {n: {name: _fastest([turn[n][name] for turn in turns]) for name in tables} for n, tables in turns[0].items()}
    sped = speed_up(best["1"]["particles"], best[str(CORES)]["particles"])
    return best | {"slopes": slopes(best["1"]), "speed_up": sped}


def runs(quick: bool) -> dict[str, Any] | None:
    """Whole runs: against samples and quantities on one device, against particles on one and on all."""
    found = child("identify", quick, 1)
    ways = {
        "particles": lambda: child("populations", quick, 1),
        "particles_all_cores": lambda: child("populations", quick, CORES),
        "particles_one_a_core": lambda: one_a_core("populations", quick),
    }
    turns = [{name: way() for name, way in ways.items()} for _ in range(1 if quick else TURNS)]
    if found is None or any(table is None for turn in turns for table in turn.values()):
        return None
    found |= {name: _fastest([turn[name] for turn in turns]) for name in ways}
    shared = {n: found["particles"][n]["seconds"] / row["seconds"] for n, row in found["particles_one_a_core"].items()}
    return found | {
        "slopes": slopes({name: found[name] for name in ("samples", "parameters", "particles")}),
        "speed_up": speed_up(found["particles"], found["particles_all_cores"]),
        "speed_up_possible": {n: CORES * value for n, value in shared.items()},
    }


def _fastest(tables: Sequence[Mapping[str, Figures]]) -> dict[str, Figures]:
    """The least of each figure in tables of the same rows."""
    return {size: least(*(table[size] for table in tables)) for size in tables[0]}


def slopes(figures: Mapping[str, Any]) -> dict[str, float]:
    """Of processor time against each size; a step's for states, which are not swept with the same particles."""
    found = {}
    for name, table in figures.items():
        rows = {float(size): row for size, row in table.items() if size != DEFAULT}
        if len(rows) > 1:
            values = [row.get("nanoseconds", row["processor_seconds"]) for row in rows.values()]
            found[name] = slope(list(rows), values)
    return found


def speed_up(one: Mapping[str, Any], all_cores: Mapping[str, Any]) -> dict[str, float]:
    """By the clock, all cores over one, for each number of particles."""
    return {n: one[n]["seconds"] / all_cores[n]["seconds"] for n in one}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--quick", action="store_true", help="small sizes, to check that it works")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(CHILDREN[given.child](given.quick)))
        return
    result = measure(given.part or list(PARTS), given.quick)
    print(json.dumps(result, indent=2))
    if given.json:
        given.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
