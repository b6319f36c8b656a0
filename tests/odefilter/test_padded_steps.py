"""One program for any number of steps: energies do not depend on the padding of the arrays of steps."""

import numpy as np
import pytest

import probsysid as ps
from probsysid.model.particle import Particle
from probsysid.odefilter.filter import VectorisedFilter
from probsysid.odefilter.filter_inputs import prepare, with_room
from probsysid.odefilter.packed_samples import PackedSamples

STEPS = (1, 2, 5, 8)

model = ps.Model(
    {"x": 2, "z": 1},
    lambda s, u, p: {"x": u.force - p.c * s.dx - s.x**3 - s.z, "z": s.dx - p.c * s.z},
    lambda s, u, p: {"position": s.x, "acceleration": s.ddx},
)


@pytest.fixture(scope="module", params=["zoh", pytest.param("periodic", marks=pytest.mark.long)])
def case(request: pytest.FixtureRequest) -> tuple[VectorisedFilter, ps.Record, Particle]:
    """With restarts and without."""
    random = np.random.default_rng(0)
    record = ps.Record(
        inputs={"force": random.standard_normal(12)},
        outputs={"position": random.standard_normal(12), "acceleration": random.standard_normal(12)},
        dt=0.2,
        intersample=request.param,
    )
    c = np.array([0.1, 0.3, 0.5])
    ones = np.ones_like(c)
    particles = Particle({"c": c}, [ones, ones], [0 * c, ones, c], [0.1 * ones, ones, 0 * ones])
    return (
        VectorisedFilter(ps.Solver(smoothness={"x": 3, "z": 1}).ode_filter(model, record.jump_order)),
        record,
        particles,
    )


def energies(case: tuple[VectorisedFilter, ps.Record, Particle], steps: int, room: bool) -> np.ndarray:
    filter, record, particles = case
    prepared = prepare(record, filter.ode_filter, steps)
    samples = PackedSamples.of(with_room(prepared) if room else prepared)
    state, first = filter.start(particles, samples)
    _, rest = filter.advance(state, particles, samples.changed(lambda numbers: numbers[1:]), 0, 11)
    return np.concatenate([np.asarray(first), np.asarray(rest)])


@pytest.mark.long
@pytest.mark.parametrize("steps", [1, 2])
def test_energies_are_those_of_separate_steps(case: tuple[VectorisedFilter, ps.Record, Particle], steps: int) -> None:
    np.testing.assert_allclose(energies(case, steps, room=True), energies(case, steps, room=False), rtol=1e-11)


def test_one_program_serves_all(case: tuple[VectorisedFilter, ps.Record, Particle]) -> None:
    energies(case, 1, room=True)
    compiled = case[0].programs
    found = [energies(case, steps, room=True) for steps in STEPS]
    assert case[0].programs == compiled
    assert len({float(np.sum(energy)) for energy in found}) == len(STEPS)
