"""Smoothed states of particles that do not fit into memory together."""

import jax
import numpy as np
import pytest

import probsysid as ps
from probsysid import states
from probsysid.odefilter.samples import prepare
from probsysid.odefilter.step import Particle


@pytest.mark.long
def test_groups_of_particles_give_the_same_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three particles at once, or two and one: the same moments; paths are other draws of the same law."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": -p.rate * s.x})
    time = 0.1 * np.arange(12)
    record = ps.Record(outputs={"x": np.exp(-time) + 0.01 * np.cos(50 * time)}, dt=0.1)
    system = ps.Solver(smoothness=1).system(model, record.jump_order)
    samples = prepare(record, system, 1)
    ones = np.ones(3)
    particles = Particle({"rate": np.array([0.8, 1.0, 1.2])}, [0.1 * ones], [ones], [0 * ones])
    assert len(states._groups(3, samples, 2)) == 1
    together = states.smoothed_states(system, particles, samples, record, seed=0)
    monkeypatch.setattr(states, "MEMORY", 2 * 8 * states.MATRICES * 4 * 12)
    assert [len(group) for group in states._groups(3, samples, 2)] == [2, 1]
    apart = states.smoothed_states(system, particles, samples, record, seed=0)
    found, expected = ((s.mean, s.sd, s.innovations) for s in (apart, together))
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-15)  # the same operations on other shapes
    assert apart.paths["x"].shape == (3, 12) and np.all(np.isfinite(apart.paths["x"]))
