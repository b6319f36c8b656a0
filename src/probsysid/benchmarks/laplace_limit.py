"""The limit of a case: Laplace's approximation of the posterior without integration error.

The model is integrated by Runge-Kutta with steps so fine that only the noise is left; a least-squares fit with the
prior gives the mode, and the curvature there a Gaussian in the sampler's unconstrained coordinates.  Scores averaged
over that Gaussian are those of a perfect sampler with a perfect integrator on the same record.
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
"""Largest number of Gauss-Newton steps."""

LONGEST = 0.3
"""Largest step of a coordinate per iteration, so that the first steps do not overshoot."""

CONVERGED = 1e-4
"""Newton step, in posterior standard deviations, at which the iteration stops."""

DRAWS = 64


def limits(study: CaseStudy) -> dict[str, Scores]:
    """The limit of each protocol that has one."""
    draws = {fit: laplace_draws(fit, study.priors, study.guess) for fit in dict.fromkeys(study.fits.values())}
    return {p.name: limit(p, draws[study.fits[p.name]]) for p in study.protocols if p.name in study.fits}


def laplace_draws(
    fit: LeastSquaresFit, priors: Mapping[str, Any], start: Mapping[str, float], draws: int = DRAWS, seed: int = 0
) -> dict[str, Float[np.ndarray, " draw"]]:
    """Draws from the Gaussian at the mode, found by Gauss-Newton steps from a starting point near it."""
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
        if np.sqrt(step @ precision @ step) < CONVERGED:
            break
    random = np.random.default_rng([seed, 5])
    scatter = np.linalg.solve(np.linalg.cholesky(precision).T, random.standard_normal((len(theta), draws)))
    return {name: np.asarray(v) for name, v in space.values(theta[:, None] + scatter).items()}


def limit(protocol: ScoringProtocol, draws: Mapping[str, Float[np.ndarray, " draw"]]) -> Scores:
    """The score of equally weighted draws."""
    count = len(next(iter(draws.values())))
    return protocol.rmse(draws, np.full(count, 1 / count))


def _unconstrained(space: ParameterSpace, values: Mapping[str, float]) -> Float[np.ndarray, " dimension"]:
    """The unconstrained vector of given parameters."""
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
