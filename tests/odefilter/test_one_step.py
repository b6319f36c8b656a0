"""One-step predictions say what the sampler's own filter computes, and predict what was not measured."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import probsysid as ps
from probsysid.model.problem import Problem
from probsysid.odefilter.filter import ENERGY, OneStep
from probsysid.parallel.threads import Threads
from probsysid.targets.growing_record import GrowingRecord
from probsysid.targets.stream_target import StreamTarget

SAMPLES, PARTICLES = 20, 16
SOLVER = ps.Solver(smoothness=2, substeps=1)

MODEL = ps.Model(
    {"x": 2},
    lambda s, u, p: {"x": u.force - p.c * s.dx - p.k * s.x},
    lambda s, u, p: {"position": s.x, "velocity": s.dx},
)


def growing(channels: dict[str, np.ndarray]) -> GrowingRecord:
    record = GrowingRecord(MODEL, 0.2, "linear")
    record.append(channels)
    return record


def stream(outputs: dict[str, np.ndarray], solver: ps.Solver = SOLVER, force: float | None = None) -> StreamTarget:
    problem = Problem.make(
        MODEL,
        {"c": ps.dist.LogNormal(-1, 0.3), "k": ps.dist.LogNormal(0, 0.3)},
        {"position": 0.05, "velocity": 0.2},
        [{"x": ps.dist.Normal(0, 0.1), "dx": 0.0}],
        None if force is None else {"x": force},
    )
    inputs = {"force": np.sin(np.arange(SAMPLES))}
    channels = {**inputs, **{f"output:{name}": values for name, values in outputs.items()}}
    return StreamTarget(problem, solver, PARTICLES, Threads(cores=1), growing(channels))


def measured(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(SAMPLES) for name in MODEL.output_names}


def predictions(target: StreamTarget, first: int) -> tuple[OneStep, Any, Any]:
    theta = np.random.default_rng(1).standard_normal((target.problem.space.dimension, PARTICLES)) * 0.3
    state, _ = target.advance(None, theta, 0, 1)
    if first > 1:
        state, _ = target.advance(state, theta, 1, first)
    return target.one_step(state, theta, first, SAMPLES), state, theta


@pytest.mark.parametrize("force", [None, 0.3], ids=["output error", "process noise"])
@pytest.mark.parametrize("pilot", [False, True], ids=["solver", "pilot"])
def test_energies_and_errors_are_those_of_the_sampler(pilot: bool, force: float | None) -> None:
    target = stream(measured(), ps.Solver() if pilot else SOLVER, force)
    target = target.pilot if pilot else target
    found, state, theta = predictions(target, 3)
    prepared = target._prepare(0)(theta)
    for watched, expected in ((ENERGY, found.energy), (0, found.white[:, 0]), (1, found.white[:, 1])):
        _, rows = target._advance(state, prepared, 3, SAMPLES, watched)
        np.testing.assert_allclose(np.asarray(rows)[: SAMPLES - 3], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("force", [None, 0.3], ids=["output error", "process noise"])
def test_the_pilot_shows_the_states_that_the_solver_does(force: float | None) -> None:
    """At 16 steps per sample both are close to the exact motion; without process noise the pilot is sure of it."""
    target = stream(measured(), ps.Solver(), force).at(4)
    (found, *_), (expected, *_) = predictions(target.pilot, 1), predictions(target, 1)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-3)
    np.testing.assert_allclose(found.state_mean, expected.state_mean, atol=1e-3)
    np.testing.assert_allclose(found.state_sd, expected.state_sd, atol=1e-3)
    assert np.all(found.state_sd == 0) if force is None else np.all(found.state_sd > 0.01)


def test_the_energy_is_that_of_the_predicted_gaussians() -> None:
    """The first output is predicted alone in either case; the second given it, so only the sum of both is checked."""
    target = stream(measured())
    found, *_ = predictions(target, 1)
    y = target.stream.channels["output:position"][1:, None]
    np.testing.assert_allclose((y - found.mean[:, 0]) / found.sd[:, 0], found.white[:, 0], rtol=1e-9, atol=1e-9)
    bare = measured()
    bare["velocity"][:] = np.nan
    alone, *_ = predictions(stream(bare), 1)
    z = (bare["position"][1:, None] - alone.mean[:, 0]) / alone.sd[:, 0]
    energy = 0.5 * np.log(2 * np.pi * alone.sd[:, 0] ** 2) + 0.5 * z**2
    np.testing.assert_allclose(alone.energy, energy, rtol=1e-9, atol=1e-9)


def test_what_was_not_measured_is_predicted_all_the_same() -> None:
    whole, gaps = measured(), measured()
    gaps["position"][10] = np.nan
    found, *_ = predictions(stream(whole), 1)
    other, *_ = predictions(stream(gaps), 1)
    # up to and at the gap the past is the same
    for one, two in ((found.mean, other.mean), (found.sd, other.sd)):
        np.testing.assert_allclose(one[:10], two[:10], rtol=1e-9, atol=1e-12)
    assert np.all(other.white[9, 0] == 0) and np.any(found.white[9, 0] != 0)
    assert np.any(np.abs(found.mean[10] - other.mean[10]) > 1e-3)  # and afterwards it is not


def test_states_follow_the_data() -> None:
    outputs = measured()
    found, *_ = predictions(stream(outputs), 1)
    assert np.all(found.state_sd[:, 0] < 0.05)  # no wider than one measurement of it alone
    assert found.state_mean.shape == (SAMPLES - 1, 2, PARTICLES)
    residual = outputs["position"][1:, None] - found.state_mean[:, 0]
    predicted = outputs["position"][1:, None] - found.mean[:, 0]
    assert np.mean(residual**2) < np.mean(predicted**2)


@pytest.mark.parametrize("kind", ["student", "coloured"])
def test_other_noise_has_predictions_where_it_was_measured(kind: str) -> None:
    noise = {"student": ps.Noise(0.05, degrees=4.0), "coloured": ps.Noise(0.05, time=1.0)}[kind]
    problem = Problem.make(
        MODEL,
        {"c": ps.dist.LogNormal(-1, 0.3), "k": 1.0},
        {"position": noise, "velocity": 0.2},
        [{"x": 0.0, "dx": 0.0}],
        None,
    )
    outputs = measured()
    outputs["position"][10] = np.nan
    channels = {"force": np.zeros(SAMPLES), **{f"output:{n}": v for n, v in outputs.items()}}
    target = StreamTarget(problem, ps.Solver(smoothness=2, substeps=1), PARTICLES, Threads(cores=1), growing(channels))
    found, *_ = predictions(target, 1)
    assert np.isnan(found.mean[9, 0]).all()
    assert np.isfinite(np.delete(found.mean[:, 0], 9, axis=0)).all()
    assert np.isfinite(found.energy).all() and jnp.all(found.sd[:, 1] > 0.2 - 1e-12)
