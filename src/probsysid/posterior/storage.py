"""Posteriors on disk: netCDF files under a digest, and the settings as plain data for JSON."""

import io
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from probsysid._internal.errors import InputError
from probsysid._internal.files import DamagedFile, sealed, unsealed, write_atomically
from probsysid._internal.validation import checked_path, checked_target
from probsysid.posterior.diagnostics.sampling_check import SamplingCheck
from probsysid.posterior.diagnostics.solver_check import SolverCheck
from probsysid.posterior.settings import RunSettings, Setup
from probsysid.smc.history import History
from probsysid.smc.rejuvenate import Rejuvenation

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

FORMAT = 3


def save(posterior: "Posterior", path: str | Path) -> None:
    """Write a netCDF file, atomically, with a digest of all of it at its end."""
    write_atomically(checked_target(path), sealed(bytes(to_dataset(posterior).to_netcdf(engine="h5netcdf"))))


def settings_record(posterior: "Posterior") -> dict[str, Any]:
    """Settings, checks and doubts as plain data."""
    record = {name: value for name, value in asdict(posterior.settings).items() if value is not None}
    check = posterior.check
    if check is not None:
        record |= {
            "solver_verdict": check.verdict,
            "solver_adequate": check.adequate,
            "solver_check": check.to_record(),
        }
    if posterior.sampling is not None:
        record |= {"sampling_verdict": posterior.sampling.verdict, "sampling_trusted": posterior.sampling.trusted}
        record["sampling_check"] = posterior.sampling.to_record()
    if posterior.variance_shares is not None:
        record["uncertainty"] = {name: dict(shares) for name, shares in posterior.variance_shares.items()}
    return record | {"doubts": list(posterior.doubts)}


def to_dataset(posterior: "Posterior") -> xr.Dataset:
    """Weighted particles and the history as one data set."""
    history = posterior.history
    variables: dict[str, Any] = {
        f"value:{name}": ([*(f"{name}_dim{i}" for i in range(value.ndim - 1)), "particle"], value)
        for name, value in posterior.values.items()
    }
    variables |= {
        "weights": ("particle", posterior.weights),
        "theta": (("dimension", "particle"), posterior.theta),
        "evidence_by_population": ("population", posterior.evidence_by_population),
        "ess": (("sample", "island"), history.ess),
        "evidence": (("sample", "island"), history.evidence),
    }
    variables |= {f"errors:{r}": ((f"sample_{r}", "output"), values) for r, values in enumerate(posterior.errors)}
    attributes = {
        "format": FORMAT,
        "settings": json.dumps(settings_record(posterior), default=str),
        "rejuvenations": json.dumps([list(r) for r in history.rejuvenations]),
        "rebased": json.dumps([[samples, list(e)] for samples, e in history.rebased.items()]),
        "names": json.dumps(list(posterior.values)),
    }
    pickled = posterior.setup.to_bytes()
    if pickled is not None:
        variables["setup"] = ("byte", np.frombuffer(pickled, dtype=np.uint8))
    return xr.Dataset(variables, attrs=attributes)


def load(path: str | Path, setup: Setup | None = None) -> dict[str, Any]:
    """The fields of a posterior, from a file that `save` wrote."""
    path = checked_path(path)
    dataset = _read(path)
    try:
        return _fields(dataset, setup)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a saved posterior ({error}).") from None


def _fields(dataset: xr.Dataset, setup: Setup | None) -> dict[str, Any]:
    names, record = json.loads(dataset.attrs["names"]), json.loads(dataset.attrs["settings"])
    rejuvenations = [Rejuvenation(*row) for row in json.loads(dataset.attrs["rejuvenations"])]
    rebased = {samples: np.array(evidence) for samples, evidence in json.loads(dataset.attrs["rebased"])}
    pieces = [dataset["ess"].values], [dataset["evidence"].values]
    pickled = dataset["setup"].values.tobytes() if "setup" in dataset else None
    return {
        "values": {name: dataset[f"value:{name}"].values for name in names},
        "theta": dataset["theta"].values,
        "weights": dataset["weights"].values,
        "evidence_by_population": dataset["evidence_by_population"].values,
        "history": History(dataset.sizes["island"], *pieces, rejuvenations, rebased),
        "settings": RunSettings(**{f.name: record[f.name] for f in fields(RunSettings) if f.name in record}),
        "setup": Setup(pickled=pickled) if setup is None else setup,
        "errors": tuple(
            dataset[f"errors:{r}"].values for r in range(sum(str(n).startswith("errors:") for n in dataset))
        ),
        "doubts": tuple(record.get("doubts", ())),
        "check": SolverCheck(**record["solver_check"]) if "solver_check" in record else None,
        "sampling": SamplingCheck.from_record(record["sampling_check"]) if "sampling_check" in record else None,
        "variance_shares": record.get("uncertainty"),
    }


def _read(path: Path) -> xr.Dataset:
    """The data set in a file.  Before the digest is checked HDF5 does not see it: damaged files can make it hang."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} is not a saved posterior ({error.strerror or error}).") from None
    try:
        with xr.open_dataset(io.BytesIO(unsealed(content)), engine="h5netcdf") as dataset:
            dataset.load()
    except DamagedFile as error:
        raise InputError(f"{path} is not a saved posterior, or is damaged: {error}. Run the fit again.") from None
    except Exception as error:  # HDF5 raises a dozen types on what is not its own
        raise InputError(f"{path} is not a saved posterior ({type(error).__name__}).") from None
    found = dataset.attrs.get("format")
    if found != FORMAT:
        raise InputError(f"{path} has posterior format {found}; this version reads {FORMAT}. Run the fit again.")
    return dataset
