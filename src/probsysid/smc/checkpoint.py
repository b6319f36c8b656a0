"""Checkpoints: the state of a run and its history as a NumPy archive, read only by the run they belong to."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from probsysid._internal.errors import InputError
from probsysid._internal.files import DamagedFile, read_bytes, sealed, unsealed
from probsysid.parallel.columns import RemoteColumns
from probsysid.smc.history import History
from probsysid.smc.ibis import IBISState
from probsysid.smc.rejuvenate import Rejuvenation

FORMAT = 7


def pack(run: IBISState, history: History, fingerprint: str, extra: dict[str, np.ndarray] | None = None) -> bytes:
    """A run and its history as the bytes of a file."""
    scalars = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "samples": run.samples,
        "seed": run.seed,
        "stride": run.stride,
        "work": run.work,
        "lost": run.lost,
        "islands": run.islands,
        "level": run.level,
        "pilot": run.pilot,
        "shared_error": run.shared_error,
        "rebased": [[sample, list(evidence)] for sample, evidence in history.rebased.items()],
        "rejuvenations": [list(r) for r in history.rejuvenations],
    }
    # states on workers are not fetched, and could not be once the cluster is lost: a sweep computes them again
    stateless = run.state is None or isinstance(run.state, RemoteColumns)
    arrays = {
        "theta": run.theta,
        "log_weights": run.log_weights,
        "log_likelihood": run.log_likelihood,
        "base_evidence": run.base_evidence,
        "ess": history.ess,
        "evidence": history.evidence,
        "has_state": np.asarray(not stateless),
        "state": np.empty(0) if stateless else np.asarray(run.state),
        "scalars": np.frombuffer(json.dumps(scalars).encode(), dtype=np.uint8),
    }
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays, **{f"extra_{k}": v for k, v in (extra or {}).items()})
    return sealed(buffer.getvalue())


def unpack(path: Path, fingerprint: str | None = None) -> tuple[IBISState, History, dict[str, np.ndarray]]:
    """The run in a file; raises unless it belongs to this problem, with these data, settings and seed."""
    try:
        arrays = _arrays(unsealed(read_bytes(path)))
        scalars: dict[str, Any] = json.loads(bytes(arrays["scalars"]).decode())
        found = scalars["format"]
    except (DamagedFile, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a checkpoint, or is damaged ({error}).") from None
    if found != FORMAT:
        raise InputError(f"{path} has checkpoint format {found}; this version reads {FORMAT}.")
    if fingerprint is not None and scalars["fingerprint"] != fingerprint:
        raise InputError(
            f"the checkpoint {path} belongs to another problem: the model, priors, data, settings or seed differ. "
            "Remove it to start anew, or choose another file."
        )
    try:
        return _run(arrays, scalars)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{path} is not a checkpoint, or is damaged ({error}).") from None


def _run(arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> tuple[IBISState, History, dict[str, np.ndarray]]:
    """The state of a run, its history, and further arrays."""
    if arrays["theta"].shape[1:] != arrays["log_weights"].shape:
        raise ValueError("particles and weights differ in number")
    run = IBISState(
        samples=scalars["samples"],
        theta=arrays["theta"],
        state=arrays["state"] if arrays["has_state"] else None,
        log_weights=arrays["log_weights"],
        log_likelihood=arrays["log_likelihood"],
        base_evidence=arrays["base_evidence"],
        seed=scalars["seed"],
        stride=scalars["stride"],
        work=scalars["work"],
        lost=scalars["lost"],
        islands=scalars["islands"],
        level=scalars["level"],
        pilot=scalars["pilot"],
        shared_error=scalars["shared_error"],
    )
    rejuvenations = [Rejuvenation(*row) for row in scalars["rejuvenations"]]
    rebased = {sample: np.array(evidence) for sample, evidence in scalars["rebased"]}
    history = History(run.islands, [arrays["ess"]], [arrays["evidence"]], rejuvenations, rebased)
    extra = {name.removeprefix("extra_"): value for name, value in arrays.items() if name.startswith("extra_")}
    return run, history, extra


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # NumPy and zipfile raise a dozen types on what is not their own
        raise DamagedFile(f"it is not an archive of arrays: {type(error).__name__}") from None
