"""The benchmarks' data files: located in a folder or downloaded into a cache, and verified before they are read.

A data folder (an argument, or the environment variable PROBSYSID_DATA) holds one subfolder per benchmark.  Without
one, files are downloaded into the cache.  pooch downloads the archives, checks hashes and moves files into place.  The
package nonlinear-benchmarks knows the layout of the published archives; its own download neither resumes nor notices a
truncated archive, so it is given a complete archive and an empty folder.
"""

import os
import shutil
import sys
import urllib.error
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import scipy.io

from probsysid._internal.errors import InputError
from probsysid._internal.validation import choose
from probsysid.benchmarks.transfer import transfer, without_log

VARIABLE = "PROBSYSID_DATA"


@dataclass(frozen=True)
class Source:
    """The files of one benchmark (name -> SHA-256), the citation, and the address of the published archive, or of its
    only file."""

    name: str
    folder: str
    files: dict[str, str]
    citation: str
    address: str

    @property
    def is_archive(self) -> bool:
        return self.address.rpartition("/")[-1] not in self.files


SOURCES = {
    "bouc-wen": Source(
        "bouc-wen",
        "bouc_wen",
        {
            "uval_multisine.mat": "3eb9abc0aef66b97beaf003fbcb45b43a4e28d7e82db5bf8abc1c931b92106ed",
            "yval_multisine.mat": "05e462f7c508c26c8e69549e2b80ff5acea2828b399175c8bdd3fa70eb9905bc",
            "uval_sinesweep.mat": "fefd6c08bbf3b27f13f61a15ea0dd8c63211c5924e99f6ca43760d1f25ce9ed3",
            "yval_sinesweep.mat": "52b49f7ff62487bf75efbed95bf759b06d8bad1127a8e63bc242e119d72bc57b",
        },
        "J.P. Noël, M. Schoukens: Hysteretic benchmark with a dynamic nonlinearity, 2016 Workshop on Nonlinear System "
        "Identification Benchmarks (4TU.ResearchData, doi 10.4121/12967592, CC BY-SA 4.0)",
        "https://data.4tu.nl/file/7060f9bc-8289-411e-8d32-57bef2740d32/cd40469c-5064-4968-ae59-88cbb850264b",
    ),
    "silverbox": Source(
        "silverbox",
        "silverbox",
        {"SNLS80mV.mat": "5c7413a52255af0cb4e2f93fb6903beb92b08965ba1e6ad0a6ffedfed8477ed4"},
        "T. Wigren, J. Schoukens: Three free data sets for development and benchmarking in nonlinear system "
        "identification, European Control Conference 2013, 2933-2938",
        "https://docs.google.com/uc?export=download&id=17iS-6oBUUgrmiAcrZoG9S5sOaljZnDSy",
    ),
    "emps": Source(
        "emps",
        "emps",
        {
            "DATA_EMPS.mat": "6cf6814ae14618795da0101aae2bb97ff0c6351b0501b5492751b02b07facf7e",
            "DATA_EMPS_PULSES.mat": "0eab75bb1f6b16228ee78791343a88bf9bfd9a51036ac9807d7b5fc11c0e1704",
        },
        "A. Janot, M. Gautier, M. Brunot: Data set and reference models of EMPS, 2019 Workshop on Nonlinear System "
        "Identification Benchmarks",
        "https://docs.google.com/uc?export=download&id=1zwoXYa9-3f8NQ0ohzmjpF7UxbNgRTHkS",
    ),
    "tanks": Source(
        "tanks",
        "tanks",
        {"dataBenchmark.csv": "ef2388ed822f3aef4aa80d6b0f2b466dd80b361786b3eafc7a2957c31ea323a7"},
        "M. Schoukens, P. Mattsson, T. Wigren, J.P. Noël: Cascaded tanks benchmark combining soft and hard "
        "nonlinearities, 2016 Workshop on Nonlinear System Identification Benchmarks (4TU.ResearchData, doi "
        "10.4121/12960104)",
        "https://data.4tu.nl/file/d4810b78-6cdd-48fe-8950-9bd601e5f47f/3b697e42-01a4-4979-a370-813a456c36f5",
    ),
    "pendulum": Source(
        "pendulum",
        "pendulum",
        {
            "DoublePendulumDataForParameterEstimation.mat": (
                "4bf9e4006aa83b2b003295ac1b1946717eec87d76873834d6248683aca419902"
            )
        },
        "K. Kaheman, U. Fasel, J.J. Bramburger, B. Strom, J.N. Kutz, S.L. Brunton: The experimental multi-arm pendulum "
        "on a cart, 2022 (github.com/dynamicslab/MultiArm-Pendulum, MIT licence)",
        "https://raw.githubusercontent.com/dynamicslab/MultiArm-Pendulum/f307b41f16fe48b283f7589694c144d87912ed58/"
        "ParameterEstimation/DoublePendulum/DoublePendulumDataForParameterEstimation.mat",
    ),
}
"""Addresses of archives as in nonlinear-benchmarks 1.0.1; that of the pendulum is the file itself."""


