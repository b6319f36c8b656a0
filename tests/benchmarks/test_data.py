"""The benchmarks' files: found, checked, downloaded; and what is said when they are not there."""

import hashlib
from pathlib import Path

import pytest

from probsysid.benchmarks import data
from probsysid.errors import InputError

CONTENT = {"DATA_EMPS.mat": b"training", "DATA_EMPS_PULSES.mat": b"test"}


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(data.VARIABLE, raising=False)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the files with this content were the published ones."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    monkeypatch.setitem(data.SOURCES, "emps", data.Source("emps", "emps", sums, "A. Author"))


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


@pytest.mark.usefixtures("published")
def test_download_checks_copies_and_leaves_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = put(tmp_path / "fetched")
    calls = []

    def fetch(source: data.Source, place: Path) -> list[Path]:
        calls.append(source.name)
        return [*fetched.iterdir()]

    monkeypatch.setattr(data, "_fetch", fetch)
    place = data.download("emps")
    assert {path.name: path.read_bytes() for path in place.iterdir()} == CONTENT
    assert data.download("emps") == place
    assert calls == ["emps"]


@pytest.mark.usefixtures("published")
def test_a_wrong_download_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = put(tmp_path / "fetched", {name: b"error page" for name in CONTENT})
    monkeypatch.setattr(data, "_fetch", lambda source, place: [*fetched.iterdir()])
    with pytest.raises(InputError, match="not the published file"):
        data.download("emps")
    assert not list(data.cache_folder().glob("**/*.mat"))


def test_without_a_network_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import nonlinear_benchmarks

    def refuse(**options: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(nonlinear_benchmarks, "Silverbox", refuse)
    with pytest.raises(InputError, match=r"no route to host.*nonlinearbenchmark\.org.*set PROBSYSID_DATA=FOLDER"):
        data.download("silverbox")
