"""Cost of one filter step, in nanoseconds per particle, against C, Runge-Kutta and other libraries.  See README.md."""
# ruff: noqa: E402

import os

ENVIRONMENT = dict(os.environ)
"""The environment before probsysid sets options for XLA, which the other libraries must not inherit."""
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # compile times are those of a first run
if hasattr(os, "sched_setaffinity"):  # one core for everything, before JAX counts them
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import probsysid as ps  # isort: skip

import ctypes
import json
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from jax import lax
from peers_environment import peers_python
from problems import CHAINS, PARTICLES, PROBLEMS, SAMPLES, Data, Problem, make_data, measured, runge_kutta
from rich.console import Console
from rich.table import Table

from probsysid._internal.jax_setup import jit_fused
from probsysid.model.particle import Particle
from probsysid.odefilter import iwp
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.filter import VectorisedFilter, map_blocks
from probsysid.odefilter.filter_inputs import prepare
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.runge_kutta import RungeKuttaFilter
from probsysid.odefilter.runge_kutta import prepare as prepare_pilot
from probsysid.odefilter.solver import LOCAL

HERE = Path(__file__).resolve().parent
STEPS = SAMPLES - 1
RELATIVE_ERROR = 1e-9
"""Largest difference between an energy of C or of another library and ours, relative to the larger of it and 1."""

C_STATE = {"duffing": 16, "bouc_wen": 38}
"""Numbers in the state that kernel.c takes over from Filter.start."""
C_FLAGS = (
    "-O3",
    "-march=native",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fschedule-insns",
    "-fsched-pressure",
)
C_VARIANTS = {
    "in order": [],
    # What -ffast-math does, but for its assumption that there is no NaN (missing data) and for its start-up code, which
    # would flush subnormal numbers to zero in the whole process.
    "reassociated": ["-fassociative-math", "-freciprocal-math", "-fno-signed-zeros"],
}

PEERS = ("probdiffeq", "rodeo", "probdiffeq_without_data", "rodeo_without_data")
SAME_STATE = {("duffing", "probdiffeq"), ("duffing", "rodeo"), ("bouc_wen", "rodeo")}
SAME_STATE |= {(problem.name, name) for problem in CHAINS for name in ("probdiffeq", "rodeo")}
"""Where another library's state equals ours, so that its energies must equal ours too."""

console = Console()


@dataclass
class Kernel:
    """Something to time: call it once for all particles and steps."""

    problem: str
    name: str
    run: Callable[[], float]
    """Returns the processor seconds taken: on one core, the time on a machine without other work."""
    repeats: int = 1
    """Runs a round."""
    particles: int = PARTICLES
    steps: int = STEPS
    best: float = field(default=np.inf)

    def round(self) -> None:
        self.best = min(self.best, *(self.run() for _ in range(self.repeats)))

    @property
    def nanoseconds(self) -> float:
        """Per particle and step."""
        return self.best / (self.particles * self.steps) * 1e9


def timed(function: Callable[[], Any]) -> Callable[[], float]:
    def run() -> float:
        begin = time.process_time()
        jax.block_until_ready(function())
        return time.process_time() - begin

    return run


# Ours


@dataclass
class Ours:
    """The compiled filter on one problem, and what goes in and comes out."""

    problem: Problem
    filter: VectorisedFilter
    particles: Particle
    samples: PackedSamples
    advance: Callable[..., Any]
    start: np.ndarray
    """Packed state after the first sample."""
    energies: np.ndarray
    """Of all later samples: (step, particle)."""
    compile_seconds: float
    model: ps.Model
    record: ps.Record

    @property
    def count(self) -> int:
        """Particles."""
        return self.energies.shape[1]

    @property
    def steps(self) -> int:
        return len(self.energies)


