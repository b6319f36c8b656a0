"""Start again from what is known: priors that are the posterior with some of its information forgotten.

Of the posterior's information a fraction `keep` is kept and the rest replaced by the prior's: in unconstrained
coordinates the power posterior p(theta | data)^keep p(theta)^(1 - keep), with both as Gaussians.  `keep = 1` starts
again with the posterior itself, as after a gap; `keep = 0` with the priors that were given at the very beginning.
Quantities are taken one by one, so that the correlation between them is forgotten in any case.  Initial values are
those of the hidden states when the stream was cut, with the spread that is given for them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpyro.distributions import constraints

from probsysid._internal.statistics import weighted_moments
from probsysid.model.kernels import RandomWalk
from probsysid.model.noise import Noise
from probsysid.model.problem import Problem
from probsysid.posterior.posterior import Posterior

DRAWS = 2000
"""From a prior, for its moments."""

Moments = tuple[float, float]


def widened(
    posterior: Posterior,
    problem: Problem,
    keep: float,
    states: Mapping[str, Moments],
    latent: Mapping[str, Moments] | None = None,
) -> dict[str, Any]:
    """Arguments `priors`, `noise`, `initial` and `process_noise` for what comes next.

    `problem` has the priors as they were before any new start: those of the posterior's own segment may hold what was
    known then.  `latent` has the components of unknown inputs and drifts at the end; kernels stay as they were given.
    """
    columns = posterior.columns | _walked(posterior, problem, latent or {})
    found = {
        name: _of_one(prior, columns[str(name)], posterior.weights, keep)
        if isinstance(name, str) and name in columns and isinstance(prior, dist.Distribution)
        else prior
        for name, prior in problem.given_priors.items()
    }
    noise = {name: _noise(name, given, posterior, keep) for name, given in problem.noise.items()}
    forces = {
        name: _of_one(prior, posterior.columns[f"process_noise.{name}"], posterior.weights, keep)
        if isinstance(prior, dist.Distribution) and f"process_noise.{name}" in posterior.columns
        else prior
        for name, prior in problem.process_noise.items()
    }
    initial = {name: dist.Normal(mean, max(sd, 1e-12)) for name, (mean, sd) in states.items()}
    return {"priors": found, "noise": noise, "initial": initial, "process_noise": forces or None}


def _walked(
    posterior: Posterior, problem: Problem, latent: Mapping[str, Moments]
) -> dict[str, Float[np.ndarray, " particle"]]:
    """Parameters that walk at random start again from where they have come to."""
    found = {}
    for process in problem.latent.processes:
        name, component = process.name, process.components[0] if process.components else ""
        if (
            process.drift
            and isinstance(process.kernel, RandomWalk)
            and {name, component} <= {*posterior.columns, *latent}
        ):
            mean, sd = latent[component]
            walk = mean + sd * np.random.default_rng(0).standard_normal(len(posterior.weights))
            found[name] = posterior.columns[name] * np.exp(walk) if process.relative else posterior.columns[name] + walk
    return found


def _noise(name: str, given: Any, posterior: Posterior, keep: float) -> Any:
    key = f"noise.{name}"
    if isinstance(given, Noise):
        if isinstance(given.level, dist.Distribution) and key in posterior.columns:
            return replace(given, level=_of_one(given.level, posterior.columns[key], posterior.weights, keep))
        return given
    if isinstance(given, dist.Distribution) and key in posterior.columns:
        return _of_one(given, posterior.columns[key], posterior.weights, keep)
    return given


def _of_one(prior: Any, values: np.ndarray, weights: np.ndarray, keep: float) -> Any:
    """The power posterior of one number; of a kind of number that has no simple prior, the prior itself."""
    positive = prior.support is constraints.positive
    if keep == 0 or np.ndim(values) != 1 or not (positive or prior.support is constraints.real):
        return prior
    change = np.log if positive else np.asarray
    mean, sd = weighted_moments(change(values), weights)
    drawn = change(np.quantile(_draws(prior), np.linspace(0.01, 0.99, 99)))
    wide, centre = float(np.std(drawn)), float(np.mean(drawn))
    information = np.array([keep / max(sd, 1e-9) ** 2, (1 - keep) / max(wide, 1e-9) ** 2])
    middle = float(information @ [mean, centre] / information.sum())
    spread = float(1 / np.sqrt(information.sum()))
    return dist.LogNormal(middle, spread) if positive else dist.Normal(middle, spread)


def _draws(prior: Any) -> np.ndarray:
    import jax

    return np.asarray(prior.sample(jax.random.key(0), (DRAWS,)))
