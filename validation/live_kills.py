"""A live run killed at random moments while a sensor sends: no acknowledged sample is lost.

python -m validation.live_kills [--kills 20]

A sender streams samples over TCP and keeps what is not acknowledged.  The run is killed with SIGKILL and resumed, again
and again; at the end the posterior is compared bit by bit with that of the whole record at once.
"""

import argparse
import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import probsysid as ps
from probsysid import dist
from probsysid.live.alignment import Rows
from probsysid.live.journal import Journal

DT, NOISE = 0.01, 0.02

STUDY = """
seed = 1
noise = { y = 0.02 }
initial = { h = "Normal(0, 0.1)" }
[data]
file = "none.csv"
dt = 0.01
inputs = { u = { column = "u", intersample = "zoh" } }
outputs = { y = "y" }
[model]
name = "lag"
coordinates = { h = 1 }
equations = { h = "a*(b*u - h)" }
outputs = { y = "h" }
[parameters]
a = "LogNormal(0, 1)"
b = "Normal(1, 2)"
[solver]
smoothness = 2
substeps = 1
[sampler]
particles = 128
"""


def measure(samples: int) -> np.ndarray:
    random = np.random.default_rng(0)
    drive = np.where(np.arange(samples) // 150 % 2 == 0, 1.0, -0.5)
    level = np.zeros(samples)
    for k in range(1, samples):
        level[k] = 2 * drive[k - 1] + (level[k - 1] - 2 * drive[k - 1]) * np.exp(-1.5 * DT)
    return np.column_stack([drive, level + NOISE * random.standard_normal(samples)]).round(6)


def start(folder: Path, port: int, *further: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "probsysid", "live", "study.toml", "--source", f"tcp://:{port}", "--no-page"]
    return subprocess.Popen([*command, "--no-report", *further], cwd=folder, stderr=subprocess.PIPE)


def connect(port: int, process: "subprocess.Popen[bytes]") -> socket.socket:
    while True:
        assert process.poll() is None, process.stderr and process.stderr.read().decode()
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1)
        except OSError:
            time.sleep(0.1)


def send(sender: socket.socket, rows: np.ndarray, first: int, seconds: float) -> int:
    """Send samples from `first` on, in blocks of five, until some time after the first acknowledgement or the end; the
    last number acknowledged."""
    acknowledged, answers, until = first, b"", float("inf")
    sender.settimeout(30)
    for k in range(first, len(rows), 5):
        lines = "".join(f"{j * DT!r},{u!r},{y!r}\n" for j, (u, y) in enumerate(rows[k : k + 5].tolist(), k))
        try:
            sender.sendall(lines.encode())
            while select.select([sender], [], [], 0)[0]:
                answers += (fresh := sender.recv(65536))
                if not fresh:
                    return acknowledged
        except OSError:
            break
        found = [line for line in answers.split(b"\n")[:-1] if line.startswith(b"ok ")]
        acknowledged = max([acknowledged, *(int(line[3:]) for line in found)])
        answers = answers.rpartition(b"\n")[2]
        if found and until == float("inf"):
            until = time.monotonic() + seconds
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    return acknowledged


def saved(folder: Path) -> np.ndarray:
    journal = Journal(folder / "study-live" / "journal.bin", ("u", "y"), DT)
    rows = [entry.values for entry in journal.entries() if isinstance(entry, Rows)]
    journal.close()
    return np.concatenate(rows) if rows else np.empty((0, 2))


def run(kills: int) -> dict[str, object]:
    rows, random = measure(1000 * kills), np.random.default_rng(2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lost, acknowledged, torn = 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = STUDY.replace("dt = 0.01", 'time = "t"')
        (folder / "study.toml").write_text(text)
        for k in range(kills):
            process = start(folder, port, "--dt", str(DT), *(["--resume"] if k else []))
            with connect(port, process) as sender:
                acknowledged = send(sender, rows, acknowledged, random.uniform(0.0, 2.0))
                process.kill()
            process.communicate()
            before = (folder / "study-live" / "journal.bin").stat().st_size
            kept = saved(folder)
            torn += before != (folder / "study-live" / "journal.bin").stat().st_size
            lost += max(acknowledged - len(kept), 0)
            assert np.array_equal(kept, rows[: len(kept)]), "another sample than was sent"
            print(f"kill {k + 1}: {acknowledged} acknowledged, {len(kept)} in the journal", flush=True)
        lag = [f"{j * DT!r},{u!r},{y!r}\n" for j, (u, y) in enumerate(rows.tolist())]
        (folder / "whole.csv").write_text("t,u,y\n" + "".join(lag))
        command = [
            sys.executable,
            "-m",
            "probsysid",
            "live",
            "study.toml",
            "--source",
            "replay:whole.csv",
            "--speed",
            "0",
        ]
        subprocess.run([*command, "--no-page", "--no-report", "--dt", str(DT), "--resume"], cwd=folder, check=True)
        found = ps.Posterior.load(folder / "study-live" / "posterior.nc")
    online = ps.Identifier(
        found.setup.problem.model,
        {"a": dist.LogNormal(0, 1), "b": dist.Normal(1, 2)},
        {"y": NOISE},
        {"h": dist.Normal(0, 0.1)},
        DT,
        intersample="zoh",
        solver=ps.Solver(smoothness=2, substeps=1),
        sampler=ps.Sampler(particles=128),
        seed=1,
    )
    online.update({"u": rows[:, 0]}, {"y": rows[:, 1]})
    expected = online.posterior
    same = np.array_equal(found.theta, expected.theta) and np.array_equal(found.weights, expected.weights)
    return {
        "kills": kills,
        "acknowledged": acknowledged,
        "lost": lost,
        "half-written ends": torn,
        "samples": len(rows),
        "same to the bit": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    print(json.dumps(run(parser.parse_args().kills)))


if __name__ == "__main__":
    main()
