"""Comparison with the no-U-turn sampler (numpyro) with a fine Runge-Kutta likelihood, on one Duffing record."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import lax
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

import probsysid as ps
from probsysid import dist
from validation.duffing import DT, MODEL, SOLVER, measured, multisine

TRUTH = {"m": 1.0, "c": 0.2, "k": 1.0, "k3": 0.5}
TRUE_NOISE, TRUE_START = 0.1, np.array([0.5, -0.3])
STEPS = 8
"""Runge-Kutta steps per sample in the likelihood: its error is 1e-6 of the motion."""

PRIORS = {
    "m": dist.LogNormal(0.0, 0.3),
    "c": dist.LogNormal(np.log(0.2), 0.5),
    "k": dist.LogNormal(0.0, 0.3),
    "k3": dist.LogNormal(np.log(0.5), 0.5),
}
NOISE = dist.LogNormal(np.log(0.1), 0.5)
INITIAL = {"x": dist.Uniform(-1.0, 1.0), "dx": dist.Uniform(-1.0, 1.0)}


def data(samples: int, seed: int = 0) -> ps.Record:
    return measured(multisine(samples, seed), TRUTH, TRUE_NOISE, TRUE_START, np.random.default_rng([seed, 1]))


def trajectory(parameters: Mapping[str, Any], x: Any, v: Any, force: Any, steps: int = STEPS) -> Any:
    """Positions at the samples; the force is linear between them."""
    p, h = parameters, DT / steps

    def rate(x: Any, v: Any, u: Any) -> tuple[Any, Any]:
        return v, (u - p["c"] * v - p["k"] * x - p["k3"] * x**3) / p["m"]

    def interval(state: tuple[Any, Any], ends: Any) -> tuple[tuple[Any, Any], Any]:
        def step(j: int, state: tuple[Any, Any]) -> tuple[Any, Any]:
            x, v = state
            left, middle, right = (ends[0] + (ends[1] - ends[0]) * (j + part) / steps for part in (0.0, 0.5, 1.0))
            a1, b1 = rate(x, v, left)
            a2, b2 = rate(x + h / 2 * a1, v + h / 2 * b1, middle)
            a3, b3 = rate(x + h / 2 * a2, v + h / 2 * b2, middle)
            a4, b4 = rate(x + h * a3, v + h * b3, right)
            return x + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4), v + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)

        for j in range(steps):
            state = step(j, state)
        return state, state[0]

    start = (jnp.asarray(x, dtype=float), jnp.asarray(v, dtype=float))
    _, rest = lax.scan(interval, start, jnp.stack([force[:-1], force[1:]], axis=1))
    return jnp.concatenate([start[0][None], rest])


def exact_draws(
    record: ps.Record, warmup: int, draws: int, chains: int, seed: int = 0, steps: int = STEPS
) -> dict[str, np.ndarray]:
    """Draws of NUTS, (chain, draw), of every quantity under the names of our posterior."""
    force, measured = jnp.asarray(record.inputs["force"]), jnp.asarray(record.outputs["position"])

    def model() -> None:
        values = {name: numpyro.sample(name, prior) for name, prior in PRIORS.items()}
        noise = numpyro.sample("noise.position", NOISE)
        start = [numpyro.sample(f"initial.{name}", prior) for name, prior in INITIAL.items()]
        numpyro.sample("data", dist.Normal(trajectory(values, *start, force, steps), noise), obs=measured)

    # seven quantities: forward derivatives through the time loop are several times faster than backward ones
    sampler = NUTS(model, init_strategy=numpyro.infer.init_to_median, forward_mode_differentiation=True)
    mcmc = MCMC(
        sampler,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(seed))
    return {name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()}


def identify(record: ps.Record, particles: int, seed: int = 0) -> ps.Posterior:
    sampler = ps.Sampler(particles=particles)
    return ps.identify(MODEL, record, PRIORS, {"position": NOISE}, INITIAL, solver=SOLVER, sampler=sampler, seed=seed)


def compare(posterior: ps.Posterior, draws: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {
        "mean": {n: float((posterior.mean(n) - d.mean()) / d.std()) for n, d in draws.items()},
        "sd": {n: float(posterior.sd(n) / d.std()) for n, d in draws.items()},
        "effective draws": {n: float(effective_sample_size(d)) for n, d in draws.items()},
        "ess": posterior.ess,
        "sweeps": posterior.settings.sweeps,
        "seconds": posterior.settings.seconds,
    }


def run(folder: Path) -> dict[str, Any]:
    """Compare, with enough draws on both sides for a standard error of 0.02 sd of the means."""
    record = data(300)
    draws = exact_draws(record, warmup=1000, draws=4000, chains=2)
    return compare(identify(record, particles=8192), draws)
