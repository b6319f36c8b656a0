"""Effective sample sizes and agreement, as perf/end_to_end.py reports them."""

import numpy as np
import pytest

from perf.effective import Moments, Reference, agreement, between_runs, effective, moments, of_chains


def test_independent_draws_count_in_full():
    runs, quantities, draws = 400, 3, 50
    values = np.random.default_rng(0).normal(size=(runs, quantities, draws))
    # A variance from n values is known to sqrt(2 / n) of itself; here there are 400 runs of 3 quantities.
    error = np.sqrt(2 / (runs * quantities))
    assert between_runs(values, None, np.ones(quantities)) == pytest.approx(draws, rel=4 * error)


def test_draws_without_weight_do_not_count():
    runs, quantities, draws = 400, 3, 50
    values = np.random.default_rng(1).normal(size=(runs, quantities, draws))
    weights = np.zeros((runs, draws))
    weights[:, :10] = 0.1
    error = np.sqrt(2 / (runs * quantities))
    assert between_runs(values, weights, np.ones(quantities)) == pytest.approx(10, rel=4 * error)


@pytest.mark.parametrize("kind", ["smc", "chains"])
def test_independent_draws_count_in_full_for_every_figure(kind: str):
    quantities, draws = 2, 500
    random = np.random.default_rng(3)
    many = random.normal(size=(1, quantities, 100_000))
    reference = Reference.of(many, np.full((1, many.shape[-1]), 1 / many.shape[-1]))
    # Quantiles and fourth moments of 1e5 draws: sd of the 5 % quantile 0.0067, relative one of the kurtosis 0.01.
    assert reference.low == pytest.approx([-1.645] * quantities, abs=0.03)
    assert reference.kurtosis == pytest.approx([3.0] * quantities, rel=0.04)
    count = 400 if kind == "smc" else 4
    found = effective(random.normal(size=(count, quantities, draws)), None, reference, kind)
    assert set(found) == {"mean", "spread", "tail"}
    if kind == "smc":  # as above
        for value in found.values():
            assert value == pytest.approx(draws, rel=4 * np.sqrt(2 / (count * quantities)) + 0.02)
    else:  # the sum of correlations of white noise over lags up to about 10, as below
        for value in found.values():
            assert value == pytest.approx(count * draws, rel=4 * np.sqrt(2 * 21 / (count * draws)))


def test_one_run_says_nothing():
    assert np.isnan(between_runs(np.zeros((1, 2, 5)), None, np.ones(2)))


def test_chains_of_known_correlation():
    chains, draws, correlation = 4, 4000, 0.5
    random = np.random.default_rng(2)
    values = np.empty((chains, 2, draws))
    values[..., 0] = random.normal(size=(chains, 2))
    for k in range(1, draws):
        fresh = random.normal(size=(chains, 2))
        values[..., k] = correlation * values[..., k - 1] + np.sqrt(1 - correlation**2) * fresh
    exact = chains * draws * (1 - correlation) / (1 + correlation)
    # The sum of correlations up to lag L is known to about sqrt(2 (2 L + 1) / n); they have died out at L = 10.
    error = np.sqrt(2 * 21 / (chains * draws))
    assert of_chains(values) == pytest.approx(exact, rel=4 * error)


def test_moments_count_every_run_the_same():
    values = np.array([[[0.0, 2.0]], [[10.0, 10.0]]])
    found = moments(values, np.array([[0.5, 0.5], [1.0, 0.0]]))
    assert found.mean == pytest.approx([5.5])
    assert found.sd == pytest.approx([np.sqrt(((5.5**2 + 3.5**2) / 2 + 4.5**2) / 2)])


@pytest.mark.parametrize(
    ("shift", "ratio", "agrees"), [(0.0, 1.0, True), (0.19, 0.91, True), (0.21, 1.0, False), (0.0, 0.89, False)]
)
def test_agreement(shift: float, ratio: float, agrees: bool):
    reference = Moments(np.array([1.0, 5.0]), np.array([2.0, 0.1]))
    found = agreement(
        Moments(reference.mean - np.array([0, shift * 0.1]), reference.sd * np.array([ratio, 1])), reference
    )
    assert found["mean_shift"] == pytest.approx(shift, abs=1e-12)
    assert found["sd_ratio"] == pytest.approx(ratio)
    assert found["agrees"] is agrees
