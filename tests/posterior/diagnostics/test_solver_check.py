"""The verdict on the integration, from log likelihoods at two numbers of steps."""

import numpy as np
import pytest

from probsysid.posterior.diagnostics.solver_check import SolverCheck, compare, finest_level

COUNT = 1024
WEIGHTS = np.full(COUNT, 1 / COUNT)
VALUES = {"a": np.random.default_rng(0).standard_normal(COUNT)}


def heavy_tailed(size: float) -> np.ndarray:
    """Log ratios whose tail has no mean, and of which the largest is as given: a few stiff particles, and nothing."""
    tail = np.random.default_rng(1).pareto(0.4, COUNT)
    return size * tail / tail.max()


def check(size: float) -> SolverCheck:
    return compare(WEIGHTS, heavy_tailed(size), VALUES, 32, 64)


def test_a_tail_is_harmless_where_all_differences_are_small() -> None:
    """The shape of the tail does not depend on its size: differences of 1e-6 have the shape of those of 0.1."""
    for size in (1e-6, 0.1):
        found = check(size)
        assert found.shape > 0.7 and found.loss < 1e-4
        assert found.adequate and "negligible" in found.verdict


def test_a_tail_is_not_harmless_where_few_particles_would_take_over() -> None:
    found = check(12.0)
    assert found.loss > 0.9 and not found.adequate and "another one" in found.verdict


def test_the_loss_is_that_of_the_effective_sample_size() -> None:
    """Half of the weights doubled: 1 - 1.5^2 / 2.5."""
    ratios = np.where(np.arange(COUNT) % 2, np.log(2.0), 0.0)
    assert compare(WEIGHTS, ratios, VALUES, 1, 2).loss == pytest.approx(0.1, abs=1e-12)


def test_particles_that_a_finer_integration_loses_count() -> None:
    ratios = np.zeros(COUNT)
    ratios[:20] = -np.inf
    assert not compare(WEIGHTS, ratios, VALUES, 1, 2).adequate


@pytest.mark.parametrize(("samples", "level"), [(10, 8), (21, 8), (100, 6), (256, 5), (300, 5), (100_000, 5)])
def test_few_samples_may_take_more_steps(samples: int, level: int) -> None:
    assert finest_level(samples) == level
