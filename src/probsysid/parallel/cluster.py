"""Particles over any number of machines: the workers of a Dask cluster (docs/cluster.md).

What is guaranteed: blocks of particles follow from their number alone, and a block's numbers from the block alone.  So
the posterior does not depend on how many workers there are, on which of them does what, on their deaths, or on when
others join.  On equal processors it is the same to the last bit as on one machine, the mean one-step errors excepted,
which nothing depends on: they are summed block by block.  On unequal ones it is the same to rounding.
"""

import ipaddress
import subprocess
import sys
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jax.sharding import Mesh

from probsysid._internal.errors import ClusterError, ClusterWarning, InputError, first_words
from probsysid._internal.validation import check_count, is_whole
from probsysid.parallel.dask_jobs import GONE, GONE_HERE, Attempt, Collector, Job
from probsysid.parallel.executor import FEWEST, Exchange, RemoteExecutor, Result, Task
from probsysid.parallel.published import SHELF, digest_of
from probsysid.parallel.threads import Threads

FEWEST_REMOTE = 2 * FEWEST
"""Particles that are worth a round trip of some ten milliseconds; fewer are evaluated in this process."""

USUAL_BLOCK = 1024
"""Particles per task.  A task costs 12 ms of all processes together, as much as filtering these particles over 130
samples in one step each (docs/cluster.md)."""

MOST_BLOCKS = 1024
"""Beyond, blocks become larger: a round of tasks costs the scheduler a second then."""

MULTIPLE = 64
"""Blocks are multiples of it: the filter works on 8 to 64 particles at a time (`odefilter/filter.py`)."""

CONNECTING = 20.0
"""Seconds after which a scheduler counts as gone."""

OPEN = (
    "{address} is not encrypted: anybody who reaches the scheduler's or a worker's port can read the data and run code "
    "as the user of the workers; use tls:// with certificates (docs/cluster.md)."
)


class Cluster(RemoteExecutor):
    """The workers of a Dask cluster, for `identify(..., executor=Cluster(...))`.

    Close it at the end, or use it in a `with` statement: local workers end with it.

    Args:
        address: of the scheduler, such as `"tls://host:8786"`; or a `dask.distributed.Client`, which stays open.
        workers: start this many worker processes on this machine instead.
        security: `distributed.Security`, or the paths of certificates as {"ca": ..., "cert": ..., "key": ...}.
        timeout: seconds in which the scheduler must answer, at the beginning and after the connection was lost.
        exchange: which work is sent to workers, and what is fetched from them.
        say: called with sentences that the user should know; by default they are given as warnings.
    """

    def __init__(
        self,
        address: Any = None,
        *,
        workers: int | None = None,
        security: Any = None,
        timeout: float = CONNECTING,
        exchange: Exchange = Exchange(),
        say: Callable[[str], None] | None = None,
    ):
        if (address is None) == (workers is None):
            raise InputError("give Cluster either the address of a scheduler (or a client), or a number of workers.")
        check_installed()
        self._say = say or (lambda text: warnings.warn(text, ClusterWarning, stacklevel=4))
        self.exchange = exchange
        self._local = Threads()
        self._published: dict[str, bytes] = {}
        self._process: subprocess.Popen[str] | None = None
        self._owned = True
        if workers is not None:
            check_count("workers", workers)
            self._process, address = _start_local(workers)
        elif not isinstance(address, str):
            self._owned = False
        self.client = address if not self._owned else _connected(address, as_security(security), timeout, self._say)
        self._collector = Collector(self.client, self._say, GONE if self._process is None else GONE_HERE)
        self._finalizer = weakref.finalize(self, _close, self.client if self._owned else None, self._process)

    def close(self) -> None:
        """Leave the cluster; local workers and their scheduler end."""
        if self.client.status == "running":
            for digest in self._published:
                with suppress(ClusterError):
                    self._publish(digest, None)
        self._finalizer()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Cluster({self.address!r})"

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return self._collector.address

    @property
    def dashboard(self) -> str:
        """Address of Dask's dashboard; empty if there is none."""
        with suppress(Exception):
            return str(self.client.dashboard_link or "")
        return ""

    # Work in this process

    def slices(self, particles: int) -> tuple[slice, ...]:
        """Blocks as workers have them, so that a program in the user's cache serves both."""
        block = self.block(particles)
        if block is None or particles % block:
            return self._local.slices(particles)
        return tuple(slice(first, first + block) for first in range(0, particles, block))

    def run(self, tasks: Sequence[Task[Result]]) -> list[Result]:
        return self._local.run(tasks)

    def mesh(self, particles: int) -> Mesh | None:
        return self._local.mesh(particles)

    # Work on the workers

    @property
    def remote(self) -> "Cluster":
        return self

    def block(self, particles: int) -> int | None:
        return block_size(particles)

    def publish(self, content: bytes) -> str:
        digest = digest_of(content)
        if digest not in self._published:
            self._publish(digest, content)
            self._published[digest] = content
        return digest

    def _publish(self, digest: str, content: bytes | None) -> None:
        self._collector.insist(lambda: self.client.scheduler.set_metadata(keys=[SHELF, digest], value=content))

    def evaluate(
        self,
        function: Callable[..., tuple[Any, Any]],
        blocks: Sequence[tuple[Any, ...]],
        anew: Sequence[tuple[Any, ...]],
        *,
        keep: bool,
    ) -> tuple[list[Any], list[Any]]:
        self._collector.wait_until_connected()
        workers = self._collector.workers() or None
        alive = [call if _usable(call) else other for call, other in zip(blocks, anew, strict=True)]
        attempts = self._submit(function, alive, workers, keep)
        jobs = [
            Job(partial(self._again, function, call, keep), [attempt], workers)
            for call, attempt in zip(anew, attempts, strict=True)
        ]
        done = sorted(self._collector.collect(jobs), key=lambda each: each.place)
        if keep:
            return [each.kept for each in done], [each.value for each in done]
        return [each.value[0] for each in done], [each.value[1] for each in done]

    def runs(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """`function(*arguments)` of every call, each by one thread of one worker: whole runs, for which an hour is not
        too long.  Yields the index of a call and its result, in the order in which they come."""
        self._collector.wait_until_connected()

        def submit(call: tuple[Any, ...], places: list[str] | None) -> Attempt:
            key = f"run-{uuid.uuid4().hex}"
            return Attempt(self.client.submit(function, *call, key=key, workers=places, pure=False))

        jobs = [
            Job(lambda places, call=call: submit(call, places), [submit(call, None)], patience=float("inf"))  # type: ignore[misc]
            for call in calls
        ]
        for done in self._collector.collect(jobs):
            yield done.place, done.value

    def _again(
        self, function: Callable[..., Any], call: tuple[Any, ...], keep: bool, places: list[str] | None
    ) -> Attempt:
        """Submit a block once more, to a scheduler that may have forgotten all."""
        if self._collector.forgotten:
            for digest, content in self._published.items():
                self._publish(digest, content)
            self._collector.forgotten = False
        return self._submit(function, [call], places or None, keep)[0]

    def _submit(
        self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], workers: list[str] | None, keep: bool
    ) -> list[Attempt]:
        """All tasks of a round in one message; where results stay on workers, in another one tasks that pick what is
        fetched."""
        import dask

        name, mark = function.__name__.replace("_", "-"), uuid.uuid4().hex
        keys = [f"{name}-{mark}-{k}" for k in range(len(calls))]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            results = self.client.map(partial(_applied, function), calls, key=keys, workers=workers, pure=False)
            if not keep:
                return [Attempt(result) for result in results]
            picked = self.client.map(_second, results, key=[f"fetched-{key}" for key in keys], pure=False)
        return [Attempt(value, result) for value, result in zip(picked, results, strict=True)]


