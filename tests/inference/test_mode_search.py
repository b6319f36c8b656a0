"""Modes that all particles of a run miss are found, named, and sampled from; those that they reach are no alarm."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid.inference.mode_search import search_lost_modes
from probsysid.inference.recover import recover
from probsysid.model.problem import Problem
from probsysid.parallel.default import default_executor
from probsysid.posterior.diagnostics.mode_check import ModeCheck
from probsysid.posterior.importance_sampling import LogTarget
from probsysid.posterior.map import cheap_target
from probsysid.posterior.simulate import simulate
from probsysid.smc.budget import Budget
from probsysid.smc.ibis import IBISState
from probsysid.targets.batch_target import BatchTarget

PARTICLES = 256
SAMPLER = ps.Sampler(particles=PARTICLES)
GAIN = ps.Model({"x": 1}, lambda s, u, p: {"x": p.a * (p.b**2 * u.u - s.x)})
GAIN_PRIORS = {"a": ps.dist.LogNormal(0.0, 1.0), "b": ps.dist.Normal(0.0, 2.0)}


def target(model: ps.Model, priors: dict, noise: dict, initial: dict, record: ps.Record, steps: int) -> BatchTarget:
    problem = Problem.make(model, priors, noise, [initial], {})
    return BatchTarget(problem, ps.Solver(substeps=steps), [record], PARTICLES, default_executor())


@pytest.fixture(scope="module")
def gain() -> BatchTarget:
    """A gain b^2 = 2.25: half of the posterior's mass is at b = 1.5, half at -1.5."""
    random = np.random.default_rng(0)
    inputs = ps.Record({"u": np.repeat(random.standard_normal(10), 8)}, dt=0.1)
    truth = {"a": np.array([1.0]), "b": np.array([1.5])}
    outputs, _, _ = simulate(GAIN, truth, np.zeros((1, 1)), inputs)
    record = inputs.replace(outputs={"x": outputs["x"][0] + 0.05 * random.standard_normal(inputs.samples)})
    return target(GAIN, GAIN_PRIORS, {"x": 0.05}, {"x": 0.0}, record, 1)


