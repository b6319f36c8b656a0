"""IBIS of `particles` (Chopin) on a Runge-Kutta likelihood in numba.

Set-up: the likelihood runs over particles as SIMD lanes on all cores; IBIS caches the motion of the
particles, a hundred or so samples ahead, instead of integrating from the start for each sample; moves are
independence proposals from the Gaussian fitted to the particles, which are accepted several times as often as its
customary random walk.  Its waste-free variant keeps every state of the chains: particles / chain of them are resampled.
"""

from typing import Any

import numpy as np
import particles
from duffing import NAMES, natural, record
from hand_over import Clock, hand_over, options
from numba_likelihood import advance, log_likelihoods
from particles import distributions, smc_samplers

AHEAD = 128


class Duffing(smc_samplers.StaticModel):
    def __init__(self, samples: int) -> None:
        self.force, self.position = record(samples)
        prior = distributions.StructDist({f"z{i}": distributions.Normal() for i in range(len(NAMES))})
        super().__init__(data=self.position, prior=prior)
        self.newest: tuple[Any, ...] | None = None

    def loglik(self, theta: Any, t: Any = None) -> np.ndarray:
        stop = len(self.position) if t is None else t + 1
        return log_likelihoods(_natural(theta), self.force, self.position, stop)

    def logpyt(self, theta: Any, t: int) -> np.ndarray:
        """Of one sample given those before: from a range of samples that is computed at once."""
        known = self.newest
        if known is None or known[0] is not theta or not known[1] <= t < known[1] + len(known[2]):
            values, count = _natural(theta), len(theta)
            state = known[3] if known is not None and known[0] is theta else np.zeros((2, count))
            fresh = known is None or known[0] is not theta
            first = 0 if fresh else known[1] + len(known[2])
            energies = np.empty((min(t + AHEAD, len(self.position)) - first, count))
            advance(values, state, energies, self.force, self.position, first)
            self.newest = known = (theta, first, energies, state)
        energy = known[2][t - known[1]]
        return np.where(np.isfinite(energy), -energy, -1e30)


def _natural(theta: Any) -> np.ndarray:
    return np.ascontiguousarray(natural(np.stack([theta[name] for name in theta.dtype.names])))


def run(model: Duffing, count: int, chain: int) -> tuple[Any, Any, float]:
    """Quantities, weights and log evidence."""
    move = smc_samplers.MCMCSequenceWF(mcmc=smc_samplers.ArrayIndependentMetropolis(scale=1.2), len_chain=chain)
    sampler = smc_samplers.IBIS(model=model, wastefree=True, len_chain=chain, move=move)
    smc = particles.SMC(fk=sampler, N=count // chain, ESSrmin=0.5, verbose=False)
    smc.run()
    return _natural(smc.X.theta), smc.W, float(smc.logLt)


def main() -> None:
    given = options(particles=1024, chain=4, runs=4, seed=0)
    clock = Clock()
    with clock.phase("compile"):
        run(Duffing(32), 128, 4)
    model = Duffing(given.samples)
    results = []
    for r in range(given.runs):
        np.random.seed(given.seed + r)  # noqa: NPY002  `particles` draws from NumPy's global generator
        with clock.phase("run"):
            results.append(run(model, given.particles, given.chain))
    draws, weights, evidence = zip(*results, strict=True)
    hand_over(
        given.out,
        clock,
        np.array(draws),
        ("particles", "numba"),
        weights=np.array(weights),
        log_evidence=evidence,
        kind="smc",
    )


if __name__ == "__main__":
    main()
