"""Results of a study: what each model gave, the comparison by evidence, and the summary for other programs."""

import platform
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, NotRequired, TypedDict

import numpy as np
import pandas as pd

from probsysid._version import __version__
from probsysid.posterior.posterior import Posterior
from probsysid.posterior.states import States
from probsysid.posterior.storage import settings_record
from probsysid.posterior.unknown_inputs import UnknownInputs
from probsysid.smc.weights import normalise
from probsysid.study.candidates import CandidateModel
from probsysid.study.freerun import FreeRun
from probsysid.study.records import StudyRecord
from probsysid.study.resolve import ResolvedStudy
from probsysid.study.stopwatch import Stopwatch

LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "numpyro", "pandas", "xarray", "bokeh", "matplotlib")


@dataclass(frozen=True, eq=False)
class CandidateResult:
    """The posterior of one model of a study, with states and free runs."""

    candidate: CandidateModel
    posterior: Posterior
    states: dict[int, States]
    """Smoothed states by training record; empty if the study does not ask for them."""
    runs: list[FreeRun]
    problems: tuple[str, ...] = ()
    """Sentences about what failed or is doubtful."""
    watch: Stopwatch | None = None
    """Where the time of the run went; None for results that are read again."""
    inputs: Mapping[int, UnknownInputs] = field(default_factory=dict)
    """Unknown inputs and drifts by training record."""

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against the sampling."""
        return self.posterior.sampling is None or self.posterior.sampling.trusted

    @property
    def status(self) -> str:
        """The same in words, or that the posterior was not sampled; and whether the integration is in the way."""
        sampling = "trusted" if self.posterior.sampling is None else self.posterior.sampling.status
        return sampling if self.integrated else f"{sampling}, integration error not negligible"

    @property
    def integrated(self) -> bool:
        """Whether nothing speaks against the integration: an evidence is that of the model as it was integrated."""
        return self.posterior.check is None or self.posterior.check.adequate

    def table(self) -> pd.DataFrame:
        """The posterior's table, parameters in the order of the study, then noise and the rest."""
        frame = self.posterior.table()
        order = [name for name in self.candidate.parameters if name in frame.index]
        return frame.loc[[*order, *(name for name in frame.index if name not in order)]]


DISTINCT, KNOWN = 3.0, 0.5
"""Evidences are told apart if they differ by this many standard errors, or are known to within this error."""


def comparison(results: Sequence[CandidateResult]) -> pd.DataFrame:
    """Log evidence of each model, its distance from the best, and its probability under equal prior probabilities.

    Probabilities are NaN where they cannot be known: a run is not to be trusted or was not sampled, its integration
    error matters, or errors of evidences overlap or are not known.
    """
    evidence = np.array([r.posterior.log_evidence for r in results])
    error = np.array([r.posterior.log_evidence_error for r in results])
    trusted = np.array([r.trusted for r in results])
    best = int(np.argmax(evidence))
    below = evidence.max() - evidence
    combined = np.hypot(error, error[best])
    apart = (below >= DISTINCT * combined) | (combined <= KNOWN) | (np.arange(len(results)) == best)  # NaN: neither
    known = trusted.all() and apart.all() and all(r.integrated for r in results)
    return pd.DataFrame(
        {
            "log_evidence": evidence,
            "error": error,
            "below_best": below,
            "probability": normalise(evidence) if known else np.full(len(results), np.nan),
            "trusted": trusted,
            "sampling": [r.status for r in results],
            **_test_errors(results),
        },
        index=pd.Index([r.candidate.name for r in results], name="model"),
    ).sort_values("log_evidence", ascending=False)


