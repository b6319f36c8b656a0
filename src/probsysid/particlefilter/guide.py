"""Noise of an interval that looks ahead: drawn from its Gaussian approximation given the sample at its end.

A point at the end of an interval is a function of the standard normal numbers xi of all its steps.  Around xi = 0 the
outputs are h + G xi, measured with variance R (extended Kalman filter, in the space of the noise).  Given the outputs
y, xi is then Gaussian with

    mean m = G' S^-1 (y - h),   covariance C = I - G' S^-1 G,   S = G G' + R.

One draw is xi = z + G' S^-1 (y - h - G z - e) with z ~ N(0, I) and e ~ N(0, R) (Matheron's rule), and its weight the
ratio of N(xi; 0, I) to N(xi; m, C), which is exact however bad the approximation.  It works for any number of steps,
and where the noise reaches some components only: no density of the state is needed.  A share of the draws is from
N(0, I), which bounds the weights.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probsysid._internal.array_types import Scalar
from probsysid.particlefilter.densities import Moments

DEFENSIVE = 0.05
"""Share of draws that do not look ahead (Hesterberg 1995)."""


def guided(
    outputs: Callable[[Array], Moments],
    observed: Float[Array, " output"],
    normals: Float[Array, " noise"],
    errors: Float[Array, " output"],
    uniform: Scalar,
) -> tuple[Float[Array, " noise"], Scalar]:
    """Noise given the outputs at the end of the interval, and the log of its weight.

    `outputs` maps noise to moments of the outputs; `normals`, `errors` and `uniform` are what is drawn from.
    """
    mean, pull, found = jax.vjp(lambda noise: _mean_first(outputs(noise)), jnp.zeros_like(normals), has_aux=True)
    slopes = jax.vmap(lambda row: pull(row)[0])(jnp.eye(len(observed)))
    usable = jnp.isfinite(slopes).all() & jnp.isfinite(found.variance).all() & jnp.isfinite(mean).all()
    known = ~jnp.isnan(observed) & usable & (found.variance > 0)
    slopes = jnp.where(known[:, None], slopes, 0.0)
    variance = jnp.where(known, found.variance, 1.0)
    residual = jnp.where(known, observed - mean, 0.0)
    factor = _cholesky(slopes @ slopes.T + jnp.diag(variance))
    roots = jnp.sqrt(variance)
    centre = slopes.T @ _solved(factor, residual)
    drawn = normals + slopes.T @ _solved(factor, residual - slopes @ normals - roots * errors)
    noise = jnp.where(uniform < DEFENSIVE, normals, drawn)
    away = noise - centre
    log_scale = jnp.sum(jnp.log(roots)) - sum(jnp.log(factor[i][i]) for i in range(len(factor)))
    log_ratio = 0.5 * (jnp.sum(noise**2) - jnp.sum(away**2) - jnp.sum(((slopes @ away) / roots) ** 2)) - log_scale
    return noise, -jnp.logaddexp(jnp.log1p(-DEFENSIVE) + log_ratio, jnp.log(DEFENSIVE))


def _mean_first(found: Moments) -> tuple[Array, Moments]:
    return found.mean, found


def _cholesky(matrix: Float[Array, "output output"]) -> list[list[Scalar]]:
    """Rows of the lower factor, written out: outputs are few, and LAPACK takes longer to be called."""
    rows: list[list[Scalar]] = []
    for i in range(matrix.shape[0]):
        row: list[Scalar] = []
        for j in range(i):
            row.append((matrix[i, j] - sum(row[k] * rows[j][k] for k in range(j))) / rows[j][j])
        row.append(jnp.sqrt(matrix[i, i] - sum(entry**2 for entry in row)))
        rows.append(row)
    return rows


def _solved(factor: list[list[Scalar]], right: Float[Array, " output"]) -> Float[Array, " output"]:
    """The inverse of the matrix times a vector."""
    size = len(factor)
    half: list[Scalar] = []
    for i in range(size):
        half.append((right[i] - sum(factor[i][k] * half[k] for k in range(i))) / factor[i][i])
    found: list[Scalar] = [jnp.zeros(())] * size
    for i in reversed(range(size)):
        found[i] = (half[i] - sum(factor[k][i] * found[k] for k in range(i + 1, size))) / factor[i][i]
    return jnp.stack(found)
