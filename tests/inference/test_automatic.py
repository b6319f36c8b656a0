"""The default solver: steps chosen from the data, the verdict, and where the uncertainty comes from."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from probsysid.posterior.diagnostics.solver_check import refine_until_adequate
from probsysid.posterior.diagnostics.variance_decomposition import curvature, decompose
from probsysid.posterior.simulate import simulate
from probsysid.smc import ibis
from probsysid.smc.budget import Budget
from tests.smc.conjugate import EnergyTarget, Regression


class Lost(EnergyTarget):
    """No particle survives at any level but the coarsest."""

    pilot = None

    def at(self, level: int) -> EnergyTarget:
        return replace(self, energy=lambda theta, sample: np.full(theta.shape[1], np.nan)) if level else self


# About 9 samples a period: one step of q = 3 is far too coarse.
model = ps.Model(
    {"x": 2},
    lambda s, u, p: {"x": -p.c * s.dx - p.k * s.x - p.k3 * s.x**3},
    lambda s, u, p: {"position": s.x},
    name="free Duffing oscillator",
)
TRUTH = {"c": 0.05, "k": 1.0, "k3": 0.5}
PRIORS = {"c": dist.LogNormal(-3, 0.5), "k": dist.LogNormal(0, 0.3), "k3": dist.LogNormal(-0.7, 0.5)}
NOISE = {"position": 0.02}
SAMPLES, DT = 60, 0.6
SAMPLER = ps.Sampler(particles=256)


@pytest.fixture(scope="module")
def record() -> ps.Record:
    clean = ps.Record(samples=SAMPLES, dt=DT)
    values = {name: np.array([value]) for name, value in TRUTH.items()}
    outputs, _, _ = simulate(model, values, np.array([[1.0], [0.0]]), clean, 64)
    noisy = outputs["position"][0] + 0.02 * np.random.default_rng(3).standard_normal(SAMPLES)
    return clean.replace(outputs={"position": noisy})


def identify(record: ps.Record, **changes: object) -> ps.Posterior:
    initial = {"x": dist.Normal(1.0, 0.05), "dx": dist.Normal(0.0, 0.05)}
    return ps.identify(model, record, PRIORS, NOISE, initial, **({"sampler": SAMPLER} | changes))


@pytest.fixture(scope="module")
def automatic(record: ps.Record) -> ps.Posterior:
    return identify(record)


def test_steps_are_chosen_and_said(automatic: ps.Posterior) -> None:
    assert automatic.setup.solver.substeps > 1
    assert "posterior sd" in automatic.verdict and "negligible" in automatic.verdict
    assert automatic.check is not None and automatic.check.adequate
    assert automatic.check.shape < 0.7


def test_the_truth_is_where_the_posterior_says(automatic: ps.Posterior) -> None:
    for name, value in TRUTH.items():
        assert abs(automatic.mean(name) - value) < 4 * automatic.sd(name)


@pytest.mark.long
def test_as_narrow_as_with_many_steps(automatic: ps.Posterior, record: ps.Record) -> None:
    """Truncated far out, initial values are sampled with a fixed number of steps, too."""
    initial = {"x": dist.TruncatedNormal(1.0, 0.05, low=0.0), "dx": dist.TruncatedNormal(0.0, 0.05, low=-1.0)}
    fine = ps.identify(
        model, record, PRIORS, NOISE, initial, solver=ps.Solver(substeps=16), sampler=ps.Sampler(particles=512), seed=5
    )
    for name in TRUTH:
        assert abs(automatic.mean(name) - fine.mean(name)) < 0.5 * fine.sd(name)
        assert automatic.sd(name) == pytest.approx(fine.sd(name), rel=0.3)


def test_initial_values_are_sampled(automatic: ps.Posterior) -> None:
    assert {"initial.x", "initial.dx"} <= set(automatic.table().index)
    assert abs(automatic.mean("initial.x") - 1.0) < 4 * automatic.sd("initial.x")


def test_shares_add_up_and_integration_has_little(automatic: ps.Posterior) -> None:
    shares = automatic.uncertainty()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (shares["integration"] < 0.3).all()
    assert {"from noise", "from integration"} <= set(automatic.table().columns)


def test_a_coarse_integration_is_what_makes_a_posterior_wide(record: ps.Record) -> None:
    coarse = identify(record, solver=ps.Solver(smoothness=3, substeps=1))
    checked = coarse.checked()
    assert coarse.verdict == checked.verdict
    assert checked.uncertainty().loc["c", "integration"] > 0.7
    assert checked.check is not None and not checked.check.adequate
    assert "not" in checked.verdict
    assert "from integration" in checked.table().columns


def test_given_steps_that_are_too_few_are_said(record: ps.Record) -> None:
    """A noise level fixed far too low drives the damping to where a step is far too long for it, and all populations
    agree: only twice the steps show it."""
    random = np.random.default_rng(0)
    time = 0.5 * np.arange(100)
    force = np.sin(0.9 * time) + np.sin(0.3 * time)
    linear = ps.Model(
        {"x": 2}, lambda s, u, p: {"x": u.u - p.c * s.dx - p.k * s.x}, lambda s, u, p: {"x": s.x}, name="oscillator"
    )
    clean = ps.Record(inputs={"u": force}, samples=100, dt=0.5)
    motion, _, _ = simulate(linear, {"c": np.array([0.2]), "k": np.array([1.0])}, np.zeros((2, 1)), clean, 16)
    noisy = clean.replace(outputs={"x": motion["x"][0] + 0.1 * random.standard_normal(100)})
    priors = {"c": dist.LogNormal(np.log(0.3), 2.0), "k": dist.LogNormal(0.0, 0.7)}

    def found(noise: float) -> ps.Posterior:
        return ps.identify(
            linear, noisy, priors, {"x": noise}, {"x": 0.0, "dx": 0.0}, solver=ps.Solver(substeps=2), sampler=SAMPLER
        )

    wrong, right = found(0.01), found(0.1)
    assert abs(wrong.mean("c") - 0.2) > 10 * wrong.sd("c")
    assert not wrong.check.adequate
    assert (
        wrong.verdict
        == "integration with 2 steps per sample is not accurate enough: with 4 the posterior is another one."
    )
    assert right.check.adequate
    assert abs(right.mean("c") - 0.2) < 4 * right.sd("c")
    assert right.check == right.checked().check


def test_given_steps_are_judged_like_automatic_ones(alone: ps.Posterior) -> None:
    """The same particles with the same steps: the same likelihoods up to rounding, and so the same verdict."""
    given = replace(alone, check=None, variance_shares=None).checked()
    assert given.verdict == alone.verdict
    for name, shift in alone.check.shift.items():
        assert given.check.shift[name] == pytest.approx(shift, abs=1e-6)


def test_the_pilot_judges_as_all_particles_do(automatic: ps.Posterior) -> None:
    """Some of the particles, and far more Runge-Kutta steps: differences are those by a finer filter, up to its own
    remaining error, a sixteenth of the coarser one's at most, and to the noise of 256 draws."""
    assert automatic.check.by_pilot and "of Runge-Kutta" in automatic.verdict
    finer = replace(automatic, check=None, variance_shares=None).checked().check
    assert not finer.by_pilot
    for name, shift in finer.shift.items():
        assert automatic.check.shift[name] == pytest.approx(shift, abs=0.01)
        assert automatic.check.spread[name] == pytest.approx(finer.spread[name], abs=0.01)


