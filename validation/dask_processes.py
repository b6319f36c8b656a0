"""A scheduler and workers of Dask as processes that can be killed, frozen and added, on loopback or on hosts of their
own: network namespaces, joined by a bridge, with delay and limited bandwidth (root only)."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[1]
MTU = 9000
"""Bytes of a packet, as in fast local networks: a cable costs processor time for each packet."""
STARTING = 120.0
"""Seconds after which a scheduler that has not started never will."""

MODULES = {"scheduler": "distributed.cli.dask_scheduler", "worker": "distributed.cli.dask_worker"}


@dataclass
class Network:
    """Hosts 1, 2, ... as network namespaces; host 0 is this machine, with an address on the bridge."""

    name: str = "pss"
    delay: float = 0.001
    """Seconds that a packet takes from this machine to a host, or back."""
    rate: str = "1gbit"
    """Bandwidth of each host's link, as `tc` writes it."""
    cables: list["subprocess.Popen[str]"] = field(default_factory=list)

    def __enter__(self) -> "Network":
        self.__exit__(None, None, None)
        _run(f"ip link add {self.name} type bridge")
        _run(f"ip addr add {self.address(0)}/24 dev {self.name}")
        _run(f"ip link set {self.name} up")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        for cable in self.cables:
            cable.kill()
            cable.wait()
        self.cables.clear()
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        for line in listed.splitlines():
            if line.startswith(f"{self.name}-"):
                _run(f"ip netns delete {line.split()[0]}", check=False)
        _run(f"ip link delete {self.name}", check=False)

    def address(self, host: int) -> str:
        return f"10.213.7.{host + 1}"

    def add(self, host: int) -> list[str]:
        """Make a host; the words that run a command on it."""
        space, outer, inner = f"{self.name}-{host}", f"{self.name}o{host}", f"{self.name}i{host}"
        _run(f"ip netns add {space}")
        command = [sys.executable, "-m", "validation.delay_line", outer, inner, str(self.delay)]
        cable = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert cable.stdout is not None and cable.stdout.readline() == "ready\n"
        self.cables.append(cable)
        _run(f"ip link set {outer} master {self.name} mtu {MTU}")
        _run(f"ip link set {outer} up")
        _run(f"ip link set {inner} mtu {MTU} netns {space}")
        _run(f"ip netns exec {space} ip addr add {self.address(host)}/24 dev {inner}")
        _run(f"ip netns exec {space} ip link set {inner} up")
        _run(f"ip netns exec {space} ip link set lo up")
        shape = f"root tbf rate {self.rate} burst 256kb latency 100ms"
        _run(f"tc qdisc add dev {outer} {shape}")
        _run(f"ip netns exec {space} tc qdisc add dev {inner} {shape}")
        return ["ip", "netns", "exec", space]

    def cut(self, host: int, *, off: bool) -> None:
        """Pull the plug of a host, or put it back."""
        _run(f"ip link set {self.name}o{host} {'down' if off else 'up'}")

    def traffic(self, host: int) -> tuple[int, int]:
        """Bytes and packets that have passed a host's link, in both directions."""
        folder = Path(f"/sys/class/net/{self.name}o{host}/statistics")
        read = [int((folder / f"{way}_{what}").read_text()) for what in ("bytes", "packets") for way in ("rx", "tx")]
        return read[0] + read[1], read[2] + read[3]


def _run(command: str, check: bool = True) -> None:
    subprocess.run(command.split(), check=check, capture_output=not check)


@dataclass
class Processes:
    """A scheduler and its workers; everything ends with the `with` statement."""

    network: Network | None = None
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ("--no-nanny", "--memory-limit", "0")
    """Of workers."""
    security: tuple[str, ...] = ()
    """Options with certificates, of scheduler and workers."""
    workers: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __enter__(self) -> "Processes":
        self._folder = tempfile.TemporaryDirectory()
        self._count = 0
        self._port = 0
        self.start_scheduler()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        for process in [*self.workers.values(), self.scheduler]:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self._folder.cleanup()

    def start_scheduler(self) -> None:
        """Start the scheduler, or another one at the same address."""
        file = Path(self._folder.name) / f"scheduler-{time.monotonic_ns()}.json"
        host = "127.0.0.1" if self.network is None else self.network.address(0)
        host_options = ["--host", f"{'tls' if self.security else 'tcp'}://{host}"]
        self.scheduler = self._start(
            "scheduler",
            [*host_options, "--port", str(self._port), "--scheduler-file", str(file), "--no-dashboard"],
            [],
        )
        deadline = time.monotonic() + STARTING
        while not file.exists() or not file.read_text().rstrip().endswith("}"):
            if self.scheduler.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the scheduler did not start: {self.log('scheduler')}")
            time.sleep(0.05)
        self.address = file.read_text().split('"address": "')[1].split('"')[0]
        self._port = int(self.address.rsplit(":", 1)[1])

    def add_worker(self) -> int:
        """Start another worker; returns its number."""
        self._count += 1
        number, prefix, host = self._count, [], "127.0.0.1"
        if self.network is not None:
            prefix, host = self.network.add(number), self.network.address(number)
        given = [self.address, "--host", host, "--nthreads", "1", "--name", f"w{number}", "--no-dashboard"]
        self.workers[number] = self._start("worker", [*given, *self.options], prefix)
        return number

    def kill(self, number: int) -> None:
        """SIGKILL."""
        process = self.workers.pop(number)
        process.kill()
        process.wait()

    def log(self, name: str) -> str:
        """What processes of this name have said."""
        return "".join(path.read_text() for path in sorted(Path(self._folder.name).glob(f"{name}*.log")))

    def _start(self, kind: str, arguments: list[str], prefix: list[str]) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **self.environment}
        with open(Path(self._folder.name) / f"{kind}-{time.monotonic_ns()}.log", "wb") as log:
            command = [*prefix, sys.executable, "-m", MODULES[kind], *arguments, *self.security]
            return subprocess.Popen(
                command, cwd=self._folder.name, env=environment, stdout=log, stderr=log, start_new_session=True
            )
