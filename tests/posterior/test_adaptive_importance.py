"""Adaptive importance sampling against targets with known moments and evidence."""

import numpy as np
import pytest
from scipy import stats

from probsysid.posterior.adaptive_importance import adapt
from probsysid.smc.proposals import DegenerateParticles, MixtureDensity, WideAxesT

DIMENSION = 6
SHARP = 0.1


def log_bent(theta: np.ndarray) -> np.ndarray:
    """A Gaussian whose last coordinate is bent around two others, eight times narrower than it is bent.  Normalised."""
    *others, last = theta
    centre = 0.5 * others[0] ** 2 - 0.3 * others[0] * others[1]
    return stats.norm.logpdf(others).sum(axis=0) + stats.norm.logpdf(last, centre, SHARP)


def test_a_bent_ridge_from_a_narrow_start() -> None:
    """From the curvature at the mode alone, which knows nothing of the bend; log evidence 0."""
    start = WideAxesT().around(np.zeros(DIMENSION), 0.5 * np.diag([1.0] * (DIMENSION - 1) + [SHARP]))
    adapted = adapt(log_bent, [start], np.random.default_rng(3), 2048)
    assert adapted.converged
    last = adapted.rounds[-1]
    assert last.efficiency > 0.1
    assert abs(last.log_evidence) < 4 * last.error
    draws = adapted.density.sample(np.random.default_rng(2), 40_000)
    logs = log_bent(draws) - adapted.density.log_density(draws)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    error = 4 / np.sqrt(1 / np.sum(weights**2))
    for coordinate, sd in ((0, 1.0), (DIMENSION - 1, np.sqrt(0.5**2 * 2 + 0.3**2 + SHARP**2))):
        mean = weights @ draws[coordinate]
        spread = np.sqrt(weights @ (draws[coordinate] - mean) ** 2)
        assert spread == pytest.approx(sd, rel=2 * error)  # heavier tails than a normal's


def log_four(theta: np.ndarray) -> np.ndarray:
    """Four modes of unequal mass in six dimensions, four widths of the cloud apart.  Normalised."""
    logs = [
        np.log(share) + stats.norm.logpdf(theta - centre[:, None], scale=0.1).sum(axis=0)
        for share, centre in zip(SHARES, CENTRES, strict=True)
    ]
    return np.logaddexp.reduce(logs)


SHARES = np.array([1, 2, 4, 8]) / 15
CENTRES = np.random.default_rng(3).uniform(-1, 1, (4, DIMENSION))


def test_four_modes_have_their_shares() -> None:
    """From distributions of the same width around each mode, whatever its mass."""
    starts = [WideAxesT().around(centre, 0.1 * np.eye(DIMENSION)) for centre in CENTRES]
    adapted = adapt(log_four, starts, np.random.default_rng(4), 4096)
    assert adapted.converged
    assert abs(adapted.rounds[-1].log_evidence) < 4 * adapted.rounds[-1].error
    draws = adapted.density.sample(np.random.default_rng(5), 20_000)
    weights = np.exp(log_four(draws) - adapted.density.log_density(draws))
    weights /= weights.sum()
    nearest = np.argmin([np.linalg.norm(draws - centre[:, None], axis=0) for centre in CENTRES], axis=0)
    found = np.bincount(nearest, weights, 4)
    error = np.sqrt([np.sum(weights**2 * ((nearest == k) - found[k]) ** 2) for k in range(4)])
    assert np.all(np.abs(found - SHARES) < 4 * error)
    assert np.all(error < 0.02)


def test_it_ends_where_it_is_told_to() -> None:
    start = [MixtureDensity(np.ones(1), np.zeros((1, DIMENSION)), np.eye(DIMENSION)[None], 5.0)]
    adapted = adapt(log_bent, start, np.random.default_rng(6), 64, go_on=lambda so_far: len(so_far.rounds) < 3)
    assert len(adapted.rounds) == 3
    assert not adapted.converged


def test_no_draw_with_weight_is_an_error() -> None:
    start = [MixtureDensity(np.ones(1), np.zeros((1, 2)), np.eye(2)[None], None)]
    with pytest.raises(DegenerateParticles, match="no draw has any weight"):
        adapt(lambda theta: np.full(theta.shape[1], -np.inf), start, np.random.default_rng(0), 64)
