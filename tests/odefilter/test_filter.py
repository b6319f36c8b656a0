"""The filter over many particles: blocks, chunks, and particles that come to grief."""

import time
from typing import Any

import jax
import numpy as np
import pytest

from probsysid.model.particle import Particle
from probsysid.odefilter.filter import VectorisedFilter, totals
from probsysid.odefilter.linearise import EKF1
from tests.odefilter.cases import Blocks, Case, physical_mean
from tests.odefilter.problems import duffing, multisine, step_times
from tests.odefilter.textbook import textbook_energies

SAMPLES = 60


def duffing_case(particles: int, smoothness: int = 3, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    t = 0.1 * np.arange(SAMPLES)
    frequencies, phases = np.array([0.1, 0.25, 0.6]), np.array([0.0, 1.0, 2.0])
    return Case(
        duffing(),
        (smoothness,),
        time=t,
        outputs=np.sin(t)[:, None] + 0.1 * rng.normal(size=(SAMPLES, 1)),
        noise=np.full((1, particles), 0.1),
        initial_mean=rng.normal(size=(2, particles)),
        initial_sd=np.full((2, particles), 0.3),
        parameters={
            "m": rng.uniform(0.8, 1.2, particles),
            "c": rng.uniform(0.1, 0.4, particles),
            "k": rng.uniform(0.8, 1.2, particles),
            "k3": rng.uniform(0.1, 0.5, particles),
        },
        grid=multisine(step_times(t, 1), frequencies, phases, 0),
        inputs=multisine(t, frequencies, phases, smoothness)[:, None, :],
    )


@pytest.fixture(scope="module")
def case() -> Case:
    return duffing_case(particles=37)


@pytest.fixture(scope="module")
def blocks(case: Case) -> VectorisedFilter:
    """Blocks of 8: five of them, the last one padded."""
    return Blocks(case.ode_filter, 8)


@pytest.fixture(scope="module")
def energies(case: Case, blocks: VectorisedFilter) -> np.ndarray:
    return case.energies(blocks)


def select(particles: Particle, index: Any) -> Particle:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[..., index], particles)


def test_energies_are_the_textbook_filters(case: Case, energies: np.ndarray) -> None:
    """Well-scaled: round-off only."""
    some = [0, 7, 8, 36]
    chosen = case.change(
        parameters={name: value[some] for name, value in case.parameters.items()},
        noise=case.noise[:, some],
        initial_mean=case.initial_mean[:, some],
        initial_sd=case.initial_sd[:, some],
    )
    np.testing.assert_allclose(energies[:, some], textbook_energies(chosen), rtol=1e-10, atol=1e-10)


def test_default_blocks_fit_the_cache(case: Case) -> None:
    """A power of two between 8 and 64."""
    assert VectorisedFilter(case.ode_filter).block in (8, 16, 32, 64)


def test_block_size_does_not_matter(case: Case, energies: np.ndarray) -> None:
    """All in one block.  The compiler may order sums differently for another shape: round-off."""
    np.testing.assert_allclose(case.energies(Blocks(case.ode_filter, 64)), energies, rtol=1e-12, atol=1e-12)


def test_order_of_particles_does_not_matter(case: Case, blocks: VectorisedFilter, energies: np.ndarray) -> None:
    """The same program on other lanes: every bit the same."""
    order = np.random.default_rng(1).permutation(case.particles)
    shuffled = select(case.particle, order)
    packed, _ = blocks.start(shuffled, case.rows)
    _, found = blocks.advance(packed, shuffled, case.rows, 1, SAMPLES)
    np.testing.assert_array_equal(np.array(found)[:-1], energies[1:, order])


def test_a_range_may_be_split(case: Case, blocks: VectorisedFilter, energies: np.ndarray) -> None:
    """[1, 60) in one call, or in three: every bit of state and energies the same; zero below them."""
    packed, _ = blocks.start(case.particle, case.rows)
    whole, _ = blocks.advance(packed, case.particle, case.rows, 1, SAMPLES)
    for first, last in [(1, 20), (20, 21), (21, SAMPLES)]:
        packed, part = blocks.advance(packed, case.particle, case.rows, first, last)
        np.testing.assert_array_equal(np.array(part)[: last - first], energies[first:last])
        assert not np.any(np.array(part)[last - first :])
    np.testing.assert_array_equal(np.array(packed), np.array(whole))


def test_energies_may_be_fewer_than_samples(case: Case, blocks: VectorisedFilter, energies: np.ndarray) -> None:
    """Five rows of them: right where the range is no longer, and states are whatever the range."""
    few = VectorisedFilter(case.ode_filter, rows=5)
    packed, _ = few.start(case.particle, case.rows)
    whole, _ = few.advance(packed, case.particle, case.rows, 1, SAMPLES)
    np.testing.assert_allclose(np.array(whole), case.run(blocks)[1], rtol=1e-12, atol=1e-12)
    for first in range(1, SAMPLES, 5):
        last = min(first + 5, SAMPLES)
        packed, part = few.advance(packed, case.particle, case.rows, first, last)
        assert part.shape == (5, case.particles)
        np.testing.assert_allclose(np.array(part)[: last - first], energies[first:last], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.array(packed), np.array(whole))


