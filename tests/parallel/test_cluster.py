"""The cluster as a user sees it: arguments, sentences, what is guaranteed about its tasks."""

import os
import shlex
import shutil
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from probsysid import Cluster, ClusterError, ClusterWarning, InputError
from probsysid.parallel.cluster import as_security, block_size, parse_option
from tests.parallel.clusters import cluster
from validation.dask_processes import Processes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with cluster() as found:
        yield found


def double(number: int) -> tuple[str, int]:
    return "stays", 2 * number


def refuse(number: int) -> tuple[None, None]:
    raise InputError(f"{number} is wrong.")


@pytest.mark.parametrize("keep", [False, True])
def test_results_come_in_the_order_of_the_blocks(shared: Cluster, keep: bool) -> None:
    calls = [(number,) for number in range(20)]
    kept, values = shared.evaluate(double, calls, calls, keep=keep)
    assert values == [2 * number for number in range(20)]
    assert len(kept) == 20
    assert kept[0].key.startswith("double") if keep else kept[0] == "stays"


def follow(given: Any, number: int) -> tuple[None, Any]:
    return None, (given if isinstance(given, str) else given[0]) + str(number)


def test_what_stays_on_workers_can_be_used_there_and_lost(shared: Cluster) -> None:
    kept, _ = shared.evaluate(double, [(1,), (2,)], [(1,), (2,)], keep=True)
    calls, anew = [(handle, 7) for handle in kept], [("stays", 7)] * 2
    assert shared.evaluate(follow, calls, anew, keep=False)[1] == ["stays7", "stays7"]
    shared.client.cancel(kept[:1], force=True)  # as after the loss of the connection
    other = [("anew", 7)] * 2
    assert shared.evaluate(follow, calls, other, keep=False)[1] == ["anew7", "stays7"]


def test_an_error_of_a_task_is_the_error_of_the_run(shared: Cluster) -> None:
    with pytest.raises(InputError, match=r"[34] is wrong"):
        shared.evaluate(refuse, [(3,), (4,)], [(3,), (4,)], keep=False)


def test_whole_runs_come_as_they_are_done(shared: Cluster) -> None:
    assert dict(shared.runs(double, [(1,), (2,), (3,)])) == {0: ("stays", 2), 1: ("stays", 4), 2: ("stays", 6)}


@pytest.mark.parametrize("particles", [256, 1000, 1024, 4096, 5000, 100_000, 1_000_000])
def test_blocks_follow_from_the_number_of_particles_alone(particles: int) -> None:
    block = block_size(particles)
    assert block is not None and block % 64 == 0
    assert -(-particles // block) <= 1024 + 1
    assert -(-particles // block) >= 3  # 1000 particles: three blocks of 256 and one of 232, padded
    assert -particles % block < block


def test_few_particles_are_not_sent() -> None:
    assert block_size(255) is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "either the address of a scheduler"),
        ({"address": "tcp://127.0.0.1:1", "workers": 2}, "either the address of a scheduler"),
        ({"workers": 0}, "workers is 0"),
        ({"address": "127.0.0.1:8786"}, "write it as tls://host:8786"),
        ({"address": "tcp://127.0.0.1"}, "write it as tls://host:8786"),
        ({"address": "tls://127.0.0.1:8786"}, "needs certificates"),
        ({"address": "tls://127.0.0.1:8786", "security": {"ca": "a.pem"}}, "has no 'cert'"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Cluster(**arguments)


def test_certificates_must_be_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a file"):
        as_security({name: tmp_path / "none.pem" for name in ("ca", "cert", "key")})


def test_nobody_at_the_address_is_a_sentence() -> None:
    with pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        Cluster("tcp://127.0.0.1:9", timeout=0.5)


def test_plain_tcp_beyond_loopback_warns_in_one_sentence() -> None:
    said: list[str] = []
    with pytest.raises(ClusterError):
        Cluster("tcp://192.0.2.1:8786", timeout=0.2, say=said.append)  # an address for documentation: no machine has it
    assert len(said) == 1 and "anybody who reaches" in said[0]
    with pytest.raises(ClusterError), warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        Cluster("tcp://192.0.2.1:8786", timeout=0.2)
    assert any(issubclass(warning.category, ClusterWarning) for warning in given)


@pytest.mark.parametrize(
    ("text", "arguments"), [("local:4", {"workers": 4}), ("tcp://a:8786", {"address": "tcp://a:8786"})]
)
def test_what_is_written_on_the_command_line(text: str, arguments: dict[str, Any]) -> None:
    assert parse_option(text) == arguments


@pytest.mark.parametrize("text", ["local", "local:", "local:0", "local:x"])
def test_local_needs_a_number(text: str) -> None:
    with pytest.raises(InputError, match="write local:4"):
        parse_option(text)


CERTIFICATES = """
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=authority -keyout ca-key.pem -out ca.pem
openssl req -newkey rsa:2048 -nodes -subj /CN=cluster -keyout key.pem -out request.pem
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 30 -out cert.pem
"""
"""As in docs/cluster.md."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_only_who_has_a_certificate_is_let_in(tmp_path: Path) -> None:
    for line in CERTIFICATES.split("\n")[1:-1]:
        subprocess.run(shlex.split(line), cwd=tmp_path, check=True, capture_output=True)
    assert all(line in (ROOT / "docs" / "cluster.md").read_text() for line in CERTIFICATES.split("\n"))
    paths = {"ca": tmp_path / "ca.pem", "cert": tmp_path / "cert.pem", "key": tmp_path / "key.pem"}
    words = [word for name in paths for word in (f"--tls-{name}{'-file' * (name == 'ca')}", str(paths[name]))]
    with Processes(security=tuple(words)) as processes:
        assert processes.address.startswith("tls://")
        processes.add_worker()
        with Cluster(processes.address, security=paths) as found:
            found.client.wait_for_workers(1)
            assert found.evaluate(double, [(1,), (2,)], [(1,), (2,)], keep=False)[1] == [2, 4]
        with pytest.raises(ClusterError, match="no scheduler answers"):
            Cluster(processes.address.replace("tls://", "tcp://"), timeout=2)


LOCAL = """
import sys
from probsysid import Cluster
def answer(number):
    import os
    return os.getpid(), number + 1
with Cluster(workers=2) as found:
    print(found.dashboard.startswith("http://127.0.0.1:"))
    pids, values = found.evaluate(answer, [(k,) for k in range(8)], [(k,) for k in range(8)], keep=False)
    info = found.client.scheduler_info()["workers"]
    print(sum(values), len(info), all(address.startswith("tcp://127.0.0.1:") for address in info))
    print(*set(pids))
"""


@pytest.mark.slow
def test_local_workers_listen_on_loopback_and_end_with_the_program() -> None:
    script = textwrap.dedent(LOCAL)
    # without a guard for __main__, which a pool of processes would need
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert found.returncode == 0, found.stderr
    first, second, third = found.stdout.splitlines()
    assert (first, second) == ("True", "36 2 True")
    for pid in map(int, third.split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
