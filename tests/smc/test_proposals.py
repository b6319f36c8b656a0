"""Proposals: densities are those of the draws, fits are the weighted moments."""

import numpy as np
import pytest
from scipy import stats

from probsysid.smc.proposals import (
    JITTER,
    DegenerateParticles,
    EqualMixture,
    MixtureDensity,
    MomentMatchedT,
    StudentTMixture,
    WideAxesT,
    _Monomials,
    cholesky,
    stacked,
)

RANDOM = np.random.default_rng(0)
FACTORS = np.array([[[1.0, 0, 0], [0.5, 2.0, 0], [-0.3, 0.1, 0.5]], [[0.2, 0, 0], [0.1, 0.3, 0], [0.0, -0.2, 0.4]]])
MEANS = np.array([[0.0, 1.0, -1.0], [3.0, 0.0, 2.0]])
SHARES = np.array([0.3, 0.7])


def batch(count: int = 500, dimension: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Weighted particles with very different scales."""
    random = np.random.default_rng(1)
    vectors = random.standard_normal((dimension, count)) * np.logspace(-6, 6, dimension)[:, None]
    return vectors, random.dirichlet(np.ones(count))


@pytest.mark.parametrize("degrees", [None, 1.0, 5.0, 40.0])
def test_log_density_is_scipys(degrees: float | None) -> None:
    mixture = MixtureDensity(SHARES, MEANS, FACTORS, degrees)
    points = 3 * RANDOM.standard_normal((3, 50))
    populations = [
        stats.multivariate_normal(mean, factor @ factor.T)
        if degrees is None
        else stats.multivariate_t(mean, factor @ factor.T, df=degrees)
        for mean, factor in zip(MEANS, FACTORS, strict=True)
    ]
    expected = np.log(sum(share * part.pdf(points.T) for share, part in zip(SHARES, populations, strict=True)))
    np.testing.assert_allclose(mixture.log_density(points), expected, rtol=1e-10)


@pytest.mark.parametrize("degrees", [None, 9.0])
def test_draws_have_the_moments_of_the_mixture(degrees: float | None) -> None:
    mixture, count = MixtureDensity(SHARES, MEANS, FACTORS, degrees), 200_000
    draws = mixture.sample(np.random.default_rng(2), count)
    widening = 1.0 if degrees is None else degrees / (degrees - 2)
    second = sum(
        share * (widening * factor @ factor.T + np.outer(mean, mean))
        for share, mean, factor in zip(SHARES, MEANS, FACTORS, strict=True)
    )
    products = draws[:, None] * draws[None]
    error = products.std(axis=-1) / np.sqrt(count)
    assert np.all(np.abs(products.mean(axis=-1) - second) < 4 * error)
    assert np.all(np.abs(draws.mean(axis=-1) - SHARES @ MEANS) < 4 * draws.std(axis=-1) / np.sqrt(count))


@pytest.mark.parametrize("degrees", [None, 3.0])
def test_density_and_draws_belong_together(degrees: float | None) -> None:
    """The mean of g / q over draws from q is the integral of g: here 1, for a density g inside q's reach."""
    mixture, count = MixtureDensity(SHARES, MEANS, FACTORS, degrees), 100_000
    draws = mixture.sample(np.random.default_rng(3), count)
    inside = stats.multivariate_normal(MEANS[1], 0.5 * FACTORS[1] @ FACTORS[1].T)
    ratio = np.exp(inside.logpdf(draws.T) - mixture.log_density(draws))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(count)


def test_a_component_without_share_is_not_evaluated() -> None:
    alone = MixtureDensity(np.array([1.0]), MEANS[:1], FACTORS[:1], 5.0)
    beside = MixtureDensity(np.array([1.0, 0.0]), MEANS, FACTORS, 5.0)
    points = RANDOM.standard_normal((3, 10))
    np.testing.assert_array_equal(alone.log_density(points), beside.log_density(points))


@pytest.mark.parametrize("degrees", [None, 5.0])
def test_an_ellipsoid_has_the_weighted_moments(degrees: float | None) -> None:
    vectors, weights = batch()
    fitted = MomentMatchedT(degrees=degrees, defensive=0.2, width=3.0).fit(RANDOM, vectors, weights)
    mean = np.average(vectors, axis=1, weights=weights)
    covariance = np.cov(vectors, aweights=weights, bias=True)
    np.testing.assert_array_equal(fitted.shares, [0.8, 0.2])
    np.testing.assert_allclose(fitted.means, [mean, mean], rtol=1e-12)
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    for factor, width in zip(fitted.factors, (1, 3), strict=True):
        np.testing.assert_allclose(factor @ factor.T / scale, width**2 * covariance / scale, atol=10 * JITTER)


def test_a_mixture_finds_two_modes() -> None:
    """Where one ellipsoid would propose between them."""
    random = np.random.default_rng(4)
    modes = np.repeat([[-3.0, 3.0], [0.0, 1.0]], [600, 200], axis=1)
    vectors = modes + random.normal(0, 0.1, (2, 800))
    weights = np.full(800, 1 / 800)
    fitted = StudentTMixture(components=2, degrees=None, defensive=0.1).fit(random, vectors, weights)
    order = np.argsort(fitted.means[:2, 0])
    np.testing.assert_allclose(fitted.shares[:2][order], [0.9 * 0.75, 0.9 * 0.25], rtol=1e-6)
    np.testing.assert_allclose(fitted.means[:2][order], [[-3, 0], [3, 1]], atol=4 * 0.1 / np.sqrt(200))
    assert fitted.shares[2] == pytest.approx(0.1)
    np.testing.assert_allclose(fitted.means[2], vectors.mean(axis=1))
    assert fitted.shares.sum() == pytest.approx(1)
    # a point of either mode is far likelier than under the ellipsoid
    ellipsoid = MomentMatchedT(degrees=None).fit(random, vectors, weights)
    assert fitted.log_density(vectors).mean() > ellipsoid.log_density(vectors).mean() + 1


def test_a_mixture_of_weighted_particles_is_that_of_copies() -> None:
    random = np.random.default_rng(5)
    vectors = random.standard_normal((2, 60))
    copies = random.integers(1, 5, 60)
    repeated = np.repeat(vectors, copies, axis=1)
    mixture = StudentTMixture(components=1, iterations=3)
    weighted = mixture.fit(random, vectors, copies / copies.sum())
    copied = mixture.fit(random, repeated, np.full(repeated.shape[1], 1 / repeated.shape[1]))
    np.testing.assert_allclose(weighted.means, copied.means, rtol=1e-10)
    np.testing.assert_allclose(weighted.factors, copied.factors, rtol=1e-7, atol=1e-9)


def test_what_cannot_be_fitted_is_said() -> None:
    vectors = np.random.default_rng(6).standard_normal((2, 64))
    vectors[1] = 2.0
    weights = np.full(64, 1 / 64)
    with pytest.raises(DegenerateParticles, match="a variance is zero"):
        MomentMatchedT().fit(RANDOM, vectors, weights)
    with pytest.raises(DegenerateParticles, match="a variance is zero"):
        cholesky(np.array([[np.nan, 0], [0, 1.0]]))
    with pytest.raises(DegenerateParticles, match="singular"):
        cholesky(np.array([[1.0, 1.1], [1.1, 1.0]]))


def test_a_flat_ellipsoid_is_kept_real() -> None:
    """Two quantities tied to 1e-12: the jitter makes the proposal a little wider across."""
    first = np.random.default_rng(7).standard_normal(100)
    vectors = np.stack([first, first + 1e-12])
    fitted = MomentMatchedT().fit(RANDOM, vectors, np.full(100, 0.01))
    assert np.all(np.isfinite(fitted.log_density(vectors)))


@pytest.mark.parametrize("degrees", [None, 5.0])
def test_mixtures_side_by_side_are_the_mixtures_one_by_one(degrees: float | None) -> None:
    mixtures = [MixtureDensity(SHARES[::step], MEANS + step, FACTORS, degrees) for step in (1, -1)]
    together = stacked(mixtures)
    points = np.random.default_rng(8).standard_normal((2, 3, 20))
    expected = [mixture.log_density(part) for mixture, part in zip(mixtures, points, strict=True)]
    np.testing.assert_allclose(together.log_density(points), expected, rtol=1e-12)
    draws = together.sample(np.random.default_rng(9), 20_000)
    assert draws.shape == (2, 3, 20_000)
    for mixture, part in zip(mixtures, draws, strict=True):
        error = part.std(axis=-1) / np.sqrt(part.shape[-1])
        assert np.all(np.abs(part.mean(axis=-1) - mixture.shares @ mixture.means) < 4 * error)


def test_moments_of_monomials_are_weighted_moments() -> None:
    vectors, weights = batch(dimension=2)
    vectors = vectors / vectors.std(axis=1, keepdims=True)
    monomials = _Monomials(2)
    totals, means, squares = monomials.moments(np.array([3 * weights]) @ monomials.of(vectors).T)
    np.testing.assert_allclose(totals, [3])
    np.testing.assert_allclose(means[0], vectors @ weights)
    np.testing.assert_allclose(squares[0], (vectors * weights) @ vectors.T)
    root = np.array([[1.0, 0.0], [0.3, 0.5]])
    logs = monomials.log_gaussians(np.array([0.2]), np.array([[0.5, -1.0]]), (root @ root.T)[None]) @ monomials.of(
        vectors
    )
    expected = 0.2 * stats.multivariate_normal([0.5, -1.0], root @ root.T).pdf(vectors.T)
    np.testing.assert_allclose(np.diff(logs[0] - np.log(expected)), 0, atol=1e-9)  # up to a constant


def test_narrow_modes_far_apart_are_fitted_as_narrow_as_they_are() -> None:
    """Modes a thousand times narrower than their distance: an independent proposal must hit them."""
    random = np.random.default_rng(8)
    vectors = random.normal(0, 1e-3, (3, 600)) + random.choice([-1.0, 1.0], 600)
    fitted = StudentTMixture().fit(random, vectors, np.full(600, 1 / 600))
    draws = fitted.sample(random, 20_000)
    modes = [stats.multivariate_normal(np.full(3, centre), 1e-6 * np.eye(3)) for centre in (-1, 1)]
    ratios = 0.5 * sum(mode.pdf(draws.T) for mode in modes) / np.exp(fitted.log_density(draws))
    assert ratios.sum() ** 2 / (ratios**2).sum() > 0.3 * 20_000


def test_wide_axes_reach_out_along_one_axis_each() -> None:
    """Each component's covariance is that of the particles but for one principal axis."""
    vectors, weights = batch()
    vectors /= vectors.std(axis=1, keepdims=True)
    fitted = WideAxesT(width=3.0, wide=0.3).fit(RANDOM, vectors, weights)
    np.testing.assert_allclose(fitted.shares, [0.1, 0.1, 0.1, 0.7])
    inverse = np.linalg.inv(fitted.factors[-1])
    for factor in fitted.factors[:-1]:
        white = inverse @ factor
        np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(white @ white.T)), [1, 1, 9], rtol=1e-6)
        assert np.all(np.diag(factor) > 0) and np.all(np.triu(factor, 1) == 0)


