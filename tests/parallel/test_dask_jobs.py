"""Workers that die, freeze and join: a dead worker costs its tasks, not the run."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from probsysid import Cluster, ClusterError
from tests.parallel.clusters import EVERYTHING
from validation.dask_processes import Processes


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes() as found:
        for _ in range(2):
            found.add_worker()
        yield found


def connect(processes: Processes) -> Cluster:
    found = Cluster(processes.address, exchange=EVERYTHING, timeout=3)
    found.client.wait_for_workers(1, timeout=60)
    return found


def strike(number: int, folder: str, how: int) -> tuple[int, int]:
    """The first worker to come here is struck; what it had is done by others."""
    try:
        mark = Path(folder) / "struck"
        with mark.open("x"):
            pass
        mark.write_text(str(os.getpid()))
        os.kill(os.getpid(), how)
        time.sleep(1)
    except FileExistsError:
        time.sleep(0.01)
    return os.getpid(), number**2


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_tasks_of_a_worker_that_is_lost_are_done_by_others(processes: Processes, tmp_path: Path, how: int) -> None:
    processes.add_worker()
    with connect(processes) as cluster:
        cluster.client.wait_for_workers(2, timeout=60)
        calls = [(number, str(tmp_path), int(how)) for number in range(12)]
        pids, values = cluster.evaluate(strike, calls, calls, keep=False)
        struck = int((tmp_path / "struck").read_text())
        assert values == [number**2 for number in range(12)]
        assert struck not in pids
        if how == signal.SIGSTOP:
            # it gets no further tasks while nothing is heard of it
            began = time.monotonic()
            assert struck not in cluster.evaluate(strike, calls, calls, keep=False)[0]
            assert time.monotonic() - began < 5
            os.kill(struck, signal.SIGCONT)


def tell(number: int) -> tuple[int, int]:
    time.sleep(0.05)
    return os.getpid(), number


def test_a_worker_that_joins_gets_tasks_in_the_next_round(processes: Processes) -> None:
    with connect(processes) as cluster:
        before = set(cluster.client.scheduler_info()["workers"])
        number = processes.add_worker()
        cluster.client.wait_for_workers(len(before) + 1, timeout=60)
        calls = [(k,) for k in range(8 * (len(before) + 1))]
        pids, _ = cluster.evaluate(tell, calls, calls, keep=False)
        assert processes.workers[number].pid in pids


def test_the_loss_of_the_scheduler_is_one_sentence() -> None:
    with Processes() as own:
        own.add_worker()
        with connect(own) as cluster:
            own.scheduler.kill()
            calls = [(k,) for k in range(4)]
            with pytest.raises(ClusterError, match=f"the cluster is gone: its scheduler at {own.address}"):
                cluster.evaluate(tell, calls, calls, keep=False)


def test_a_scheduler_that_is_back_in_time_is_used_again() -> None:
    with Processes() as own:
        own.add_worker()
        with Cluster(own.address, exchange=EVERYTHING, timeout=60) as cluster:
            cluster.client.wait_for_workers(1, timeout=60)
            digest = cluster.publish(b"something")
            own.scheduler.kill()
            own.scheduler.wait()
            own.start_scheduler()
            own.add_worker()
            calls = [(k,) for k in range(4)]
            assert cluster.evaluate(tell, calls, calls, keep=False)[1] == [0, 1, 2, 3]
            assert cluster.publish(b"something") == digest
