"""Clusters for tests: workers in this process, which start at once, or in processes that can be killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from probsysid.parallel.cluster import Cluster
from probsysid.parallel.executor import Exchange

EVERYTHING = Exchange(least_work=0)
"""Send even what is not worth sending."""

NOTHING_FETCHED = Exchange(least_work=0, largest_fetched=0)
"""And leave the states on the workers."""


@contextmanager
def cluster(workers: int = 2, exchange: Exchange = EVERYTHING, **changes: Any) -> Iterator[Cluster]:
    """Workers that are threads of this process, or processes with `processes=True`."""
    from distributed import Client, LocalCluster

    settings = {"processes": False, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    settings |= {"protocol": "tcp://"} | changes
    with (
        LocalCluster(n_workers=workers, **settings) as local,
        Client(local, set_as_default=False, timeout=5) as client,
        Cluster(client, exchange=exchange) as connected,
    ):
        yield connected
