"""Narrow places: one reading with an unknown noise level.

The smaller the noise, the closer the quantity is to the reading: a funnel.  A proposal that is fitted to the very
particles it moves has a density too high at them; those in the neck leave too easily and the evidence comes out too
small.  Posterior means hardly show it.
"""

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from probsysid import Sampler
from probsysid.smc import ibis
from tests.smc.conjugate import EnergyTarget

READINGS = np.array([1.1, -0.9])
IDLE = 4
"""Quantities that the data do not touch."""
RUNS = 12


def energy(theta: np.ndarray, sample: int) -> np.ndarray:
    """Theta is (quantity, log noise) of each reading, then the idle ones."""
    misfit = (READINGS[:, None] - theta[0:4:2]) / np.exp(theta[1:4:2] - 1)
    return np.sum(0.5 * misfit**2 + 0.5 * np.log(2 * np.pi) + theta[1:4:2] - 1, axis=0)


def target() -> EnergyTarget:
    dimension = 2 * len(READINGS) + IDLE
    return EnergyTarget(
        energy,
        lambda key, count: jax.random.normal(key, (dimension, count)),
        lambda theta: -0.5 * np.sum(np.asarray(theta) ** 2 + np.log(2 * np.pi), axis=0),
        1,
    )


def exact() -> float:
    def integrand(log_noise: float, reading: float) -> float:
        return stats.norm.pdf(reading, 0, np.hypot(1, np.exp(log_noise - 1))) * stats.norm.pdf(log_noise)

    return sum(np.log(integrate.quad(integrand, -8, 8, args=(y,))[0]) for y in READINGS)


def evidence(sampler: Sampler) -> np.ndarray:
    """Relative to the exact one, of every island of every run."""
    found = []
    for seed in range(RUNS):
        run, _ = ibis.step(ibis.start(target(), sampler, seed), target(), sampler)
        found.append(run.evidence_by_island)
    return np.exp(np.concatenate(found) - exact())


@pytest.mark.parametrize("move", ["default", pytest.param("mixture", marks=pytest.mark.long)])
def test_evidence_has_no_bias(move: str) -> None:
    found = evidence(Sampler(particles=1024, move=move))
    assert abs(found.mean() - 1) < 4 * found.std() / np.sqrt(len(found))


def test_proposals_fitted_to_the_particles_they_move_would_show() -> None:
    found = evidence(Sampler(particles=1024, move="mixture", cross_fit=False))
    assert found.mean() - 1 < -6 * found.std() / np.sqrt(len(found))
