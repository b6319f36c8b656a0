"""What the data can tell at best: a posterior without any integration error, by Laplace's approximation.

The model is integrated by Runge-Kutta with steps so fine that only the noise is left, a least-squares fit with the
prior gives the mode, and its curvature a Gaussian in the sampler's unconstrained coordinates.  Scores averaged over
that Gaussian are what a perfect sampler with a perfect integrator would get on the same record.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from probsysid.benchmarks.case import CaseStudy, LeastSquaresFit, ScoringProtocol
from probsysid.model.parameter_space import ParameterSpace
from probsysid.posterior.simulate import Scores

DIFFERENCE = 1e-5
"""Step of central differences, in unconstrained coordinates of order one."""

ITERATIONS = 25
LONGEST = 0.3
"""Longest step of a coordinate in one iteration: keeps the first steps from overshooting."""

SETTLED = 1e-4
DRAWS = 64


def limits(study: CaseStudy) -> dict[str, Scores]:
    """The limit of each protocol that has one."""
    draws = {fit: laplace_draws(fit, study.priors, study.guess) for fit in dict.fromkeys(study.fits.values())}
    return {p.name: limit(p, draws[study.fits[p.name]]) for p in study.protocols if p.name in study.fits}


def laplace_draws(
    fit: LeastSquaresFit, priors: Mapping[str, Any], start: Mapping[str, float], draws: int = DRAWS, seed: int = 0
) -> dict[str, Float[np.ndarray, " draw"]]:
    """Draws from the Gaussian at the mode, from a starting point near it."""
    space = ParameterSpace.from_priors({name: prior for name, prior in priors.items()})
    theta = _unconstrained(space, start)
    prior_gradient = jax.jit(jax.grad(lambda t: space.log_prior(t[:, None])[0]))
    prior_curvature = jax.jit(jax.hessian(lambda t: space.log_prior(t[:, None])[0]))
    precision = np.eye(len(theta))
    for _ in range(ITERATIONS):
        value, slopes = _differences(fit.predict, space, theta)
        residual = fit.measured - value
        variance = float(np.mean(residual**2))
        precision = slopes.T @ slopes / variance - np.asarray(prior_curvature(theta))
        step = np.linalg.solve(precision, slopes.T @ residual / variance + np.asarray(prior_gradient(theta)))
        theta = theta + step * min(1.0, LONGEST / np.max(np.abs(step)))
        if np.sqrt(step @ precision @ step) < SETTLED:
            break
    random = np.random.default_rng([seed, 5])
    scatter = np.linalg.solve(np.linalg.cholesky(precision).T, random.standard_normal((len(theta), draws)))
    return {name: np.asarray(v) for name, v in space.values(theta[:, None] + scatter).items()}


def limit(protocol: ScoringProtocol, draws: Mapping[str, Float[np.ndarray, " draw"]]) -> Scores:
    """The score of the draws."""
    count = len(next(iter(draws.values())))
    return protocol.rmse(draws, np.full(count, 1 / count))


def _unconstrained(space: ParameterSpace, values: Mapping[str, float]) -> Float[np.ndarray, " dimension"]:
    """The vector whose values are these."""
    return np.array([float(site.transform.inv(np.asarray(values[str(site.name)]))) for site in space.sites])


def _differences(
    function: Callable[[Any], Float[np.ndarray, "particle sample"]], space: ParameterSpace, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Value and central differences of the simulated output."""
    count = len(theta)
    shifts = np.concatenate([np.zeros((count, 1)), DIFFERENCE * np.eye(count), -DIFFERENCE * np.eye(count)], axis=1)
    values = {name: np.asarray(v) for name, v in space.values(theta[:, None] + shifts).items()}
    outputs = function(values)
    return outputs[0], ((outputs[1 : count + 1] - outputs[count + 1 :]) / (2 * DIFFERENCE)).T
