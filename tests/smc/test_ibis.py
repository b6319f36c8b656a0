"""The sampler against closed forms: mean, covariance and evidence after every sample, over 20 seeds.

The mutations at the end are the proof that the check sees what it should: each breaks the sampler in a way that leaves
it looking healthy.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from probsysid import Sampler
from probsysid.smc import ibis
from probsysid.smc.evidence import evidence_error
from probsysid.smc.moves import IndependentMH
from probsysid.smc.options import MOVES
from probsysid.smc.proposals import StudentTMixture
from probsysid.smc.resampling import SCHEMES
from tests.smc.conjugate import Coin, Rate, Regression, assert_exact, estimate, without_jacobian

SHARP = 4
REGRESSION = Regression.simulated(samples=10, sharp=SHARP)
RATE, COIN = Rate.simulated(), Coin.simulated()
SAMPLER = Sampler(particles=1024, islands=1)
PAPER = Sampler.paper(particles=1024)

VARIANTS = {
    "default": SAMPLER,
    "4 islands": replace(SAMPLER, particles=2048, islands=4),
    **{f"move {name}": replace(SAMPLER, move=name) for name in MOVES if name not in ("default", "mixture")},
    # fewer components than by default: its many constants are fitted to the particles it moves, which makes its bias of
    # order 1 / N the largest of all, and fitting slow
    "move mixture": replace(SAMPLER, move=IndependentMH(StudentTMixture(components=3, iterations=8))),
    **{f"resampling {name}": replace(SAMPLER, resampling=name) for name in SCHEMES if name != "systematic"},
    "waste-free": replace(SAMPLER, chain=4),
    "likelihood path": replace(SAMPLER, path="likelihood"),
    "every sample bridged": replace(SAMPLER, bridge=1.0, ess=0.6),
    "never bridged": replace(SAMPLER, particles=2048, bridge=1e-3),
}


LONG = (
    "resampling stratified",
    "resampling residual",
    "resampling multinomial",
    "move gaussian",
    "move mixture",
    "move student",
    "4 islands",
    "never bridged",
)


@pytest.mark.parametrize("variant", [pytest.param(v, marks=[pytest.mark.long] * (v in LONG)) for v in VARIANTS])
def test_linear_regression(variant: str) -> None:
    sampler = VARIANTS[variant]
    runs = assert_exact(REGRESSION, sampler)
    if sampler.path == "data":
        shares = [[r.share for r in run.rejuvenations if r.sample == SHARP] for run in runs]
        bridged = variant != "never bridged"
        # its noise is a twentieth of the others
        assert all((len(s) >= 1 and 0 < s[0] < 1) if bridged else s == [1.0] for s in shares)


@pytest.mark.parametrize(
    ("problem", "variant"),
    [
        pytest.param(RATE, "default", id="positive-default"),
        pytest.param(COIN, "likelihood path", id="bounded-likelihood path"),
        pytest.param(COIN, "default", id="bounded-default", marks=pytest.mark.long),
        pytest.param(RATE, "likelihood path", id="positive-likelihood path", marks=pytest.mark.long),
        pytest.param(RATE, "move gaussian", id="positive-move gaussian", marks=pytest.mark.long),
        pytest.param(COIN, "move gaussian", id="bounded-move gaussian", marks=pytest.mark.long),
    ],
)
def test_constrained_parameters(problem: Any, variant: str) -> None:
    assert_exact(problem, VARIANTS[variant])


def test_paper_settings() -> None:
    """One Gaussian proposal a rejuvenation: enough here, where the posterior is Gaussian."""
    assert_exact(REGRESSION, PAPER)


def test_reported_evidence_error_is_calibrated() -> None:
    """Over many runs the mean squared error of the evidence is the mean of the squared reported errors.

    A reported error rests on 4 islands, so the ratio of one error to its own report is Student-t with 3 degrees of
    freedom, whose square has no finite variance; the ratio of the means over n runs is F with n and 3 n.  The islands'
    evidences vary by 10 %: near enough to Gaussian.
    """
    sampler, runs = Sampler(particles=1024, islands=4), 80
    last = [np.array(estimate(RATE, sampler, seed).by_island[-1]) for seed in range(100, 100 + runs)]
    relative = np.exp(np.array(last) - RATE.exact.log_evidence[-1])
    assert relative.std() < 0.2
    ratio = np.mean((relative.mean(axis=1) - 1) ** 2) / np.mean([evidence_error(row) ** 2 for row in last])
    low, high = stats.f.ppf([5e-4, 1 - 5e-4], runs, 3 * runs)
    assert low < ratio < high


def test_state_and_likelihood_stay_with_their_particle() -> None:
    """The filter state (here the running sum of energies) follows theta through copies, moves, chains, islands."""
    for sampler in (VARIANTS["4 islands"], replace(SAMPLER, islands=2, chain=4)):
        target = REGRESSION.target()
        run = ibis.start(target, sampler, 3)
        while run.samples < target.samples:
            run, _ = ibis.step(run, target, sampler)
            total = sum(target.energy(run.flat_theta, k) for k in range(run.samples))
            # sums of at most 10 numbers in different orders
            np.testing.assert_allclose(np.asarray(run.state)[0], total, rtol=1e-12)
            np.testing.assert_allclose(-run.log_likelihood.ravel(), total, rtol=1e-12)


def test_portions_do_not_matter() -> None:
    """Samples one by one or all at once: the same bits."""
    sampler = VARIANTS["4 islands"]
    target = REGRESSION.target()
    whole = ibis.start(target, sampler, 5)
    while whole.samples < target.samples:
        whole, _ = ibis.step(whole, target, sampler)
    single = ibis.start(target, sampler, 5)
    for count in range(1, len(REGRESSION.outputs) + 1):
        arrived = replace(target, samples=count)
        while single.samples < count:
            single, _ = ibis.step(single, arrived, sampler)
    for name in ("theta", "log_weights", "log_likelihood", "base_evidence"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(single, name))


def test_work_is_counted() -> None:
    """Particle-samples of filtering: what the target was asked for."""
    sampler = replace(SAMPLER, particles=64)
    target = REGRESSION.target()
    asked = 0
    honest = target.advance

    def counted(state: Any, theta: Any, first: int, last: int) -> Any:
        nonlocal asked
        asked += (last - first) * theta.shape[-1]
        return honest(state, theta, first, last)

    target.advance = counted  # type: ignore[method-assign]
    run = ibis.start(target, sampler, 0)
    while run.samples < target.samples:
        run, _ = ibis.step(run, target, sampler)
    assert run.work == asked


# Mutations: each must turn the very same checks red


@dataclass(frozen=True)
class WithoutProposalRatio:
    """A move that says its proposals are symmetric, as the printed acceptance ratio of the paper has it."""

    move: Any

    name = "without proposal ratio"
    independent = False

    def fit(self, *arguments: Any) -> Any:
        return self.move.fit(*arguments)

    def propose(self, random: Any, vectors: Any, fitted: Any) -> Any:
        return self.move.propose(random, vectors, fitted)

    def log_density(self, vectors: Any, fitted: Any) -> Any:
        return np.zeros(vectors.shape[1])

    def fallback(self, acceptance: float) -> "WithoutProposalRatio":
        return self


@dataclass(frozen=True)
class EveryoneStays:
    """No resampling: every particle is its own only copy."""

    def __call__(self, random: Any, weights: Any, count: int) -> np.ndarray:
        return np.arange(count)


@pytest.mark.parametrize("move", ["gaussian", pytest.param("student", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "problem", [REGRESSION, pytest.param(RATE, marks=pytest.mark.long)], ids=["regression", "positive"]
)
def test_a_dropped_proposal_ratio_shows(problem: Any, move: str) -> None:
    inner = MOVES[move]
    assert isinstance(inner, IndependentMH)
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_exact(problem, replace(SAMPLER, move=WithoutProposalRatio(inner)))


@pytest.mark.parametrize(
    "variant", [*(pytest.param(v, marks=pytest.mark.long) for v in ("waste-free", "move random-walk")), "paper"]
)
def test_skipped_resampling_shows(variant: str) -> None:
    """Independent proposals repeated until nearly all particles have moved would forget it; so these do not."""
    sampler = {**VARIANTS, "paper": PAPER}[variant]
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_exact(REGRESSION, replace(sampler, resampling=EveryoneStays()))


@pytest.mark.parametrize("path", ["data", pytest.param("likelihood", marks=pytest.mark.long)])
@pytest.mark.parametrize("problem", [RATE, pytest.param(COIN, marks=pytest.mark.long)], ids=["positive", "bounded"])
def test_a_forgotten_jacobian_shows(problem: Any, path: Any) -> None:
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_exact(problem, replace(SAMPLER, path=path), target=lambda: without_jacobian(problem))
