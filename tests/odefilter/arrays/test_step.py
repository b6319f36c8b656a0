"""The array form of the filter agrees with the unrolled one, and with the joint Gaussian of a large linear system.

Small models are forced into the array form.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import probsysid as ps
from probsysid.model.model import Model
from probsysid.odefilter.arrays.batched import Batched
from probsysid.odefilter.arrays.lapack import Lapack
from probsysid.odefilter.arrays.sqrt_algebra import GaussianConditional
from probsysid.odefilter.arrays.step import ArrayFilter, as_array_filter
from probsysid.odefilter.diffusion import Dynamic, Fixed, QuasiMLE
from probsysid.odefilter.filter import VectorisedFilter
from probsysid.odefilter.filter_inputs import with_room
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.linearise import EKF0, EKF1
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.smoothing.backward_kernels import StateSpaceOps
from probsysid.odefilter.smoothing.smoother import SmootherChunk, backward_kernels, smooth
from probsysid.odefilter.smoothing.trajectory import Trajectory, trace
from probsysid.odefilter.solver import LARGEST_UNROLLED
from probsysid.odefilter.unrolled.step import UnrolledFilter
from tests.odefilter.bruteforce import joint_gaussian
from tests.odefilter.cases import Blocks, Case
from tests.odefilter.problems import random_case
from tests.odefilter.test_any_mix import ERROR, structure
from tests.odefilter.test_linear_gaussian import assert_same
from tests.odefilter.textbook import textbook_energies

# Numbers of order one in up to 9 components; the same operations in another order.  Largest difference seen: 4e-12.
TOLERANCE = 1e-9


# Compiled, in blocks


class Compiled(NamedTuple):
    """The array form of a case that exercises every part of a step, and the textbook's energies."""

    case: Case
    filter: VectorisedFilter
    sample: PackedSamples
    """Padded to more steps than there are."""
    energies: np.ndarray


@pytest.fixture(scope="module", params=[Batched(), Lapack()], ids=["batched", "LAPACK"])
def compiled(request: pytest.FixtureRequest) -> Compiled:
    """Orders 2 and 1, two outputs, missing data, jumps, two steps per interval of varying length, five particles in
    blocks of two."""
    settings: Any = {"missing": 0.3, "uniform": False, "restarts": True, "substeps": 2, "diffusion": QuasiMLE()}
    case = random_case(np.random.default_rng(5), **structure((2, 1), (3, 1), 2, **settings))
    ode_filter = replace(as_array_filter(case.ode_filter), algebra=request.param)
    return Compiled(case, Blocks(ode_filter, 2), PackedSamples.of(with_room(case.sample)), textbook_energies(case))


def energies(compiled: Compiled, particles: Any) -> np.ndarray:
    case, filter, sample, _ = compiled
    packed, first = filter.start(particles, sample)
    _, rest = filter.advance(packed, particles, sample, 1, case.samples)
    return np.concatenate([np.array(first), np.array(rest)[: case.samples - 1]])


def test_energies_are_the_textbook_filters(compiled: Compiled) -> None:
    found = energies(compiled, compiled.case.particle)
    np.testing.assert_allclose(found, compiled.energies, rtol=TOLERANCE, atol=TOLERANCE)


def test_errors_make_up_the_energy(compiled: Compiled) -> None:
    """Whitened errors of each output, in two calls; where only one output was measured, the energy minus half the
    squared error is the logarithm of a standard deviation, which exceeds that of the noise."""
    case, filter, sample, expected = compiled
    packed, _ = filter.start(case.particle, sample)
    whole, _ = filter.advance(packed, case.particle, sample, 1, case.samples)
    white = []
    for output in range(2):
        half, first = filter.advance(packed, case.particle, sample, 1, 3, output)
        end, second = filter.advance(half, case.particle, sample, 3, case.samples, output)
        # The last two rows are sums of other quantities.
        np.testing.assert_array_equal(np.array(end)[:-2], np.array(whole)[:-2])
        white.append(np.concatenate([np.array(first)[:2], np.array(second)[: case.samples - 3]]))
    missing = np.isnan(case.outputs[1:])
    for output in range(2):
        assert np.all((white[output] == 0) == missing[:, output, None])
        alone = ~missing[:, output] & missing[:, 1 - output]
        assert np.any(alone)
        logarithm = (expected[1:] - 0.5 * white[output] ** 2)[alone] - 0.5 * np.log(2 * np.pi)
        assert np.all(logarithm > np.log(case.noise[output]))
    assert filter.programs == 1


