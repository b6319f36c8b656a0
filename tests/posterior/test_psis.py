"""Pareto-smoothed weights are ArviZ's, and say what they should where nothing is to be smoothed."""

import arviz as az
import numpy as np
import pytest
from scipy.special import logsumexp

from probsysid.posterior import psis
from probsysid.posterior.diagnostics.solver_check import compare

KINDS = {
    "normal": lambda rng, count: rng.normal(size=count),
    "heavy tails": lambda rng, count: rng.standard_t(2, size=count),
    "ties": lambda rng, count: np.round(rng.normal(size=count), 1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-3, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("count", [6, 26, 100, 4096])
def test_weights_are_those_of_arviz(kind: str, size: float, count: int) -> None:
    logs = size * KINDS[kind](np.random.default_rng(count), count)
    expected, shape = az.psislw(logs.copy())
    found, found_shape = psis.smoothed(logs)
    np.testing.assert_allclose(np.exp(found - logsumexp(found)), np.exp(np.asarray(expected)), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found_shape, float(shape), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_few_weights_have_no_tail(count: int) -> None:
    logs, shape = psis.smoothed(np.arange(float(count)))
    np.testing.assert_array_equal(logs, np.arange(float(count)) - (count - 1))
    assert shape == np.inf


@pytest.mark.parametrize("spread", [0.0, 1e-17, 1e-12])
def test_weights_that_are_the_same_need_no_smoothing(spread: float) -> None:
    """Where finer steps change nothing at all, the verdict is that they change nothing."""
    rng = np.random.default_rng(0)
    ratios = 3.0 + spread * rng.normal(size=100)
    found = compare(np.full(100, 0.01), ratios, {"rate": rng.normal(size=100)}, 1, 2)
    assert found.shape == 0
    assert found.adequate
    assert abs(found.shift["rate"]) < 1e-9
