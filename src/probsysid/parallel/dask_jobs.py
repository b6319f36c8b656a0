"""Pure tasks on a Dask cluster whose workers may die, freeze, be cut off or join at any time.

Dask itself runs tasks of dead workers again.  What it does not do, or only after minutes, is done here: a task that
hangs on a worker from which nothing is heard is submitted again elsewhere, as is one whose result cannot be fetched, or
one that Dask has given up since several workers died under it.  Tasks are pure, so that it does not matter which of the
copies is first.  When the scheduler is gone, so is the run: `ClusterError`.
"""

import asyncio
import time as clock
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from probsysid._internal.errors import ClusterError, first_words
from probsysid._internal.interrupts import present_request
from probsysid.parallel.published import NotPublished

TICK = 0.25
"""Seconds between looks at a request to stop and at the connection."""

QUIET = 2.0
"""Seconds without a result after which workers are looked at."""

SILENCE = 10.0
"""Seconds without a heartbeat, and as many of the intervals between heartbeats, after which a worker counts as lost for
now.  Dask's own limit, `worker-ttl`, is five minutes.  Heartbeats come from a thread of their own, so that neither
computing nor compiling delays them much: by 4 s while a program was compiled for 28 s on cores that ten processes
shared.  A worker that is given up wrongly costs work done twice."""

LONGEST = 120.0
"""Seconds after which a task is submitted a second time although its worker is heard of; doubled each time.  Longer
than programs take to compile, but for large models; then the work is done twice, and nothing else happens."""

FETCHING = 15.0
"""Seconds in which results must arrive, at first; doubled where no worker is lost and they do not."""

GONE = 20.0
"""Seconds without an answer after which a scheduler counts as gone although the connection stands."""

GONE_HERE = 10 * GONE
"""The same for a scheduler on this machine: it does not hang, but may wait long for a core that many processes share.
If it ends, the connection ends."""

MOST_DEATHS = 6
"""Times that Dask may give up a task, each after the death of four workers, before the task itself is blamed."""

MOST_FAILURES = 3
"""Times that a task may fail for want of memory or disk before that is taken for an answer."""


class Attempt(NamedTuple):
    """A task that was submitted."""

    value: Any
    """Future of what is fetched."""
    kept: Any = None
    """Future of what stays on the worker."""


@dataclass
class Job:
    """A piece of work, and the tasks that were submitted for it."""

    again: Callable[[list[str] | None], Attempt]
    """Submit it once more, to these workers or to any."""
    attempts: list[Attempt]
    places: list[str] | None = None
    """The workers that the newest task may run on; None for any."""
    since: float = field(default_factory=clock.monotonic)
    patience: float = LONGEST
    deaths: int = 0
    failures: int = 0

    def repeat(self, workers: list[str] | None) -> None:
        """Submit it once more."""
        self.attempts.append(self.again(workers))
        self.places = workers
        self.since, self.patience = clock.monotonic(), 2 * self.patience


class Done(NamedTuple):
    """The result of a job."""

    place: int
    value: Any
    kept: Any


