"""Whether a parameter that may drift does: the odds of a constant against a drift.

A drift of rate zero is the constant model, which lies at the end of the drift's prior.  The ratio of their evidences is
therefore that of posterior and prior densities of the rate at zero (Dickey, 1971),

    p(data | constant) / p(data | drift) = lim r -> 0  p(r | data) / p(r),

whatever the prior: where both densities vanish, as with a log-normal one, their ratio does not.  Particles are rare
there if the parameter drifts, and a histogram says nothing.  So the marginal likelihood of the rate is fitted in the
form that it has for n independent increments of variance r^2, seen with an error of variance e^2,

    m(r) = (e^2 + r^2)^(-n/2) exp(-S / (2 (e^2 + r^2))),

by maximum likelihood of the particles under m(r) p(r) / Z, and the odds are m(0) / Z.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpyro.distributions as dist
import scipy.optimize
from jaxtyping import Float

from probsysid.model.kernels import Kernel, Matern, QuasiPeriodic, RandomWalk

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

DECISIVE = np.log(3.0)
"""Log odds beyond which a verdict is given: "substantial" evidence (Jeffreys)."""

REACH, POINTS = 30.0, 3001
"""The prior is integrated over so many powers of e below and above the posterior."""

REPORTED = np.log(1000.0)
"""Log odds beyond which the fitted form is extrapolated too far for a number: they are "more than 1000"."""

SIZES: dict[type, str] = {RandomWalk: "rate", Matern: "scale", QuasiPeriodic: "scale"}
"""The hyperparameter of a kernel that is zero where nothing drifts."""


@dataclass(frozen=True)
class Constancy:
    """The verdict on one drifting parameter."""

    name: str
    quantity: str
    """The size of the drift: `k.rate`."""
    log_odds: float
    """Logarithm of the evidence of a constant over that of a drift."""
    limit: float
    """95 % quantile of the size."""

    @property
    def verdict(self) -> Literal["constant", "drifts", "undecided"]:
        """What the data say."""
        if abs(self.log_odds) < DECISIVE:
            return "undecided"
        return "constant" if self.log_odds > 0 else "drifts"

    @property
    def odds(self) -> str:
        """Such as `14 to 1`."""
        size = abs(self.log_odds)
        return "more than 1000 to 1" if size > REPORTED else f"{np.exp(size):.2g} to 1"

    @property
    def mark(self) -> str:
        """For the table of quantities."""
        if self.verdict == "undecided":
            return f"open whether {self.name} drifts"
        return f"{self.name} is constant ({self.odds})" if self.verdict == "constant" else f"{self.name} drifts"

    @property
    def sentence(self) -> str:
        """Without a full stop."""
        below = f"{self.quantity} is below {self.limit:.2g} with 95 % probability"
        if self.verdict == "constant":
            return f"{self.name} is constant as far as the data tell: odds of {self.odds} against a drift; {below}"
        if self.verdict == "drifts":
            return f"{self.name} drifts: odds of {self.odds} against a constant"
        favour = "a constant" if self.log_odds > 0 else "a drift"
        return f"whether {self.name} drifts is open: odds of {self.odds} for {favour}; {below}"


def find_constancy(posterior: "Posterior") -> tuple[Constancy, ...]:
    """The verdict on every drift whose size is inferred."""
    if not posterior.setup.known:
        return ()
    latent = posterior.setup.problem.latent
    found = []
    for process in latent.processes:
        quantity = f"{process.name}.{_size(process.kernel)}"
        prior = latent.quantities.get(quantity)
        if not process.drift or not isinstance(prior, dist.Distribution) or quantity not in posterior.columns:
            continue
        log_odds = constant_odds(posterior.columns[quantity], posterior.weights, prior)
        found.append(Constancy(process.name, quantity, log_odds, float(posterior.quantile(quantity, 0.95))))
    return tuple(found)


def _size(kernel: Kernel) -> str | None:
    """None for sums and products, which have several."""
    return SIZES.get(type(kernel))


def constant_odds(
    sizes: Float[np.ndarray, " particle"], weights: Float[np.ndarray, " particle"], prior: dist.Distribution
) -> float:
    """Log of the ratio of posterior and prior densities at zero."""
    squared = sizes**2
    unit = float(weights @ squared)
    grid, masses = _prior_masses(prior, np.sqrt(unit))
    squares = grid**2

    def log_form(variance: Any, parts: np.ndarray) -> Any:
        n, error, s = np.exp(parts)
        total = error * unit + variance
        return -0.5 * n * np.log(total) - 0.5 * s * unit / total

    def loss(parts: np.ndarray) -> float:
        on_grid = log_form(squares, parts)
        top = float(on_grid.max())
        normaliser = top + np.log(masses @ np.exp(on_grid - top))
        shrinkage = 0.5 * np.sum((np.asarray(parts) / 4.0) ** 2)  # keeps what particles leave open finite
        return float(normaliser - weights @ log_form(squared, parts)) + shrinkage / len(weights)

    starts = [np.array(start) for start in ((1.0, 0.0, 0.0), (2.0, -3.0, 2.0), (1.0, 2.0, 0.0), (3.0, 0.0, 3.0))]
    options = {"maxiter": 2000, "xatol": 1e-4, "fatol": 1e-9}
    best = min(
        (scipy.optimize.minimize(loss, start, method="Nelder-Mead", options=options) for start in starts),
        key=lambda found: float(found.fun),
    ).x
    on_grid = log_form(squares, best)
    top = float(on_grid.max())
    return float(log_form(0.0, best) - top - np.log(masses @ np.exp(on_grid - top)))


def _prior_masses(
    prior: dist.Distribution, around: float
) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """Points and their prior probabilities, by the trapezoidal rule over the logarithm of the size."""
    logs = np.log(around) + np.linspace(-REACH, REACH, POINTS)
    points = np.exp(logs)
    inside = np.asarray(prior.support(points))
    log_density = np.where(inside, np.asarray(prior.log_prob(np.where(inside, points, around))), -np.inf)
    return points, np.exp(log_density + logs) * (logs[1] - logs[0])
