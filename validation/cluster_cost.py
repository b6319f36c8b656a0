"""What a cluster costs: sweeps on workers against threads, tasks and bytes per sweep, and a model of time.

python -m validation.cluster_cost [--runs]

With `--runs`, whole runs with automatic steps on two local workers against two threads, in processor time, once their
programs are compiled.  Otherwise sweeps and the model.

Workers live in network namespaces (root only), so that their links count bytes and packets, and have a delay and a
bandwidth.  Processor times hardly depend on what else the machine does; the model is made of them:

    seconds = rounds x (worker + block x samples x steps x filter) + blocks x (client + scheduler)
              + bytes / bandwidth + 4 x delay

with rounds = blocks / workers, rounded up.  A task and its result cross the network four times: the task, the news that
it is done, the question for its result, the result.  What idle processes take is measured, and subtracted.
"""

import json
import sys
import time
from collections.abc import Callable
from itertools import product

import jax
import numpy as np
import psutil

import probsysid as ps
from probsysid.model.problem import Problem
from probsysid.parallel.cluster import block_size
from probsysid.targets.batch_target import BatchTarget
from validation.dask_processes import Network, Processes
from validation.duffing import MODEL
from validation.nuts import INITIAL, NOISE, PRIORS, data

PARTICLES, SAMPLES, WORKERS, REPEATS = 4096, 2000, 2, 8
IDLE = 10.0
"""Seconds for which idle processes are watched."""
SLOW, LATE, SLOW_BYTES = "20mbit", 0.01, 125e6 / 50
"""A slow network for the check of the model: its bandwidth, also in bytes per second, and its delay."""


def target(executor: ps.Threads | ps.Cluster) -> BatchTarget:
    problem = Problem.make(MODEL, PRIORS, {"position": NOISE}, [INITIAL], None)
    return BatchTarget(problem, ps.Solver(substeps=1), (data(SAMPLES),), PARTICLES, executor)


def timed(sweep: Callable[[], object]) -> list[float]:
    """Seconds of each repetition."""
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        sweep()
        seconds.append(time.perf_counter() - began)
    return seconds


def cpu(process: psutil.Process) -> float:
    used = process.cpu_times()
    return used.user + used.system