@pytest.fixture(scope="module")
def alone(record: ps.Record) -> ps.Posterior:
    return identify(record, solver=ps.Solver(pilot=False), sampler=replace(SAMPLER, recover=False))


def test_the_pilot_makes_no_difference(automatic: ps.Posterior, alone: ps.Posterior) -> None:
    """Means and evidence differ by Monte Carlo errors: those of two runs, of at least 60 effective particles each."""
    assert automatic.settings.sweeps < 0.6 * alone.settings.sweeps
    for name in TRUTH:
        assert min(automatic.sampling.ess[name], alone.sampling.ess[name]) > 60
        assert abs(automatic.mean(name) - alone.mean(name)) < 4 * np.sqrt(2 / 60) * alone.sd(name)
        # the log of a standard deviation from n draws has an error of 1 / sqrt(2 n)
        assert abs(np.log(automatic.sd(name) / alone.sd(name))) < 4 * np.sqrt(2 / 120)
    errors = np.hypot(automatic.log_evidence_error, alone.log_evidence_error)
    assert abs(automatic.log_evidence - alone.log_evidence) < 4 * errors


def test_a_run_that_is_stopped_on_the_pilot_resumes_to_the_same_numbers(
    automatic: ps.Posterior, record: ps.Record, tmp_path: Path
) -> None:
    def strike(run: ibis.IBISState, step: ibis.StepInfo) -> None:
        if run.pilot and run.samples > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        identify(record, checkpoint=tmp_path / "run.npz", notice=strike)
    resumed = identify(record, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(resumed.theta, automatic.theta)
    np.testing.assert_array_equal(resumed.weights, automatic.weights)
    assert resumed.log_evidence == automatic.log_evidence


@pytest.mark.parametrize("pilot", [True, False])
def test_a_stream_decides_the_same(alone: ps.Posterior, record: ps.Record, pilot: bool) -> None:
    """As a batch run that does not recover, whether or not particles follow it with Runge-Kutta steps."""
    batch = identify(record, sampler=replace(SAMPLER, recover=False)) if pilot else alone
    initial = {"x": dist.Normal(1.0, 0.05), "dx": dist.Normal(0.0, 0.05)}
    online = ps.Identifier(model, PRIORS, NOISE, initial, DT, sampler=SAMPLER, solver=ps.Solver(pilot=pilot))
    for value in record.outputs["position"]:
        online.update({}, {"position": value})
    assert online.run.pilot is pilot
    found = online.posterior
    np.testing.assert_array_equal(found.theta, batch.theta)
    np.testing.assert_allclose(found.weights, batch.weights, rtol=1e-9)
    np.testing.assert_allclose(found.evidence_by_population, batch.evidence_by_population, rtol=1e-9)
    np.testing.assert_array_equal(found.history.ess, batch.history.ess)
    assert found.history.rejuvenations == batch.history.rejuvenations
    assert found.setup.solver.substeps == batch.setup.solver.substeps
    checked = found.checked()
    assert checked.doubts == batch.doubts == ()
    if not pilot:  # with one, a batch run is compared with it, not with finer steps
        assert checked.verdict == batch.verdict
    np.testing.assert_allclose(checked.errors[0], batch.errors[0], rtol=1e-6, atol=1e-9)


def test_looking_at_a_stream_changes_nothing(record: ps.Record, tmp_path: Path) -> None:
    """On the pilot, too: neither a look, which goes over to the solver, nor a file."""
    initial = {"x": dist.Normal(1.0, 0.05), "dx": dist.Normal(0.0, 0.05)}
    blind, watched = (ps.Identifier(model, PRIORS, NOISE, initial, DT, sampler=SAMPLER) for _ in range(2))
    for first in range(0, SAMPLES, 15):
        part = {"position": record.outputs["position"][first : first + 15]}
        blind.update({}, part)
        watched.update({}, part)
        early = watched.posterior
        assert early.settings.samples == first + 15
        assert np.shares_memory(watched.posterior.theta, early.theta)  # it is not computed twice
        watched.save(tmp_path / "stream.npz")
        watched = ps.Identifier.load(tmp_path / "stream.npz")
    assert blind.run.pilot and watched.run.pilot
    np.testing.assert_array_equal(watched.run.theta, blind.run.theta)
    np.testing.assert_array_equal(watched.run.log_weights, blind.run.log_weights)
    np.testing.assert_array_equal(watched.posterior.weights, blind.posterior.weights)
    assert len(watched.posterior.history.ess) == SAMPLES


def test_saved_and_loaded(automatic: ps.Posterior, tmp_path) -> None:
    automatic.save(tmp_path / "p.nc")
    loaded = ps.Posterior.load(tmp_path / "p.nc")
    assert loaded.verdict == automatic.verdict
    assert loaded.uncertainty().equals(automatic.uncertainty())
    np.testing.assert_array_equal(loaded.history.log_predictive, automatic.history.log_predictive)


def test_the_split_is_exact_for_gaussians() -> None:
    """Information known, with a source and without it: the variance that goes away is known."""
    random = np.random.default_rng(0)
    without = np.array([[4.0, 1.0], [1.0, 2.0]])
    theta = random.standard_normal((2, 4000))
    theta = np.linalg.solve(np.linalg.cholesky(np.cov(theta, bias=True)), theta - theta.mean(axis=1, keepdims=True))
    difference = 0.5 * np.sum(theta**2, axis=0) - 0.5 * np.sum(theta * (without @ theta), axis=0) + theta[0]
    weights = np.full(4000, 1 / 4000)
    np.testing.assert_allclose(curvature(theta, weights, difference), np.eye(2) - without, atol=1e-10)
    shares = decompose(theta, weights, {"a": 3 + 2 * theta[0], "b": theta[1]}, {"integration": difference})
    np.testing.assert_allclose(shares["integration"], 1 - np.diag(np.linalg.inv(without)), atol=1e-10)
    none = decompose(theta, weights, {"a": theta[0]}, {"integration": np.full(4000, -np.inf)})
    assert np.isnan(none.loc["a", "integration"])
    few = decompose(theta[:, :8], weights[:8], {"a": theta[0, :8]}, {"integration": difference[:8]})
    assert np.isnan(few.loc["a", "integration"])


def test_a_finer_integration_that_loses_everything_loses_nothing_that_there_is() -> None:
    """The last comparison finds no particle alive: the run is kept, and the verdict says that it cannot be trusted."""
    sampler = ps.Sampler(particles=64)
    target = Lost(**vars(Regression.simulated().target()))
    run = replace(ibis.start(target, sampler, 0), samples=1)
    kept, found, _, _ = refine_until_adequate(run, target, sampler, lambda r: {"a": r.flat_theta[0]})
    np.testing.assert_array_equal(kept.theta, run.theta)
    assert not found.adequate and "not accurate enough" in found.verdict


def test_steps_are_refined_as_far_as_the_budget_goes() -> None:
    """Where it is spent, the run is kept with its verdict; tempering to finer steps may take long."""

    class Sharper(EnergyTarget):
        """Every level has twice the energies of the one before."""

        adaptive = True

        def at(self, level: int) -> EnergyTarget:
            return replace(self, energy=lambda theta, sample: 2.0**level * self.energy(theta, sample))

    sampler = ps.Sampler(particles=64)
    target = Sharper(**vars(Regression.simulated().target()))
    run = ibis.start(target, sampler, 0)
    while run.samples < target.samples:
        run, _ = ibis.step(run, target.at(0), sampler)

    def values(run: ibis.IBISState) -> dict[str, np.ndarray]:
        return {"a": run.flat_theta[0]}

    kept, found, _, rejuvenations = refine_until_adequate(run, target, sampler, values, Budget(1.0, spent=2.0))
    assert kept.level == 0 and rejuvenations == () and not found.adequate
    np.testing.assert_array_equal(kept.theta, run.theta)
    finer, _, _, _ = refine_until_adequate(run, target, sampler, values, Budget(np.inf))
    assert finer.level > 0