def test_a_diverged_particle_does_not_affect_the_others(compiled: Compiled) -> None:
    case = compiled.case
    broken = [np.array([np.inf, *values[1:]]) for values in case.initial_mean]
    found = energies(compiled, case.particle._replace(initial_mean=broken))
    assert not np.any(np.isfinite(found[1:, 0][~np.all(np.isnan(case.outputs[1:]), axis=1)]))
    np.testing.assert_allclose(found[:, 1:], compiled.energies[:, 1:], rtol=TOLERANCE, atol=TOLERANCE)


# All settings, filtering and smoothing

STRUCTURES = {
    "missing data, diffusion estimated": structure((2,), (3,), 2, missing=0.3),
    "mixed orders, irregular steps, model error": structure(
        (2, 1), (3, 1), 3, diffusion=Dynamic(4.0, coupled=True), uniform=False, process_noise=ERROR
    ),
    "jumps, substeps": structure(
        (1,), (3,), 2, diffusion=Dynamic(1.0, floor=0.3), restarts=True, substeps=2, uniform=False
    ),
    "ODE up to noise, jumps": structure(
        (1, 1), (1, 2), 2, diffusion=Fixed((0.7, 1.3)), restarts=True, uniform=False, ode_noise=0.2
    ),
    "EKF0, solver": structure((3,), (4,), 1, linearisation=EKF0(), joint=False, missing=0.3, process_noise=ERROR[:1]),
    "EKF0, ODE up to noise": structure((1, 2), (2, 2), 2, linearisation=EKF0(), ode_noise=0.2, missing=0.3),
    "iterated, three coordinates": structure(
        (1, 2, 1), (1, 3, 2), 2, linearisation=EKF1(iterations=2), diffusion=Dynamic(1.0)
    ),
    "solver, jumps": structure((1, 2), (1, 3), 1, joint=False, restarts=True),
}


QUICK = "EKF0, ODE up to noise"


def kernels_of(trajectory: Trajectory, layout: Layout) -> GaussianConditional:
    """The backward kernel of each point."""
    known = jax.tree.map(lambda leaf: leaf[:-1], (trajectory.filtered, trajectory.departing, trajectory.departed))
    units = layout.scales(np.diff(trajectory.time))
    disturbed = jax.tree.map(lambda leaf: leaf[1:], trajectory.disturbed)
    chunk = SmootherChunk(*known, None, trajectory.variance[1:], units, disturbed, np.full(len(units), True))
    return backward_kernels(StateSpaceOps(layout), trajectory.free, trajectory.kept, chunk)


@pytest.mark.parametrize("name", [n if n == QUICK else pytest.param(n, marks=pytest.mark.long) for n in STRUCTURES])
def test_agrees_with_the_unrolled_form(name: str) -> None:
    """Energies, innovations, diffusions, filtered and smoothed moments, and the backward kernels that sample paths are
    drawn from; filtered factors as well, since both forms take the triangular one."""
    case = random_case(np.random.default_rng(3), **STRUCTURES[name])
    traced = [
        trace(ode_filter, case.particle, case.sample, case.time)
        for ode_filter in (as_array_filter(case.ode_filter), case.ode_filter)
    ]
    backward = []
    for trajectory in traced:
        smoothed, kernels = smooth(trajectory, case.layout), kernels_of(trajectory, case.layout)
        # Factors are rank-deficient and so unique up to a rotation only.
        covariance = np.einsum("pikn,pjkn->pijn", kernels.factor, kernels.factor)
        backward.append((smoothed.mean, smoothed.sd, kernels.gain, kernels.offset, covariance))
    pairs = zip(*map(jax.tree.leaves, zip(traced, backward, strict=True)), strict=True)
    for found, expected in pairs:
        found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        # Each entry relative to the largest of its kind over time.
        size = np.maximum(np.nanmax(np.abs(expected), axis=0), 1)
        assert np.max(np.abs(np.nan_to_num(found - expected)) / size) < TOLERANCE


