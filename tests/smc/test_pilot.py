"""Explore with a pilot, certify with the target: posterior and evidence are the target's.

As in `test_adaptive_substeps.py`, a regression whose design is a little wrong stands for an ODE that is integrated; the
pilot's design is wrong in another way.  Every posterior has a closed form.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from probsysid import Sampler, SamplingError
from probsysid.smc import ibis, pilot
from probsysid.smc.adaptive_substeps import FIRST
from probsysid.smc.budget import PILOT_COST, Budget, MeteredTarget
from probsysid.smc.history import History
from tests.smc.conjugate import EnergyTarget, Regression

SAMPLES, SEEDS = 64, 8
SAMPLER = Sampler(particles=512)
EXACT = Regression.simulated(samples=SAMPLES)


def skewed(error: float, from_sample: int = 0) -> Regression:
    """The design is wrong in its last column."""
    samples = np.arange(SAMPLES)
    wrong = np.where(samples >= from_sample, error * np.cos(samples), 0.0)
    return replace(EXACT, design=EXACT.design + wrong[:, None] * np.array([0.0, 0.0, 1.0]))


@dataclass
class Kind(EnergyTarget):
    """The same at all levels; loses particles with a positive first coefficient from some sample on."""

    adaptive: bool = True
    estimated: bool = False
    most_levels: int = 0
    loses_from: int = SAMPLES
    pilot: Any = None

    def at(self, level: int) -> Any:
        def energy(theta: np.ndarray, sample: int) -> np.ndarray:
            return np.where((theta[0] > 0) & (sample >= self.loses_from), np.nan, self.energy(theta, sample))

        return EnergyTarget(energy, self.draw, self.log_prior, self.samples)


def kind(regression: Regression, **changes: Any) -> Kind:
    return Kind(**vars(regression.target()), **changes)


def piloted(error: float, from_sample: int = 0, **changes: Any) -> Kind:
    return kind(EXACT, pilot=kind(skewed(error, from_sample), **changes))


def finish(target: Any, seed: int, sampler: Sampler = SAMPLER) -> tuple[ibis.IBISState, History, list[bool]]:
    """The certified run, its log, and whether it was on the pilot after each step."""
    run, history, course = ibis.start(target, sampler, seed, FIRST), History(sampler.islands), []
    while run.samples < SAMPLES:
        run, step = pilot.forward(run, target, sampler)
        history.add(step)
        course.append(run.pilot)
    run, step = pilot.certify(run, target, sampler)
    history.add(step)
    return run, history, course


def assert_exact(runs: list[ibis.IBISState], exact: Any) -> None:
    """Means, variances and evidence over the seeds, within 4.5 of their standard errors."""
    means, variances, evidences = [], [], []
    root = np.linalg.cholesky(exact.covariance[-1])
    for run in runs:
        white = np.linalg.solve(root, run.flat_theta - exact.mean[-1][:, None])
        means.append(white @ run.normalised_weights)
        variances.append((white - means[-1][:, None]) ** 2 @ run.normalised_weights)
        evidences.append(np.exp(run.evidence_by_island - exact.log_evidence[-1]))
    for values, expected in ((means, 0.0), (variances, 1.0), (evidences, 1.0)):
        array = np.reshape(values, (-1, 3)) if values is not evidences else np.reshape(values, (-1, 1))
        # all columns have the same spread: pooled, it is known better than from so few seeds each
        error = np.sqrt(array.var(axis=0, ddof=1).mean() / len(array))
        assert np.all(np.abs(array.mean(axis=0) - expected) < 4.5 * error)


@pytest.mark.parametrize(
    ("error", "from_sample"),
    [
        (0.005, 0),  # close enough for weights
        (0.5, 32),  # wrong by so much later on that particles have to be moved
    ],
)
def test_posterior_and_evidence_are_those_of_the_target(error: float, from_sample: int) -> None:
    found = [finish(piloted(error, from_sample), seed) for seed in range(SEEDS)]
    assert all(course[-1] for _, _, course in found)
    assert not any(run.pilot for run, _, _ in found)
    if from_sample:
        assert all(history.rejuvenations[-1].sample == SAMPLES - 1 for _, history, _ in found)
    assert_exact([run for run, _, _ in found], EXACT.exact)


def test_without_a_certificate_the_posterior_would_be_the_pilots() -> None:
    """So that the test above can fail."""
    target, runs = piloted(0.5, 32), []
    for seed in range(SEEDS):
        run = ibis.start(target, SAMPLER, seed, FIRST)
        while run.samples < SAMPLES:
            run, _ = pilot.forward(run, target, SAMPLER)
        runs.append(run)
    assert_exact(runs, skewed(0.5, 32).exact)
    with pytest.raises(AssertionError):
        assert_exact(runs, EXACT.exact)


def test_a_pilot_that_differs_from_the_start_is_not_used() -> None:
    run, _, course = finish(piloted(5.0), 0)
    assert not any(course)
    assert run.samples == SAMPLES


def test_a_pilot_that_loses_what_counts_is_left() -> None:
    """From sample 20 on it loses a part of the prior in which the posterior lies."""
    assert EXACT.exact.mean[-1][0] > 0
    runs = []
    for seed in range(SEEDS):
        run, _, course = finish(piloted(0.0, loses_from=20), seed)
        assert any(course) and not course[-1]
        runs.append(run)
    assert_exact(runs, EXACT.exact)


def test_what_the_target_loses_as_well_does_not_matter() -> None:
    """Both lose everything from sample 40 on: the target itself says so."""

    def broken(theta: np.ndarray, sample: int) -> np.ndarray:
        return EXACT.target().energy(theta, sample) + (np.nan if sample >= 40 else 0.0)

    target = replace(kind(EXACT), energy=broken, pilot=replace(kind(EXACT), energy=broken))
    with pytest.raises(SamplingError, match="all particles are lost at sample 40"):
        finish(target, 0)


def test_the_run_on_the_pilot_is_counted_and_metered_at_its_price() -> None:
    budget = Budget(np.inf)
    run, _, _ = finish(MeteredTarget(piloted(0.005), budget), 0)
    alone, _, _ = finish(kind(EXACT), 0)
    # the start and the certificate are the target's own work
    assert alone.work / PILOT_COST < run.work < alone.work / 2
    assert budget.spent < alone.work / 2


@dataclass
class Levels(Kind):
    """Wrong at the coarsest level in the posterior, at the next in the evidence by `shift`."""

    shift: float = 0.0

    def at(self, level: int) -> Any:
        exact, wrong = super().at(level), skewed(0.5).target()
        shifted = replace(exact, energy=lambda theta, sample: exact.energy(theta, sample) + self.shift / SAMPLES)
        return (wrong, shifted, exact)[min(level, 2)]


def test_the_coarsest_level_that_agrees_is_certified() -> None:
    """Neither one that agrees in the evidence only, nor one that agrees in the posterior only."""
    for shift, level in ((0.0, 1), (0.5, 2)):
        target = Levels(**vars(EXACT.target()), shift=shift, pilot=Levels(**vars(EXACT.target())))
        runs = [finish(target, seed)[0] for seed in range(SEEDS)]
        assert {run.level for run in runs} == {level}
        assert_exact(runs, EXACT.exact)


def test_a_certified_run_stays_as_it_is() -> None:
    run, _, _ = finish(piloted(0.005), 0)
    again, step = pilot.certify(run, piloted(0.005), SAMPLER)
    assert again is run
    assert step.rebased is None