def _applied(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(*arguments)


def _second(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def _usable(call: tuple[Any, ...]) -> bool:
    """Whether the handles among the arguments of a block still stand for something."""
    return all(argument.status in ("finished", "pending") for argument in call if hasattr(argument, "status"))


def block_size(particles: int) -> int | None:
    """Particles per task: at least four tasks, up to `USUAL_BLOCK` particles each, or `MOST_BLOCKS` larger tasks."""
    if particles < FEWEST_REMOTE:
        return None
    wanted = max(min(USUAL_BLOCK, particles // 4), particles // MOST_BLOCKS, MULTIPLE)
    return -(-wanted // MULTIPLE) * MULTIPLE


# Connection


def check_installed() -> None:
    """Raise unless the packages of the extra `cluster` are there."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError("a cluster needs Dask: pip install 'probsysid[cluster]'.") from None


def as_security(given: Any) -> Any:
    """`distributed.Security` for paths of certificates; anything else as it is."""
    if not isinstance(given, Mapping):
        return given
    from distributed import Security

    missing = [name for name in ("ca", "cert", "key") if not given.get(name)]
    if missing:
        raise InputError(f"security has no {missing[0]!r}; TLS needs the paths of 'ca', 'cert' and 'key'.")
    for name, path in given.items():
        if not Path(path).is_file():
            raise InputError(f"security names {str(path)!r} as {name!r}, which is not a file.")
    ca, cert, key = (str(given[name]) for name in ("ca", "cert", "key"))
    return Security(tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True)


def _connected(address: str, security: Any, timeout: float, say: Callable[[str], None]) -> Any:
    """A client of the scheduler at an address."""
    from distributed import Client

    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.hostname or parts.port is None:
        raise InputError(f"the cluster's address is {address!r}; write it as tls://host:8786 or tcp://host:8786.")
    if parts.scheme == "tls" and security is None:
        raise InputError(f"{address} needs certificates: security={{'ca': ..., 'cert': ..., 'key': ...}}.")
    if parts.scheme == "tcp" and not _is_loopback(parts.hostname):
        say(OPEN.format(address=address))
    try:
        return Client(address, security=security, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        raise ClusterError(f"no scheduler answers at {address} ({first_words(error)}).") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _start_local(workers: int) -> "tuple[subprocess.Popen[str], str]":
    """A scheduler and workers on this machine, in processes of their own that end with this one."""
    script = Path(__file__).with_name("local_workers.py")
    process = subprocess.Popen(
        [sys.executable, "-P", str(script), str(workers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    if not address:
        raise ClusterError("the local workers did not start; what they said is above.")
    return process, address


def _close(client: Any, process: "subprocess.Popen[str] | None") -> None:
    if client is not None:
        with suppress(Exception):  # of a cluster that is gone already
            client.close(timeout=2)
    if process is not None and process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def parse_option(text: str) -> dict[str, Any]:
    """The arguments of `Cluster` for what was written on a command line: `local:4`, or an address."""
    if not text.startswith("local"):
        return {"address": text}
    number = text.removeprefix("local").removeprefix(":")
    if not (number.isdecimal() and is_whole(int(number)) and int(number) > 0):
        raise InputError(f"the cluster is {text!r}; write local:4 for four workers on this machine.")
    return {"workers": int(number)}