def our_filter(
    problem: Problem, data: Data, diffusion: Any = "quasi-mle", initial_sd: float = 1.0, *, arrays: bool = False
) -> Ours:
    """In the form used for a state of this dimension, or on arrays, which compile faster."""
    model = ps.Model(coordinates=problem.coordinates, dynamics=problem.dynamics, outputs=problem.outputs)
    smoothness = dict(zip(problem.coordinates, problem.smoothness, strict=True))
    solver = ps.Solver(smoothness=smoothness, substeps=1, linearisation="ekf1", diffusion=diffusion)
    (output,) = model.output_names
    record = ps.Record({"force": data.force}, {output: data.outputs}, dt=problem.dt)
    ode_filter = solver.ode_filter(model, record.jump_order)
    filter = VectorisedFilter(as_array_filter(ode_filter) if arrays else ode_filter)
    particles = jax.device_put(_particles(problem, data, initial_sd))
    samples = jax.device_put(PackedSamples.of(prepare(record, filter.ode_filter, solver.steps)))
    begin = time.process_time()
    packed, _ = filter.start(particles, samples)
    _, energies = jax.block_until_ready(filter.advance(packed, particles, samples, 1, len(data.outputs)))
    seconds = time.process_time() - begin
    energies = np.asarray(energies)[:-1]
    if not np.all(np.isfinite(energies)):
        raise SystemExit(f"{problem.name}: {np.mean(~np.isfinite(energies)):.1%} of our energies are not finite.")
    start = np.array(packed)
    return Ours(problem, filter, particles, samples, filter.advance, start, energies, seconds, model, record)


def our_pilot(problem: Problem, data: Data, ours: Ours) -> Ours:
    """The Runge-Kutta likelihood of the same model, record and particles, with one step per sample."""
    filter = VectorisedFilter(RungeKuttaFilter(ours.model))
    samples = jax.device_put(PackedSamples.of(prepare_pilot(ours.record, ours.model, 1)))
    begin = time.process_time()
    packed, _ = filter.start(ours.particles, samples)
    _, energies = jax.block_until_ready(filter.advance(packed, ours.particles, samples, 1, len(data.outputs)))
    seconds = time.process_time() - begin
    start, energies = np.array(packed), np.asarray(energies)[:-1]
    return replace(
        ours,
        filter=filter,
        samples=samples,
        advance=filter.advance,
        start=start,
        energies=energies,
        compile_seconds=seconds,
    )


def _particles(problem: Problem, data: Data, initial_sd: float) -> Particle:
    every = np.ones_like(next(iter(data.parameters.values())))
    return Particle(
        parameters=dict(data.parameters),
        noise=[problem.noise * every],
        initial_mean=[value * every for value in data.initial],
        initial_sd=[initial_sd * value * every for value in problem.initial_sd],
    )


def our_kernel(ours: Ours, name: str = "ours") -> Kernel:
    arguments = (jnp.asarray(ours.start), ours.particles, ours.samples, 1, 1 + ours.steps)
    return Kernel(ours.problem.name, name, timed(lambda: ours.advance(*arguments)), 5, ours.count, ours.steps)


# Plain Runge-Kutta: the likelihood without integration error


def runge_kutta_kernel(ours: Ours, data: Data) -> Kernel:
    """One RK4 step per sample and a Gaussian likelihood, in blocks like ours."""
    problem = ours.problem
    force, halfway, outputs = (jnp.asarray(x) for x in (data.inputs[:, 0], data.halfway, data.outputs))

    def block(arguments: tuple[list[Any], Any, Any]) -> Any:
        state, parameters, noise = arguments

        def step(k: Any, carry: tuple[list[Any], Any]) -> tuple[list[Any], Any]:
            state, energies = carry
            state = runge_kutta(problem, state, (force[k - 1], halfway[k], force[k]), problem.dt, parameters)
            miss = (outputs[k] - measured(problem, state, force[k], parameters)) / noise
            energy = 0.5 * miss * miss + jnp.log(noise) + 0.5 * jnp.log(2 * jnp.pi)
            return state, lax.dynamic_update_index_in_dim(energies, energy, k, 0)

        return lax.fori_loop(1, 1 + ours.steps, step, (state, jnp.zeros((1 + ours.steps, noise.shape[-1]))))[1]

    particles = ours.particles
    arguments = (particles.initial_mean, particles.parameters, particles.noise[0])
    compiled = jit_fused(lambda *a: map_blocks(block, a, ours.filter.block)).lower(*arguments).compile()
    if not np.all(np.isfinite(np.asarray(compiled(*arguments)))):
        raise SystemExit(f"{problem.name}: Runge-Kutta's energies are not all finite.")
    return Kernel(problem.name, "rk4", timed(lambda: compiled(*arguments)), 5, ours.count, ours.steps)


