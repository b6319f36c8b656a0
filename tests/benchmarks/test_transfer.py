"""Downloads from servers that resume or not, die midway, send something else."""

from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from probsysid.benchmarks.transfer import ATTEMPTS, Incomplete, transfer
from tests.benchmarks.server import Behaviour, serving

CONTENT = bytes(range(256)) * 1024


@pytest.fixture
def server() -> Iterator[Behaviour]:
    with serving(CONTENT) as behaviour:
        yield behaviour


def test_a_whole_file_is_fetched_once(server: Behaviour, tmp_path: Path) -> None:
    path = transfer(server.address, tmp_path / "new" / "file")
    assert path.read_bytes() == CONTENT
    assert transfer(server.address, path) == path
    assert server.asked == [None]
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_broken_transfer_goes_on_where_it_stopped(server: Behaviour, tmp_path: Path) -> None:
    server.dies = [100_000, 50_000]
    assert transfer(server.address, tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_call_goes_on_too(server: Behaviour, tmp_path: Path) -> None:
    server.dies = [1000, *[0] * ATTEMPTS]
    with pytest.raises(Incomplete, match="1000 of 262144 bytes"):
        transfer(server.address, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file.partial"]
    server.asked.clear()
    assert transfer(server.address, tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-"]


def test_without_ranges_it_begins_again(server: Behaviour, tmp_path: Path) -> None:
    server.ranges, server.dies = False, [1000, 500]
    assert transfer(server.address, tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_never_gets_to_the_end_is_given_up(server: Behaviour, tmp_path: Path) -> None:
    server.ranges, server.dies = False, [500, 1000] * 10
    with pytest.raises(Incomplete):
        transfer(server.address, tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_file_that_has_become_shorter_is_fetched_anew(server: Behaviour, tmp_path: Path) -> None:
    (tmp_path / "file.partial").write_bytes(b"of an older and longer version" + CONTENT)
    assert transfer(server.address, tmp_path / "file").read_bytes() == CONTENT


def test_an_address_with_nothing_is_asked_once(server: Behaviour, tmp_path: Path) -> None:
    server.content = b""
    with pytest.raises(HTTPError):
        transfer(server.address, tmp_path / "file")
    assert len(server.asked) == 1
