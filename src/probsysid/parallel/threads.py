"""Particles over the cores of a processor: each thread filters its own share.

A program runs in the thread that calls it (`_runtime.py`), so a sweep over the data wakes every thread once and waits
once.  JAX's own way to several cores, `shard_map` over as many devices (`devices.py`), hands each call to a pool of
threads and waits for all of them in every one: docs/decisions.md has the figures.  It is left for graphics cards.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import jax
import numpy as np

from probsysid._internal import jax_setup

Result = TypeVar("Result")

FEWEST = 128
"""Particles that are worth a core, or a device: each call costs as much as filtering a few of them over a chunk."""


def even_shards(particles: int, available: int, fewest: int) -> int:
    """How many can be dealt the same number of particles, so many or more to each; one if none can."""
    possible = range(available, 1, -1)
    return next((n for n in possible if particles % n == 0 and particles >= n * fewest), 1)


def in_threads() -> bool:
    """Whether the devices are cores, to be used by threads."""
    return jax_setup.synchronous_dispatch() and jax.default_backend() == "cpu"


@lru_cache
def thread_slices(particles: int) -> tuple[slice, ...]:
    """The particles of each core; all of them in one where there is one, or the devices are not cores."""
    count = even_shards(particles, len(jax.local_devices()), FEWEST) if in_threads() else 1
    ends = [particles * k // count for k in range(count + 1)]
    return tuple(slice(*pair) for pair in pairwise(ends))


def run_parallel(tasks: Sequence[Callable[[threading.Event], Result]]) -> list[Result]:
    """What tasks give that are done at the same time, the first one in this thread.  Where one of them fails or the
    user interrupts, the others are told by the event that nobody waits for them any more."""
    given_up = threading.Event()

    def tried(task: Callable[[threading.Event], Result]) -> Result:
        try:
            return task(given_up)
        except BaseException:
            given_up.set()
            raise

    first, *others = tasks
    under_way = [_pool().submit(copy_context().run, tried, task) for task in others]
    try:
        return [tried(first), *(future.result() for future in under_way)]
    except BaseException:  # the user's, too, while this thread waits for the others
        given_up.set()
        wait(under_way)
        raise


def concatenate(parts: Sequence[Any]) -> Any:
    """Matrices of every core's particles as one, on the host; one alone as it is."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.asarray(part) for part in parts], axis=-1)


@lru_cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(len(jax.local_devices()) - 1, 1), thread_name_prefix="probsysid: core")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
