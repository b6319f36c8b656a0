"""The benchmarks' files: found, checked, downloaded; and what is said when they are not there."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from probsysid._internal.errors import InputError
from probsysid.benchmarks import data
from tests.benchmarks.server import Behaviour, serving

CONTENT = {"DATA_EMPS.mat": b"training", "DATA_EMPS_PULSES.mat": b"test"}


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(data.VARIABLE, raising=False)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the files with this content were the published ones."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    monkeypatch.setitem(data.SOURCES, "emps", data.Source("emps", "emps", sums, "A. Author", "http://127.0.0.1:1/"))


def put(folder: Path, content: dict[str, bytes] = CONTENT) -> Path:
    place = folder / "emps"
    place.mkdir(parents=True)
    for name, text in content.items():
        (place / name).write_bytes(text)
    return place


@pytest.mark.usefixtures("published")
def test_found_in_a_folder_in_the_environments_or_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data.locate("emps", put(tmp_path / "given").parent) == tmp_path / "given" / "emps"
    put(data.cache_folder())
    assert data.locate("emps") == data.cache_folder() / "emps"
    monkeypatch.setenv(data.VARIABLE, str(put(tmp_path / "named").parent))
    assert data.locate("emps") == tmp_path / "named" / "emps"


def test_missing_files_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"SNLS80mV.mat does not exist; run: probsysid data silverbox"):
        data.locate("silverbox")
    with pytest.raises(InputError, match=r"does not exist; put it there"):
        data.locate("silverbox", tmp_path)


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("wrong", [b"trainin", b"", b"trainingx"], ids=["truncated", "empty", "other"])
def test_a_file_that_is_not_the_published_one_is_refused(tmp_path: Path, wrong: bytes) -> None:
    put(tmp_path, {**CONTENT, "DATA_EMPS.mat": wrong})
    with pytest.raises(InputError, match=r"DATA_EMPS.mat is not the published file: its SHA-256 begins with"):
        data.locate("emps", tmp_path)


def test_an_unknown_benchmark_is_named() -> None:
    with pytest.raises(InputError, match=r"'silverbix'.*Did you mean 'silverbox'"):
        data.locate("silverbix")


def test_a_file_that_is_not_matlabs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    path.write_bytes(b"not a MATLAB file, whatever its name says" * 10)
    with pytest.raises(InputError, match=r"x\.mat cannot be read as a MATLAB file"):
        data.read(path)


def archive(content: dict[str, bytes]) -> bytes:
    """A ZIP file as the benchmark's authors publish it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, text in content.items():
            file.writestr(name, text)
    return buffer.getvalue()


@pytest.fixture
def server(published: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behaviour]:
    """Has the archive; nonlinear-benchmarks' own address has nothing."""
    import nonlinear_benchmarks

    genuine = nonlinear_benchmarks.EMPS

    def without_network(url: str | None = None, **options: object) -> object:
        if url is None:
            raise OSError("no route to host")
        return genuine(url=url, **options)

    monkeypatch.setattr(nonlinear_benchmarks, "EMPS", without_network)
    with serving(archive(CONTENT)) as behaviour:
        monkeypatch.setitem(data.SOURCES, "emps", replace(data.SOURCES["emps"], address=behaviour.address))
        yield behaviour


def files() -> list[str]:
    """All that is in the cache."""
    return sorted(path.name for path in data.cache_folder().parent.rglob("*") if path.is_file())


def test_download_checks_copies_and_leaves_what_is_there(server: Behaviour, capsys: pytest.CaptureFixture[str]) -> None:
    place = data.download("emps")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == CONTENT
    assert data.download("emps") == place
    assert server.asked == [None]
    assert files() == sorted(CONTENT)
    assert capsys.readouterr().out == ""


def test_an_interrupted_download_goes_on(server: Behaviour) -> None:
    server.dies = [20, 0, 0, 0]
    with pytest.raises(InputError, match=r"failed \(20 of \d+ bytes arrived\)\. What has arrived is kept"):
        data.download("emps")
    assert files() == ["emps.zip.partial"]
    data.download("emps")
    assert server.asked[-1] == "bytes=20-"
    assert files() == sorted(CONTENT)


@pytest.mark.parametrize("length", [True, False], ids=["length known", "length unknown"])
def test_a_truncated_archive_is_never_taken_for_whole(server: Behaviour, length: bool) -> None:
    server.content, server.length = archive(CONTENT)[:-30], length
    with pytest.raises(InputError, match="downloading emps failed"):
        data.download("emps")
    assert files() == []
    server.content = archive(CONTENT)
    data.download("emps")
    assert files() == sorted(CONTENT)


def test_wrong_bytes_leave_nothing_and_the_next_download_begins_again(server: Behaviour) -> None:
    server.content = archive({**CONTENT, "DATA_EMPS.mat": b"trainin"})
    with pytest.raises(InputError, match=r"DATA_EMPS\.mat is not the published file"):
        data.download("emps")
    assert files() == []
    server.content = archive(CONTENT)
    data.download("emps")
    assert files() == sorted(CONTENT)


def test_an_archive_without_the_files_is_refused(server: Behaviour) -> None:
    server.content = archive({"README.txt": b"moved"})
    with pytest.raises(InputError, match="DATA_EMPS"):
        data.download("emps")
    assert files() == []


def test_wrong_files_in_place_are_replaced(server: Behaviour) -> None:
    put(data.cache_folder(), {**CONTENT, "DATA_EMPS.mat": b"trainin"})
    data.download("emps")
    assert (data.cache_folder() / "emps" / "DATA_EMPS.mat").read_bytes() == CONTENT["DATA_EMPS.mat"]


def test_where_the_address_has_moved_nonlinear_benchmarks_is_asked(
    server: Behaviour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nonlinear_benchmarks

    fetched = put(tmp_path / "fetched")
    monkeypatch.setattr(nonlinear_benchmarks, "EMPS", lambda **options: [str(p) for p in fetched.iterdir()])
    server.content = b""
    data.download("emps")
    assert files() == sorted(CONTENT)


def test_without_a_network_the_message_says_what_to_do(server: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    unreachable = replace(data.SOURCES["emps"], address="http://127.0.0.1:1/")
    monkeypatch.setitem(data.SOURCES, "emps", unreachable)
    with pytest.raises(InputError, match=r"Connection refused.*nonlinearbenchmark\.org.*set PROBSYSID_DATA=FOLDER"):
        data.download("emps")
