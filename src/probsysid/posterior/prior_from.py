"""A posterior as the prior of the next experiment: a Gaussian in unconstrained coordinates, correlations kept.

Exact where the posterior is Gaussian there, as that of many samples nearly is; where it is visibly not, a warning says
so.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpyro.distributions import transforms

from probsysid._internal.errors import InputError, SamplingWarning, did_you_mean
from probsysid._internal.validation import check_kind
from probsysid.model.noise import Noise
from probsysid.model.parameter_space import PriorSite
from probsysid.model.problem import Problem

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

Part = Literal["parameters", "noise", "process_noise", "varies"]

LEAST = 3.0
"""Effective draws per unknown below which a covariance is not estimated."""

SKEWED, HEAVY = 0.5, 1.0
"""Skewness and excess kurtosis, beyond four standard errors, of a posterior that no Gaussian describes: a lognormal
quantity with a standard deviation of 16 % of its mean has a skewness of 0.5."""


def prior_from(posterior: "Posterior", part: Part = "parameters") -> dict[Any, Any]:
    """A posterior as prior of the next experiment.

    `identify(model, record, priors=ps.prior_from(p), noise=ps.prior_from(p, "noise"), ...)`.

    Args:
        posterior: of an earlier experiment with the same parameters.
        part: "parameters" for all parameters with one joint prior, so that their correlations are kept; "noise",
            "process_noise" or "varies" for what these arguments of `identify` take.  Correlations between the parts are
            left out, and initial values are not carried over: a new record has its own.
    """
    from probsysid.posterior.posterior import Posterior as Kind

    check_kind("posterior", posterior, Kind, "an earlier result of ps.identify")
    if part not in get_args(Part):
        known = get_args(Part)
        raise InputError(f"part is {part!r}; it must be one of: {', '.join(known)}.{did_you_mean(str(part), known)}")
    if posterior.sampling is not None and not posterior.sampling.usable:
        warnings.warn(
            f"the posterior is not to be trusted, and no prior made from it is: {posterior.sampling_verdict}",
            SamplingWarning,
            stacklevel=2,
        )
    coordinates = _Coordinates(posterior)
    problem = posterior.setup.problem
    if part == "parameters":
        return _parameters(problem, coordinates)
    if part == "noise":
        return {name: _noise(name, given, coordinates) for name, given in problem.noise.items()}
    if part == "process_noise":
        return {n: coordinates.single(f"process_noise.{n}", given) for n, given in problem.process_noise.items()}
    return {name: coordinates.single(f"{name}.spread", given) for name, given in problem.varies.items()}


def _parameters(problem: Problem, coordinates: "_Coordinates") -> dict[Any, Any]:
    """One joint prior for all that were inferred, and the numbers of those that were given."""
    names: list[str] = []
    fixed: dict[Any, Any] = {}
    for name, given in problem.given_priors.items():
        singles = name if isinstance(name, tuple) else (name,)
        if not isinstance(given, dist.Distribution):
            fixed[name] = given
        elif isinstance(problem.varies.get(singles[0]), str):
            raise InputError(f"{name!r} has a separate value for each record; give its prior yourself.")
        else:
            names.extend(singles)
    return ({tuple(names): coordinates.joint(names)} if names else {}) | fixed


def _noise(output: str, given: Any, coordinates: "_Coordinates") -> Any:
    """The noise of an output, with what was inferred of it in place of its priors."""
    if not isinstance(given, Noise):
        return coordinates.single(f"noise.{output}", given)
    names = {"level": f"noise.{output}", "degrees": f"noise.{output}.degrees", "time": f"noise.{output}.time"}
    return replace(given, **{key: coordinates.single(name, getattr(given, key)) for key, name in names.items()})


class _Coordinates:
    """Where each quantity is among the unconstrained coordinates of the particles, and how it is turned into one."""

    def __init__(self, posterior: "Posterior"):
        self.theta, self.weights, self.ess = posterior.theta, posterior.weights, posterior.ess
        self.place: dict[str, tuple[int, transforms.Transform]] = {}
        self.arrays: set[Any] = set()
        for site in posterior.setup.problem.space.sites:
            parts = _elementwise(site)
            if parts is None:
                self.arrays |= set(_names(site))
                continue
            for i, (name, transform) in enumerate(zip(_names(site), parts, strict=True)):
                self.place[name] = (site.start + i, transform)

    def single(self, name: str, given: Any) -> Any:
        """The prior of one quantity; what was given as a number stays."""
        if not isinstance(given, dist.Distribution):
            return given
        at, transform = self._place(name)
        mean, covariance = self._moments([at], [name])
        return _transformed(dist.Normal(float(mean[0]), float(np.sqrt(covariance[0, 0]))), transform)

    def joint(self, names: Sequence[str]) -> dist.Distribution:
        """The prior of several quantities together."""
        found = [self._place(name) for name in names]
        mean, covariance = self._moments([at for at, _ in found], names)
        factor = np.linalg.cholesky(covariance)
        gaussian = dist.MultivariateNormal(jnp.asarray(mean), scale_tril=jnp.asarray(factor))
        if all(isinstance(transform, transforms.IdentityTransform) for _, transform in found):
            return gaussian
        return _transformed(gaussian, transforms.CatTransform([transform for _, transform in found], dim=-1))

    def _place(self, name: str) -> tuple[int, transforms.Transform]:
        if name in self.arrays:
            raise InputError(f"{name!r} is an array, or bound to others by its prior; give its prior yourself.")
        return self.place[name]

    def _moments(
        self, at: Sequence[int], names: Sequence[str]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"]]:
        """Mean and covariance of some coordinates; a warning if they are not those of a Gaussian."""
        if self.ess < LEAST * len(at):
            raise InputError(
                f"the posterior has {self.ess:.0f} effective particles for {len(at)} unknowns; "
                "take more draws with posterior.refined()."
            )
        values = np.asarray(self.theta, dtype=float)[list(at)]
        mean = values @ self.weights
        centred = values - mean[:, None]
        covariance = (self.weights * centred) @ centred.T / (1 - np.sum(self.weights**2))
        self._check_shape(centred / np.sqrt(np.diag(covariance))[:, None], names)
        return mean, covariance

    def _check_shape(self, scores: Float[np.ndarray, "n particle"], names: Sequence[str]) -> None:
        skewness = scores**3 @ self.weights
        kurtosis = scores**4 @ self.weights - 3
        error = np.sqrt(6 / self.ess)
        bad = (abs(skewness) > SKEWED + 4 * error) | (abs(kurtosis) > HEAVY + 8 * error)
        if np.any(bad):
            listed = ", ".join(name for name, wrong in zip(names, bad, strict=True) if wrong)
            warnings.warn(
                f"the posterior of {listed} is far from a Gaussian (in logarithms, where a prior allows positive "
                "values only), which the new prior is; identify from both records at once instead.",
                SamplingWarning,
                stacklevel=5,
            )


def _names(site: PriorSite) -> tuple[str, ...]:
    return site.name if isinstance(site.name, tuple) else (site.name,)


def _elementwise(site: PriorSite) -> list[transforms.Transform] | None:
    """The transform of each number of a prior; None where numbers are bound to each other, as on a simplex."""
    if site.shape == ():
        return [site.transform]
    parts = list(_parts(site.transform, site.size))
    return parts if isinstance(site.name, tuple) and len(parts) == site.size else None


def _parts(transform: transforms.Transform, size: int) -> Iterator[transforms.Transform]:
    if isinstance(transform, transforms.IndependentTransform):
        yield from _parts(transform.base_transform, size)
    elif isinstance(transform, transforms.CatTransform):
        yield from transform.transforms
    elif transform.domain.event_dim == 0:
        yield from [transform] * size


def _transformed(gaussian: dist.Distribution, transform: transforms.Transform) -> dist.Distribution:
    """A Gaussian of unconstrained coordinates as a distribution of quantities, by the distribution's own name."""
    if isinstance(transform, transforms.IdentityTransform):
        return gaussian
    if isinstance(gaussian, dist.Normal) and isinstance(transform, transforms.ExpTransform):
        return dist.LogNormal(gaussian.loc, gaussian.scale)
    return dist.TransformedDistribution(gaussian, [transform])
