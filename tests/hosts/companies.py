"""Hosts that are threads of this process: cheap, and with compiled programs shared."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from probsysid import hosts
from probsysid.hosts.company import Company, meet
from probsysid.hosts.place import Place

TIMEOUT = 20.0
"""Ample for a busy machine; the tests of silence take a shorter one."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


class OfThread(threading.local):
    """Stands in for the company of a process: each thread has its own."""

    def __init__(self) -> None:
        self.companies: list[Company] = []

    def __len__(self) -> int:
        return len(self.companies)

    def __getitem__(self, index: int) -> Company:
        return self.companies[index]

    def append(self, company: Company) -> None:
        self.companies.append(company)

    def pop(self) -> Company:
        return self.companies.pop()


@contextmanager
def threads_as_hosts() -> Iterator[None]:
    before = hosts._joined
    hosts._joined = OfThread()
    try:
        yield
    finally:
        hosts._joined = before


def in_company(count: int, work: Callable[[Company], Any], timeout: float = TIMEOUT) -> list[Any]:
    """What `work` returns on each host, or the exception that it raises."""
    port = free_port()

    def run(index: int) -> Any:
        try:
            company = meet(Place("localhost", port, count, index), timeout)
            hosts._joined.append(company)
            return work(company)
        except Exception as error:
            return error
        finally:
            hosts.leave()

    with threads_as_hosts(), ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