# C


def build_c(folder: Path) -> dict[str, ctypes.CDLL]:
    """The C kernel under each set of flags; empty where there is no gcc."""
    if shutil.which("gcc") is None:
        console.print("No C kernel: there is no gcc.")
        return {}
    vector_log = ["-lmvec"] if platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc" else []
    libraries = {}
    for name, flags in C_VARIANTS.items():
        target = folder / f"kernel_{len(libraries)}.so"
        command = ["gcc", *C_FLAGS, *flags, "-shared", "-fPIC", "-o", str(target), str(HERE / "kernel.c")]
        subprocess.run([*command, *vector_log, "-lm"], check=True)
        libraries[name] = ctypes.CDLL(str(target))
    return libraries


def c_kernel(ours: Ours, name: str, library: ctypes.CDLL) -> tuple[Kernel, float]:
    """The kernel, and the largest difference of its energies from ours."""
    problem, samples = ours.problem, jax.vmap(ours.samples.form.unpack)(ours.samples.numbers)
    count = ours.count
    if count % library.block_size():
        raise SystemExit(f"{count} particles are not a whole number of blocks of {library.block_size()}.")
    begun = ours.start[:-2]  # without the sums of energies
    if len(begun) != C_STATE[problem.name]:
        raise SystemExit(f"{problem.name}: our state has {len(begun)} numbers, not {C_STATE[problem.name]}.")
    energies = np.zeros((STEPS, count))
    state = begun.copy()
    inputs = [
        np.stack([np.asarray(ours.particles.parameters[name]) for name in problem.parameters]),
        np.asarray(ours.particles.noise[0]),
        np.asarray(samples.scales[0]),
        *(iwp.process_factor(q) for q in problem.smoothness),
        np.asarray(samples.grid[1:, 0, 0]),
        np.asarray(samples.outputs[1:, 0]),
        np.asarray(samples.unit[1:, 0]),
        state,
        energies,
    ]
    inputs = [np.ascontiguousarray(array, dtype=float) for array in inputs]
    assert inputs[-2] is state and inputs[-1] is energies
    function = getattr(library, problem.name)
    function.restype = None
    arguments = [ctypes.c_long(count), ctypes.c_long(STEPS), *(ctypes.c_void_p(a.ctypes.data) for a in inputs)]

    def run() -> float:
        state[:] = begun
        begin = time.process_time()
        function(*arguments)
        return time.process_time() - begin

    run.inputs = inputs  # type: ignore[attr-defined]  # keeps the arrays alive
    run()
    return Kernel(problem.name, f"c, {name}", run, repeats=5, particles=count), difference(energies, ours.energies)


