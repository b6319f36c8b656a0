"""The benchmarks' data files: located, verified, downloaded; and the error sentences when that fails."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from probsysid._internal.errors import InputError
from probsysid.benchmarks import data
from tests.benchmarks.server import Behaviour, serving

CONTENT = {"DATA_EMPS.mat": b"training", "DATA_EMPS_PULSES.mat": b"test"}

SOURCE = data.Source(
    "emps",
    "emps",
    {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()},
    "A. Author",
    "http://127.0.0.1:1/",
)
"""A benchmark whose published files have this content; nothing listens at its address."""


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(data.VARIABLE, raising=False)


def put(folder: Path, content: dict[str, bytes] = CONTENT) -> Path:
    place = folder / "emps"
    place.mkdir(parents=True)
    for name, text in content.items():
        (place / name).write_bytes(text)
    return place


def test_found_in_a_folder_in_the_environments_or_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data.locate(SOURCE, put(tmp_path / "given").parent) == tmp_path / "given" / "emps"
    put(data.cache_folder())
    assert data.locate(SOURCE) == data.cache_folder() / "emps"
    monkeypatch.setenv(data.VARIABLE, str(put(tmp_path / "named").parent))
    assert data.locate(SOURCE) == tmp_path / "named" / "emps"


def test_missing_files_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"SNLS80mV.mat does not exist; run: probsysid data silverbox"):
        data.locate("silverbox")
    with pytest.raises(InputError, match=r"does not exist; put it there"):
        data.locate("silverbox", tmp_path)


@pytest.mark.parametrize("wrong", [b"trainin", b"", b"trainingx"], ids=["truncated", "empty", "other"])
def test_a_file_that_is_not_the_published_one_is_refused(tmp_path: Path, wrong: bytes) -> None:
    put(tmp_path, {**CONTENT, "DATA_EMPS.mat": wrong})
    with pytest.raises(InputError, match=r"DATA_EMPS.mat is not the published file: its SHA-256 begins with"):
        data.locate(SOURCE, tmp_path)


def test_an_unknown_benchmark_is_named() -> None:
    with pytest.raises(InputError, match=r"'silverbix'.*Did you mean 'silverbox'"):
        data.locate("silverbix")


def test_a_file_that_is_not_matlabs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    path.write_bytes(b"not a MATLAB file, whatever its name says" * 10)
    with pytest.raises(InputError, match=r"x\.mat cannot be read as a MATLAB file"):
        data.read(path)


def archive(content: dict[str, bytes]) -> bytes:
    """A ZIP file as published by the benchmark's authors."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, text in content.items():
            file.writestr(name, text)
    return buffer.getvalue()


@dataclass(frozen=True)
class Published:
    """A benchmark on a server of this machine."""

    server: Behaviour
    source: data.Source


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Iterator[Published]:
    """The server has the archive; the address of nonlinear-benchmarks cannot be reached."""
    import nonlinear_benchmarks

    genuine = nonlinear_benchmarks.EMPS

    def without_network(url: str | None = None, **options: object) -> object:
        if url is None:
            raise OSError("no route to host")
        return genuine(url=url, **options)

    monkeypatch.setattr(nonlinear_benchmarks, "EMPS", without_network)
    with serving(archive(CONTENT)) as behaviour:
        yield Published(behaviour, replace(SOURCE, address=behaviour.address))


def files() -> list[str]:
    """All files in the cache."""
    return sorted(path.name for path in data.cache_folder().parent.rglob("*") if path.is_file())


def test_download_verifies_copies_and_keeps_what_is_there(
    published: Published, capsys: pytest.CaptureFixture[str]
) -> None:
    place = data.download(published.source)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == CONTENT
    assert data.download(published.source) == place
    assert published.server.asked == [None]
    assert files() == sorted(CONTENT)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "pooch" not in printed.err and "SHA256" not in printed.err


def test_an_interrupted_download_resumes(published: Published) -> None:
    published.server.dies = [20, 0, 0, 0]
    with pytest.raises(InputError, match=r"failed \(20 of \d+ bytes arrived\)\. What has arrived is kept"):
        data.download(published.source)
    assert files() == ["emps.zip.partial"]
    data.download(published.source)
    assert published.server.asked[-1] == "bytes=20-"
    assert files() == sorted(CONTENT)


@pytest.mark.parametrize("length", [True, False], ids=["length known", "length unknown"])
def test_a_truncated_archive_is_never_taken_for_whole(published: Published, length: bool) -> None:
    published.server.content, published.server.length = archive(CONTENT)[:-30], length
    with pytest.raises(InputError, match="downloading emps failed"):
        data.download(published.source)
    assert files() == []
    published.server.content = archive(CONTENT)
    data.download(published.source)
    assert files() == sorted(CONTENT)


def test_wrong_bytes_leave_nothing_and_the_next_download_starts_over(published: Published) -> None:
    published.server.content = archive({**CONTENT, "DATA_EMPS.mat": b"trainin"})
    with pytest.raises(InputError, match=r"DATA_EMPS\.mat is not the published file"):
        data.download(published.source)
    assert files() == []
    published.server.content = archive(CONTENT)
    data.download(published.source)
    assert files() == sorted(CONTENT)


def test_an_archive_without_the_files_is_refused(published: Published) -> None:
    published.server.content = archive({"README.txt": b"moved"})
    with pytest.raises(InputError, match="DATA_EMPS"):
        data.download(published.source)
    assert files() == []


def test_wrong_files_in_place_are_replaced(published: Published) -> None:
    put(data.cache_folder(), {**CONTENT, "DATA_EMPS.mat": b"trainin"})
    data.download(published.source)
    assert (data.cache_folder() / "emps" / "DATA_EMPS.mat").read_bytes() == CONTENT["DATA_EMPS.mat"]


def test_if_the_address_is_no_longer_valid_nonlinear_benchmarks_downloads(
    published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nonlinear_benchmarks

    fetched = put(tmp_path / "fetched")
    monkeypatch.setattr(nonlinear_benchmarks, "EMPS", lambda **options: [str(p) for p in fetched.iterdir()])
    published.server.content = b""
    data.download(published.source)
    assert files() == sorted(CONTENT)


def test_a_benchmark_may_be_a_single_file() -> None:
    content = b"both angles"
    with serving(content) as behaviour:
        address = f"{behaviour.address.rstrip('/')}/angles.mat"
        source = data.Source(
            "pendulum", "pendulum", {"angles.mat": hashlib.sha256(content).hexdigest()}, "A. Author", address
        )
        assert (data.download(source) / "angles.mat").read_bytes() == content
        assert files() == ["angles.mat"]
    unreachable = replace(source, folder="elsewhere")
    advice = r"get angles\.mat from http://.*/angles\.mat, put them into FOLDER/elsewhere/"
    with pytest.raises(InputError, match=advice):
        data.download(unreachable)


def test_without_a_network_the_message_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"Connection refused.*nonlinearbenchmark\.org.*set PROBSYSID_DATA=FOLDER"):
        data.download(SOURCE)