class Collector:
    """Waits for jobs on a client's cluster.

    Args:
        client: a `distributed.Client`.
        say: told what the user should know while the run goes on.
        gone: seconds without an answer after which the scheduler counts as gone.
    """

    def __init__(self, client: Any, say: Callable[[str], None], gone: float = GONE):
        self.client = client
        self.gone = gone
        self.address = str(client.scheduler.address)
        self.say = say
        self.suspects: frozenset[str] = frozenset()
        """Workers that nothing is heard from ..."""
        self.noticed = -np.inf
        """... and when the last of them was noticed."""
        self.empty = False
        """Whether there was no worker."""
        self.forgotten = False
        """Whether the scheduler may have forgotten what was published."""
        self.fetching = FETCHING
        """Seconds in which results must arrive."""

    def workers(self) -> list[str] | None:
        """The workers that may be given tasks; None for all."""
        if self.suspects:
            return self._look()
        return None

    def collect(self, jobs: Sequence[Job]) -> Iterator[Done]:
        """The results of all jobs, in the order in which they come."""
        changed = Event()
        open_jobs = dict(enumerate(jobs))
        for job in jobs:
            _watch(job, changed)
        progress = clock.monotonic()
        try:
            while open_jobs:
                changed.wait(TICK)
                changed.clear()
                _check_stop()
                self.wait_until_connected()
                done = self._finished(open_jobs)
                for result in done:
                    del open_jobs[result.place]
                    yield result
                failed = [job for job in open_jobs.values() if self._mended(job)]
                now = clock.monotonic()
                if done or failed:
                    progress = now
                elif now - progress > QUIET:
                    progress = now
                    failed = self._repeat_hanging(list(open_jobs.values()))
                for job in failed:
                    _watch(job, changed)
        finally:
            for job in open_jobs.values():  # an error, or a stop: what has not begun need not
                for attempt in job.attempts:
                    attempt.value.release()

    # Results

    def _finished(self, jobs: dict[int, Job]) -> list[Done]:
        """Results that have come in.  A result that cannot be fetched in time is on a worker that is lost for now."""
        ready = {
            attempt.value.key: (index, attempt)
            for index, job in jobs.items()
            for attempt in job.attempts
            if attempt.value.status == "finished"
        }
        if not ready:
            return []
        values = self._fetch(list(ready))
        done = {
            index: Done(index, values[key], attempt.kept) for key, (index, attempt) in ready.items() if key in values
        }
        for key, (index, attempt) in ready.items():
            if key not in values and index not in done:
                jobs[index].attempts.remove(attempt)
        for index, job in jobs.items():
            if not job.attempts and index not in done:
                job.repeat(self._look())
        return list(done.values())

    def _fetch(self, keys: list[str]) -> dict[str, Any]:
        """The values of finished tasks.  `Client.gather` would wait for a frozen worker, and after some of these for
        any."""
        try:
            answer = self.ask(lambda: self.client.scheduler.gather(keys=keys), self.fetching)
        except TimeoutError:
            self._look()
            if self.suspects:
                with suppress(TimeoutError):
                    return self.ask(lambda: self._fetch_each(keys), 2 * self.fetching)
                return {}
            self.fetching *= 2  # nobody is lost: the network is slow
            return self._fetch(keys)
        if answer["status"] == "OK":
            return answer["data"]
        missing = set(answer["keys"])
        rest = [key for key in keys if key not in missing]
        return self._fetch(rest) if rest and len(rest) < len(keys) else {}

    async def _fetch_each(self, keys: list[str]) -> dict[str, Any]:
        """The values of those finished tasks whose workers answer."""

        async def one(key: str) -> dict[str, Any]:
            try:
                answer = await asyncio.wait_for(self.client.scheduler.gather(keys=[key]), self.fetching)
            except (OSError, TimeoutError):
                return {}
            return answer["data"] if answer["status"] == "OK" else {}

        found = await asyncio.gather(*map(one, keys))
        return {key: value for each in found for key, value in each.items()}

    def ask(self, question: Callable[[], Coroutine[Any, Any, Any]], seconds: float) -> Any:
        """The answer of the scheduler; raises a `TimeoutError` if there is none, also if it is gone."""

        async def asked() -> Any:
            return await asyncio.wait_for(question(), seconds)

        if self.client.status != "running":
            raise TimeoutError
        try:
            return asyncio.run_coroutine_threadsafe(asked(), self.client.loop.asyncio_loop).result(seconds + 5)
        except (OSError, asyncio.CancelledError):
            raise TimeoutError from None

    def insist(self, question: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The answer of the scheduler; it is asked again after the connection was lost, until it is gone."""
        deadline = clock.monotonic() + self.gone
        while True:
            self.wait_until_connected()
            try:
                return self.ask(question, GONE)
            except TimeoutError:
                if clock.monotonic() > deadline:
                    raise self._gone() from None
            clock.sleep(TICK)

    def wait_until_connected(self) -> None:
        """Return while there is a connection, wait while the client tries to renew it, and raise once it has given
        up."""
        while self.client.status == "connecting":
            _check_stop()
            clock.sleep(TICK)
        if self.client.status != "running":
            raise self._gone()

    def _gone(self) -> ClusterError:
        return ClusterError(f"the cluster is gone: its scheduler at {self.address} does not answer.")

    # Failures

    def _mended(self, job: Job) -> bool:
        """Submit a job again whose tasks have failed, where that may help; else raise."""
        from distributed.scheduler import KilledWorker

        failed = [attempt for attempt in job.attempts if attempt.value.status in ("error", "cancelled", "lost")]
        for attempt in failed:
            job.attempts.remove(attempt)
            if attempt.value.status != "error":
                self.forgotten = True  # the connection was lost, perhaps with the scheduler
                continue
            error = attempt.value.exception()
            if isinstance(error, KilledWorker):
                job.deaths += 1
            elif isinstance(error, OSError | MemoryError) and job.failures < MOST_FAILURES:
                job.failures += 1
            elif isinstance(error, NotPublished):
                self.forgotten = True
            else:
                raise _in_words(error)
        if job.deaths > MOST_DEATHS:
            raise ClusterError(
                f"workers die of a task: {4 * job.deaths} have. Most likely they have too little memory for it; take "
                "fewer workers per machine, or fewer particles."
            )
        if not failed or job.attempts:
            return False
        job.repeat(self.workers())
        return True

    def _repeat_hanging(self, jobs: list[Job]) -> list[Job]:
        """Submit jobs again that wait for workers from which nothing is heard, or for too long."""
        workers = self._look()
        if not workers:
            return []
        now = clock.monotonic()
        hanging = [
            job
            for job in jobs
            if job.since < self.noticed
            or now - job.since > job.patience
            or (job.places is not None and not set(job.places) & set(workers))
        ]
        for job in hanging:
            job.repeat(workers if self.suspects else None)
        return hanging

    def _look(self) -> list[str]:
        """All workers that are heard of."""
        known = self.insist(lambda: self.client.scheduler.identity(n_workers=-1))["workers"]
        if not known:
            if not self.empty:
                self.say("The cluster has no worker; the run goes on when one joins.")
            self.empty = True
            return []
        self.empty = False
        newest = max(worker["last_seen"] for worker in known.values())
        allowed = SILENCE * max(1.0, len(known) / 200 + 1)  # Dask's own interval between heartbeats, or more
        before = self.suspects
        self.suspects = frozenset(a for a, worker in known.items() if newest - worker["last_seen"] > allowed)
        if self.suspects - before:
            self.noticed = clock.monotonic()
        return [address for address in known if address not in self.suspects]


def _watch(job: Job, changed: Event) -> None:
    """Let a change of the newest task be noticed."""
    job.attempts[-1].value.add_done_callback(lambda _: changed.set())


def _check_stop() -> None:
    request = present_request()
    if request is not None:
        request.check()


def _in_words(error: BaseException) -> BaseException:
    """What is raised for the exception of a task."""
    if isinstance(error, ImportError):
        return ClusterError(
            f"a worker lacks a package ({first_words(error)}): install probsysid[cluster] on all of them."
        )
    return error
