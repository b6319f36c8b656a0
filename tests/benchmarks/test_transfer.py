"""Downloads from servers that support ranges or not, break connections, or send other content."""

import hashlib
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


def test_a_broken_transfer_resumes(server: Behaviour, tmp_path: Path) -> None:
    server.dies = [100_000, 50_000]
    assert transfer(server.address, tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_call_resumes_too(server: Behaviour, tmp_path: Path) -> None:
    server.dies = [1000, *[0] * ATTEMPTS]
    with pytest.raises(Incomplete, match="1000 of 262144 bytes"):
        transfer(server.address, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file.partial"]
    server.asked.clear()
    assert transfer(server.address, tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-"]


def test_without_ranges_it_starts_over(server: Behaviour, tmp_path: Path) -> None:
    server.ranges, server.dies = False, [1000, 500]
    assert transfer(server.address, tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_never_completes_is_abandoned(server: Behaviour, tmp_path: Path) -> None:
    server.ranges, server.dies = False, [500, 1000] * 10
    with pytest.raises(Incomplete):
        transfer(server.address, tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_file_that_has_become_shorter_is_downloaded_again(server: Behaviour, tmp_path: Path) -> None:
    (tmp_path / "file.partial").write_bytes(b"of an older and longer version" + CONTENT)
    assert transfer(server.address, tmp_path / "file").read_bytes() == CONTENT


def test_a_missing_file_is_requested_once(server: Behaviour, tmp_path: Path) -> None:
    server.content = b""
    with pytest.raises(HTTPError):
        transfer(server.address, tmp_path / "file")
    assert len(server.asked) == 1


def test_a_file_with_another_hash_is_refused_and_leaves_nothing(server: Behaviour, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not match the known hash"):
        transfer(server.address, tmp_path / "file", known_hash="0" * 64)
    assert list(tmp_path.iterdir()) == []
    assert transfer(server.address, tmp_path / "file", hashlib.sha256(CONTENT).hexdigest()).read_bytes() == CONTENT