def c_pilot(pilot: Ours, data: Data, name: str, library: ctypes.CDLL) -> tuple[Kernel, float]:
    """The pilot in C, and the largest difference of its energies from ours."""
    problem, count = pilot.problem, pilot.count
    energies, begun = np.zeros((STEPS, count)), pilot.start[:-2]
    inputs = [
        np.stack([np.asarray(pilot.particles.parameters[name]) for name in problem.parameters]),
        np.asarray(pilot.particles.noise[0]),
        np.array([problem.dt]),
        data.inputs[:, 0],
        # as the record has it: linear between samples, or as a function of time
        np.asarray(pilot.record.input_grid(2))[1:, 0, 0],
        data.outputs[1:],
        begun,
        energies,
    ]
    inputs = [np.ascontiguousarray(array, dtype=float) for array in inputs]
    assert inputs[-1] is energies
    function = getattr(library, f"{problem.name}_pilot")
    function.restype = None
    arguments = [ctypes.c_long(count), ctypes.c_long(STEPS), *(ctypes.c_void_p(a.ctypes.data) for a in inputs)]

    def run() -> float:
        begin = time.process_time()
        function(*arguments)
        return time.process_time() - begin

    run.inputs = inputs  # type: ignore[attr-defined]  # keeps the arrays alive
    run()
    kernel = Kernel(problem.name, f"c pilot, {name}", run, repeats=5, particles=count)
    return kernel, difference(energies, pilot.energies)


def difference(energies: Any, reference: Any) -> float:
    return float(np.max(np.abs(energies - reference) / np.maximum(np.abs(reference), 1)))


# Other libraries


