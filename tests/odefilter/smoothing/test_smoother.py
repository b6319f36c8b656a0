"""Smoothing: dense output and sample paths.  (Smoothed moments at the steps: test_linear_gaussian.py.)"""

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from probsysid.model.model import Model
from probsysid.odefilter.arrays.step import as_array_filter
from probsysid.odefilter.diffusion import Fixed, QuasiMLE
from probsysid.odefilter.smoothing.chunking import padded_slice
from probsysid.odefilter.smoothing.smoother import sample_paths, smooth, smooth_record
from probsysid.odefilter.smoothing.trajectory import Trajectory, filter_programs, refine
from tests.odefilter.bruteforce import Joint, joint_gaussian
from tests.odefilter.cases import Case
from tests.odefilter.loops import moved_in_loops
from tests.odefilter.test_linear_gaussian import assert_same, linear_case, oscillator, relaxation

DRAWS = 20_000
# Two in one interval, one close to a step.
EXTRA = (0.58, 0.7, 0.81, 1.1251)


def dense_case(restarts: bool) -> Case:
    if restarts:
        return linear_case(oscillator(), (3,), 11, samples=4, missing=0.2, restarts=True, substeps=2)
    return linear_case(oscillator(), (3,), 12, samples=7, missing=0.2, uniform=False)


class Dense(NamedTuple):
    """A linear case with extra times, and the joint Gaussian of the second particle that has them too."""

    case: Case
    trajectory: Trajectory
    where: np.ndarray
    joint: Joint


@pytest.fixture(scope="module", params=[False, True], ids=["smooth input", "restarts"])
def dense(request: pytest.FixtureRequest) -> Dense:
    case = dense_case(request.param)
    trajectory = case.trace()
    joint = joint_gaussian(case, np.array(trajectory.variance[1:, :, 1]), particle=1, extra=EXTRA)
    refined, where = refine(trajectory, case.layout, np.array([*EXTRA, case.time[2], case.time[-1]]))
    return Dense(case, refined, where, joint)


def test_dense_output_is_the_joint_gaussian(dense: Dense) -> None:
    case, trajectory, where, joint = dense
    np.testing.assert_allclose(trajectory.time, joint.times, rtol=1e-14)
    np.testing.assert_array_equal(trajectory.time[where], [*EXTRA, case.time[2], case.time[-1]])
    smoothed = smooth(trajectory, case.layout)
    size = np.max(np.abs(smoothed.mean), axis=0)[:, 1]
    for i in range(len(joint.times)):
        assert_same(trajectory.filtered.mean[i, :, 1], trajectory.filtered.factor[i, :, :, 1], joint.filtered(i), size)
        assert_same(smoothed.mean[i, :, 1], smoothed.factor[i, :, :, 1], joint.smoothed(i), size)


def test_times_that_are_known_already_add_nothing() -> None:
    case = linear_case(relaxation(), (1,), 13, samples=4)
    trajectory = case.trace()
    same, where = refine(trajectory, case.layout, case.time[[3, 1]])
    assert same is trajectory
    assert list(where) == [3, 1]


def test_sample_paths_have_the_joint_gaussians_moments(dense: Dense) -> None:
    """Mean, covariance within each point and between neighbours, against their standard errors."""
    case, trajectory, _, joint = dense
    paths = np.array(sample_paths(jax.random.key(0), trajectory, case.layout, DRAWS))[..., 1]
    assert paths.shape == (DRAWS, len(trajectory.time), case.layout.size)
    for i in range(len(trajectory.time)):
        exact = joint.smoothed(i)
        sd = np.sqrt(np.diag(exact.covariance))
        z = (paths[:, i] - exact.mean) / sd
        # About 300 numbers are compared: 4.5 standard errors are exceeded by chance once in 500 runs.
        assert np.max(np.abs(np.mean(z, axis=0))) < 4.5 / np.sqrt(DRAWS)
        correlation = exact.covariance / np.outer(sd, sd)
        # Variance of the product of two standard normals with correlation r: 1 + r^2.
        error = np.sqrt((1 + correlation**2) / DRAWS)
        assert np.max(np.abs(z.T @ z / DRAWS - correlation) / error) < 4.5
        if i + 1 < len(trajectory.time):
            following = joint.smoothed(i + 1)
            other = (paths[:, i + 1] - following.mean) / np.sqrt(np.diag(following.covariance))
            cross = joint.covariance(i, i + 1) / np.outer(sd, np.sqrt(np.diag(following.covariance)))
            error = np.sqrt((1 + cross**2) / DRAWS)
            assert np.max(np.abs(z.T @ other / DRAWS - cross) / error) < 4.5


