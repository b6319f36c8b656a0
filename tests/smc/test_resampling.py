"""Resampling: the expected number of copies is the weight times the number of particles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from probsysid.smc.resampling import SCHEMES, Multinomial, Residual, Stratified, Systematic

some_weights = hnp.arrays(float, st.integers(1, 40), elements=st.one_of(st.just(0.0), st.floats(1e-12, 1.0))).filter(
    lambda values: values.sum() > 0
)


def copies(scheme: object, weights: np.ndarray, count: int, repeats: int, seed: int = 0) -> np.ndarray:
    """(repeat, particle)"""
    random = np.random.default_rng(seed)
    draws = [scheme(random, weights, count) for _ in range(repeats)]
    return np.stack([np.bincount(draw, minlength=len(weights)) for draw in draws])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("count", [4, 10, 64])
def test_expected_copies(scheme: str, count: int) -> None:
    weights = np.array([0.02, 0.0, 0.38, 0.1, 0.1, 0.4])
    repeats = 4000
    found = copies(SCHEMES[scheme], weights, count, repeats)
    # multinomial draws vary the most: variance count * w (1 - w) for each repeat
    error = np.sqrt(count * weights * (1 - weights) / repeats)
    assert np.all(np.abs(found.mean(axis=0) - count * weights) <= 4 * error)
    assert np.all(found.sum(axis=1) == count)


def test_variances_of_the_copies() -> None:
    """What each scheme promises: independent draws, or less noise than that."""
    weights, count, repeats = np.array([0.35, 0.05, 0.25, 0.15, 0.2]), 10, 20_000
    variance = {name: copies(scheme, weights, count, repeats).var(axis=0) for name, scheme in SCHEMES.items()}
    multinomial = count * weights * (1 - weights)
    # a variance of 20000 draws is known to about 1 %
    np.testing.assert_allclose(variance["multinomial"], multinomial, rtol=0.05)
    left = count * weights % 1
    missing = left.sum()
    np.testing.assert_allclose(variance["residual"], left * (1 - left / missing), rtol=0.05, atol=1e-9)
    assert np.all(variance["stratified"] <= multinomial * 1.05)
    # the number of copies is one of the two whole numbers around the expected one
    np.testing.assert_allclose(variance["systematic"], left * (1 - left), rtol=0.05, atol=1e-9)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(weights=some_weights, count=st.integers(1, 50), seed=st.integers(0, 2**32 - 1))
def test_nothing_comes_from_nothing(scheme: str, weights: np.ndarray, count: int, seed: int) -> None:
    weights = weights / weights.sum()
    chosen = SCHEMES[scheme](np.random.default_rng(seed), weights, count)
    assert chosen.shape == (count,)
    assert np.issubdtype(chosen.dtype, np.integer)
    assert np.all(weights[chosen] > 0)


@given(weights=some_weights, count=st.integers(1, 50), seed=st.integers(0, 2**32 - 1))
def test_copies_of_systematic_and_residual_are_near_the_expected(weights: np.ndarray, count: int, seed: int) -> None:
    weights = weights / weights.sum()
    expected = count * weights
    found = np.bincount(Systematic()(np.random.default_rng(seed), weights, count), minlength=len(weights))
    # cumulative sums are rounded: an interval is up to 40 eps longer or shorter
    assert np.all(np.abs(found - expected) < 1 + 1e-9)
    found = np.bincount(Residual()(np.random.default_rng(seed), weights, count), minlength=len(weights))
    assert np.all(found >= np.floor(expected - 1e-9))
    found = np.bincount(Stratified()(np.random.default_rng(seed), weights, count), minlength=len(weights))
    assert np.all(np.abs(found - expected) < 2 + 1e-9)


@pytest.mark.parametrize("scheme", [Systematic(), Stratified(), Residual()])
@pytest.mark.parametrize("count", [1, 3, 7, 49, 1000, 1024])
def test_equal_weights_copy_everyone_once(scheme: object, count: int) -> None:
    """Whatever 1 / count rounds to."""
    for seed in range(20):
        chosen = scheme(np.random.default_rng(seed), np.full(count, 1 / count), count)
        np.testing.assert_array_equal(np.sort(chosen), np.arange(count))


def test_the_same_generator_gives_the_same_copies() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(50))
    for scheme in (*SCHEMES.values(), Multinomial()):
        one, other = (scheme(np.random.default_rng(7), weights, 64) for _ in range(2))
        np.testing.assert_array_equal(one, other)
