"""A corner of the honesty matrix (docs/validation.md): a Duffing oscillator at 9 samples per period.

Truths are drawn from the prior, so the z-scores (mean - truth) / sd of an honest posterior have a mean square of 1.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid.posterior.simulate import simulate
from validation.honesty.problems import FINE, duffing, van_der_pol
from validation.honesty.runge_kutta import CHUNK, RungeKuttaTarget
from validation.honesty.study import Cell, run_one

SETS = 3
SAMPLER = ps.Sampler(particles=128, islands=1)
PROBLEM = replace(duffing, samples=192)

MOST = float(np.sqrt(stats.chi2.ppf(0.999, SETS) / SETS))
"""Root mean square z-score that an honest method exceeds with probability 0.001 if the quantities of a data set are
perfectly correlated; less often if they are not."""


@cache
def scored(method: str, steps: int = 0) -> list[dict[str, dict[str, float]]]:
    """Quantities of each data set."""
    return [run_one(Cell(PROBLEM, method, steps), index, SAMPLER)["quantities"] for index in range(SETS)]


def root_mean_square(method: str, steps: int = 0) -> float:
    z = [(q["mean"] - q["truth"]) / q["sd"] for quantities in scored(method, steps) for q in quantities.values()]
    return float(np.sqrt(np.mean(np.square(z))))


def width(method: str, steps: int = 0) -> float:
    """Median ratio of the standard deviation to the gold standard's."""
    pairs = zip(scored(method, steps), scored("gold"), strict=True)
    return float(np.median([ours[name]["sd"] / gold[name]["sd"] for ours, gold in pairs for name in ours]))


def test_the_automatic_solver_is_honest_and_as_sharp_as_a_fine_integration() -> None:
    assert root_mean_square("auto") < MOST
    # With 64 effective particles (half of 128) the standard error of a standard deviation is 1 / sqrt(2 * 64) = 9 %,
    # of a ratio of two 12 %, of the median of 12 such ratios about 1.25 * 12 % / sqrt(12) = 5 %; four of them.
    assert width("auto") == pytest.approx(1.0, abs=0.2)


@pytest.mark.long
def test_fixed_steps_that_are_too_long_are_honest_by_being_wider() -> None:
    assert root_mean_square("fixed", 1) < MOST
    # far beyond the 0.2 that chance explains, above
    assert width("fixed", 1) > 1.5


@pytest.mark.parametrize("method", ["rk4", pytest.param("paper", marks=pytest.mark.long)])
def test_the_same_check_finds_dishonest_methods(method: str) -> None:
    assert root_mean_square(method, 1) > MOST


@pytest.mark.long
def test_steps_given_by_hand_are_honest_where_the_motion_jumps() -> None:
    """One step per sample on a relaxation oscillation: the linearisation of automatic steps fails on every data set."""

    def mean_square(result: dict[str, Any]) -> float:
        """Mean square z-score of a data set; infinite if all particles were lost."""
        if "failed" in result:
            return np.inf
        quantities = result["quantities"].values()
        assert len(quantities) == 2
        return float(np.mean([((q["mean"] - q["truth"]) / q["sd"]) ** 2 for q in quantities]))

    fixed, plain = (
        [mean_square(run_one(Cell(van_der_pol, method, 1), index)) for index in range(SETS)]
        for method in ("fixed", "plain")
    )
    assert np.sqrt(np.mean(fixed)) < MOST
    # measured: 438, 35 and 155
    assert np.sqrt(min(plain)) > MOST


# The gold standard itself


@pytest.mark.long
def test_energies_of_the_gold_standard_are_gaussian_densities() -> None:
    """Against the simulator's outputs, over more than one chunk of samples, at once and in parts."""
    problem = replace(duffing, samples=CHUNK + 40, fine=FINE)
    record = problem.record(0)
    target = RungeKuttaTarget(problem, record, FINE)
    theta = np.asarray(target.sample_prior(jax.random.key(0), 8))
    values = {name: np.asarray(value) for name, value in problem.space.values(theta).items()}
    start = np.repeat(np.array(problem.start)[:, None], 8, axis=1)
    outputs, _, _ = simulate(problem.model, values, start, record, FINE)
    energies = -stats.norm.logpdf(record.outputs["position"], outputs["position"], problem.noise["position"])
    for stop in (1, 2, CHUNK + 1, CHUNK + 2, record.samples):
        _, likelihood, energy = target.sweep(theta, stop)
        # Two programs of the same Runge-Kutta steps: the difference is rounding, amplified by some 20 000 steps and by
        # residuals in units of the noise, 1e-16 * 2e4 * 1e3.
        np.testing.assert_allclose(likelihood - energy, -energies[:, :stop].sum(axis=1), rtol=1e-8)
    state, _, _ = target.sweep(theta, 100)
    _, rows = target.advance(state, theta, 100, 150)
    # single energies may be close to zero, where the same error is relatively larger
    np.testing.assert_allclose(np.asarray(rows)[:50], energies[:, 100:150].T, rtol=1e-6)


@pytest.mark.long
def test_the_gold_standard_and_the_automatic_solver_agree_on_a_linear_oscillator() -> None:
    """Two Monte Carlo estimates of one posterior, compared within four standard errors of their difference."""
    model = ps.Model(
        {"x": 2},
        lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x) / p.m},
        lambda s, u, p: {"position": s.x},
        name="linear oscillator",
    )
    names = ("m", "c", "k")
    typical, spread = ({name: given[name] for name in names} for given in (duffing.typical, duffing.spread))
    problem = replace(duffing, name="linear", model=model, typical=typical, spread=spread, samples=192)
    sampler = ps.Sampler(particles=512, islands=1)
    gold, auto = (run_one(Cell(problem, method, 0), 0, sampler)["quantities"] for method in ("gold", "auto"))
    effective = sampler.particles / 2
    of_mean, of_sd = np.sqrt(2 / effective), np.sqrt(2 / (2 * effective))  # of a difference, in sd
    for name in names:
        assert auto[name]["mean"] == pytest.approx(gold[name]["mean"], abs=4 * of_mean * gold[name]["sd"])
        assert auto[name]["sd"] == pytest.approx(gold[name]["sd"], rel=4 * of_sd)