def test_an_equal_mixture_is_sampled_and_evaluated_as_a_whole() -> None:
    parts = tuple(MixtureDensity(np.ones(1), MEANS[k : k + 1], FACTORS[k : k + 1], 5.0) for k in (0, 1))
    whole, count = EqualMixture(parts), 100_000
    expected = MixtureDensity(np.full(2, 0.5), MEANS, FACTORS, 5.0)
    points = 3 * RANDOM.standard_normal((3, 50))
    np.testing.assert_allclose(whole.log_density(points), expected.log_density(points), rtol=1e-10)
    draws = whole.sample(np.random.default_rng(9), count)
    assert np.all(np.abs(draws.mean(axis=1) - MEANS.mean(axis=0)) < 4 * draws.std(axis=1) / np.sqrt(count))
    first, second = np.array_split(draws[0] > 1.5, 2)  # in no order of the parts
    assert abs(first.mean() - second.mean()) < 4 * np.sqrt(0.5 / count)


@pytest.mark.parametrize("other", [StudentTMixture(components=20), StudentTMixture(degrees=10.0)])
def test_mixtures_of_different_kinds_are_stacked(other: StudentTMixture) -> None:
    """Groups may choose different numbers of components, or of degrees of freedom: each keeps its own density."""
    random = np.random.default_rng(0)
    vectors, weights = random.standard_normal((2, 2, 400)), np.full(400, 1 / 400)
    fits = [family.fit(random, v, weights) for family, v in zip((StudentTMixture(), other), vectors, strict=True)]
    together = stacked(fits)
    expected = np.stack([fit.log_density(v) for fit, v in zip(fits, vectors, strict=True)])
    np.testing.assert_allclose(together.log_density(vectors), expected, rtol=1e-12)
    assert together.sample(random, 10).shape == (2, 2, 10)


def test_fewer_particles_than_components() -> None:
    """As many components as there are different particles."""
    random = np.random.default_rng(0)
    vectors = np.repeat(random.standard_normal((2, 5)), 8, axis=1)
    fitted = StudentTMixture(components=20).fit(random, vectors, np.full(40, 1 / 40))
    assert fitted.means.shape == (5 + 1, 2)
    assert np.all(np.isfinite(fitted.log_density(vectors)))