def _test_errors(results: Sequence[CandidateResult]) -> dict[str, list[float]]:
    """`test rmse of OUTPUT` -> the error in free run over all test ranges, for each model; NaN where it has none."""
    found: list[dict[str, list[tuple[int, float]]]] = []
    for result in results:
        errors: dict[str, list[tuple[int, float]]] = {}
        for run in result.runs:
            part = run.part("test")
            for output, scores in run.scores().get("test", {}).items():
                assert part is not None
                count = int(np.sum(np.isfinite(part.record.outputs[output][part.skip :])))
                errors.setdefault(output, []).append((count, scores["rmse"]))
        found.append(errors)
    outputs = dict.fromkeys(output for errors in found for output in errors)
    return {f"test rmse of {output}": [_pooled(errors.get(output, [])) for errors in found] for output in outputs}


def _pooled(errors: Sequence[tuple[int, float]]) -> float:
    """Root of the mean square over records of different length."""
    samples = sum(count for count, _ in errors)
    return float(np.sqrt(sum(count * rmse**2 for count, rmse in errors) / samples)) if samples else float("nan")


class RecordSummary(TypedDict):
    """A record in `summary.json`."""

    name: str
    file: str
    sha256: str
    samples: int
    dt: float | None
    train: list[int] | None
    test: list[int] | None
    notes: list[str]


class ModelSummary(TypedDict):
    """A model's results in `summary.json`."""

    parameters: dict[str, dict[str, object]]
    log_evidence: float
    seconds: dict[str, float]
    log_evidence_error: float
    effective_particles: float
    scores: dict[str, object]
    identifiability: list[str]
    inputs: dict[str, list[str]]
    problems: list[str]
    trusted: bool
    sampling: str
    map: dict[str, object] | None
    settings: dict[str, object]


class Summary(TypedDict):
    """What `summary.json` holds."""

    title: str
    probsysid: str
    created: str
    seed: int
    data: list[RecordSummary]
    models: dict[str, ModelSummary]
    versions: dict[str, str]
    comparison: NotRequired[list[dict[str, object]]]


def summary(resolved: ResolvedStudy, results: Sequence[CandidateResult]) -> Summary:
    """All numbers of the results, for other programs."""
    found: Summary = {
        "title": resolved.title,
        "probsysid": __version__,
        "created": clock.strftime("%Y-%m-%dT%H:%M:%S"),
        "seed": resolved.study.seed,
        "data": [_describe(m) for m in resolved.measured],
        "models": {r.candidate.name: _model_summary(r) for r in results},
        "versions": versions(),
    }
    if len(results) > 1:
        found["comparison"] = comparison(results).reset_index().to_dict(orient="records")
    return _plain(found)


def _model_summary(result: CandidateResult) -> ModelSummary:
    posterior = result.posterior
    return {
        "parameters": result.table().to_dict(orient="index"),
        "log_evidence": posterior.log_evidence,
        "seconds": {} if result.watch is None else {"compiling": result.watch.compiling, **result.watch.seconds},
        "log_evidence_error": posterior.log_evidence_error,
        "effective_particles": posterior.ess,
        "scores": {run.measured.name: run.scores() for run in result.runs if run.scores()},
        "identifiability": list(posterior.identifiability.sentences),
        "inputs": {posterior.records[i].name or str(i): list(f.sentences) for i, f in result.inputs.items()},
        "problems": list(result.problems),
        "trusted": result.trusted,
        "sampling": result.status,
        "map": None if posterior.map is None else asdict(posterior.map),
        "settings": settings_record(posterior),
    }


def _describe(item: StudyRecord) -> RecordSummary:
    record = item.record
    return {
        "name": item.name,
        "file": str(item.section.file),
        "sha256": item.sha256,
        "samples": record.samples,
        "dt": record.dt,
        "train": None if item.train is None else [item.train.start, item.train.stop],
        "test": None if item.test is None else [item.test.start, item.test.stop],
        "notes": list(item.notes),
    }


def _plain(value: Any) -> Any:
    """Only types of JSON: NumPy scalars become Python numbers, non-finite numbers None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def versions() -> dict[str, str]:
    """Versions of the package, Python and the libraries that results depend on."""
    found = {"probsysid": __version__, "python": platform.python_version(), "platform": platform.platform()}
    return found | {name: version(name) for name in LIBRARIES}