class Peers:
    """The worker of peers.py: one request, one answer."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.versions: dict[str, str] = self._answer().get("versions", {})

    def ask(self, case: dict[str, Any], kernel: str, action: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"case": case, "kernel": kernel, "action": action}) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the worker of the other libraries has ended"}

    def kernel(self, problem: Problem, name: str, reference: Ours | None, particles: int, steps: int) -> Kernel | None:
        """Compiled, and its energies compared with those of the reference, if there is one."""
        case = {"problem": problem.name, "smoothness": problem.smoothness, "dt": problem.dt}
        case |= {"particles": particles, "samples": steps + 1}
        prepared = self.ask(case, name, "prepare")
        if "error" in prepared:
            console.print(f"No {name} on {problem.name}: {prepared['error']}")
            return None
        if reference is not None and (problem.name, name) in SAME_STATE:
            expected = float(reference.energies.sum(0).mean())
            if difference(prepared["energy"], expected) > RELATIVE_ERROR:
                raise SystemExit(
                    f"{name} on {problem.name} has mean energy {prepared['energy']}, ours is {expected}: "
                    "not the same work."
                )

        def run() -> float:
            answer = self.ask(case, name, "run")
            if "error" in answer:
                raise SystemExit(f"{name} on {problem.name}: {answer['error']}")
            return answer["seconds"]

        return Kernel(problem.name, name, run, particles=particles, steps=steps)


@contextmanager
def start_peers(wanted: bool) -> Any:
    python, reason = peers_python(ENVIRONMENT) if wanted else (None, "")
    if python is None:
        if wanted:
            console.print(f"No other libraries: {reason}")
        yield None
        return
    command = [str(python), "peers.py"]
    with subprocess.Popen(
        command, cwd=HERE, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Peers(process)
        finally:
            process.stdin.close()  # the worker ends with its input


# Together


def measure(rounds: int, with_peers: bool) -> dict[str, Any]:
    kernels: list[Kernel] = []
    results: dict[str, Any] = {}
    with start_peers(with_peers) as peers, tempfile.TemporaryDirectory() as folder:
        libraries = build_c(Path(folder))
        for problem in PROBLEMS:
            data = make_data(problem)
            ours = our_filter(problem, data)
            results[problem.name] = {"compile_seconds": ours.compile_seconds, "block": ours.filter.block}
            kernels += [our_kernel(ours), runge_kutta_kernel(ours, data)]
            kernels += _checked_c(problem, partial(c_kernel, ours), libraries, results[problem.name])
            pilot = our_pilot(problem, data, ours)
            kernels += [our_kernel(our_filter(problem, data, LOCAL), "defaults"), our_kernel(pilot, "pilot")]
            kernels += _checked_c(problem, partial(c_pilot, pilot, data), libraries, {})
            if peers is not None:
                fixed = our_filter(problem, data, ps.Fixed(problem.diffusion), initial_sd=0.0)
                found = [peers.kernel(problem, name, fixed, PARTICLES, STEPS) for name in PEERS]
                kernels += [kernel for kernel in found if kernel is not None]
        for k in range(rounds):
            console.print(f"Round {k + 1} of {rounds}")
            for kernel in kernels:
                kernel.round()
        versions = {} if peers is None else {name: peers.versions.get(name) for name in ("probdiffeq", "rodeo")}
    for problem in PROBLEMS:
        _collect(results[problem.name], {k.name: k.nanoseconds for k in kernels if k.problem == problem.name})
    results["environment"] = environment(versions)
    return results


SIZES_PARTICLES = (128, 512, 2048, 8192, 16384)
SIZES_STATE = {
    "duffing": ((2,), (3,), (4,), (5,)),  # states of 3 to 6
    "bouc_wen": ((3, 2), (4, 3)),  # states of 7 and 9
}
"""Smoothness of each coordinate.  C is written for the first of Bouc-Wen and the second of Duffing."""


SHORTER = 4

PEERS_STEPS = 64
"""Steps of the other libraries here: their cost per step does not depend on the number of steps."""

PEERS_ROUNDS = 2


def measure_sizes(rounds: int, with_peers: bool) -> list[dict[str, Any]]:
    """Ours, Runge-Kutta, the other libraries and, where it is written, C: over numbers of particles, and over sizes of
    the state."""
    wanted = [(problem, problem.smoothness, count) for problem in PROBLEMS for count in SIZES_PARTICLES]
    wanted += [(problem, q, PARTICLES) for problem in PROBLEMS for q in SIZES_STATE[problem.name]]
    wanted += [(problem, problem.smoothness, PARTICLES) for problem in CHAINS]
    rows = []
    with start_peers(with_peers) as peers, tempfile.TemporaryDirectory() as folder:
        libraries = build_c(Path(folder))
        for problem, smoothness, count in wanted:
            usual = smoothness == problem.smoothness
            # at q = 5, steps that suit the usual smoothness lose half of the particles
            chosen = replace(problem, smoothness=smoothness, dt=problem.dt if usual else problem.dt / SHORTER)
            data = make_data(chosen, particles=count)
            ours = our_filter(chosen, data)
            row: dict[str, Any] = {"problem": problem.name, "state": sum(smoothness) + len(smoothness)}
            row |= {"particles": count, "compile_seconds": ours.compile_seconds}
            kernels = [our_kernel(ours), runge_kutta_kernel(ours, data)]
            if usual and problem.name in C_STATE:
                kernels += _checked_c(chosen, partial(c_kernel, ours), libraries, row)
            if peers is not None:
                kernels += _peers_of_size(peers, chosen, count)
            for k in range(rounds):
                for kernel in kernels:
                    if k < PEERS_ROUNDS or kernel.name not in PEERS:
                        kernel.round()
            found = {kernel.name: kernel.nanoseconds for kernel in kernels}
            c = min((value for name, value in found.items() if name.startswith("c, ")), default=None)
            others = {name: found.get(name) for name in ("ours", "rk4", "probdiffeq", "rodeo")}
            rows.append(row | others | {"c": c})
            console.print(rows[-1])
    return rows


def _peers_of_size(peers: Peers, problem: Problem, particles: int) -> list[Kernel]:
    """The two other libraries with the data; on a chain of masses their energies are checked."""
    fixed = None
    if problem in CHAINS:
        data = make_data(problem, PEERS_STEPS + 1, particles)
        fixed = our_filter(problem, data, ps.Fixed(problem.diffusion), initial_sd=0.0, arrays=True)
    found = [peers.kernel(problem, name, fixed, particles, PEERS_STEPS) for name in ("probdiffeq", "rodeo")]
    return [kernel for kernel in found if kernel is not None]


def _checked_c(
    problem: Problem,
    make: Callable[[str, ctypes.CDLL], tuple[Kernel, float]],
    libraries: dict[str, ctypes.CDLL],
    result: dict[str, Any],
) -> list[Kernel]:
    kernels, errors = [], []
    for name, library in libraries.items():
        kernel, error = make(name, library)
        if not error <= RELATIVE_ERROR:
            raise SystemExit(f"{problem.name}: energies of C ({name}) differ from ours by {error:.1e} relative.")
        kernels.append(kernel)
        errors.append(error)
    result["c_relative_error"] = max(errors, default=None)
    return kernels


def _collect(result: dict[str, Any], nanoseconds: dict[str, float]) -> None:
    variants = {name.removeprefix("c, "): value for name, value in nanoseconds.items() if name.startswith("c, ")}
    fastest = min(variants, key=variants.__getitem__, default=None)
    result["c"] = variants.get(fastest)
    result["c_variants"] = variants
    pilots = [value for name, value in nanoseconds.items() if name.startswith("c pilot, ")]
    result["c_pilot"] = min(pilots, default=None)
    for name in ("ours", "rk4", "defaults", "pilot", *PEERS):
        result[name] = nanoseconds.get(name)
    result.update(particles=PARTICLES, samples=STEPS)


def environment(versions: dict[str, Any]) -> dict[str, Any]:
    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True) if shutil.which("gcc") else None
    return {
        "cpu": _cpu_model(),
        "versions": {
            "python": platform.python_version(),
            "jax": jax.__version__,
            "numpy": np.__version__,
            "probsysid": ps.__version__,
            "gcc": gcc.stdout.strip() if gcc else None,
            **versions,
        },
        "c_flags": {name: " ".join([*C_FLAGS, *flags]) for name, flags in C_VARIANTS.items()},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


ROWS = (
    ("ours", "ours"),
    ("c", "C, the same algebra"),
    ("defaults", "ours, local diffusion"),
    ("rk4", "RK4, no integration error"),
    ("pilot", "the pilot"),
    ("c_pilot", "C, the pilot"),
    ("probdiffeq", "probdiffeq, dense TS1"),
    ("rodeo", "rodeo, square root"),
    ("probdiffeq_without_data", "probdiffeq, ODE alone"),
    ("rodeo_without_data", "rodeo, ODE alone"),
)


def show(results: dict[str, Any]) -> None:
    table = Table(title=f"ns per particle and step: {PARTICLES} particles, {STEPS} steps, one core")
    table.add_column("")
    for problem in PROBLEMS:
        table.add_column(problem.name, justify="right")
        table.add_column("over ours", justify="right")
    for key, label in ROWS:
        cells = []
        for problem in PROBLEMS:
            value, ours = results[problem.name][key], results[problem.name]["ours"]
            cells += ["-", "-"] if value is None else [f"{value:.1f}", f"{value / ours:.2f}"]
        table.add_row(label, *cells)
    console.print(table)
    for problem in PROBLEMS:
        result = results[problem.name]
        ratio = "-" if result["c"] is None else f"{result['ours'] / result['c']:.2f}"
        pilot = "-" if result["c_pilot"] is None else f"{result['pilot'] / result['c_pilot']:.2f}"
        console.print(f"{problem.name}: ours / C = {ratio}, ours compiles in {result['compile_seconds']:.1f} s")
        console.print(f"{problem.name}: pilot / C = {pilot}")
    machine = results["environment"]
    console.print(machine["cpu"], machine["versions"])


def main(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Repetitions, of which the fastest counts.")] = 7,
    peers: Annotated[bool, typer.Option(help="Time probdiffeq and rodeo too.")] = True,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Other numbers of particles and sizes of the state, too.")
    ] = False,
) -> None:
    """Nanoseconds per particle and step for Duffing and Bouc-Wen: ours, C, RK4, probdiffeq, rodeo."""
    results = measure(rounds, peers)
    show(results)
    if sizes:
        results["sizes"] = measure_sizes(rounds, peers)
    if json_file is not None:
        json_file.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
