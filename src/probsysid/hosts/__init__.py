"""One identification on several hosts.

    from probsysid import hosts

    hosts.join("node0:7700", count=4, index=2)     # under srun or mpirun: hosts.join()
    posterior = ps.identify(...)                   # the same on every host: each filters its share of the particles
    if hosts.first():
        posterior.save("posterior.nc")

Every host runs the same program on the same data; decisions are made by host 0 and binding for all.  Only `identify`
works together; whatever else a program does, each host does alone.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from probsysid._internal.errors import InputError, SamplingError
from probsysid._internal.validation import is_real
from probsysid.hosts.company import Company, meet
from probsysid.hosts.errors import HostError
from probsysid.hosts.of_jax import of_jax
from probsysid.hosts.place import launched, place

__all__ = ["TIMEOUT", "Company", "HostError", "agreed", "current", "first", "index", "join", "leave", "together"]

TIMEOUT = 120.0
"""Seconds to wait for the other hosts at the start, and after which a silent one counts as lost."""

_joined: list[Company] = []
"""The company of this process: like its address on the network, a process has one or none."""

_working: ContextVar[Company | None] = ContextVar("working", default=None)
"""The company, while this thread is at work with the others."""


def join(
    address: str | None = None, count: int | None = None, index: int | None = None, *, timeout: float = TIMEOUT
) -> None:
    """Meet the other hosts; returns when all are there.

    Args:
        address: where host 0 listens, `"name:port"`; every host needs to be able to reach it.
        count: how many hosts there are.
        index: which one this is, from 0.
        timeout: seconds to wait for the others, and after which a silent one counts as lost.

    What is not given is taken from `jax.distributed`, where that has been initialised, or from the variables of `srun`
    or `mpirun`; a process that was started alone stays alone.
    Messages travel unencrypted, as MPI's do: use it in a network that you trust.
    """
    if not is_real(timeout) or not 0 < timeout < float("inf"):
        raise InputError(f"the timeout for hosts is {timeout!r}; it must be a positive number of seconds.")
    if _joined:
        raise InputError("this process has joined other hosts already; once is enough.")
    found = place(address, count, index, of_jax() or launched(os.environ))
    if found is not None:
        _joined.append(meet(found, float(timeout)))


def first() -> bool:
    """Whether this is host 0, or the only one: the one that writes files and speaks."""
    return not _joined or _joined[0].first


def index() -> int:
    """Which host this is, from 0."""
    return _joined[0].index if _joined else 0


def leave(why: str = "") -> None:
    """Part from the other hosts, and tell them why if they still need this one."""
    while _joined:
        _joined.pop().leave(why)


@contextmanager
def together() -> Iterator[Company | None]:
    """Work with the other hosts, if there are any.  Whoever fails in here takes the others along: they would wait for
    what does not come.  Only when sampling fails, it fails on all of them, and they stay in step."""
    company = _joined[0] if _joined else None
    before = _working.set(company)
    try:
        yield company
    except SamplingError:
        raise
    except BaseException as error:
        if company is not None:
            company.leave("stopped by its user" if isinstance(error, KeyboardInterrupt) else _described(error))
        raise
    finally:
        _working.reset(before)


def _described(error: BaseException) -> str:
    return str(error) or type(error).__name__


def current() -> Company | None:
    """The hosts that this thread is at work with."""
    return _working.get()


def agreed(values: Any, what: str) -> np.ndarray:
    """A decision, the same on all hosts: host 0's.

    Every host works it out by itself, and where their processors are alike they come to the same.  Where they are not,
    the last bit may differ, and differences would grow from proposal to proposal.
    """
    company = current()
    return np.asarray(values) if company is None else company.told(np.asarray(values), what)
