"""Workers of a cluster killed, frozen and added while runs go on, and its scheduler killed: the posterior is the same.

python -m validation.cluster_kills [--strikes 50] [--schedulers 10] [--hosts]

Every posterior is compared bit by bit with one from threads.  With `--hosts`, workers live in network namespaces with
1 ms delay and 1 Gbit/s, and a third of the strikes cuts a host off the network for a while.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np

import probsysid as ps
from probsysid.parallel.executor import Exchange
from validation.dask_processes import Network, Processes
from validation.duffing import MODEL
from validation.nuts import INITIAL, NOISE, PRIORS, data

SAMPLES, PARTICLES = 400, 1024
FEWEST, MOST = 2, 4
"""Workers that are left alone at least, and that there are at most."""
FROZEN = (2.0, 25.0)
"""Seconds for which a worker is stopped or cut off."""


def identify(executor: ps.Threads | ps.Cluster) -> ps.Posterior:
    return ps.identify(
        MODEL,
        data(SAMPLES),
        PRIORS,
        {"position": NOISE},
        INITIAL,
        solver=ps.Solver(substeps=2),
        sampler=ps.Sampler(particles=PARTICLES),
        executor=executor,
    )


def same(one: ps.Posterior, other: ps.Posterior) -> bool:
    """To the last bit."""
    return (
        np.array_equal(one.theta, other.theta)
        and np.array_equal(one.weights, other.weights)
        and one.log_evidence == other.log_evidence
    )


class Striker(threading.Thread):
    """Strikes a random worker at random moments, and adds workers in between."""

    def __init__(self, processes: Processes, strikes: int, seed: int = 0):
        super().__init__(daemon=True)
        self.processes = processes
        self.left = strikes
        self.random = np.random.default_rng(seed)
        self.counts: Counter[str] = Counter()
        self.asleep: dict[int, float] = {}
        """Workers that are stopped or cut off, and until when."""

    def run(self) -> None:
        while self.left > 0:
            time.sleep(self.random.uniform(0.5, 8.0))
            self._wake(time.monotonic())
            awake = [number for number in self.processes.workers if number not in self.asleep]
            if len(self.processes.workers) < MOST:
                self.processes.add_worker()
                self.counts["added"] += 1
            if len(awake) >= FEWEST:
                self._strike(int(self.random.choice(awake)))
                self.left -= 1
        self._wake(float("inf"))

    def _strike(self, number: int) -> None:
        ways = ["killed", "frozen"] + (["cut off"] if self.processes.network is not None else [])
        way = str(self.random.choice(ways))
        self.counts[way] += 1
        print(f"{way}: worker {number}", flush=True)
        if way == "killed":
            self.processes.kill(number)
            return
        self.asleep[number] = time.monotonic() + self.random.uniform(*FROZEN)
        if way == "frozen":
            self.processes.workers[number].send_signal(signal.SIGSTOP)
        elif self.processes.network is not None:
            self.processes.network.cut(number, off=True)

    def _wake(self, now: float) -> None:
        for number in [number for number, until in self.asleep.items() if until < now]:
            del self.asleep[number]
            self.processes.workers[number].send_signal(signal.SIGCONT)
            if self.processes.network is not None:
                self.processes.network.cut(number, off=False)


def strike(strikes: int, hosts: bool) -> dict[str, object]:
    """Runs on a cluster whose workers are struck until all strikes are done; all must give the same posterior."""
    expected = identify(ps.Threads(cores=2))
    seconds = []
    with Network() if hosts else nullcontext() as network, Processes(network) as processes:
        for _ in range(MOST - 1):
            processes.add_worker()
        with ps.Cluster(processes.address, exchange=Exchange(least_work=0), say=print) as cluster:
            cluster.client.wait_for_workers(FEWEST, timeout=120)
            striker = Striker(processes, strikes)
            striker.start()
            agreeing = 0
            while striker.is_alive() or not seconds:
                began = time.monotonic()
                agreeing += same(identify(cluster), expected)
                seconds.append(time.monotonic() - began)
                print(f"run {len(seconds)}: {seconds[-1]:.0f} s, {agreeing} the same", flush=True)
    return {"strikes": dict(striker.counts), "runs": len(seconds), "the same": agreeing, "seconds": seconds}


STUDY = """
seed = 1
[data]
file = "data.csv"
time = "t"
[data.inputs]
force = { column = "force", intersample = "linear" }
[data.outputs]
position = { column = "position" }
[model.coordinates]
x = 2
[model.equations]
x = "force - c*dx - k*x - k3*x**3"
[model.outputs]
position = "x"
[parameters]
c = "LogNormal(-2, 1)"
k = "LogNormal(0, 0.5)"
k3 = "LogNormal(-1, 1)"
[initial]
x = "Normal(0, 1)"
dx = "Normal(0, 1)"
[sampler]
particles = 2048
[solver]
substeps = 4
[report]
states = false
"""


def fit(folder: Path, *further: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "probsysid", "fit", "study.toml", *further]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def numbers(folder: Path) -> object:
    """What a fit found, without what it took."""
    (model,) = json.loads((folder / "study-results" / "summary.json").read_text())["models"].values()
    return model["log_evidence"], model["parameters"]


def kill_schedulers(count: int) -> dict[str, object]:
    """Fits whose scheduler is killed at a random moment, and that go on with another scheduler."""
    record = data(2 * SAMPLES)
    table = np.column_stack([record.time, record.inputs["force"], record.outputs["position"]])
    random = np.random.default_rng(1)
    codes, sentences, agreeing, retries = Counter[int](), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "study.toml").write_text(STUDY)
        np.savetxt(folder / "data.csv", table, delimiter=",", header="t,force,position", comments="", fmt="%.17g")
        began = time.monotonic()
        fit(folder, "-q").communicate()
        alone, expected = time.monotonic() - began, numbers(folder)
        while sum(codes.values()) < count:
            shutil.rmtree(folder / "study-results")
            with Processes() as processes:
                for _ in range(2):
                    processes.add_worker()
                child = fit(folder, "-q", "--cluster", processes.address)
                time.sleep(random.uniform(0.3, 1.0) * alone)
                processes.scheduler.kill()
                _, error = child.communicate()
            if child.returncode in (0, 4):  # it was done before
                retries += 1
                continue
            codes[child.returncode] += 1
            lines = [line for line in error.splitlines() if "the cluster is gone" in line]
            sentences += len(lines) == 1 and "--resume" in lines[0] and "Traceback" not in error
            with Processes() as processes:
                processes.add_worker()
                child = fit(folder, "-q", "--resume", "--cluster", processes.address)
                _, error = child.communicate()
            agreeing += numbers(folder) == expected
            print(f"scheduler {sum(codes.values())}: codes {dict(codes)}, {agreeing} the same {error}", flush=True)
    return {
        "killed": count,
        "exit codes": dict(codes),
        "one sentence": sentences,
        "the same": agreeing,
        "too late": retries,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strikes", type=int, default=50)
    parser.add_argument("--schedulers", type=int, default=10)
    parser.add_argument("--hosts", action="store_true")
    options = parser.parse_args()
    if options.strikes:
        print(json.dumps(strike(options.strikes, options.hosts)), flush=True)
    if options.schedulers:
        print(json.dumps(kill_schedulers(options.schedulers)), flush=True)


if __name__ == "__main__":
    main()
