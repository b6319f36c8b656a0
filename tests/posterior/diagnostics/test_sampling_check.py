"""The verdict on the sampling: populations that disagree and draws that contradict are named, good ones are not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid.posterior.diagnostics.sampling_check import (
    LEAST_P,
    SamplingCheck,
    check_populations,
    compare_fresh,
)
from probsysid.smc.moves import PAPER
from tests import duffing
from tests.smc.test_ibis import WithoutProposalRatio

POPULATIONS, MEMBERS = 8, 128
EQUAL = np.zeros((POPULATIONS, MEMBERS))
EVIDENCE = 0.1 * np.random.default_rng(5).standard_normal(POPULATIONS)


def populations(seed: int, shift: float = 0.0) -> dict[str, np.ndarray]:
    """Independent normals; the first population lies elsewhere by so many standard deviations."""
    values = np.random.default_rng(seed).standard_normal((POPULATIONS, MEMBERS))
    values[0] += shift
    return {"a": values, "b": np.exp(np.random.default_rng(seed + 100).standard_normal((POPULATIONS, MEMBERS)))}


def test_populations_of_one_distribution_agree() -> None:
    for seed in range(20):
        found = check_populations(populations(seed), EQUAL, EVIDENCE)
        assert found.trusted, found.verdict
        # B / W is chi-square over its 7 degrees of freedom, over 128: above 4 of them once in 3000
        assert max(found.r_hat.values()) < np.sqrt(1 + 4 / MEMBERS)
        assert min(found.ess.values()) > POPULATIONS * MEMBERS / 4


@pytest.mark.parametrize("shift", [2.0, 30.0])
def test_one_population_elsewhere_is_named(shift: float) -> None:
    found = check_populations(populations(0, shift), EQUAL, EVIDENCE)
    assert not found.trusted
    assert "populations disagree about a" in found.verdict and "not to be trusted" in found.verdict
    # by ranks the farther one counts hardly more; by its own formula, with B of one mean among eight
    assert found.r_hat["a"] > 1.15 > found.r_hat["b"]


def test_populations_of_another_width_disagree() -> None:
    """Their means agree: only the folded ranks tell."""
    values = populations(0)
    values["a"][:4] *= 5
    found = check_populations(values, EQUAL, EVIDENCE)
    assert found.r_hat["a"] > 1.15 > found.r_hat["b"]


def test_weights_count() -> None:
    """One particle of each population has all the weight: eight draws in all."""
    logs = np.full((POPULATIONS, MEMBERS), -np.inf)
    logs[:, 3] = 0.0
    found = check_populations(populations(1), logs, EVIDENCE)
    assert max(found.ess.values()) <= POPULATIONS + 1e-9 and not found.trusted


def test_evidences_that_differ_are_an_alarm() -> None:
    found = check_populations(populations(2), EQUAL, 3.0 * np.arange(POPULATIONS))
    assert found.reasons == ("log evidences of the populations differ by 7.3 (standard deviation)",)


def test_a_single_population_is_said() -> None:
    values = {name: value.reshape(1, -1) for name, value in populations(3).items()}
    found = check_populations(values, EQUAL.reshape(1, -1), EVIDENCE[:1])
    assert found.trusted and np.isnan(found.r_hat["a"])
    assert "with one population, agreement could not be checked" in found.verdict


# Fresh draws, against a standard normal in three dimensions


def fresh(scale: float = 1.0, shift: float = 0.0, evidence: float = 0.0, seed: int = 0) -> SamplingCheck:
    """Particles of some width at some place, and exact draws: a normal 1.3 times as wide, weighted."""
    random = np.random.default_rng(seed)
    theta = scale * random.standard_normal((3, POPULATIONS * MEMBERS)) + shift
    draws, wide = 1.3 * random.standard_normal((3, 1024)), 1.3
    ratios = np.sum(-0.5 * draws**2 + 0.5 * (draws / wide) ** 2 + np.log(wide), axis=0)
    agreement = check_populations(populations(seed), EQUAL, EVIDENCE)
    weights = np.full(theta.shape[1], 1 / theta.shape[1])
    return replace(agreement, fresh=compare_fresh(ratios, draws, theta, weights, agreement, evidence))


def test_probabilities_are_those_of_chance() -> None:
    """Uniform: the smallest of 120 is above 1e-5 in 999 of 1000 cases, and their mean is a half."""
    found = [fresh(seed=seed).fresh for seed in range(40)]
    assert all(check is not None and check.reliable and not check.contradictions for check in found)
    for name in ("mean_p", "spread_p"):
        values = np.array([getattr(check, name) for check in found])
        assert values.min() > 1e-5
        assert abs(values.mean() - 0.5) < 4 / np.sqrt(12 * len(values))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"scale": 0.86}, "standard deviations"),  # what a dropped proposal ratio leaves
        ({"shift": 0.25}, "means"),
        ({"evidence": 0.8}, "log evidence"),
    ],
)
def test_what_all_populations_get_wrong_is_found(wrong: dict[str, float], named: str) -> None:
    found = fresh(**wrong)
    assert not found.trusted
    assert f"fresh draws contradict the {named}" in found.verdict


def test_draws_that_cannot_be_weighted_confirm_nothing() -> None:
    check = fresh().fresh
    assert check is not None
    unreliable = replace(check, pareto_shape=0.9, mean_p=LEAST_P / 2)
    found = replace(fresh(), fresh=unreliable)
    assert found.reasons == ("fresh draws could not confirm the particles (Pareto shape 0.9)",)


def test_as_plain_data_and_back() -> None:
    found = fresh()
    assert SamplingCheck.from_record(found.to_record()) == found


# Whole runs


def test_a_good_run_is_trusted_and_says_so() -> None:
    posterior = ps.identify(duffing.model, duffing.measure(60), **duffing.options(sampler=ps.Sampler(particles=512)))
    assert posterior.sampling is not None and posterior.sampling.trusted, posterior.sampling_verdict
    assert "fresh draws confirm means, spreads and evidence" in posterior.sampling_verdict
    table = posterior.table()
    assert (table["r_hat"] < 1.15).all() and (table["ess"] > 25).all()


def test_few_particles_are_not_trusted(tmp_path: Path) -> None:
    with pytest.warns(ps.SamplingWarning, match="not to be trusted"):
        posterior = ps.identify(duffing.model, duffing.measure(60), **duffing.options(sampler=ps.Sampler(particles=32)))
    assert posterior.sampling is not None and not posterior.sampling.trusted
    posterior.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.index("the sampling is not to be trusted") < page.index('class="key"')


def test_too_few_particles_to_tell() -> None:
    """Eight populations of seven that agree perfectly, and of eight."""
    values = np.tile(np.linspace(-1.0, 1.0, 8), (8, 1))
    seven = check_populations({"a": values[:, :7]}, np.zeros((8, 7)), np.zeros(8))
    assert not seven.trusted and "56 particles are too few to tell" in seven.verdict
    assert check_populations({"a": values}, np.zeros((8, 8)), np.zeros(8)).trusted


def test_a_dropped_proposal_ratio_is_caught() -> None:
    """All populations agree, and all are wrong."""
    sampler = ps.Sampler(particles=1024, move=WithoutProposalRatio(PAPER), recover=False)
    with pytest.warns(ps.SamplingWarning, match="fresh draws"):
        ps.identify(duffing.model, duffing.measure(100), **duffing.options(sampler=sampler))
