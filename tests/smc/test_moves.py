"""Each move leaves its target as it is: exact draws, moved, are exact draws again."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from probsysid import Sampler
from probsysid.smc.metropolis import ParticleBatch, TemperedTarget
from probsysid.smc.moves import DEFAULT, IndependentMH, Move, RandomWalk
from probsysid.smc.options import MOVES
from probsysid.smc.proposals import MomentMatchedT, StudentTMixture
from probsysid.smc.rejuvenate import rejuvenate
from probsysid.smc.transport import BestFit
from tests.smc.conjugate import EnergyTarget
from tests.smc.test_ibis import WithoutProposalRatio

DRAWS = 8192
SHARE = 0.4
LEVEL = 1e-3 / 2
"""Of the two-sample test; the file does some twenty of them on fixed seeds."""


def banana(random: np.random.Generator, count: int) -> np.ndarray:
    """Exact draws of a curved distribution that no ellipsoid fits."""
    first = random.standard_normal(count)
    return np.stack([first, first**2 + 0.7 * random.standard_normal(count)])


def log_banana(theta: np.ndarray) -> np.ndarray:
    return -0.5 * theta[0] ** 2 - 0.5 * ((theta[1] - theta[0] ** 2) / 0.7) ** 2


def energy(theta: np.ndarray, sample: int) -> np.ndarray:
    return np.abs(theta[0] - 1) if sample == 0 else 0.3 * theta[1] ** 2


def target() -> EnergyTarget:
    """Sample 0 in full and a share of sample 1 turn its prior into the banana: all parts of the ratio matter."""

    def log_prior(theta: np.ndarray) -> np.ndarray:
        return log_banana(theta) + energy(theta, 0) + SHARE * energy(theta, 1)

    return EnergyTarget(energy, lambda key, count: np.zeros((2, count)), log_prior, 2)


def move_once(move: Move, seed: int, *, islands: int = 1, chain: int = 1, moves: int = 1) -> tuple[np.ndarray, Any]:
    """Draws after the moves, (dimension, chain link, draw)."""
    sampler = Sampler(particles=DRAWS, islands=islands, move=move, max_moves=moves, chain=chain, moved=1.0)
    theta = banana(np.random.default_rng([seed, 0]), DRAWS)
    shape = (sampler.populations, sampler.population_size)
    first, second = energy(theta, 0), energy(theta, 1)
    batch = ParticleBatch(
        theta.reshape(2, *shape), -first.reshape(shape), second.reshape(shape), (first + second)[None]
    )
    moved, info, _ = rejuvenate(batch, np.zeros(shape), target(), sampler, 1, SHARE, (seed, 7))
    total = energy(moved.theta.reshape(2, -1), 0) + energy(moved.theta.reshape(2, -1), 1)
    np.testing.assert_allclose(np.asarray(moved.state)[0], total, rtol=1e-13)
    links = moved.theta.reshape(2, sampler.populations, chain, -1)
    return np.moveaxis(links, 1, 2).reshape(2, chain, -1), info


def assert_invariant(draws: np.ndarray, seed: int) -> None:
    """Moments within 4.5 standard errors, margins by a two-sample test against fresh exact draws.

    Fourteen moments a move.  Links of one chain depend on each other, chains do not: they are averaged first.
    """
    exact = banana(np.random.default_rng([seed, 1]), 400_000)

    def features(x: np.ndarray) -> np.ndarray:
        return np.stack([x[0], x[1], x[0] ** 2, x[1] ** 2, x[0] * x[1], np.cos(2 * x[0]), np.tanh(x[1] - x[0] ** 2)])

    values = features(draws).mean(axis=1)
    error = values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
    reference = features(exact)
    error = np.hypot(error, reference.std(axis=-1) / np.sqrt(reference.shape[-1]))
    off = np.abs(values.mean(axis=-1) - reference.mean(axis=-1)) / error
    assert np.all(off < 4.5), f"moments are off by {np.round(off, 1)} standard errors"
    for name, mine, theirs in zip(
        ("first", "second", "curve"), *(_margins(x) for x in (draws[:, -1], exact)), strict=True
    ):
        p = stats.ks_2samp(mine, theirs[:50_000]).pvalue
        assert p > LEVEL, f"{name} margin: p = {p:.1e}"


def _margins(x: np.ndarray) -> list[np.ndarray]:
    return [x[0], x[1], x[1] - x[0] ** 2]


@pytest.mark.parametrize("name", [*MOVES, "small steps"])
def test_one_move_leaves_the_target_invariant(name: str) -> None:
    move = RandomWalk(scale=0.3) if name == "small steps" else MOVES[name]
    draws, info = move_once(move, seed=1)
    assert 0.1 < info.acceptance < 0.9  # something moved, and something was refused
    assert_invariant(draws, seed=1)


def test_a_chain_of_falling_back_moves_leaves_it_invariant() -> None:
    """The default falls back at the acceptance that it meets; here it is made to, twice."""
    walk = replace(RandomWalk(), least=0.0)
    move = IndependentMH(
        MomentMatchedT(), least=1.0, otherwise=IndependentMH(StudentTMixture(), least=1.0, otherwise=walk)
    )
    draws, info = move_once(move, seed=2, moves=4)
    assert info.kind == "random walk"
    assert_invariant(draws, seed=2)


def test_islands_leave_it_invariant() -> None:
    draws, _ = move_once(DEFAULT, seed=3, islands=4)
    assert_invariant(draws, seed=3)


@pytest.mark.parametrize("islands", [1, 4])
def test_waste_free_chains_leave_it_invariant(islands: int) -> None:
    draws, info = move_once(DEFAULT, seed=4, islands=islands, chain=4)
    assert draws.shape == (2, 4, DRAWS // 4)
    assert info.moves == 3
    assert info.work == 3 * (DRAWS // 4) * 2
    assert_invariant(draws, seed=4)


@pytest.mark.parametrize("name", ["gaussian", "student", "mixture"])
def test_a_dropped_proposal_ratio_shows(name: str) -> None:
    with pytest.raises(AssertionError, match=r"standard errors|p = "):
        draws, _ = move_once(WithoutProposalRatio(MOVES[name]), seed=5)
        assert_invariant(draws, seed=5)


@pytest.mark.parametrize("missing", ["prior", "likelihood", "exponent"])
def test_a_missing_factor_of_the_target_shows(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def log_density(self: TemperedTarget, batch: ParticleBatch) -> np.ndarray:
        log_prior = np.asarray(self.target.log_prior(batch.theta.reshape(2, -1))).reshape(batch.energy.shape)
        factors = {"prior": log_prior, "likelihood": batch.likelihood, "exponent": -self.exponent * batch.energy}
        return sum(value for name, value in factors.items() if name != missing)

    monkeypatch.setattr(TemperedTarget, "log_density", log_density)
    with pytest.raises(AssertionError, match=r"standard errors|p = "):
        draws, _ = move_once(DEFAULT, seed=6)
        assert_invariant(draws, seed=6)


@dataclass(frozen=True)
class Outside:
    """Proposes where the prior has no density."""

    name = "outside"
    independent = False

    def fit(self, *_: Any) -> None: ...

    def propose(self, random: Any, vectors: np.ndarray, fitted: Any) -> np.ndarray:
        return np.full_like(vectors, np.nan)

    def log_density(self, vectors: np.ndarray, fitted: Any) -> np.ndarray:
        return np.zeros(vectors.shape[1])

    def fallback(self, acceptance: float) -> "Outside":
        return self


def test_a_proposal_that_is_not_a_number_is_refused() -> None:
    draws, info = move_once(Outside(), seed=7)
    assert info.acceptance == 0
    np.testing.assert_array_equal(draws[:, 0], banana(np.random.default_rng([7, 0]), DRAWS))


def test_repeated_until_nearly_all_have_moved() -> None:
    _, info = move_once(MOVES["student"], seed=8, moves=10)
    assert info.moved > 0.9
    assert info.work == info.moves * DRAWS * 2


def test_fallbacks() -> None:
    first = DEFAULT
    assert first.fallback(0.5) is first
    second = first.fallback(0.05)
    assert second == IndependentMH(BestFit(), otherwise=RandomWalk())
    third = second.fallback(0.05)
    assert third == RandomWalk()
    assert third.fallback(0.3) is third
    assert IndependentMH().fallback(0.0) == IndependentMH()


@pytest.mark.parametrize("dimension", [1, 4, 36])
def test_a_random_walk_that_is_refused_takes_half_the_step(dimension: int) -> None:
    random = np.random.default_rng(0)
    vectors = np.zeros((dimension, 20_000))
    fitted = np.eye(dimension)

    def step(move: Move) -> float:
        return float(np.std(move.propose(random, vectors, fitted)))

    walk = RandomWalk()
    # 20000 draws: a standard deviation known to half a percent; 4 standard errors
    assert abs(step(walk) * dimension**0.5 / 2.38 - 1) < 0.02
    assert abs(step(walk.fallback(0.01)) / step(walk) - 0.5) < 0.02
    assert abs(step(walk.fallback(0.01).fallback(0.01)) / step(walk) - 0.25) < 0.02
