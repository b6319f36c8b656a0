"""Blocks of particles on workers give what threads give, whether states are fetched or stay, or are lost on the way."""

from collections.abc import Iterator

import jax
import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from probsysid.model.problem import Problem
from probsysid.parallel import columns
from probsysid.parallel.cluster import Cluster
from probsysid.parallel.columns import RemoteColumns
from probsysid.parallel.threads import Threads
from probsysid.targets.batch_target import BatchTarget
from tests.parallel.clusters import EVERYTHING, NOTHING_FETCHED, cluster

PARTICLES = 512
TIME = 0.1 * np.arange(60)
OUTPUT = np.sin(TIME - 0.8) + 0.1 * np.random.default_rng(0).standard_normal(60)
RECORD = ps.Record({"u": np.sin(TIME)}, {"x": OUTPUT}, dt=0.1, intersample="linear")
RECORDS = (RECORD, RECORD[:20])
LAG = ps.Model({"x": 1}, lambda s, u, p: {"x": p.gain * u.u - s.x / p.tau})
PRIORS = {"gain": dist.LogNormal(0, 1), "tau": dist.LogNormal(0, 1)}
NOISE = {"x": dist.LogNormal(-2, 1)}
SOLVER = ps.Solver(substeps=1)


@pytest.fixture(scope="module", params=[EVERYTHING, NOTHING_FETCHED], ids=["fetched", "kept"])
def workers(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with cluster(exchange=request.param) as found:
        yield found


def target(executor: ps.Threads | Cluster, particles: int = PARTICLES) -> BatchTarget:
    problem = Problem.make(LAG, PRIORS, NOISE, [{"x": 0.0}] * 2, None)
    return BatchTarget(problem, SOLVER, RECORDS, particles, executor)


def draws(particles: int = PARTICLES) -> np.ndarray:
    return np.array(target(Threads(1)).sample_prior(jax.random.key(0), particles))


@pytest.mark.parametrize("stop", [1, 30, 60, 61, 80])
def test_sweeps_are_the_same_to_the_last_bit(workers: Cluster, stop: int) -> None:
    theta = draws()
    theta[0, 3] = np.nan  # a particle that is lost
    _, *expected = target(Threads(1)).sweep(theta, stop)
    state, *found = target(workers).sweep(theta, stop)
    np.testing.assert_array_equal(found, expected)
    assert isinstance(state, RemoteColumns) == (workers.exchange == NOTHING_FETCHED)


def test_states_are_resampled_moved_and_carried_on(workers: Cluster) -> None:
    """What the sampler does with states: copies of some, others for those that were accepted, and on."""
    theta, random = draws(), np.random.default_rng(1)
    ancestors, accepted = random.integers(0, PARTICLES, PARTICLES), random.random(PARTICLES) < 0.5
    proposals = theta[:, ::-1] + 0.01
    results = []
    for executor in (Threads(1), workers):
        own = target(executor)
        old, _ = columns.take(own.sweep(theta, 30)[0], ancestors), None
        new, _, _ = own.sweep(proposals, 30)
        state = columns.select(accepted, new, old)
        moved = np.where(accepted, proposals, theta[:, ancestors])
        state, first = own.advance(state, moved, 30, 34)
        _, second = own.advance(state, moved, 34, 40)
        results.append(np.concatenate([np.asarray(first)[:4], np.asarray(second)[:6]]))
    np.testing.assert_array_equal(*results)


def test_states_that_are_lost_are_computed_anew(workers: Cluster) -> None:
    theta, own = draws(), target(workers)
    state, _, _ = own.sweep(theta, 30)
    _, expected = own.advance(state, theta, 30, 40)
    if isinstance(state, RemoteColumns):
        workers.client.cancel(list(state.sources), force=True)
    else:
        state = RemoteColumns.of([_Lost()] * 4, PARTICLES // 4, PARTICLES)
    _, found = own.advance(state, theta, 30, 40)
    np.testing.assert_array_equal(found, expected)


class _Lost:
    """A handle of what is lost."""

    status = "cancelled"


def test_the_last_block_is_padded(workers: Cluster) -> None:
    theta = draws(300)
    expected = target(Threads(1), 300).sweep(theta, 80)[1:]
    found = target(workers, 300).sweep(theta, 80)[1:]
    # the ends of blocks may be computed otherwise than their middle: rounding of sums over 80 samples
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_weighted_errors_are_summed_over_blocks(workers: Cluster) -> None:
    theta, weights = draws(), np.random.default_rng(2).dirichlet(np.ones(PARTICLES))
    expected = target(Threads(1)).one_step_errors(theta, weights)
    for found, known in zip(target(workers).one_step_errors(theta, weights), expected, strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-10, atol=1e-12)  # sums in another order


def test_little_work_stays_in_this_process() -> None:
    class Refusing(Cluster):
        """Sends nothing."""

        def __init__(self) -> None:
            pass

        def evaluate(self, *_: object, **__: object) -> tuple[list, list]:
            raise AssertionError("a task was sent")

        def slices(self, particles: int) -> tuple[slice, ...]:
            return (slice(0, particles),)

        def run(self, tasks):
            return Threads(1).run(tasks)

        def mesh(self, particles: int) -> None:
            return None

    own = target(Refusing())
    np.testing.assert_array_equal(own.sweep(draws(), 80)[1:], target(Threads(1)).sweep(draws(), 80)[1:])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::probsysid.ModelWarning")
def test_whole_runs_are_the_same_to_the_last_bit(workers: Cluster) -> None:
    """Adaptive steps, resampling, moves, checks; and a number of particles that does not fill its blocks."""
    given = {"priors": PRIORS, "noise": NOISE, "initial": {"x": 0.0}, "sampler": ps.Sampler(particles=PARTICLES)}
    one = ps.identify(LAG, RECORDS, executor=Threads(1), **given)
    many = ps.identify(LAG, RECORDS, executor=workers, **given)
    np.testing.assert_array_equal(many.theta, one.theta)
    np.testing.assert_array_equal(many.weights, one.weights)
    assert many.log_evidence == one.log_evidence


def test_an_online_run_is_refused() -> None:
    with cluster(1) as found, pytest.raises(ps.InputError, match="finished records"):
        ps.Identifier(LAG, PRIORS, NOISE, {"x": 0.0}, dt=0.1, executor=found)
