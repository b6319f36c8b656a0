"""The results of runs, as written to JSON."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from probsysid._internal.errors import InputError


class Strict(BaseModel):
    """Base of all records in JSON: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=True)


class Summary(Strict):
    """Posterior summary of one parameter."""

    mean: float
    sd: float
    q05: float
    q95: float


class Score(Strict):
    """Root mean square error over particles on one test protocol, and how honest its bands are."""

    rmse_min: float
    rmse_mean: float
    rmse_max: float
    fit_percent: float
    baseline: float
    coverage: float | None = None
    """Share of the scored samples within the 90 % band of predicted measurements."""
    standardised_rms: float | None = None
    """Root mean square error of the mean in units of the predicted standard deviation."""


class RunResult(Strict):
    """The result of one model of a case with one method."""

    case: str
    model: str
    method: str
    particles: int
    seed: int
    seconds: float
    sweeps: float
    log_evidence: float
    trusted: bool | None = None
    """Whether the sampling is to be trusted; None where it was not checked."""
    log_evidence_error: float | None
    parameters: dict[str, Summary]
    test: dict[str, Score]


class Failure(Strict):
    """A failed run; that the paper's method fails is a finding."""

    case: str
    model: str
    method: str
    particles: int
    seed: int
    sentence: str


class Limit(Strict):
    """Scores of the posterior without integration error, for the same model and record."""

    about: str
    rmse_min: float
    rmse_mean: float
    rmse_max: float


class Context(Strict):
    """Circumstances of a run: when, where and how."""

    command: str
    date: str
    version: str
    machine: str
    record_samples: int
    settings: dict[str, str]
    limits: dict[str, Limit]


Kind = TypeVar("Kind")
_RESULTS: TypeAdapter[RunResult | list[RunResult]] = TypeAdapter(RunResult | list[RunResult])


def write_results(path: Path, results: list[RunResult], *, always_list: bool = False) -> None:
    """Write one result as an object (unless `always_list`), several as a list."""
    content = results[0] if len(results) == 1 and not always_list else results
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_RESULTS.dump_json(content, indent=2) + b"\n")


def read_results(path: Path) -> list[RunResult]:
    """Results written by `write_results`."""
    content = _read(_RESULTS, path, "benchmark results")
    return content if isinstance(content, list) else [content]


def read_context(path: Path) -> Context:
    """The context of a result."""
    return _read(TypeAdapter(Context), path, "a benchmark's context")


def read_failure(path: Path) -> Failure:
    """The record of a failed run."""
    return _read(TypeAdapter(Failure), path, "a benchmark's failure")


def _read(kind: TypeAdapter[Kind], path: Path, what: str) -> Kind:
    try:
        return kind.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise InputError(f"{path} is not a file of {what} ({str(error).splitlines()[0]}).") from None