def run_at(target: BatchTarget, theta: np.ndarray, log_evidence: float) -> IBISState:
    """A finished run with these particles."""
    _, likelihood, energy = target.sweep(theta, target.samples)
    return IBISState(
        samples=target.samples,
        theta=theta.reshape(len(theta), 4, -1),
        state=None,
        log_weights=np.zeros((4, theta.shape[1] // 4)),
        log_likelihood=(likelihood - energy).reshape(4, -1),
        base_evidence=np.full(4, log_evidence),
        seed=0,
        islands=4,
        work=20.0 * theta.shape[1] * target.samples,
    )


def sampled(target: BatchTarget) -> ps.Posterior:
    problem = target.problem
    posterior = ps.identify(
        problem.model,
        target.records[0],
        problem.priors,
        problem.noise,
        problem.initials[0],
        solver=target.solver,
        sampler=SAMPLER,
    )
    assert posterior.sampling.trusted, posterior.sampling_verdict
    return posterior


@pytest.fixture(scope="module")
def both(gain: BatchTarget) -> ps.Posterior:
    return sampled(gain)


def searched(target: BatchTarget, theta: np.ndarray, log_evidence: float) -> ModeCheck:
    return search_lost_modes(run_at(target, theta, log_evidence), target, log_evidence, 200.0, seed=3)


def test_a_whole_run_reports_both_modes_and_its_best(both: ps.Posterior) -> None:
    modes = both.sampling.modes
    assert modes is not None and not modes.lost and modes.unfinished == 0
    assert sorted(np.sign(mode.values["b"]) for mode in modes.found) == [-1, 1]
    assert both.map == modes.found[0] == ps.find_map(both)
    # one part in a hundred of the evidence is 0.01; the curvature of these modes changes little over their width
    assert modes.log_evidence == pytest.approx(both.log_evidence, abs=0.1)
    assert "found no mode that the particles miss" in both.sampling_verdict


def test_particles_in_one_of_two_modes(gain: BatchTarget, both: ps.Posterior) -> None:
    """All particles at positive b, with the evidence of that half."""
    one_sided = both.theta.copy()
    one_sided[list(both.values).index("b")] = np.abs(both.values["b"])
    found = searched(gain, one_sided, both.log_evidence - np.log(2))
    (lost,) = found.lost
    assert lost.weight == 0.0
    assert lost.mode.values["b"] == pytest.approx(-1.5, abs=0.05)
    # nine tenths of the mass are in the neighbourhood: 0.9 / (0.9 + 1), to the error of 256 draws around the mode
    assert lost.share == pytest.approx(0.9 / 1.9, abs=0.05)
    assert "no particle reaches a mode" in lost.sentence and "b = -1.5" in lost.sentence
    assert not searched(gain, both.theta, both.log_evidence).lost


def test_a_run_with_few_particles_is_searched_from_as_many_prior_draws(
    gain: BatchTarget, both: ps.Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen particles lose modes most easily, and sixteen prior draws hardly find them."""
    drawn = []
    plain = BatchTarget.sample_prior

    def counted(self: BatchTarget, key: Any, count: int) -> Any:
        drawn.append(np.asarray(plain(self, key, count)))
        return drawn[-1]

    monkeypatch.setattr(BatchTarget, "sample_prior", counted)
    few = both.theta[:, :16].copy()
    few[list(both.values).index("b")] = np.abs(few[list(both.values).index("b")])
    found = search_lost_modes(run_at(gain, few, 0.0), gain, both.log_evidence - np.log(2), 12.0, seed=3)
    assert len(found.lost) == 1
    assert sum(each.shape[1] for each in drawn) == 512
    assert len(np.unique(np.hstack(drawn)[0])) == 512


def test_particles_that_are_lost_themselves(gain: BatchTarget, both: ps.Posterior) -> None:
    """Twenty sds away, with an evidence to match: all of the mass is at the modes."""
    away = both.theta + 20 * both.theta.std(axis=1, keepdims=True) * np.array([[1.0], [0.0]])
    found = searched(gain, away, both.log_evidence - 160)
    assert len(found.lost) == 2 and all(lost.share > 0.999 for lost in found.lost)


def test_recovery_samples_from_the_lost_mode(gain: BatchTarget, both: ps.Posterior) -> None:
    one_sided = both.theta.copy()
    row = list(both.values).index("b")
    one_sided[row] = np.abs(one_sided[row])
    budget = Budget.of(1000, None, PARTICLES, gain.samples)
    found = recover(one_sided, gain, 0, SAMPLER, 0, budget)
    assert found is not None and len(found.modes) == 2
    share = float(found.run.normalised_weights @ (found.run.flat_theta[row] > 0))
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(PARTICLES / 2)


def test_an_alias_of_a_frequency() -> None:
    """cos(w t) sampled every second is cos((2 pi - w) t): two modes of about the same mass under a uniform prior."""
    model = ps.Model({"x": 2}, lambda s, u, p: {"x": -(p.w**2) * s.x})
    random = np.random.default_rng(2)
    time = np.arange(40.0)
    record = ps.Record({}, {"x": np.cos(2.0 * time) + 0.1 * random.standard_normal(40)}, dt=1.0)
    priors = {"w": ps.dist.Uniform(0.5, 6.0)}
    alias = target(model, priors, {"x": 0.1}, {"x": 1.0, "dx": 0.0}, record, 16)
    mode = ps.find_map(
        sampled_at := ps.identify(
            model, record, priors, {"x": 0.1}, {"x": 1.0, "dx": 0.0}, solver=alias.solver, sampler=SAMPLER, method="map"
        )
    )
    frequencies = np.array([m.values["w"] for m in sampled_at.sampling.modes.found])
    np.testing.assert_allclose(np.sort(frequencies), [2.0, 2 * np.pi - 2.0], atol=0.01)
    kept = sampled_at.values["w"] < np.pi
    low = np.resize(sampled_at.theta[:, kept], sampled_at.theta.shape)
    (lost,) = searched(alias, low, sampled_at.log_evidence + np.log(kept.mean())).lost
    assert lost.mode.values["w"] == pytest.approx(2 * np.pi - 2.0, abs=0.01)
    assert mode.log_density == max(m.log_density for m in sampled_at.sampling.modes.found)


def test_with_process_noise_a_lost_mode_is_found(gain: BatchTarget, both: ps.Posterior) -> None:
    """The sign of b says nothing with process noise either; the levels of both noises are known, so that particles of
    the run without it are close enough to its posterior, and by symmetry half of the mass is lost."""
    problem = Problem.make(GAIN, GAIN_PRIORS, {"x": 0.05}, [{"x": 0.0}], {"x": 0.001})
    noisy = BatchTarget(problem, gain.solver, gain.records, PARTICLES, default_executor())
    one_sided = both.theta.copy()
    one_sided[list(both.values).index("b")] = np.abs(both.values["b"])
    (lost,) = searched(noisy, one_sided, both.log_evidence - np.log(2)).lost
    assert lost.mode.values["b"] == pytest.approx(-1.5, abs=0.05)
    assert not searched(noisy, both.theta, both.log_evidence).lost


def test_coloured_noise_has_no_search_and_says_so(gain: BatchTarget, both: ps.Posterior) -> None:
    problem = Problem.make(GAIN, GAIN_PRIORS, {"x": ps.Noise(0.05, time=0.3)}, [{"x": 0.0}], {})
    noisy = BatchTarget(problem, gain.solver, gain.records, PARTICLES, default_executor())
    found = search_lost_modes(run_at(gain, both.theta, 0.0), noisy, 0.0, 200.0, seed=0)
    assert "coloured noise" in found.skipped and found.sentence.startswith("modes were not searched")


def test_many_unknowns_have_no_search(gain: BatchTarget, both: ps.Posterior) -> None:
    """A full Hessian in sixty dimensions takes more than a twentieth of a run of 256 particles."""
    run = run_at(gain, both.theta, 0.0)
    wide = replace(run, theta=np.zeros((60, *run.theta.shape[1:])))
    assert "60 unknowns" in search_lost_modes(wide, gain, 0.0, 200.0, seed=0).skipped


@pytest.fixture(scope="module")
def coarse() -> BatchTarget:
    """An oscillation with so few steps that the pilot's density is another one than the filter's."""
    model = ps.Model({"x": 2}, lambda s, u, p: {"x": -(p.w**2) * s.x})
    time = 0.5 * np.arange(40.0)
    noise = 0.3 * np.random.default_rng(2).standard_normal(40)
    record = ps.Record({}, {"x": np.cos(2.0 * time) + noise}, dt=0.5)
    priors = {"w": ps.dist.Normal(2.0, 0.3)}
    problem = Problem.make(model, priors, {"x": 0.3}, [{"x": 1.0, "dx": 0.0}], {})
    return BatchTarget(problem, ps.Solver(), [record], 64, default_executor())


def around(target: BatchTarget, level: int, low: float, high: float) -> IBISState:
    """A run with particles evenly in an interval of w."""
    run = run_at(target.at(level), np.linspace(low, high, 64)[None], 0.0)
    return replace(run, level=level)


def differences(target: BatchTarget, run: IBISState) -> np.ndarray:
    """Log density of the particles by the filter minus that by the pilot."""
    finest = target.at(run.level)
    return LogTarget(finest, 64)(run.flat_theta) - cheap_target(finest, 64, 1)(run.flat_theta)


@pytest.mark.parametrize("level", [0, 1])
def test_modes_are_reported_on_the_scale_of_the_filter(coarse: BatchTarget, level: int) -> None:
    """By what the two differ at the particles, which is 5.6 with one step and 0.15 with two."""
    run = around(coarse, level, 1.996, 1.998)
    shift = float(np.mean(differences(coarse, run)))
    found = search_lost_modes(run, coarse, 0.0, 60.0, seed=0).found[0]
    pilot = cheap_target(coarse.at(level), 64, 1)(np.array([[found.values["w"]]]))[0]
    assert abs(shift) > 0.1
    assert found.log_density == pytest.approx(pilot + shift, abs=0.02)


def test_modes_of_another_density_are_not_reported(coarse: BatchTarget) -> None:
    """Differences of 10 between particles; where one of them has all the weight, there are none."""
    run = around(coarse, 0, 1.97, 2.02)
    assert np.std(differences(coarse, run)) > 3
    assert search_lost_modes(run, coarse, 0.0, 60.0, seed=0).found == ()
    narrow = np.where(np.abs(run.theta[0] - 1.997) < 1e-3, 0.0, -100.0)
    assert search_lost_modes(replace(run, log_weights=narrow), coarse, 0.0, 60.0, seed=0).found
