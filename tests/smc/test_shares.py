"""Shares of particles: every particle on one host, about as many on each."""

from types import SimpleNamespace

import numpy as np
import pytest

from probsysid import hosts
from probsysid.smc.shares import FINENESS, chosen, copied, here, portion


@pytest.mark.parametrize("particles", [8, 64, 1000, 1020, 1024, 2**15])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8])
def test_every_particle_is_on_one_host(particles: int, count: int) -> None:
    found = []
    for index in range(count):
        token = hosts._working.set(SimpleNamespace(count=count, index=index))
        found.append(np.arange(particles)[portion(particles)])
        hosts._working.reset(token)
    np.testing.assert_array_equal(np.concatenate(found), np.arange(particles))
    sizes = [len(part) for part in found]
    # one grain, or one particle where there are too few for grains
    assert max(sizes) - min(sizes) <= max(1, particles / (FINENESS * count))


def test_1024_on_three_hosts_can_be_dealt_out_to_eight_cores_each() -> None:
    sizes = []
    for index in range(3):
        token = hosts._working.set(SimpleNamespace(count=3, index=index))
        sizes.append(len(range(1024)[portion(1024)]))
        hosts._working.reset(token)
    assert sizes == [336, 344, 344]  # multiples of 8


def test_alone_a_state_is_whole() -> None:
    state = np.arange(12.0).reshape(2, 6)
    assert portion(6) == slice(0, 6)
    np.testing.assert_array_equal(here(state, 6), state)
    np.testing.assert_array_equal(copied(state, np.array([5, 5, 0])), state[:, [5, 5, 0]])
    flags = np.array([True, False] * 3)
    np.testing.assert_array_equal(chosen(flags, -state, state), np.where(flags, -state, state))
