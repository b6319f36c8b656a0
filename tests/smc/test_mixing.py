"""When moves have done enough."""

from dataclasses import replace

import numpy as np
import pytest

from probsysid import Sampler
from probsysid.smc import ibis
from probsysid.smc.mixing import FORGOTTEN, LONGER, PROGRESS, correlation, walked_enough
from tests.smc.conjugate import Regression

MEMBERS = (4, 5000)


def correlated(rho: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Positions in three dimensions, the first two nearly the same; only their difference is remembered."""
    random = np.random.default_rng(seed)
    first, second = random.standard_normal((2, 3, *MEMBERS))
    second[1] = rho * first[1] + np.sqrt(1 - rho**2) * second[1]
    mix = np.array([[1.0, 0.01, 0.0], [1.0, -0.01, 0.0], [0.0, 0.0, 1e6]])
    return np.tensordot(mix, first, axes=1), np.tensordot(mix, second, axes=1)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.95])
def test_the_slowest_axis_counts(rho: float) -> None:
    """Even one along which particles hardly differ, in whatever units; of 20000, the error is 0.007."""
    assert correlation(*correlated(rho)) == pytest.approx(rho, abs=0.03)


def test_particles_that_stay() -> None:
    before, _ = correlated(0.0)
    assert correlation(before, before) == pytest.approx(1.0)


def test_a_walk_ends_when_it_has_forgotten() -> None:
    assert walked_enough([FORGOTTEN], 10)
    assert not walked_enough([0.9, FORGOTTEN + 0.01], 10)


def test_a_walk_goes_on_as_long_as_it_leads_on() -> None:
    """Half as many moves back as independent proposals may take: the correlation must have fallen since."""
    falling = [1 - 1.1 * PROGRESS / 5 * k for k in range(1, 200)]
    assert not any(walked_enough(falling[:k], 10) for k in range(1, 50))
    assert walked_enough(falling[: 10 * LONGER], 10)
    slow = [1 - 0.9 * PROGRESS / 5 * k for k in range(1, 200)]
    assert not any(walked_enough(slow[:k], 10) for k in range(1, 10))
    assert walked_enough(slow[:10], 10)


def test_walks_take_as_many_moves_as_they_need() -> None:
    """In eight dimensions one step of a walk is short: nearly all particles have moved long before they are mixed."""
    random = np.random.default_rng(0)
    design = random.standard_normal((30, 8))
    outputs = design @ random.standard_normal(8) + 0.5 * random.standard_normal(30)
    problem = Regression(design, outputs, np.full(30, 0.5), np.zeros(8), np.ones(8))
    sampler = Sampler(particles=256, move="random-walk")
    target, moves = problem.target(), []
    for seed in range(3):
        run = ibis.start(target, sampler, seed)
        while run.samples < len(outputs):
            run, step = ibis.step(run, target, sampler)
            moves += [r.moves for r in step.rejuvenations]
    assert max(moves) <= LONGER * sampler.max_moves
    assert np.mean(moves) > 12  # 8 until nearly all have moved


def test_independent_proposals_stop_when_all_have_moved() -> None:
    problem = Regression.simulated()
    sampler = Sampler(particles=256, move="student")
    target = problem.target()
    run, cut = ibis.start(target, sampler, 0), replace(sampler, moved=0.01)
    _, step = ibis.step(run, target, sampler)
    _, short = ibis.step(run, target, cut)
    assert [r.moves for r in short.rejuvenations] == [1] * len(short.rejuvenations)
    assert all(r.moved >= sampler.moved or r.moves == sampler.max_moves for r in step.rejuvenations)
