"""Particles over the cores of a processor: each thread filters its own slice.

A program runs in the thread that calls it (`_internal/jax_setup.py`), so a sweep over the data wakes every thread once
and waits once.  JAX's own way to several cores, `shard_map` over as many devices (`sharding.py`), hands each call to a
pool of threads and waits for all of them in every call: docs/decisions.md has the figures.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from threading import Event

import jax
from jax.sharding import Mesh

from probsysid._internal.validation import check_count
from probsysid.parallel.executor import FEWEST, Executor, Result, Task, even_shards


@dataclass(frozen=True)
class Threads(Executor):
    """One thread per core.

    Args:
        cores: how many to use; None for one per JAX device, of which there is one per core.
        fewest: particles that are worth a thread of their own.
    """

    cores: int | None = None
    fewest: int = FEWEST

    def __post_init__(self) -> None:
        if self.cores is not None:
            check_count("cores", self.cores)
        check_count("fewest", self.fewest)

    def slices(self, particles: int) -> tuple[slice, ...]:
        available = len(jax.local_devices()) if self.cores is None else self.cores
        count = even_shards(particles, available, self.fewest)
        ends = [particles * k // count for k in range(count + 1)]
        return tuple(slice(*pair) for pair in pairwise(ends))

    def run(self, tasks: Sequence[Task[Result]]) -> list[Result]:
        """The first task runs in the calling thread, the others in a pool."""
        give_up = Event()

        def attempt(task: Task[Result]) -> Result:
            try:
                return task(give_up)
            except BaseException:
                give_up.set()
                raise

        first, *others = tasks
        if not others:
            return [attempt(first)]
        futures = [_pool(len(others)).submit(copy_context().run, attempt, task) for task in others]
        try:
            return [attempt(first), *(future.result() for future in futures)]
        except BaseException:  # also a KeyboardInterrupt while this thread waits for the others
            give_up.set()
            wait(futures)
            raise

    def mesh(self, particles: int) -> Mesh | None:
        return None


@lru_cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="probsysid: core")


if hasattr(os, "register_at_fork"):  # the threads of a pool do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)
