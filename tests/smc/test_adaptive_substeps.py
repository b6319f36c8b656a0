"""The accuracy is chosen while the sampler runs: the posterior and evidence are those of the level it ends at.

A regression whose design is wrong by an amount that falls by a factor of 16 from level to level stands for an ODE that
is integrated with a method of order four.  Every level has a closed form.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from probsysid import Sampler, SamplingError
from probsysid.smc import ibis
from probsysid.smc.adaptive_substeps import (
    FINEST,
    FIRST,
    TOLERANCE,
    MultilevelTarget,
    adjust,
    compute,
    forward,
    milestone,
)
from probsysid.smc.history import History
from tests.smc.conjugate import EnergyTarget, Regression

SAMPLES, SEEDS = 64, 8
SAMPLER = Sampler(particles=512)
EXACT = Regression.simulated(samples=SAMPLES)


def at_level(level: int, error: float) -> Regression:
    """The design is wrong in its last column, the more the later."""
    wrong = np.array([0.0, 0.0, error * 16.0**-level])
    samples = np.arange(SAMPLES)
    return replace(EXACT, design=EXACT.design + wrong * ((samples / SAMPLES) ** 2 * np.cos(samples))[:, None])


@dataclass
class Levels(EnergyTarget):
    error: float = 0.0
    adaptive: bool = True
    estimated: bool = False
    most_levels: int = 0
    broken: int = -1
    """Levels up to this lose all particles from sample 5 on."""
    pilot: None = None

    def at(self, level: int) -> Any:
        target = at_level(level, self.error).target()
        plain = target.energy

        def energy(theta: np.ndarray, sample: int) -> np.ndarray:
            return plain(theta, sample) + (np.nan if level <= self.broken and sample >= 5 else 0.0)

        return replace(target, energy=energy)


def levels(error: float, **changes: Any) -> Levels:
    return Levels(**vars(EXACT.target()), error=error, **changes)


def finish(target: Levels, seed: int) -> tuple[ibis.IBISState, History]:
    run, history = ibis.start(target, SAMPLER, seed, FIRST), History(SAMPLER.islands)
    while run.samples < SAMPLES:
        run, step = forward(run, target, SAMPLER)
        history.add(step)
    return run, history


def loss_between(first: Regression, second: Regression) -> float:
    """Of effective sample size when going from one Gaussian posterior to another, by quadrature of many draws."""
    a, b = first.exact, second.exact
    random = np.random.default_rng(0)
    draws = random.multivariate_normal(a.mean[-1], a.covariance[-1], 40_000).T
    log = [
        -0.5 * np.sum((draws - e.mean[-1][:, None]) * np.linalg.solve(e.covariance[-1], draws - e.mean[-1][:, None]), 0)
        for e in (a, b)
    ]
    ratio = np.exp(log[1] - log[0])
    return float(1 - ratio.mean() ** 2 / (ratio**2).mean())


@pytest.mark.parametrize("error", [0.0, 3.0, 3e3])
def test_posterior_and_evidence_are_those_of_the_final_level(error: float) -> None:
    """From no error at all, where the coarsest level will do, to one that only the finest levels can take."""
    means, variances, evidences, found = [], [], [], set()
    for seed in range(SEEDS):
        run, _ = finish(levels(error), seed)
        found.add(run.level)
        exact = at_level(run.level, error).exact
        weights, root = run.normalised_weights, np.linalg.cholesky(exact.covariance[-1])
        white = np.linalg.solve(root, run.flat_theta - exact.mean[-1][:, None])
        means.append(white @ weights)
        variances.append((white - means[-1][:, None]) ** 2 @ weights)
        evidences.append(np.exp(run.evidence_by_island - exact.log_evidence[-1]))
        assert loss_between(at_level(run.level, error), EXACT) < 2 * TOLERANCE
    for values, expected in ((means, 0.0), (variances, 1.0), (evidences, 1.0)):
        array = np.reshape(values, (-1, 3)) if values is not evidences else np.reshape(values, (-1, 1))
        # all columns have the same spread: pooled, it is known better than from so few seeds each
        error_of_mean = np.sqrt(array.var(axis=0, ddof=1).mean() / len(array))
        assert np.all(np.abs(array.mean(axis=0) - expected) < 4.5 * error_of_mean)
    assert max(found) - min(found) <= 1
    assert error or found == {0}


Forward = Callable[[ibis.IBISState, MultilevelTarget, Sampler], tuple[ibis.IBISState, ibis.StepInfo]]


def after_changes(target: Levels, error: float, forward: Forward = forward) -> np.ndarray:
    """Evidence relative to the exact one, right after every change of level that took no moves: those find it anew."""
    found = []
    for seed in range(SEEDS):
        run = ibis.start(target, SAMPLER, seed, FIRST)
        while run.samples < SAMPLES:
            before = run.level
            run, step = forward(run, target, SAMPLER)
            if run.level != before and not step.rejuvenations:
                exact = at_level(run.level, error).exact.log_evidence[run.samples - 1]
                found.append(np.exp(run.evidence_by_island - exact))
    return np.ravel(found)


def test_evidence_is_right_after_every_change() -> None:
    found = after_changes(levels(30.0), 30.0)
    assert abs(found.mean() - 1) < 4.5 * found.std() / np.sqrt(len(found))


def forward_uncorrected(
    run: ibis.IBISState, target: MultilevelTarget, sampler: Sampler
) -> tuple[ibis.IBISState, ibis.StepInfo]:
    """As `forward`, but particles are carried over to another level with their weights as they are."""
    stop = milestone(run.samples)
    run, step = ibis.step(run, target.at(run.level), sampler, stop)
    level = adjust(run, target, sampler)[0].level if run.samples == stop else run.level
    if level == run.level:
        return run, step
    _, other = compute(run, target, level)
    return replace(run, level=level, state=other.state, log_likelihood=other.likelihood), step


def test_a_forgotten_correction_of_the_weights_would_show() -> None:
    """The evidence would stay that of the levels before."""
    found = after_changes(levels(30.0), 30.0, forward_uncorrected)
    assert abs(found.mean() - 1) > 4.5 * found.std() / np.sqrt(len(found))


def test_predictive_densities_do_not_see_the_changes() -> None:
    """Each is the density of a sample given those before, under one and the same level."""
    _, history = finish(levels(3.0), 0)
    assert history.rebased
    exact = np.diff(EXACT.exact.log_evidence, prepend=0.0)
    last = max(history.rebased)
    np.testing.assert_allclose(history.log_predictive[last:], exact[last:], atol=0.3)


def test_a_level_that_loses_all_particles_is_left() -> None:
    run, _ = finish(levels(0.0, broken=1), 0)
    assert run.level == 2
    with pytest.raises(SamplingError, match="all particles are lost at sample 5"):
        finish(levels(0.0, broken=FINEST), 0)


def test_a_fixed_accuracy_stays() -> None:
    target = replace(levels(100.0), adaptive=False)
    run, _ = forward(ibis.start(target, SAMPLER, 0), target, SAMPLER)
    assert run.level == 0


def test_milestones() -> None:
    assert [milestone(n) for n in (0, 1, 2, 3, 4, 7, 8)] == [2, 2, 4, 4, 8, 8, 16]