def test_a_state_knows_the_sum_of_its_energies(case: Case, blocks: VectorisedFilter) -> None:
    """All but the newest, and the newest; summed in the order of time."""
    energies, packed = case.run(blocks)
    earlier, newest = totals(packed)
    np.testing.assert_array_equal(newest, energies[-1])
    np.testing.assert_allclose(earlier, energies[:-1].sum(axis=0), rtol=1e-12)


def test_an_empty_range_changes_nothing(case: Case, blocks: VectorisedFilter) -> None:
    packed, _ = blocks.start(case.particle, case.rows)
    same, energies = blocks.advance(packed, case.particle, case.rows, 7, 7)
    np.testing.assert_array_equal(np.array(same), np.array(packed))
    assert not np.any(np.array(energies))


def test_states_may_be_resampled(case: Case, blocks: VectorisedFilter, energies: np.ndarray) -> None:
    """A packed state is columns of particles: pick columns midway, go on with the same particles."""
    chosen = np.random.default_rng(2).integers(0, case.particles, case.particles)
    packed, _ = blocks.start(case.particle, case.rows)
    packed, _ = blocks.advance(packed, case.particle, case.rows, 1, 30)
    packed, particles = np.array(packed)[:, chosen], select(case.particle, chosen)
    _, found = blocks.advance(packed, particles, case.rows, 30, SAMPLES)
    np.testing.assert_array_equal(np.array(found)[: SAMPLES - 30], energies[30:, chosen])


@pytest.mark.parametrize(
    "changes",
    [
        {"k3": 1e6},  # explodes: a stiff cubic spring and a step far too long
        {"c": -1e5},  # explodes: negative damping
        {"c": 1e5},  # stiff: the Taylor series of its initial layer reaches far beyond one step
        {"m": 0.0},  # divides by zero
        {"k": np.nan},
        {"c": 1e300},
        {"k": -1e200},
    ],
    ids=str,
)
def test_a_bad_particle_has_a_non_finite_energy_and_harms_no_other(
    case: Case, blocks: VectorisedFilter, energies: np.ndarray, changes: dict[str, float]
) -> None:
    bad = 10  # in the middle of the second block
    parameters = {name: np.array(value) for name, value in case.parameters.items()}
    for name, value in changes.items():
        parameters[name][bad] = value
    found = case.change(parameters=parameters).energies(blocks)
    assert not np.isfinite(found[:, bad].sum())
    others = np.delete(np.arange(case.particles), bad)
    np.testing.assert_array_equal(found[:, others], energies[:, others])


@pytest.mark.long
def test_a_million_steps_at_q_5_stay_finite() -> None:
    """A forced, damped oscillator of order 2, q = 5, 8 particles in one block; the state stays on its orbit."""
    chunk, chunks = 50_000, 20
    frequency, dt = 0.5, 0.05
    angular = 2 * np.pi * frequency
    # The chunk is a whole number of periods, so the same samples serve again and again.
    assert (chunk * dt * frequency) % 1 == 0
    t = dt * np.arange(chunk + 1)
    force = np.stack([angular**k * np.cos(angular * t + k * np.pi / 2) for k in range(6)], axis=-1)
    rng = np.random.default_rng(0)
    particles = 8
    damping, stiffness = rng.uniform(0.2, 0.4, particles), rng.uniform(4, 6, particles)
    case = Case(
        duffing(),
        (5,),
        time=t,
        outputs=np.full((chunk + 1, 1), np.nan),
        noise=np.full((1, particles), 0.05),
        initial_mean=rng.normal(size=(2, particles)),
        initial_sd=np.full((2, particles), 0.1),
        parameters={
            "m": np.ones(particles),
            "c": damping,
            "k": stiffness,
            "k3": np.zeros(particles),
        },
        grid=force[:, None, :1],
        inputs=force[:, None, :],
        linearisation=EKF1(),
    )
    # Data every tenth sample, from the true response of particle 0.
    response = 1 / (stiffness - angular**2 + 1j * damping * angular)
    truth = np.real(response[0] * np.exp(1j * angular * t))
    outputs = np.full((chunk + 1, 1), np.nan)
    outputs[10::10, 0] = (truth + 0.05 * rng.normal(size=chunk + 1))[10::10]
    case = case.change(outputs=outputs)
    filter = VectorisedFilter(case.ode_filter)
    assert filter.block >= particles
    began = time.perf_counter()
    packed, _ = filter.start(case.particle, case.rows)
    for _ in range(chunks):
        packed, energies = filter.advance(packed, case.particle, case.rows, 1, chunk + 1)
        assert np.all(np.isfinite(energies))
        assert np.all(np.isfinite(packed))
    assert time.perf_counter() - began < 60  # about 5 s alone on the machine; a guard, not a benchmark
    # After a million steps: the steady state of every particle within what data of another's could move it.
    found = physical_mean(case, np.array(packed))
    assert np.abs(found[0, 0] - truth[-1]) < 0.02
    assert np.all(np.abs(found[0]) < 2 * np.abs(response) + 0.05)
