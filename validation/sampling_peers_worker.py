"""Other libraries' samplers on the hard posteriors; runs in their own environment, never in that of probsysid.

`python validation/sampling_peers_worker.py METHOD TARGET SEEDS` reads the numbers that a target is made of as JSON from
standard input, and prints one line of JSON for each seed: means, standard deviations, log evidence, evaluations,
processor seconds.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

PARTICLES, MOVES = 1024, 10
WIDER = 1.2
"""The independence proposal's standard deviation over the particles': a narrower one holds particles in the tails."""

Log = Callable[[Any], Any]


def normal(x: Any, mean: Any, sd: Any) -> Any:
    return jnp.sum(-0.5 * ((x - mean) / sd) ** 2 - jnp.log(sd) - 0.5 * jnp.log(2 * jnp.pi) * jnp.ones_like(x))


def log_terms(target: str, given: dict[str, Any]) -> Log:
    """Log likelihood of each sample; densities relative to the prior are in equal shares."""
    if target in ("wandering", "frequency"):
        outputs, noise = jnp.asarray(given["outputs"]), jnp.asarray(given["noise"])
        known = jnp.asarray(given["design"] if target == "wandering" else given["time"])

        def terms(z: Any) -> Any:
            expected = known @ z if target == "wandering" else z[1] * jnp.sin(8 * z[0] * known)
            return -0.5 * ((outputs - expected) / noise) ** 2 - jnp.log(noise) - 0.5 * jnp.log(2 * jnp.pi)

        return terms
    densities: dict[str, Log] = {
        "four_modes": lambda z: jax.scipy.special.logsumexp(
            jnp.log(jnp.asarray(given["shares"]))
            + jax.vmap(lambda centre: normal(z, centre, 0.3))(jnp.asarray(given["centres"]))
        ),
        "banana": lambda z: normal(z[:1], 0.0, 1.0) + normal(z[1:], z[:1] ** 2, 0.2),
        "funnel": lambda z: normal(z[:1], 0.0, 1.5) + normal(z[1:], 0.0, jnp.exp(z[0] / 2)),
        "correlated_gaussian": lambda z: normal(jnp.asarray(given["inverse"]) @ z, 0.0, 1.0) - given["log_det"],
    }
    samples = given["samples"]
    return lambda z: jnp.full(samples, (densities[target](z) - normal(z, 0.0, given["prior_sd"])) / samples)


class Problem:
    """A target for every library."""

    def __init__(self, target: str, given: dict[str, Any]) -> None:
        self.terms = log_terms(target, given)
        self.size, self.sd, self.samples = given["dimension"], given["prior_sd"], given["samples"]
        self.prior: Log = lambda z: normal(z, 0.0, self.sd)
        self.likelihood: Log = lambda z: jnp.sum(self.terms(z))
        self.many = jax.jit(jax.vmap(self.likelihood))
        one = jax.jit(self.likelihood)
        one(jnp.zeros(self.size))
        self.one = lambda z: float(one(z))


def moments(draws: np.ndarray, weights: np.ndarray | None = None) -> dict[str, Any]:
    """Of draws (draw, dimension)."""
    weights = np.full(len(draws), 1 / len(draws)) if weights is None else weights
    mean = weights @ draws
    return {"mean": mean.tolist(), "sd": np.sqrt(weights @ (draws - mean) ** 2).tolist()}


def _irmh(size: int) -> Callable[..., Any]:
    import blackjax

    def move(key: Any, state: Any, log_density: Any, mean: Any, root: Any) -> Any:
        def density(state: Any) -> Any:
            return -0.5 * jnp.sum(jax.scipy.linalg.solve_triangular(root, state.position - mean, lower=True) ** 2)

        draw = lambda key: mean + root @ jax.random.normal(key, (size,))  # noqa: E731
        return blackjax.irmh.build_kernel()(key, state, log_density, draw, lambda _, proposed: density(proposed))

    return move


def _fitted(particles: Any) -> dict[str, Any]:
    covariance = jnp.cov(particles, rowvar=False) + 1e-12 * jnp.eye(particles.shape[1])
    return {"mean": particles.mean(axis=0)[None], "root": WIDER * jnp.linalg.cholesky(covariance)[None]}


def blackjax_tempered(problem: Problem, seed: int) -> dict[str, Any]:
    import blackjax
    import blackjax.smc.resampling as resampling

    key, first = jax.random.split(jax.random.key(seed))
    start = problem.sd * jax.random.normal(first, (PARTICLES, problem.size))
    algorithm = blackjax.inner_kernel_tuning(
        smc_algorithm=blackjax.adaptive_tempered_smc,
        logprior_fn=problem.prior,
        loglikelihood_fn=problem.likelihood,
        mcmc_step_fn=_irmh(problem.size),
        mcmc_init_fn=blackjax.irmh.init,
        resampling_fn=resampling.systematic,
        mcmc_parameter_update_fn=lambda _, state, info: _fitted(state.particles),
        initial_parameter_value=_fitted(start),
        num_mcmc_steps=MOVES,
        target_ess=0.5,
    )
    state, step, evidence, steps = algorithm.init(start), jax.jit(algorithm.step), 0.0, 0
    while state.sampler_state.tempering_param < 1:
        key, own = jax.random.split(key)
        state, info = step(own, state)
        evidence, steps = evidence + float(info.log_likelihood_increment), steps + 1
    found = moments(np.asarray(state.sampler_state.particles), np.asarray(state.sampler_state.weights))
    return {**found, "log_evidence": evidence, "evaluations": steps * (MOVES + 1) * PARTICLES}


def blackjax_partial(problem: Problem, seed: int) -> dict[str, Any]:
    """Data tempering: one sample after the other, moves after each, refitted each time."""
    import blackjax
    import blackjax.smc.resampling as resampling
    from blackjax.smc.partial_posteriors_path import build_kernel, init

    key, first = jax.random.split(jax.random.key(seed))
    start = problem.sd * jax.random.normal(first, (PARTICLES, problem.size))

    @jax.jit
    def step(key: Any, state: Any, mask: Any) -> Any:
        kernel = build_kernel(
            _irmh(problem.size),
            blackjax.irmh.init,
            resampling.systematic,
            MOVES,
            _fitted(state.particles),
            lambda mask: lambda z: problem.prior(z) + mask @ problem.terms(z),
        )
        return kernel(key, state, mask)

    state, evidence = init(start, problem.samples), 0.0
    for k in range(problem.samples):
        key, own = jax.random.split(key)
        state, info = step(own, state, (jnp.arange(problem.samples) <= k).astype(float))
        evidence += float(info.log_likelihood_increment)
    found = moments(np.asarray(state.particles), np.asarray(state.weights))
    return {**found, "log_evidence": evidence, "evaluations": problem.samples * (MOVES + 1) * PARTICLES}


def numpyro_nuts(problem: Problem, seed: int) -> dict[str, Any]:
    from numpyro.infer import MCMC, NUTS

    potential = lambda z: -(problem.prior(z) + problem.likelihood(z))  # noqa: E731
    start = problem.sd * jax.random.normal(jax.random.key(100 + seed), (4, problem.size))
    fields = ("num_steps",)
    chains = MCMC(
        NUTS(potential_fn=potential),
        num_warmup=1000,
        num_samples=1000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    chains.warmup(jax.random.key(seed), init_params=start, extra_fields=fields, collect_warmup=True)
    gradients = int(np.sum(chains.get_extra_fields()["num_steps"]))
    chains.run(jax.random.key(seed + 1), init_params=start, extra_fields=fields)
    gradients += int(np.sum(chains.get_extra_fields()["num_steps"]))
    return {**moments(np.asarray(chains.get_samples())), "log_evidence": None, "evaluations": gradients}


def pints_haario(problem: Problem, seed: int) -> dict[str, Any]:
    import pints

    class Target(pints.LogPDF):  # type: ignore[misc]
        def n_parameters(self) -> int:
            return problem.size

        def __call__(self, z: Any) -> float:
            return problem.one(z) - 0.5 * float(np.sum(np.square(z))) / problem.sd**2

    np.random.seed(seed)  # noqa: NPY002  PINTS draws from NumPy's global generator
    starts = [problem.sd * np.random.standard_normal(problem.size) for _ in range(4)]  # noqa: NPY002
    controller = pints.MCMCController(Target(), 4, starts, method=pints.HaarioBardenetACMC)
    controller.set_initial_phase_iterations(1000)
    controller.set_max_iterations(6000)
    controller.set_log_to_screen(False)
    draws = controller.run()[:, 2000:]
    return {**moments(draws.reshape(-1, problem.size)), "log_evidence": None, "evaluations": 4 * 6000}


def particles_tempered(problem: Problem, seed: int) -> dict[str, Any]:
    import particles
    from particles import distributions, smc_samplers

    count = [0]
    names = [f"z{k}" for k in range(problem.size)]
    np.random.seed(seed)  # noqa: NPY002  particles draws from NumPy's global generator

    class Model(smc_samplers.StaticModel):  # type: ignore[misc]
        def loglik(self, theta: Any, t: Any = None) -> np.ndarray:
            points = np.stack([theta[name] for name in names], axis=1)
            count[0] += len(points)
            return np.asarray(problem.many(points))

    prior = distributions.StructDist({name: distributions.Normal(scale=problem.sd) for name in names})
    model = Model(data=np.zeros(1), prior=prior)
    algorithm = particles.SMC(
        fk=smc_samplers.AdaptiveTempering(model, wastefree=False, len_chain=MOVES + 1), N=PARTICLES
    )
    algorithm.run()
    draws = np.stack([algorithm.X.theta[name] for name in names], axis=1)
    return {**moments(draws, algorithm.W), "log_evidence": float(algorithm.logLt), "evaluations": count[0]}


def dynesty_nested(problem: Problem, seed: int) -> dict[str, Any]:
    import dynesty
    from scipy.special import ndtri

    sampler = dynesty.NestedSampler(
        problem.one,
        lambda u: problem.sd * ndtri(u),
        problem.size,
        nlive=250,
        sample="rwalk",
        rstate=np.random.default_rng(seed),
    )
    sampler.run_nested(print_progress=False)
    found = sampler.results
    weights = np.exp(found.logwt - found.logz[-1])
    result = moments(np.asarray(found.samples), weights / weights.sum())
    error = float(found.logzerr[-1])
    return {**result, "log_evidence": float(found.logz[-1]), "error": error, "evaluations": int(np.sum(found.ncall))}


METHODS = {
    "blackjax, tempered": blackjax_tempered,
    "blackjax, partial posteriors": blackjax_partial,
    "particles, tempered": particles_tempered,
    "dynesty": dynesty_nested,
    "numpyro NUTS": numpyro_nuts,
    "PINTS, Haario-Bardenet": pints_haario,
}

if __name__ == "__main__":
    method, target, seeds = sys.argv[1:]
    given = json.load(sys.stdin)
    problem = Problem(target, given)
    check = np.asarray(problem.many(jnp.asarray(given["points"])))
    for seed in range(int(seeds)):
        began = time.process_time()
        result = METHODS[method](problem, seed)
        print(json.dumps({**result, "seconds": time.process_time() - began, "check": check.tolist()}), flush=True)
