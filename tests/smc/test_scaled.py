"""Proposals for funnels: exact densities, and a fit to what no ellipsoid fits."""

import numpy as np
import pytest
from scipy import stats

from probsysid.posterior.qmc import quasi_random
from probsysid.smc.proposals import DegenerateParticles, MixtureDensity, MomentMatchedT, StudentTMixture
from probsysid.smc.scaled import Scaled, ScaledDensity, ScaleMap
from probsysid.smc.transport import BestFit

COUNT = 2000
EVEN = np.full(COUNT, 1 / COUNT)
TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0] * np.array([1.0, 10.0, 0.1, 3.0])[:, None]
SLOPE = 0.8


def funnel(seed: int, count: int = COUNT) -> np.ndarray:
    """Standard deviations exp(SLOPE v) of two coordinates, and 1 of a third, in axes that are turned and scaled."""
    first, *others = np.random.default_rng(seed).standard_normal((4, count))
    return TURN @ np.stack([first, np.exp(SLOPE * first) * others[0], np.exp(SLOPE * first) * others[1], others[2]])


def log_funnel(vectors: np.ndarray) -> np.ndarray:
    first, second, third, fourth = np.linalg.solve(TURN, vectors)
    scale = np.exp(np.clip(SLOPE * first, -300, 300))  # the tails of proposals reach far
    parts = [stats.norm.logpdf(second, 0, scale), stats.norm.logpdf(third, 0, scale), stats.norm.logpdf(fourth)]
    return stats.norm.logpdf(first) + sum(parts) - np.linalg.slogdet(TURN)[1]


def test_the_map_is_inverted_exactly() -> None:
    vectors = funnel(1)
    mapping = ScaleMap.fit(vectors, EVEN)
    np.testing.assert_allclose(mapping.scale(mapping.even(vectors)), vectors, rtol=1e-9, atol=1e-9)


def test_the_volume_is_the_jacobian_determinant() -> None:
    vectors = funnel(2)
    mapping = ScaleMap.fit(vectors, EVEN)
    point, step = mapping.even(vectors[:, :1]), 1e-6
    ends = [mapping.scale(point + step * sign * np.eye(4)) for sign in (1, -1)]
    slopes = (ends[0] - ends[1]) / (2 * step)
    # central differences: an error of the order step^2 from the third derivative, and rounding of 1e-16 / step
    assert np.linalg.slogdet(slopes)[1] == pytest.approx(float(mapping.log_volume(point)[0]), abs=1e-5)


@pytest.mark.parametrize("quasi", [False, True])
def test_density_and_draws_belong_together(quasi: bool) -> None:
    """The mean of target / q over draws from q is the target's integral, 1; quasi-random draws vary less."""
    fitted = Scaled(MomentMatchedT(degrees=5.0)).fit(np.random.default_rng(3), funnel(3), EVEN)
    random, draw = np.random.default_rng(4), 2**16
    draws = quasi_random(fitted, random, draw) if quasi else fitted.sample(random, draw)
    ratios = np.exp(log_funnel(draws) - fitted.log_density(draws))
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(ratios.size)


def test_the_slopes_are_found() -> None:
    """Of the log spreads of two coordinates; none of the third.  A slope has a standard error of 1 / sqrt(2 n), the
    inverse root of its Fisher information, to first order in the errors of direction and centre, which cost as much
    again for each of the four quantities."""
    mapping = ScaleMap.fit(funnel(5), EVEN)
    error = np.sqrt(5 / (2 * COUNT))
    # the cloud's first coordinate has unit variance already: slopes are per standard deviation
    assert np.all(np.abs(np.sort(np.abs(mapping.slopes)) - [0, SLOPE, SLOPE]) < 4 * error)


def test_a_funnel_is_fitted_where_ellipsoids_fail() -> None:
    """How much too rarely the neck is proposed: the median of target / q three standard deviations down.  An ellipsoid
    as wide as the cloud is too wide there by exp(3 SLOPE) = 11 along two axes, and by more than that as the mouth
    dominates its width; extrapolated spreads have an error of three times that of a slope, ten per cent."""
    neck = np.random.default_rng(9).standard_normal((4, 200))
    neck[0] = -3.0
    neck[1:3] *= np.exp(SLOPE * neck[0])
    points = TURN @ neck
    excess = {}
    for family in (Scaled(), BestFit(), MomentMatchedT(), StudentTMixture()):
        fitted = family.fit(np.random.default_rng(6), funnel(6), EVEN)
        excess[family.name] = float(np.exp(np.median(log_funnel(points) - fitted.log_density(points))))
    assert excess["scaled moment-matched t"] < 2
    assert excess["best-fitting mixture"] < 2
    assert excess["moment-matched t"] > np.exp(2 * 3 * SLOPE) / 2
    assert excess["Student-t mixture"] > 4


def test_a_gaussian_is_not_taken_for_a_funnel() -> None:
    """A scaled fit counts 15 more numbers here, of which six (direction and slopes) make the likelihood larger: by
    Akaike's criterion it wins by chance where a chi-square variate with six degrees of freedom exceeds 30, which has a
    probability of 4e-5."""
    first = BestFit((MomentMatchedT(), Scaled(MomentMatchedT())), many=None)
    chosen = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        chosen.append(first.fit(random, TURN @ random.standard_normal((4, COUNT)), EVEN))
    assert not any(isinstance(fit, ScaledDensity) for fit in chosen)


def test_a_single_quantity_scales_no_other() -> None:
    with pytest.raises(DegenerateParticles, match="single quantity"):
        Scaled().fit(np.random.default_rng(0), funnel(0)[:1], EVEN)
    chosen = BestFit((MomentMatchedT(), Scaled()), many=None).fit(np.random.default_rng(0), funnel(0)[:1], EVEN)
    assert isinstance(chosen, MixtureDensity)


def test_weighted_particles_count_as_copies_do() -> None:
    vectors, copies = funnel(8, 300), np.random.default_rng(8).integers(1, 5, 300)
    repeated = np.repeat(vectors, copies, axis=1)
    weighted = ScaleMap.fit(vectors, copies / copies.sum())
    copied = ScaleMap.fit(repeated, np.full(repeated.shape[1], 1 / repeated.shape[1]))
    np.testing.assert_allclose(weighted.slopes, copied.slopes, rtol=1e-6)
    np.testing.assert_allclose(weighted.levels, copied.levels, rtol=1e-6)
