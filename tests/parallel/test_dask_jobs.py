"""Workers that die, freeze and join: a dead worker costs its tasks, not the run."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from probsysid import Cluster, ClusterError
from probsysid.parallel.dask_jobs import Collector
from tests.parallel.clusters import EVERYTHING
from validation.dask_processes import Processes


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes() as found:
        for _ in range(2):
            found.add_worker()
        yield found


def connect(processes: Processes) -> Cluster:
    found = Cluster(processes.address, exchange=EVERYTHING, timeout=3, say=print)
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


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)])
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


def linger(number: int, folder: str) -> tuple[int, int]:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(1)
    return os.getpid(), number


@pytest.mark.long
def test_tasks_whose_workers_are_all_lost_go_to_one_that_joins(tmp_path: Path) -> None:
    """While one worker is frozen, tasks may run on the other only; then that one is killed."""
    with Processes() as own:
        frozen, killed = own.add_worker(), own.add_worker()
        with connect(own) as cluster:
            cluster.client.wait_for_workers(2, timeout=60)
            calls = [(k, str(tmp_path)) for k in range(4)]
            own.workers[frozen].send_signal(signal.SIGSTOP)
            pids, _ = cluster.evaluate(linger, calls, calls, keep=False)
            assert set(pids) == {own.workers[killed].pid}
            (tmp_path / str(pids[0])).unlink()

            def strike_when_busy() -> None:
                while not (tmp_path / str(pids[0])).exists():
                    time.sleep(0.01)
                own.kill(killed)
                own.add_worker()

            striker = threading.Thread(target=strike_when_busy)
            striker.start()
            later, values = cluster.evaluate(linger, calls, calls, keep=False)
            striker.join()
            assert values == [0, 1, 2, 3]
            assert own.workers[max(own.workers)].pid in later


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


@pytest.mark.slow
def test_the_loss_of_the_scheduler_is_one_sentence() -> None:
    with Processes() as own:
        own.add_worker()
        with connect(own) as cluster:
            own.scheduler.kill()
            calls = [(k,) for k in range(4)]
            with pytest.raises(ClusterError, match=f"the cluster is gone: its scheduler at {own.address}"):
                cluster.evaluate(tell, calls, calls, keep=False)


class Waiting(Collector):
    """One whose scheduler never answers."""

    asked = 0

    def ask(self, question: Any, seconds: float) -> Any:
        self.asked += 1
        raise TimeoutError


@pytest.mark.parametrize(("gone", "least", "most"), [(0.0, 1, 1), (0.7, 2, 4)])
def test_a_scheduler_is_asked_again_until_it_counts_as_gone(gone: float, least: int, most: int) -> None:
    client = SimpleNamespace(status="running", scheduler=SimpleNamespace(address="tcp://127.0.0.1:1"))
    collector = Waiting(client, print, gone)
    with pytest.raises(ClusterError, match="does not answer"):
        collector.insist(lambda: None)
    assert least <= collector.asked <= most


@pytest.mark.slow
def test_a_scheduler_that_is_back_in_time_is_used_again() -> None:
    said: list[str] = []
    with Processes() as own:
        own.add_worker()
        with Cluster(own.address, exchange=EVERYTHING, timeout=60, say=said.append) as cluster:
            cluster.client.wait_for_workers(1, timeout=60)
            digest = cluster.publish(b"something")
            own.scheduler.kill()
            own.scheduler.wait()
            own.start_scheduler()
            own.add_worker()
            calls = [(k,) for k in range(4)]
            assert cluster.evaluate(tell, calls, calls, keep=False)[1] == [0, 1, 2, 3]
            assert cluster.publish(b"something") == digest
    assert said in ([], ["The cluster has no worker; the run goes on when one joins."])  # at most once