def cache_folder() -> Path:
    """The folder of downloaded files, unless the environment names another."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "probsysid" / "data"


def home() -> Path:
    """The folder named by the environment, or the cache."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else cache_folder()


def locate(benchmark: str | Source, folder: str | Path | None = None) -> Path:
    """The folder with a benchmark's files; raises unless all are present and match their published hashes."""
    source = _source(benchmark)
    place = (Path(folder) if folder else home()) / source.folder
    missing = [file for file in source.files if not (place / file).is_file()]
    if missing:
        hint = "put it there" if folder else f"run: probsysid data {source.name}"
        raise InputError(f"the {source.name} data are not here: {place / missing[0]} does not exist; {hint}")
    for file, expected in source.files.items():
        check(place / file, expected)
    return place


def _source(benchmark: str | Source) -> Source:
    found: Source = choose("benchmark", benchmark, SOURCES)
    return found


def check(path: Path, expected: str) -> None:
    """Raise unless the file has the published SHA-256."""
    import pooch  # late, as in `transfer`

    found = pooch.file_hash(path)
    if found != expected:
        raise InputError(
            f"{path} is not the published file: its SHA-256 begins with {found[:12]}, expected {expected[:12]}. "
            "It may be truncated; remove it and download it again."
        )


def read(path: Path) -> dict[str, Any]:
    """The variables of a MATLAB file, singleton dimensions removed."""
    try:
        content = scipy.io.loadmat(path, squeeze_me=True)
    except (OSError, ValueError, NotImplementedError) as error:
        raise InputError(f"{path} cannot be read as a MATLAB file ({error}).") from None
    return {key: value for key, value in content.items() if not key.startswith("__")}


def download(benchmark: str | Source) -> Path:
    """Download a benchmark into the cache, or into the folder named by the environment.

    Files that are present and verified are kept.  A file appears under its name only when it is complete and verified.
    """
    source = _source(benchmark)
    try:
        return locate(source)
    except InputError:
        pass
    place, downloads = home() / source.folder, cache_folder().parent / "downloads"
    archive = downloads / f"{source.name}.zip"
    downloads.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=downloads) as fresh:
        files = _fetch(source, archive, Path(fresh))
        # verified or not, it is no longer needed: after a failed check the next download has to start over
        archive.unlink(missing_ok=True)
        wanted = [path for path in files if path.name in source.files]
        for path in wanted:  # all of them first: a wrong one leaves nothing
            check(path, source.files[path.name])
        for path in wanted:
            _install(path, place, source.files[path.name])
    return locate(source)


def _install(path: Path, place: Path, expected: str) -> None:
    """Copy a file into place through pooch, which verifies the copy before it gets its name."""
    import pooch  # late, as in `transfer`

    def copy(url: str, output_file: str, pooch: object) -> None:
        shutil.copyfile(path, output_file)

    with without_log():
        pooch.retrieve(path.as_uri(), expected, path.name, place, downloader=copy)


def _fetch(source: Source, archive: Path, fresh: Path) -> list[Path]:
    """The unpacked files of the archive, or of nonlinear-benchmarks' own download if the address is no longer valid."""
    try:
        transfer(source.address, archive)
    except urllib.error.HTTPError as error:
        if not source.is_archive:
            raise _not_downloaded(source, error) from None
    except OSError as error:
        raise _not_downloaded(source, error, "What has arrived is kept: run the command again to go on.") from None
    else:
        if not source.is_archive:
            return [archive.rename(fresh / next(iter(source.files)))]
        try:
            return _unpacked(source, fresh / "ours", url=archive.as_uri())
        except Exception:  # not an archive: an error page of the server, perhaps
            archive.unlink()
    try:
        return _unpacked(source, fresh / "theirs")
    except Exception as error:
        raise _not_downloaded(source, error) from None


def _not_downloaded(source: Source, error: Exception, advice: str = "") -> InputError:
    origin = "nonlinearbenchmark.org" if source.is_archive else source.address
    return InputError(
        f"downloading {source.name} failed ({error}). {advice}{' ' if advice else ''}Without a network, get "
        f"{', '.join(source.files)} from {origin}, put them into FOLDER/{source.folder}/ and set {VARIABLE}=FOLDER."
    )


def _unpacked(source: Source, place: Path, **options: str) -> list[Path]:
    """The files of a benchmark as unpacked by nonlinear-benchmarks."""
    import nonlinear_benchmarks
    from nonlinear_benchmarks import not_splitted_benchmarks

    place.mkdir()
    loaders = {
        "bouc-wen": not_splitted_benchmarks.BoucWen,
        "silverbox": nonlinear_benchmarks.Silverbox,
        "emps": nonlinear_benchmarks.EMPS,
        "tanks": nonlinear_benchmarks.Cascaded_Tanks,
    }
    with redirect_stdout(sys.stderr):  # it prints its progress; standard output is for our results
        found = loaders[source.name](data_file_locations=True, dir_placement=str(place), **options)
    folders = {
        path if path.is_dir() else path.parent for path in map(Path, [found] if isinstance(found, str) else found)
    }
    return [file for folder in folders for file in folder.iterdir() if file.is_file()]
