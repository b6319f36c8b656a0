"""A sweep that dispatches its calls ahead equals one that waits for each; records do not influence each other."""

import jax
import numpy as np
import pytest

from probsysid.model.problem import Problem
from probsysid.parallel.threads import Threads
from probsysid.smc.target import sweep_by_advance
from probsysid.targets.batch_target import BatchTarget
from probsysid.targets.filter_target import Batching
from tests import duffing


@pytest.fixture(scope="module")
def target() -> BatchTarget:
    """Eight samples per chunk, five per call in a sweep, energies of three."""
    options = duffing.options()
    problem = Problem.make(duffing.model, options["priors"], options["noise"], [options["initial"]] * 2, None)
    record = duffing.measure(40)
    batching = Batching(chunk=8, longest_call=16 * 5, fewest_rows=3, most_rows=3)
    return BatchTarget(problem, duffing.SOLVER, [record, record[:25]], 16, Threads(1), batching=batching)


@pytest.mark.parametrize("stop", [1, 2, 9, 10, 40, 41, 49, 65])
def test_likelihoods_are_those_of_one_call_after_the_other(target: BatchTarget, stop: int) -> None:
    theta = np.array(target.sample_prior(jax.random.key(0), 16))
    theta[0, 3] = np.nan  # a particle that is lost
    _, likelihood, energy = target.sweep(theta, stop)
    _, expected, last = sweep_by_advance(target, theta, stop)
    np.testing.assert_allclose(likelihood, expected, rtol=1e-12)
    np.testing.assert_array_equal(energy, last)
    lost = np.isinf(energy - likelihood)
    np.testing.assert_array_equal(lost, (np.arange(16) == 3) & (stop > 1))  # the first sample does not feel the mass


@pytest.mark.parametrize("cores", [1, 2])
def test_few_particles_need_no_program_of_their_own(cores: int) -> None:
    """They take the places of as many as usual, of which only theirs are computed: by the same program, to the bit."""
    options = duffing.options()
    problem = Problem.make(duffing.model, options["priors"], options["noise"], [options["initial"]], None)
    usual = BatchTarget(problem, duffing.SOLVER, [duffing.measure(40)], 128, Threads(cores, fewest=16))
    theta = np.array(usual.sample_prior(jax.random.key(0), 128))
    state, likelihood, energy = usual.sweep(theta, 40)
    programs = usual.filters[0].programs
    for count in (1, 3, 40):
        some, some_likelihood, some_energy = usual.sweep(theta[:, :count], 40)
        np.testing.assert_array_equal(some, np.asarray(state)[:, :count])
        np.testing.assert_array_equal(some_likelihood, likelihood[:count])
        np.testing.assert_array_equal(some_energy, energy[:count])
    weights = np.where(np.arange(128) < 40, 1 / 40, 0.0)
    (all_errors,), (errors,) = usual.one_step_errors(theta, weights), usual.one_step_errors(theta[:, :40], weights[:40])
    np.testing.assert_allclose(errors, all_errors, rtol=1e-12)
    assert usual.filters[0].programs == programs


def test_errors_on_each_record_are_its_own(target: BatchTarget) -> None:
    """The second record is the beginning of the first, and starts as it does: so do its errors."""
    names = list(target.problem.space.names)
    theta = np.array(target.sample_prior(jax.random.key(0), 16))
    for row, name in enumerate(names):
        theta[row] = theta[names.index(name.replace("initial[1]", "initial[0]"))]
    first, second = target.one_step_errors(theta, np.full(16, 1 / 16))
    assert first.shape == (40, 1) and np.all(np.isfinite(first[1:]))
    np.testing.assert_allclose(second, first[:25], rtol=1e-12)