# Not with restarts: where inputs jump, the highest derivative belongs to the input before the jump.
@pytest.mark.parametrize("dense", [False], indirect=True, ids=["smooth input"])
def test_sample_paths_satisfy_the_ode_at_the_steps(dense: Dense) -> None:
    """Exact conditioning leaves no variance in the residual, so every draw has only round-off."""
    case, trajectory, _, _ = dense
    paths = np.array(sample_paths(jax.random.key(1), trajectory, case.layout, 50))[..., 1]
    at_steps = np.searchsorted(trajectory.time, case.time)[1:]
    x, dx, ddx = (paths[:, at_steps, i] for i in range(3))
    force, rate = case.grid[1:, 0, 0], case.parameters["rate"][1]
    assert np.max(np.abs(ddx - (force - 0.3 * dx - rate * x))) < 1e-8


def two_coordinates() -> Case:
    """Two independent relaxations, each with its own output."""
    model = Model(
        {"x": 1, "y": 2},
        lambda s, u, p: {"x": -0.8 * s.x**3, "y": -1.5 * s.y - 0.2 * s.dy},
        lambda s, u, p: {"first": s.x, "second": s.y},
    )
    rng = np.random.default_rng(5)
    samples = 6
    return Case(
        model,
        (1, 2),
        time=0.3 * np.arange(samples),
        outputs=rng.normal(size=(samples, 2)),
        noise=np.full((2, 1), 0.3),
        initial_mean=np.array([[1.0], [0.5], [-0.5]]),
        initial_sd=np.full((3, 1), 0.4),
        diffusion=QuasiMLE(),
    )


def alone(case: Case, coordinate: int) -> Case:
    """One of the two coordinates as a model of its own."""
    if coordinate == 0:
        model = Model({"x": 1}, lambda s, u, p: {"x": -0.8 * s.x**3}, lambda s, u, p: {"first": s.x})
    else:
        model = Model({"y": 2}, lambda s, u, p: {"y": -1.5 * s.y - 0.2 * s.dy}, lambda s, u, p: {"second": s.y})
    rows = [0] if coordinate == 0 else [1, 2]
    return case.change(
        model=model,
        smoothness=(case.smoothness[coordinate],),
        outputs=case.outputs[:, [coordinate]],
        noise=case.noise[[coordinate]],
        initial_mean=case.initial_mean[rows],
        initial_sd=case.initial_sd[rows],
    )


@pytest.mark.long
def test_independent_coordinates_stay_independent() -> None:
    """A published library draws them with the same noise.  Here they are uncorrelated, exactly and in draws."""
    case = two_coordinates()
    trajectory = case.trace()
    smoothed = smooth(trajectory, case.layout)
    first, second = slice(0, 2), slice(2, 5)
    factor = np.array(smoothed.factor[..., 0])
    covariance = np.einsum("pik,pjk->pij", factor, factor)
    sd = np.sqrt(np.einsum("pii->pi", covariance))
    correlation = covariance / (sd[:, :, None] * sd[:, None, :])
    assert np.max(np.abs(correlation[:, first, second])) < 1e-12
    paths = np.array(sample_paths(jax.random.key(2), trajectory, case.layout, DRAWS))[..., 0]
    z = (paths - np.array(smoothed.mean[..., 0])) / sd
    drawn = np.einsum("npi,npj->pij", z, z) / DRAWS
    # 36 correlations of zero: standard error 1 / sqrt(draws).
    assert np.max(np.abs(drawn[:, first, second])) < 4.5 / np.sqrt(DRAWS)
    # Each alone gives the same marginals up to round-off.
    for coordinate, part in enumerate((first, second)):
        single = alone(case, coordinate)
        found = smooth(single.trace(), single.layout)
        np.testing.assert_allclose(found.mean[..., 0], smoothed.mean[:, part, 0], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.sd[..., 0], sd[:, part], rtol=1e-10)


def test_without_joint_conditioning_smoothing_ignores_the_data() -> None:
    """`joint=False`: data enter the likelihood, and the state is not conditioned on them."""
    case = linear_case(relaxation(), (2,), 14, joint=False, diffusion=Fixed(0.8))
    trajectory = case.trace()
    smoothed: Any = smooth(trajectory, case.layout)
    joint = joint_gaussian(case, np.array(trajectory.variance[1:, :, 0]), data=False)
    size = np.max(np.abs(smoothed.mean), axis=0)[:, 0]
    for i in range(len(joint.times)):
        assert_same(smoothed.mean[i, :, 0], smoothed.factor[i, :, :, 0], joint.smoothed(i), size)


@pytest.mark.parametrize("substeps", [1, 2])
def test_results_of_a_chunk_are_written_in_place(substeps: int) -> None:
    """If every step copied all results of the chunk, its cost would grow with the chunk's length."""
    case = linear_case(oscillator(), (3,), 11, samples=150, missing=0.2, restarts=True, substeps=substeps)
    start, advance = filter_programs(as_array_filter(case.ode_filter))
    state, *_ = start(case.particle, padded_slice(case.sample, 0, 150, 1))
    program = advance.lower(state, case.particle, padded_slice(case.sample, 1, 150, 149)).compile().as_text()
    assert "f64[149," in program
    assert moved_in_loops(program, 149) == []


