"""What is known from samples that are no longer kept, as functions of the particle.

The log density of the posterior given those samples, and the state at their end, are quadratic functions of the
unconstrained coordinates, fitted to the particles by least squares.  The values fitted are free of sampling noise, so
that a Gaussian posterior is carried over exactly, its evidence included, from any number of particles that exceeds that
of the coefficients; where it is not Gaussian, the residuals say so.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from probsysid._internal.array_types import Numbers

PER_COEFFICIENT = 2
"""Particles per coefficient that a fit takes."""

RIDGE = 1e-12
"""Relative addition to the normal equations' diagonal."""


@dataclass(frozen=True, eq=False)
class CarriedPosterior:
    """The posterior given the first samples of a stream, and the state after the last of them."""

    samples: int
    """That it includes."""
    centre: Float[np.ndarray, " dimension"]
    whitening: Float[np.ndarray, "dimension dimension"]
    log_density_coefficients: Float[np.ndarray, " coefficient"]
    state_coefficients: Float[np.ndarray, "component coefficient"]
    state_sd: Float[np.ndarray, " component"]

    @classmethod
    def fit(
        cls,
        samples: int,
        theta: Float[np.ndarray, "dimension particle"],
        weights: Float[np.ndarray, " particle"],
        log_density: Float[np.ndarray, " particle"],
        states: Float[np.ndarray, "component particle"],
        sds: Float[np.ndarray, "component particle"],
    ) -> "CarriedPosterior | None":
        """By least squares over the particles, as their weights say; None where the log density has no maximum."""
        alive = (weights > 0) & np.isfinite(log_density) & np.isfinite(states).all(axis=0)
        theta, weights, log_density = theta[:, alive], weights[alive] / weights[alive].sum(), log_density[alive]
        if theta.shape[1] < coefficients(len(theta)):
            return None
        centre = theta @ weights
        covariance = (theta - centre[:, None]) * weights @ (theta - centre[:, None]).T
        try:
            whitening = np.linalg.inv(np.linalg.cholesky(covariance))
        except np.linalg.LinAlgError:
            return None
        table = _monomials(whitening @ (theta - centre[:, None]))
        normal = table * weights @ table.T
        normal[np.diag_indices(len(normal))] *= 1 + RIDGE
        values = np.vstack([log_density - log_density.max(), states[:, alive]])
        # in the order in which files give them back: products of other orders round differently
        found = np.ascontiguousarray(np.linalg.solve(normal, (table * weights) @ values.T).T)
        found[0, 0] += log_density.max()
        if not np.all(np.linalg.eigvalsh(_curvature(found[0], len(theta))) < 0):
            return None
        return cls(samples, centre, whitening, found[0], found[1:], sds[:, alive] @ weights)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, by name; the inverse of `CarriedPosterior(**arrays)`."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    def log_density(self, theta: Numbers) -> Float[np.ndarray, " particle"]:
        """Log of prior times likelihood of the samples."""
        return self.log_density_coefficients @ self._table(theta)

    def states(self, theta: Numbers) -> Float[np.ndarray, "component particle"]:
        """The physical components after the last sample."""
        return self.state_coefficients @ self._table(theta)

    def _table(self, theta: Numbers) -> Float[np.ndarray, "coefficient particle"]:
        return _monomials(self.whitening @ (np.asarray(theta) - self.centre[:, None]))


def coefficients(dimension: int) -> int:
    """The number of coefficients of a quadratic function."""
    return (dimension + 1) * (dimension + 2) // 2


def _monomials(values: Float[np.ndarray, "dimension particle"]) -> Float[np.ndarray, "coefficient particle"]:
    rows, columns = np.triu_indices(len(values))
    return np.concatenate([np.ones((1, values.shape[1])), values, values[rows] * values[columns]])


def _curvature(found: Float[np.ndarray, " coefficient"], dimension: int) -> Float[np.ndarray, "dimension dimension"]:
    """Second derivatives of the quadratic function."""
    rows, columns = np.triu_indices(dimension)
    upper = np.zeros((dimension, dimension))
    upper[rows, columns] = found[1 + dimension :]
    return upper + upper.T
