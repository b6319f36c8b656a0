"""The posterior as ArviZ's InferenceData."""

import json
from typing import TYPE_CHECKING, Any

import arviz as az
import jax
import numpy as np
import xarray as xr

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

LIKELIHOOD_DRAWS = 256
"""Draws whose log likelihood of every sample is kept: it takes one more sweep, and (draws, samples) of memory."""


def to_inference_data(posterior: "Posterior", draws: int | None, log_likelihood: bool, seed: int) -> az.InferenceData:
    """Equally weighted draws by resampling; one chain, for independent draws have no order."""
    chosen = posterior.draw_indices(draws or len(posterior.weights), seed)
    groups: dict[str, Any] = {
        "posterior": {name: _chain(value[..., chosen]) for name, value in posterior.values.items()}
    }
    known = bool(posterior._problem) or posterior.pickled_problem is not None
    if known:
        prior = posterior.problem.space.values(posterior.problem.space.sample(jax.random.key(seed), len(chosen)))
        groups["prior"] = {name: _chain(np.asarray(value)) for name, value in prior.items()}
    if known and log_likelihood and posterior.records:
        groups["log_likelihood"] = _log_likelihood(posterior, chosen)
        groups["observed_data"] = _observed(posterior)
    data = az.from_dict(**groups)
    data.add_groups({"sample_stats": _statistics(posterior)})
    for name, unit in posterior.settings.get("units", {}).items():
        if name in data.posterior:
            data.posterior[name].attrs["units"] = unit
    data.posterior.attrs["settings"] = json.dumps(posterior.settings, default=str)
    data.posterior.attrs["log_evidence"] = posterior.log_evidence
    data.posterior.attrs["log_evidence_error"] = posterior.log_evidence_error
    return data


def _chain(values: np.ndarray) -> np.ndarray:
    """(..., draw) to (chain, draw, ...)."""
    return np.moveaxis(values, -1, 0)[None]


def _log_likelihood(posterior: "Posterior", chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Log likelihood of each sample given those before it, for some of the draws."""
    from probsysid.targets.batch_target import BatchTarget

    some = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), LIKELIHOOD_DRAWS)).astype(int)]
    experiment = BatchTarget(posterior.problem, posterior.records, len(some))
    theta, state, first, rows = posterior.theta[:, some], None, 0, []
    while first < experiment.samples:
        last = experiment.limit(first)
        state, energies = experiment.advance(state, theta, first, last)
        rows.append(-np.asarray(energies)[: last - first])
        first = last
    return {"sample": np.concatenate(rows).T[None]}


def _observed(posterior: "Posterior") -> dict[str, np.ndarray]:
    result = {}
    for r, record in enumerate(posterior.records):
        suffix = f"[{r}]" if len(posterior.records) > 1 else ""
        result.update({f"{name}{suffix}": np.asarray(value) for name, value in record.outputs.items()})
    return result


def _statistics(posterior: "Posterior") -> xr.Dataset:
    """What the sampler went through; not a quantity a draw, so it has dimensions of its own."""
    table = posterior.rejuvenations()
    return xr.Dataset(
        {
            "ess": (("sample", "island"), posterior.history.ess),
            "log_predictive": ("sample", posterior.log_predictive),
            "rejuvenation_sample": ("rejuvenation", table["sample"].to_numpy(int)),
            "acceptance_rate": ("rejuvenation", table["acceptance"].to_numpy(float)),
            "moves": ("rejuvenation", table["moves"].to_numpy(int)),
            "unique": ("rejuvenation", table["unique"].to_numpy(int)),
        }
    )
