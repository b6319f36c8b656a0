"""The posterior to compare with: importance sampling from a Student distribution around the Laplace approximation, with
eight Runge-Kutta steps per sample.  Exact up to a known Monte Carlo error, where the posterior has one mode.
"""

from probsysid._internal.jax_setup import jit_fused, configure  # isort: skip

configure()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from duffing import NAMES, TRUTH, natural, plain, record  # noqa: E402
from hand_over import Clock, hand_over, options  # noqa: E402
from jax_likelihood import log_likelihood, log_prior  # noqa: E402
from laplace import laplace  # noqa: E402
from scipy.stats import multivariate_t  # noqa: E402

from probsysid.odefilter.filter import map_blocks  # noqa: E402

STEPS, DEGREES, BLOCK = 8, 8, 64


def main() -> None:
    given = options(draws=32_768, seed=0)
    force, position = (jnp.asarray(a) for a in record(given.samples))
    clock = Clock()

    def one(z: jax.Array) -> jax.Array:
        return log_prior(z) + log_likelihood(z, force, position, STEPS)

    batch = jit_fused(lambda z: map_blocks(jax.vmap(one, in_axes=-1), z, BLOCK))

    def log_density(points: np.ndarray) -> np.ndarray:
        return np.asarray(batch(np.ascontiguousarray(points.T)))

    with clock.phase("warm_up"):
        mode, covariance = laplace(log_density, plain(TRUTH))
    proposal = multivariate_t(mode, covariance * 1.1, df=DEGREES, seed=np.random.default_rng(given.seed))
    with clock.phase("run"):
        z = proposal.rvs(given.draws)
        logs = log_density(z) - proposal.logpdf(z)
    weights = np.exp(logs - logs.max())
    evidence = logs.max() + np.log(weights.mean())
    error = np.std(weights) / np.mean(weights) / np.sqrt(given.draws)
    weights /= weights.sum()
    hand_over(
        given.out,
        clock,
        natural(z.T)[None],
        ("jax",),
        weights=weights[None],
        log_evidence=[evidence],
        kind="reference",
        log_evidence_error=float(error),
        effective=float(1 / np.sum(weights**2)),
    )


if __name__ == "__main__":
    assert len(NAMES) == len(TRUTH)
    main()
