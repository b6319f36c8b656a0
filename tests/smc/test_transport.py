"""Proposals through a quadratic map: exact densities, and a fit to what no ellipsoid fits."""

import numpy as np
import pytest
from scipy import stats

from probsysid._internal.statistics import effective_sample_size
from probsysid.smc.proposals import DegenerateParticles, MixtureDensity, MomentMatchedT, StudentTMixture, stacked
from probsysid.smc.transport import BestFit, Curved, QuadraticMap

BEND, SHARP = 3.0, 0.05


def banana(count: int, seed: int) -> np.ndarray:
    """Draws from a narrow ridge: x2 | x1 ~ Normal(BEND x1^2, SHARP), in axes that are turned and scaled."""
    random = np.random.default_rng(seed)
    first, third = random.standard_normal((2, count))
    second = BEND * first**2 + SHARP * random.standard_normal(count)
    return TURN @ np.stack([first, second, third])


TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0] * np.array([1.0, 10.0, 0.1])[:, None]


def log_banana(vectors: np.ndarray) -> np.ndarray:
    first, second, third = np.linalg.solve(TURN, vectors)
    parts = stats.norm.logpdf(first) + stats.norm.logpdf(second, BEND * first**2, SHARP) + stats.norm.logpdf(third)
    return parts - np.linalg.slogdet(TURN)[1]


def test_the_map_is_inverted_exactly() -> None:
    vectors = banana(400, 1)
    mapping = QuadraticMap.fit(vectors, np.full(400, 1 / 400))
    np.testing.assert_allclose(mapping.bend(mapping.straighten(vectors)), vectors, rtol=1e-9, atol=1e-9)


def test_the_volume_is_the_jacobian_determinant() -> None:
    vectors = banana(400, 2)
    mapping = QuadraticMap.fit(vectors, np.full(400, 1 / 400))
    point, step = mapping.straighten(vectors[:, :1]), 1e-6
    ends = [mapping.bend(point + step * sign * np.eye(3)) for sign in (1, -1)]
    slopes = (ends[0] - ends[1]) / (2 * step)
    assert np.linalg.slogdet(slopes)[1] == pytest.approx(mapping.log_volume, abs=1e-5)


def test_density_and_draws_belong_together() -> None:
    """The mean of target / q over draws from q is the target's integral, 1."""
    fitted = Curved(MomentMatchedT(degrees=5.0)).fit(np.random.default_rng(3), banana(500, 3), np.full(500, 1 / 500))
    draws = fitted.sample(np.random.default_rng(4), 100_000)
    ratios = np.exp(log_banana(draws) - fitted.log_density(draws))
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(ratios.size)


def test_a_bent_ridge_is_fitted_where_ellipsoids_fail() -> None:
    """Efficiency of importance sampling: 500 draws know the axes to 5 %, which blurs the ridge; an ellipsoid, of which
    the ridge fills SHARP / BEND, and mixtures of six ellipsoids do much worse."""
    vectors, weights = banana(500, 5), np.full(500, 1 / 500)
    efficiency = {}
    for family in (Curved(MomentMatchedT()), Curved(), BestFit(), MomentMatchedT(), StudentTMixture()):
        fitted = family.fit(np.random.default_rng(6), vectors, weights)
        draws = fitted.sample(np.random.default_rng(7), 20_000)
        logs = log_banana(draws) - fitted.log_density(draws)
        efficiency[family.name] = float(effective_sample_size(logs)) / 20_000
    straight = max(efficiency["moment-matched t"], efficiency["Student-t mixture"])
    assert efficiency["curved moment-matched t"] > 2 * straight
    assert efficiency["curved Student-t mixture"] > 2 * straight
    assert efficiency["best-fitting mixture"] > 2 * straight


def test_two_modes_are_not_taken_for_a_bend() -> None:
    random = np.random.default_rng(1)
    vectors = random.normal(0, 1e-2, (3, 600)) + random.choice([-1.0, 1.0], 600)
    chosen = BestFit().fit(random, vectors, np.full(600, 1 / 600))
    assert isinstance(chosen, MixtureDensity)


def test_weighted_particles_count_as_copies_do() -> None:
    vectors, copies = banana(300, 8), np.random.default_rng(8).integers(1, 5, 300)
    repeated = np.repeat(vectors, copies, axis=1)
    weighted = QuadraticMap.fit(vectors, copies / copies.sum())
    copied = QuadraticMap.fit(repeated, np.full(repeated.shape[1], 1 / repeated.shape[1]))
    np.testing.assert_allclose(weighted.straighten(vectors), copied.straighten(vectors), rtol=0.2)
    for mine, other in zip(weighted.coefficients, copied.coefficients, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-6)


def test_few_particles_keep_to_straight_lines() -> None:
    """40 particles cannot tell the coefficients of 10 terms: no products, and what is left is the covariance."""
    vectors = np.random.default_rng(9).standard_normal((3, 40))
    mapping = QuadraticMap.fit(vectors, np.full(40, 1 / 40))
    assert mapping.terms.squared <= 1
    assert Curved(StudentTMixture()).name == "curved Student-t mixture"


def test_particles_without_extent_are_refused() -> None:
    vectors = np.random.default_rng(10).standard_normal((2, 64))
    vectors[1] = 2.0
    with pytest.raises(DegenerateParticles, match="a variance is zero"):
        Curved().fit(np.random.default_rng(0), vectors, np.full(64, 1 / 64))


def test_populations_have_their_own_density() -> None:
    fits = [Curved().fit(np.random.default_rng(k), banana(300, k), np.full(300, 1 / 300)) for k in (11, 12)]
    both = stacked(fits)
    points = np.stack([banana(20, 13), banana(20, 14)])
    np.testing.assert_array_equal(
        both.log_density(points), [f.log_density(p) for f, p in zip(fits, points, strict=True)]
    )
    assert both.sample(np.random.default_rng(0), 7).shape == (2, 3, 7)
