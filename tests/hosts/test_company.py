"""Hosts tell each other numbers to the last bit, and none of them waits for one that does not come."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from probsysid import InputError, __version__, hosts
from probsysid.hosts import HostError
from probsysid.hosts.company import Company, meet
from probsysid.hosts.place import Place
from probsysid.hosts.wire import Line
from tests.hosts.companies import free_port, in_company

SHORT = 1.0
"""Seconds of silence after which a host counts as lost, in tests of that."""


def test_everybody_gets_everything_in_order() -> None:
    odd = np.array([np.nan, -0.0, np.inf, 5e-324, 1 / 3])

    def work(company: Company) -> list[np.ndarray]:
        rounds = [company.gather(np.append(odd, company.index), f"round {k}") for k in range(20)]
        large = company.gather(np.full((300, 1000), float(company.index)), "large")
        assert [part[0, 0] for part in large] == [0.0, 1.0, 2.0]
        return rounds[-1]

    for found in in_company(3, work):
        assert [part.tobytes() for part in found] == [np.append(odd, k).tobytes() for k in range(3)]


def test_host_0_decides() -> None:
    def work(company: Company) -> np.ndarray:
        with hosts.together():
            flags = hosts.agreed(np.array([True, False, company.first]), "flags")
            return np.append(flags, hosts.agreed(0.1 * (1 + company.index), "number"))

    for found in in_company(3, work):
        np.testing.assert_array_equal(found, [1.0, 0.0, 1.0, 0.1])


def test_alone_everything_is_as_it_was() -> None:
    assert hosts.first() and hosts.current() is None
    with hosts.together() as company:
        assert company is None
        np.testing.assert_array_equal(hosts.agreed([1.0, 2.0], "numbers"), [1.0, 2.0])
    hosts.join(count=1, index=0)
    assert hosts.first() and not hosts._joined


def test_a_host_that_fails_says_why_to_all() -> None:
    def work(company: Company) -> None:
        with hosts.together():
            if company.index == 1:
                raise ValueError("the disk is full")
            company.gather(np.zeros(1), "numbers")

    first, failed, other = in_company(3, work)
    assert str(failed) == "the disk is full"
    for found in (first, other):
        assert isinstance(found, HostError)
        assert str(found) == "host 1 has stopped: the disk is full"


def test_a_host_that_is_gone_is_noticed_at_once() -> None:
    def work(company: Company) -> float:
        company.gather(np.zeros(1), "numbers")
        if company.index == 2:
            for line in company._lines.values():  # as when the process is killed: no farewell
                line._closed.set()
                line._connection.shutdown(socket.SHUT_RDWR)
            return 0.0
        began = time.monotonic()
        with pytest.raises(HostError, match="host 2 is lost: its connection has ended"):
            company.gather(np.zeros(1), "more")
        return time.monotonic() - began

    assert max(in_company(3, work)) < 5.0  # far below the timeout of 20 s


def test_a_host_that_is_silent_is_lost_after_the_timeout() -> None:
    """Frozen, or cut off: the connection stands, and nothing comes."""
    ended = threading.Event()

    def work(company: Company) -> float:
        company.gather(np.zeros(1), "numbers")
        if company.index == 1:
            for line in company._lines.values():
                line._closed.set()  # no more beats
            ended.wait(10 * SHORT)
            return 0.0
        began = time.monotonic()
        with pytest.raises(HostError, match="host 1 is lost: nothing has been heard from it for 1 s"):
            company.gather(np.zeros(1), "more")
        ended.set()
        return time.monotonic() - began

    assert max(in_company(2, work, SHORT)) < 5 * SHORT


def test_a_host_that_computes_for_long_is_not_lost() -> None:
    def work(company: Company) -> int:
        if company.index == 1:
            time.sleep(2.5 * SHORT)
        return len(company.gather(np.zeros(1), "numbers"))

    assert in_company(2, work, SHORT) == [2, 2]


def test_different_decisions_are_noticed() -> None:
    def work(company: Company) -> None:
        company.gather(np.zeros(1), "samples 0 to 8" if company.first else "samples 0 to 9")

    first, second = in_company(2, work)
    for found in (first, second):
        assert isinstance(found, HostError)
        assert "have come to different decisions" in str(found)


def met(place: Place, timeout: float = SHORT) -> str:
    """What goes wrong when this host joins."""
    with pytest.raises(InputError) as caught:
        meet(place, timeout)
    return str(caught.value)


def test_nobody_there() -> None:
    port = free_port()
    began = time.monotonic()
    assert f"host 0 does not answer at localhost:{port} within 1 s" in met(Place("localhost", port, 2, 1))
    assert "0 of the 2 other hosts have come" in met(Place("localhost", port, 3, 0))
    assert time.monotonic() - began < 5 * SHORT


def test_a_port_in_use() -> None:
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"host 0 cannot listen at port {port}" in met(Place("localhost", port, 2, 0))


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ({"index": 1, "count": 3, "version": None}, "host 1 was told that there are 3 hosts, host 0 that there are 2"),
        ({"index": 1, "count": 2, "version": "0.0.1"}, "host 1 has probsysid 0.0.1, host 0 has"),
        ({"index": 0, "count": 2, "version": None}, "two hosts have the index 0"),
    ],
)
def test_a_host_that_does_not_fit_is_told_so(card: dict, message: str) -> None:
    port = free_port()
    card = {**card, "version": card["version"] or __version__}
    answers = []

    def call() -> None:
        line = Line(reach(port), SHORT)
        line.send(json.dumps(card).encode())
        answers.append(line.receive().body.decode())
        line.close()

    caller = threading.Thread(target=call)
    caller.start()
    assert message in met(Place("localhost", port, 2, 0), 5.0)
    caller.join()
    assert message in answers[0]


def reach(port: int) -> socket.socket:
    for _ in range(100):
        try:
            return socket.create_connection(("localhost", port))
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise AssertionError("nobody listens")


def test_strangers_are_left_standing() -> None:
    port = free_port()
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(meet, Place("localhost", port, 2, 0), 10.0)
        with reach(port) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: node0\r\n\r\n")
            second = meet(Place("localhost", port, 2, 1), 10.0)
            first = waiting.result(10)
        answer = pool.submit(first.gather, np.zeros(1), "numbers")
        assert len(second.gather(np.zeros(1), "numbers")) == len(answer.result(10)) == 2
        first.leave()
        second.leave()


def test_joining_twice_and_odd_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="timeout for hosts is 0"):
        hosts.join("localhost:7700", 2, 0, timeout=0)
    monkeypatch.setattr(hosts, "_joined", [None])
    with pytest.raises(InputError, match="joined other hosts already"):
        hosts.join("localhost:7700", 2, 0)