def measure(network: Network) -> dict[str, float]:
    theta = np.asarray(target(ps.Threads(cores=2)).sample_prior(jax.random.key(0), PARTICLES))
    with Processes(network) as processes:
        for _ in range(WORKERS):
            processes.add_worker()
        with ps.Cluster(processes.address, say=print) as cluster:
            cluster.client.wait_for_workers(WORKERS, timeout=120)
            remote, local = target(cluster), target(ps.Threads(cores=2))

            def on_workers() -> object:
                return remote.sweep(theta, SAMPLES)

            def on_threads() -> object:
                return local.sweep(theta, SAMPLES)

            np.testing.assert_array_equal(remote.sweep(theta, SAMPLES)[1:], local.sweep(theta, SAMPLES)[1:])
            before = time.process_time()
            threads = timed(on_threads)
            filtering = (time.process_time() - before) / REPEATS
            # a worker is a child of the command that runs it on its host, or in place of it
            workers = [psutil.Process(p.pid) for p in processes.workers.values()]
            watched = [psutil.Process(processes.scheduler.pid), *workers]
            used = [cpu(p) for p in watched]
            time.sleep(IDLE)
            idle = [(cpu(p) - u) / IDLE for p, u in zip(watched, used, strict=True)]
            used, links = [cpu(p) for p in watched], [network.traffic(host) for host in processes.workers]
            before = time.process_time()
            seconds = timed(on_workers)
            client = (time.process_time() - before) / REPEATS
            rest = np.array(idle) * np.mean(seconds)
            spent = np.array([(cpu(p) - u) / REPEATS for p, u in zip(watched, used, strict=True)]) - rest
            passed = np.sum([network.traffic(host) for host in processes.workers], axis=0) - np.sum(links, axis=0)
    block = block_size(PARTICLES) or PARTICLES
    blocks = -(-PARTICLES // block)
    return {
        "threads, s per sweep": float(np.median(threads)),
        "workers, s per sweep": float(np.median(seconds)),
        "threads, processor s": filtering,
        "workers, processor s": client + float(sum(spent)),
        "tasks": blocks,
        "bytes": float(passed[0] / REPEATS),
        "packets": float(passed[1] / REPEATS),
        "filter, ns per particle-step": 1e9 * filtering / (PARTICLES * SAMPLES),
        "client, ms per task": 1e3 * client / blocks,
        "scheduler, ms per task": 1e3 * float(spent[0]) / blocks,
        "worker, ms per task": 1e3 * (float(sum(spent[1:])) - filtering) / blocks,
        "idle, share of a core": float(np.mean(idle)),
        "bytes per particle": float(passed[0] / REPEATS / PARTICLES),
    }


def predicted(
    found: dict[str, float],
    particles: int,
    workers: int,
    samples: int = SAMPLES,
    steps: int = 1,
    bandwidth: float = 125e6,
) -> float:
    """Seconds of one sweep by the model; bandwidth in bytes per second, of the client's link."""
    block = block_size(particles) or particles
    blocks = -(-particles // block)
    one = 1e-3 * found["worker, ms per task"] + 1e-9 * found["filter, ns per particle-step"] * block * samples * steps
    serial = 1e-3 * (found["client, ms per task"] + found["scheduler, ms per task"]) * blocks
    return -(-blocks // workers) * one + serial + found["bytes per particle"] * particles / bandwidth


def whole_runs() -> None:
    """Seconds, and processor seconds of all processes, of second runs."""

    def identify(executor: ps.Threads | ps.Cluster) -> tuple[float, float, ps.Posterior]:
        began, before = time.perf_counter(), sum(map(cpu, family))
        sampler = ps.Sampler(particles=PARTICLES)
        found = ps.identify(
            MODEL, data(SAMPLES), PRIORS, {"position": NOISE}, INITIAL, sampler=sampler, executor=executor, seed=1
        )
        return time.perf_counter() - began, sum(map(cpu, family)) - before, found

    with ps.Cluster(workers=WORKERS) as cluster:
        cluster.client.wait_for_workers(WORKERS, timeout=300)
        family = [psutil.Process(), *psutil.Process().children(recursive=True)]
        executors = {"threads": ps.Threads(cores=2), "workers": cluster}
        found = {}
        for turn, (name, executor) in product(range(2), executors.items()):
            found[name] = identify(executor)
            seconds, used, posterior = found[name]
            print(f"{name}, run {turn + 1}: {seconds:.1f} s, {used:.1f} s of processors, {posterior!r}", flush=True)
    same = np.array_equal(found["threads"][2].theta, found["workers"][2].theta)
    print(f"processor time: {found['workers'][1] / found['threads'][1]:.2f} times that of threads; the same: {same}")


def main() -> None:
    if "--runs" in sys.argv:
        whole_runs()
        return
    with Network() as network:
        found = measure(network)
    print(json.dumps(found, indent=2), flush=True)
    with Network(rate=SLOW, delay=LATE) as network:
        slow = measure(network)
    added = slow["workers, s per sweep"] - found["workers, s per sweep"]
    expected = found["bytes"] / WORKERS / SLOW_BYTES + 4 * LATE
    print(f"{SLOW} and {LATE:g} s delay: {added:.2f} s per sweep more, by the model {expected:.2f} s")
    for particles in (100_000, 1_000_000):
        for steps in (1, 8):
            row = [f"{predicted(found, particles, workers, steps=steps):.3g}" for workers in (1, 10, 100, 1000)]
            print(f"{particles} particles, {steps} steps per sample, 1, 10, 100, 1000 workers: {', '.join(row)} s")


if __name__ == "__main__":
    main()
