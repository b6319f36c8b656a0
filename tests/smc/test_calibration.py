"""Simulation-based calibration in small: truths from the prior lie anywhere in their posteriors, equally often.

The full study, on a Duffing oscillator with hundreds of data sets, is `python -m validation calibration`.
"""

import jax
import numpy as np
import pytest
from scipy import stats

import probsysid as ps
from probsysid import dist
from probsysid.model.problem import Problem
from validation.shared import Shared

SETS, SAMPLES, DT, BINS = 32, 20, 0.15, 5
LEVEL = 1e-3
"""Of each of the nine tests."""

model = ps.Model({"x": 1}, lambda s, u, p: {"x": -p.rate * s.x}, lambda s, u, p: {"y": s.x})
PRIORS = {"rate": dist.LogNormal(0.0, 0.5)}
NOISE = {"y": dist.LogNormal(np.log(0.05), 0.4)}
INITIAL = {"x": dist.Uniform(0.5, 2.0)}


@pytest.fixture(scope="module")
def ranks() -> dict[str, np.ndarray]:
    """Share of the posterior below the truth, for every quantity and data set."""
    problem = Problem.make(model, PRIORS, NOISE, [INITIAL], None)
    shared = Shared(problem, ps.Solver(smoothness=2, substeps=1), ps.Sampler(particles=512, islands=2))
    space = problem.space
    truths = {name: np.asarray(v) for name, v in space.values(space.sample(jax.random.key(7), SETS)).items()}
    random = np.random.default_rng(7)
    time = DT * np.arange(SAMPLES)
    result: dict[str, list[float]] = {name: [] for name in truths}
    for n in range(SETS):
        exact = truths["initial.x"][n] * np.exp(-truths["rate"][n] * time)
        data = exact + truths["noise.y"][n] * random.standard_normal(SAMPLES)
        run, _ = shared.run(shared.experiment(ps.Record(outputs={"y": data}, dt=DT)), seed=n)
        for name, values in space.values(run.flat_theta).items():
            result[name].append(float(run.normalised_weights @ (np.asarray(values) < truths[name][n])))
    return {name: np.array(values) for name, values in result.items()}


def p_values(ranks: np.ndarray) -> dict[str, float]:
    """Of a uniform histogram; of a standard normal's mean and mean square (Cook, Gelman and Rubin 2006)."""
    normal = stats.norm.ppf(np.clip(ranks, 1e-3, 1 - 1e-3))
    spread = stats.chi2.cdf(np.sum(normal**2), len(normal))
    return {
        "histogram": float(stats.chisquare(np.histogram(ranks, bins=BINS, range=(0, 1))[0]).pvalue),
        "shift": float(2 * stats.norm.sf(abs(normal.mean()) * np.sqrt(len(normal)))),
        "spread": float(2 * min(spread, 1 - spread)),
    }


@pytest.mark.parametrize("name", ["rate", "noise.y", "initial.x"])
def test_truths_lie_anywhere(ranks: dict[str, np.ndarray], name: str) -> None:
    found = p_values(ranks[name])
    assert min(found.values()) > LEVEL, found


def test_wrong_posteriors_would_show(ranks: dict[str, np.ndarray]) -> None:
    """The same ranks, were the posteriors half as wide, twice as wide, or shifted by one sd."""
    normal = stats.norm.ppf(np.clip(ranks["rate"], 1e-3, 1 - 1e-3))
    assert p_values(stats.norm.cdf(2 * normal))["spread"] < LEVEL
    assert p_values(stats.norm.cdf(normal / 2))["spread"] < LEVEL
    assert p_values(stats.norm.cdf(normal + 1))["shift"] < LEVEL