CHUNKED = {
    "irregular steps": {"uniform": False, "missing": 0.2},
    "restarts": {"restarts": True, "substeps": 2},
    "coloured noise": {"substeps": 2, "missing": 0.2, "correlation_time": {0: np.array([0.4, 0.4])}},
}


@pytest.mark.parametrize("name", [n if n == "restarts" else pytest.param(n, marks=pytest.mark.long) for n in CHUNKED])
def test_results_do_not_depend_on_the_chunk_length(name: str) -> None:
    """Chunks of 4 points, the last of them padded, as one of 256: the same operations on the same numbers, vectorised
    differently."""
    case = linear_case(oscillator(), (3,), 15, samples=12, **CHUNKED[name])
    whole = case.trace()
    states = smooth(whole, case.layout)
    pieces = case.trace(longest_chunk=4)
    found_leaves = jax.tree.leaves((pieces, smooth(pieces, case.layout, longest_chunk=4)))
    for found, expected in zip(found_leaves, jax.tree.leaves((whole, states)), strict=True):
        # Seen: no difference at all.  Another vectorisation may round differently, 1e-16 per operation.
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * np.nanmax(np.abs(expected)))


@pytest.mark.parametrize(
    "name", ["restarts", "coloured noise", pytest.param("irregular steps", marks=pytest.mark.long)]
)
def test_a_record_is_smoothed_as_the_joint_gaussian(name: str) -> None:
    """Each chunk of two samples is filtered again on the way back, the last one padded.  All particles are equal: the
    same moments for all, and a draw of the path for each."""
    copies = 4000
    case = linear_case(oscillator(), (3,), 17, samples=8, **CHUNKED[name])
    alike = ("noise", "initial_mean", "initial_sd")
    case = case.change(
        parameters={"rate": np.repeat(case.parameters["rate"][:1], copies)},
        correlation_time={i: np.repeat(time[:1], copies) for i, time in case.correlation_time.items()},
        **{field: np.repeat(getattr(case, field)[:, :1], copies, axis=1) for field in alike},
    )
    ode_filter = as_array_filter(case.ode_filter)
    found = smooth_record(
        jax.random.key(3), ode_filter, case.particle, case.sample, case.time, longest_chunk=2 * case.substeps
    )
    joint = joint_gaussian(case, np.full(((case.samples - 1) * case.substeps, 1), 0.64))
    at = case.substeps * np.arange(case.samples)
    exact = [joint.smoothed(i) for i in at]
    means = np.array([moments.mean for moments in exact])
    sds = np.sqrt([np.diag(moments.covariance) for moments in exact])
    size = np.max(np.abs(means), axis=0)
    components = slice(case.layout.size)  # coloured noise follows
    assert np.max(np.abs(found.mean[:, components] - means[..., None]) / size[:, None]) < 1e-9
    assert np.max(np.abs(found.sd[:, components] - sds[..., None]) / size[:, None]) < 1e-9
    z = (found.path[:, components] - means[..., None]) / np.maximum(sds, 1e-9 * size)[..., None]
    # About 200 numbers are compared: 4.5 standard errors are exceeded by chance once in 700 runs.
    assert np.max(np.abs(np.mean(z, axis=-1))) < 4.5 / np.sqrt(copies)
    for k, i in enumerate(at):
        for other in range(k, min(k + 2, case.samples)):
            exactly = joint.covariance(i, at[other]) / np.outer(sds[k], sds[other])
            error = np.sqrt((1 + exactly**2) / copies)
            assert np.max(np.abs(z[k] @ z[other].T / copies - exactly) / error) < 4.5
    energies = 0.5 * (np.log(2 * np.pi * found.innovation_variance) + found.innovation**2 / found.innovation_variance)
    expected = joint.energies(case.samples)
    np.testing.assert_allclose(np.nansum(energies[..., 0], axis=1), expected, rtol=1e-8, atol=1e-8)


def test_records_of_all_lengths_share_their_programs() -> None:
    """Otherwise a stream would compile again each time its states are asked for."""
    model, compiled = oscillator(), []

    def count(name: str, *_: object, **__: object) -> None:
        if name.endswith("backend_compile_duration"):
            compiled.append(name)

    def smooth_all(samples: int) -> None:
        case = linear_case(model, (3,), 16, samples=samples)
        smooth(case.trace(), case.layout)

    smooth_all(5)
    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        smooth_all(9)
        smooth_all(300)
    finally:
        jax.monitoring.clear_event_listeners()
    assert not compiled
