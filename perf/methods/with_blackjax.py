"""blackjax's adaptive tempered SMC on a Runge-Kutta likelihood in JAX.

Set-up: the whole run is one compiled program on one core (XLA with two cores for it took four times
as long), and one such process runs per core; its moves are independence proposals from
the Gaussian fitted to the particles, refitted at every temperature, which are accepted several times as often as its
customary random walk.
"""

from typing import Any

import blackjax
import blackjax.smc.resampling as resampling
import jax
import jax.numpy as jnp
import numpy as np
from duffing import NAMES, STEPS, natural, record
from hand_over import Clock, hand_over, options
from jax_likelihood import log_likelihood, log_prior

jax.config.update("jax_enable_x64", True)

SIZE = len(NAMES)
WIDER = 1.2
"""The proposal's standard deviation over the particles': a Gaussian that is too narrow holds particles in the tails."""


def fitted(particles: Any) -> dict[str, Any]:
    """Mean and factor of the proposals, with the leading axis that blackjax wants of what all particles share."""
    covariance = jnp.cov(particles, rowvar=False) + 1e-12 * jnp.eye(SIZE)
    return {"mean": particles.mean(axis=0)[None], "root": WIDER * jnp.linalg.cholesky(covariance)[None]}


def move(key: Any, state: Any, log_density: Any, mean: Any, root: Any) -> Any:
    def density(state: Any) -> Any:
        return -0.5 * jnp.sum(jax.scipy.linalg.solve_triangular(root, state.position - mean, lower=True) ** 2)

    return blackjax.irmh.build_kernel()(
        key,
        state,
        log_density,
        lambda key: mean + root @ jax.random.normal(key, (SIZE,)),
        lambda _, proposed: density(proposed),
    )


def main() -> None:
    given = options(particles=1024, moves=40, runs=3, seed=0)
    force, position = (jnp.asarray(a) for a in record(given.samples))
    clock = Clock()
    algorithm = blackjax.inner_kernel_tuning(
        smc_algorithm=blackjax.adaptive_tempered_smc,
        logprior_fn=log_prior,
        loglikelihood_fn=lambda z: log_likelihood(z, force, position, STEPS),
        mcmc_step_fn=move,
        mcmc_init_fn=blackjax.irmh.init,
        resampling_fn=resampling.systematic,
        mcmc_parameter_update_fn=lambda _, state, info: fitted(state.particles),
        initial_parameter_value=fitted(jax.random.normal(jax.random.key(0), (given.particles, SIZE))),
        num_mcmc_steps=given.moves,
        target_ess=0.5,
    )

    def whole(key: Any, start: Any) -> tuple[Any, Any, Any]:
        def again(carry: Any) -> Any:
            return carry[1].sampler_state.tempering_param < 1

        def once(carry: Any) -> Any:
            key, state, evidence, count = carry
            key, own = jax.random.split(key)
            state, info = algorithm.step(own, state)
            return key, state, evidence + info.log_likelihood_increment, count + 1

        _, state, evidence, count = jax.lax.while_loop(again, once, (key, algorithm.init(start), 0.0, 0))
        return state.sampler_state.particles, evidence, count

    def start(run: int) -> tuple[Any, Any]:
        key = jax.random.key(1000 * given.seed + run)
        return key, jax.random.normal(jax.random.fold_in(key, 1), (given.particles, SIZE))

    with clock.phase("compile"):
        program = jax.jit(whole).lower(*start(0)).compile()
    draws, evidences, counts = [], [], []
    for run in range(given.runs):
        arguments = start(1 + run)
        with clock.phase("run"):
            particles, evidence, count = jax.block_until_ready(program(*arguments))
        draws.append(natural(np.asarray(particles).T))
        evidences.append(float(evidence))
        counts.append(int(count))
    hand_over(
        given.out,
        clock,
        np.array(draws),
        ("blackjax", "jax"),
        weights=np.full((given.runs, given.particles), 1 / given.particles),
        log_evidence=evidences,
        kind="smc",
        temperatures=float(np.mean(counts)),
    )


if __name__ == "__main__":
    main()
