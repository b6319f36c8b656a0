"""Draws that fill a distribution evenly."""

import numpy as np
import pytest
from scipy import stats

from probsysid.posterior.qmc import quasi_random, uniforms
from probsysid.smc.proposals import MixtureDensity

SKEWED = np.array([[1.0, 0.0], [0.8, 0.6]])


@pytest.mark.parametrize("count", [1, 2, 100, 128])
def test_points_lie_inside_the_cube(count: int) -> None:
    points = uniforms(np.random.default_rng(0), 3, count)
    assert points.shape == (3, count)
    assert np.all((points > 0) & (points < 1))


def test_every_single_point_is_uniform() -> None:
    """Whatever its place in the sequence: that is what makes means unbiased."""
    random, repeats = np.random.default_rng(1), 400
    points = np.stack([uniforms(random, 2, 8) for _ in range(repeats)])
    for place in (0, 5):
        for coordinate in (0, 1):
            assert stats.kstest(points[:, coordinate, place], "uniform").pvalue > 1e-4


@pytest.mark.parametrize("degrees", [None, 5.0])
def test_draws_have_the_distribution(degrees: float | None) -> None:
    mixture = MixtureDensity(
        np.array([0.3, 0.7]), np.array([[-4.0, 0.0], [4.0, 1.0]]), np.stack([SKEWED, 2 * SKEWED]), degrees
    )
    draws = quasi_random(mixture, np.random.default_rng(2), 4096)
    shape = stats.norm if degrees is None else stats.t(degrees)
    for coordinate in (0, 1):
        # both rows of the factor have length 1, so marginals are those of the components, scaled

        def distribution(x: np.ndarray, coordinate: int = coordinate) -> np.ndarray:
            means = mixture.means[:, coordinate]
            return 0.3 * shape.cdf(x - means[0]) + 0.7 * shape.cdf((x - means[1]) / 2)

        # independent draws would be off by 0.02 at the 5 % level; these fill gaps
        assert stats.kstest(draws[coordinate], distribution).statistic < 0.02
    right = draws[:, draws[0] > 0]
    assert np.corrcoef(right)[0, 1] > 0.6


def test_means_are_far_less_uncertain_than_of_independent_draws() -> None:
    one, random = MixtureDensity(np.ones(1), np.zeros((1, 2)), SKEWED[None], None), np.random.default_rng(3)
    means = [quasi_random(one, random, 256).mean(axis=1) for _ in range(20)]
    assert 256 * np.var(means) < 0.2  # 1 if they were independent, known to a third
