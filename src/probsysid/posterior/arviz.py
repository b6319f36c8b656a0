"""The posterior as ArviZ's InferenceData."""

import json
from typing import TYPE_CHECKING, Any

import arviz as az
import jax
import numpy as np
import xarray as xr
from jaxtyping import Int

from probsysid._internal.validation import check_count, check_seed
from probsysid.parallel.executor import Executor
from probsysid.posterior.draws import draw_indices
from probsysid.posterior.storage import settings_record
from probsysid.targets.batch_target import BatchTarget

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

LIKELIHOOD_DRAWS = 256
"""Draws whose log likelihood of every sample is kept: it takes one more sweep, and draws times samples of memory."""


def to_inference_data(
    posterior: "Posterior", draws: int | None, log_likelihood: bool, seed: int, executor: Executor
) -> az.InferenceData:
    """Equally weighted draws by resampling, with a chain for each population."""
    if draws is not None:
        check_count("draws", draws)
    check_seed(seed)
    by_chain = chain_indices(posterior, len(posterior.weights) if draws is None else draws, seed)
    chosen = by_chain.ravel()
    groups: dict[str, Any] = {
        "posterior": {name: _chains(value[..., chosen], len(by_chain)) for name, value in posterior.values.items()}
    }
    known = posterior.setup.known
    if known:
        space = posterior.setup.problem.space
        prior = space.values(space.sample(jax.random.key(seed), len(chosen)))
        groups["prior"] = {name: _chains(np.asarray(value)) for name, value in prior.items()}
    if known and log_likelihood and posterior.records:
        groups["log_likelihood"] = _log_likelihood(posterior, chosen, executor)
        groups["observed_data"] = _observed(posterior)
    data = az.from_dict(**groups)
    data.add_groups({"sample_stats": _statistics(posterior)})
    for name, unit in posterior.settings.units.items():
        if name in data.posterior:
            data.posterior[name].attrs["units"] = unit
    data.posterior.attrs["settings"] = json.dumps(settings_record(posterior), default=str)
    data.posterior.attrs["log_evidence"] = posterior.log_evidence
    data.posterior.attrs["log_evidence_error"] = posterior.log_evidence_error
    return data


def chain_indices(posterior: "Posterior", draws: int, seed: int) -> Int[np.ndarray, "chain draw"]:
    """Indices of equally weighted draws, those of each population in a row of their own.

    Every population estimates the whole posterior, so their draws count alike; where they do not agree, r_hat says so.
    Where a population has no weight left, or there is only one, draws from all particles make one chain.
    """
    chains = len(posterior.evidence_by_population)
    if chains < 2 or len(posterior.weights) % chains or draws < chains:
        return draw_indices(posterior.weights, draws, seed)[None]
    weights = posterior.weights.reshape(chains, -1)
    if not np.all(weights.sum(axis=1) > 0):
        return draw_indices(posterior.weights, draws, seed)[None]
    size = weights.shape[1]
    rows = []
    for c, row in enumerate(weights):
        members = draw_indices(row / row.sum(), -(-draws // chains), seed + c)
        # in random order: ArviZ also compares the halves of a chain, and copies of a particle are neighbours
        rows.append(c * size + np.random.default_rng([seed, 4, c]).permutation(members))
    return np.stack(rows)


def _chains(values: np.ndarray, chains: int = 1) -> np.ndarray:
    """(..., draw) to (chain, draw, ...)."""
    first = np.moveaxis(values, -1, 0)
    return first.reshape(chains, -1, *first.shape[1:])


def _log_likelihood(posterior: "Posterior", chosen: np.ndarray, executor: Executor) -> dict[str, np.ndarray]:
    """Log likelihood of each sample given those before it, for some of the draws."""
    some = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), LIKELIHOOD_DRAWS)).astype(int)]
    setup = posterior.setup
    target = BatchTarget(setup.problem, setup.solver, posterior.records, len(some), executor)
    theta, state, first, rows = posterior.theta[:, some], None, 0, []
    while first < target.samples:
        last = target.limit(first)
        state, energies = target.advance(state, theta, first, last)
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
    """Statistics of the sampler; it has no value per draw, hence dimensions of its own."""
    table = posterior.history.table()
    return xr.Dataset(
        {
            "ess": (("sample", "island"), posterior.history.ess),
            "log_predictive": ("sample", posterior.history.log_predictive),
            "rejuvenation_sample": ("rejuvenation", table["sample"].to_numpy(int)),
            "acceptance_rate": ("rejuvenation", table["acceptance"].to_numpy(float)),
            "moves": ("rejuvenation", table["moves"].to_numpy(int)),
            "unique": ("rejuvenation", table["unique"].to_numpy(int)),
        }
    )
