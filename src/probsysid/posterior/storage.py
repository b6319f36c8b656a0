"""Posteriors on disk: netCDF files under a digest, and the settings as plain data for JSON."""

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from probsysid._internal.errors import InputError
from probsysid._internal.files import DamagedFile, sealed, unsealed, write_atomically
from probsysid._internal.validation import check_kind, checked_path, checked_target
from probsysid.data.record import Record
from probsysid.data.stored_record import rebuilt_record, stored_record
from probsysid.model.model import Model
from probsysid.model.stored_model import check_same_names
from probsysid.posterior.diagnostics.sampling_check import SamplingCheck
from probsysid.posterior.diagnostics.solver_check import SolverCheck
from probsysid.posterior.settings import RunSettings, Setup
from probsysid.smc.history import History
from probsysid.smc.rejuvenate import Rejuvenation

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

FORMAT = 4


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
        record["sampling_status"] = posterior.sampling.status
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
        "shared_error": posterior.shared_error,
    }
    attributes["setup"] = json.dumps(posterior.setup.data())
    records, arrays = _record_arrays(posterior.records)
    attributes["records"] = json.dumps(records)
    variables |= {name: ([f"{name}_length"], values) for name, values in arrays.items()}
    return xr.Dataset(variables, attrs=attributes)


def _record_arrays(records: tuple[Record, ...]) -> tuple[Any, dict[str, np.ndarray]]:
    """The records as data, and their arrays; a sentence in place of the data if an input is a function."""
    described: list[Any] = []
    arrays: dict[str, np.ndarray] = {}
    for r, record in enumerate(records):
        try:
            facts, own = stored_record(record)
        except InputError as error:
            return str(error), {}
        described.append(facts)
        arrays |= {f"record{r}:{name}": values for name, values in own.items()}
    return described, arrays


def load(
    path: str | Path,
    setup: Setup | None = None,
    model: Model | None = None,
    records: Record | Sequence[Record] | None = None,
) -> dict[str, Any]:
    """The fields of a posterior, from a file that `save` wrote; what is given takes the place of what is stored."""
    path = checked_path(path)
    if model is not None:
        check_kind("model", model, Model, "make one with probsysid.Model(...)")
    given = (records,) if isinstance(records, Record) else None if records is None else tuple(records)
    for record in given or ():
        check_kind("an entry of records", record, Record, "make one with probsysid.Record(...)")
    dataset = _read(path)
    try:
        found = _fields(dataset)
        _check_shapes(found)
        stored, left = json.loads(dataset.attrs["setup"]), json.loads(dataset.attrs["records"])
        found["setup"] = setup or Setup(stored=stored, model=model)
        found["records"] = _records(dataset, left) if given is None else given
        if model is not None and stored is not None:
            check_same_names(stored["model"], model)
        return found
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is not a saved posterior ({error}).") from None


def _check_shapes(found: dict[str, Any]) -> None:
    """Raise unless all arrays are of the same particles."""
    weights, theta = found["weights"], found["theta"]
    lasting = {len(weights), theta.shape[-1], *(value.shape[-1] for value in found["values"].values())}
    if weights.ndim != 1 or theta.ndim != 2 or len(lasting) != 1 or not np.isclose(np.sum(weights), 1.0):
        raise ValueError("its particles and weights do not belong together")


def _records(dataset: xr.Dataset, described: Any) -> tuple[Record, ...]:
    """The stored records; none if there is a sentence in their place."""
    found = []
    for r, facts in enumerate([] if isinstance(described, str) else described):
        prefix = f"record{r}:"
        own = {str(n).removeprefix(prefix): dataset[n].values for n in dataset if str(n).startswith(prefix)}
        found.append(rebuilt_record(facts, own))
    return tuple(found)


def _fields(dataset: xr.Dataset) -> dict[str, Any]:
    names, record = json.loads(dataset.attrs["names"]), json.loads(dataset.attrs["settings"])
    rejuvenations = [Rejuvenation(*row) for row in json.loads(dataset.attrs["rejuvenations"])]
    rebased = {samples: np.array(evidence) for samples, evidence in json.loads(dataset.attrs["rebased"])}
    pieces = [dataset["ess"].values], [dataset["evidence"].values]
    return {
        "values": {name: dataset[f"value:{name}"].values for name in names},
        "theta": dataset["theta"].values,
        "weights": dataset["weights"].values,
        "evidence_by_population": dataset["evidence_by_population"].values,
        "shared_error": float(dataset.attrs.get("shared_error", 0.0)),
        "history": History(dataset.sizes["island"], *pieces, rejuvenations, rebased),
        "settings": RunSettings(**{f.name: record[f.name] for f in fields(RunSettings) if f.name in record}),
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