# Large systems


def chain(masses: int) -> Model:
    """Masses between a wall and a free end, the force on the last; linear."""

    def dynamics(s: Any, u: Any, p: Any) -> dict[str, Any]:
        s = vars(s) if hasattr(s, "__dict__") and "_values" not in vars(s) else s
        result = {}
        for i in range(1, masses + 1):
            force = -p.k * s[f"x{i}"] - 0.1 * s[f"dx{i}"]
            if i > 1:
                force = force + p.k * (s[f"x{i - 1}"] - s[f"x{i}"])
            if i < masses:
                force = force + p.k * (s[f"x{i + 1}"] - s[f"x{i}"])
            result[f"x{i}"] = force + u.force if i == masses else force
        return result

    def outputs(s: Any, u: Any, p: Any) -> dict[str, Any]:
        s = vars(s) if hasattr(s, "__dict__") and "_values" not in vars(s) else s
        return {"middle": s[f"x{masses // 2}"], "end": s[f"ddx{masses}"]}

    return Model({f"x{i}": 2 for i in range(1, masses + 1)}, dynamics, outputs, name="chain")


def test_the_form_follows_from_the_size() -> None:
    """q = order + 2: five components per mass."""
    few, many = LARGEST_UNROLLED // 5, LARGEST_UNROLLED // 5 + 1
    assert type(ps.Solver().ode_filter(chain(few))) is UnrolledFilter
    assert type(ps.Solver().ode_filter(chain(many))) is ArrayFilter


def chain_case(masses: int, smoothness: int, samples: int, substeps: int = 1, particles: int = 2) -> Case:
    rng = np.random.default_rng(7)
    model = chain(masses)
    outputs = rng.normal(size=(samples, 2))
    outputs[1, 0] = np.nan
    return Case(
        model=model,
        smoothness=(smoothness,) * masses,
        time=0.2 * np.arange(samples),
        outputs=outputs,
        noise=rng.uniform(0.1, 0.5, (2, particles)),
        initial_mean=rng.normal(size=(2 * masses, particles)),
        initial_sd=rng.uniform(0.1, 0.5, (2 * masses, particles)),
        parameters={"k": rng.uniform(1, 3, particles)},
        grid=rng.normal(size=(samples, substeps, 1)),
        inputs=rng.normal(size=(samples, 1, smoothness + 2)),
        substeps=substeps,
        diffusion=Fixed(0.8),
    )


@pytest.mark.long
@pytest.mark.parametrize("smoothness", [3, pytest.param(4, marks=pytest.mark.long)])
def test_a_chain_of_twenty_masses_is_one_joint_gaussian(smoothness: int) -> None:
    """80 and 100 components, several panels in every decomposition: energies, filtered and smoothed moments."""
    case = chain_case(20, smoothness, samples=5, substeps=2)
    ode_filter = ps.Solver(smoothness=smoothness, diffusion=0.8).ode_filter(case.model)
    assert ode_filter == as_array_filter(case.ode_filter)
    trajectory = trace(ode_filter, case.particle, case.sample, case.time)
    smoothed = smooth(trajectory, case.layout)
    joint = joint_gaussian(case, np.full((8, 20), 0.64), particle=1)
    np.testing.assert_allclose(trajectory.energy[:, 1], joint.energies(case.samples), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(case.energies(Blocks(ode_filter, 2)), trajectory.energy, rtol=1e-8, atol=1e-8)
    size = np.max(np.abs(smoothed.mean), axis=0)[:, 1]
    for i in (0, 3, 8):
        assert_same(trajectory.filtered.mean[i, :, 1], trajectory.filtered.factor[i, :, :, 1], joint.filtered(i), size)
        assert_same(smoothed.mean[i, :, 1], smoothed.factor[i, :, :, 1], joint.smoothed(i), size)
