"""Streams that do not keep all samples, against exact posteriors and against those that do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from probsysid.posterior.simulate import simulate
from probsysid.targets.carried import CarriedPosterior
from tests.inference.test_online import assert_identical

DT, NOISE, SAMPLES, WINDOW = 0.1, 0.1, 600, 64
LINEAR = ps.Model(
    {"x": 1},
    lambda s, u, p: {"x": p.a * u.u - 0.5 * s.x},
    lambda s, u, p: {"y": s.x + p.b},
)
"""The output is linear in the gain, the offset and the initial value."""
PRIORS = {"a": dist.Normal(0.0, 2.0), "b": dist.Normal(0.0, 2.0)}
INITIAL = {"x": dist.Normal(0.0, 2.0)}
TRUTH = {"a": 1.0, "b": -0.5, "initial.x": 1.5}
SAMPLER = ps.Sampler(particles=512, recover=False)


def motion(inputs: ps.Record, a: float, b: float, start: float) -> np.ndarray:
    values = {"a": np.array([float(a)]), "b": np.array([float(b)])}
    return np.asarray(simulate(LINEAR, values, np.array([[float(start)]]), inputs, 8)[0]["y"][0])


@pytest.fixture(scope="module")
def record() -> ps.Record:
    random = np.random.default_rng(5)
    inputs = ps.Record({"u": random.standard_normal(SAMPLES)}, dt=DT, intersample="linear")
    exact = motion(inputs, *TRUTH.values())
    return inputs.replace(outputs={"y": exact + NOISE * random.standard_normal(SAMPLES)})


def stream(window: int | None = WINDOW, **changes: object) -> ps.Identifier:
    given = {"priors": PRIORS, "noise": {"y": NOISE}, "initial": INITIAL, "sampler": SAMPLER}
    return ps.Identifier(LINEAR, dt=DT, window=window, **(given | changes))


def feed(online: ps.Identifier, record: ps.Record, first: int = 0, last: int | None = None, size: int = 50) -> None:
    last = record.samples if last is None else last
    for k in range(first, last, size):
        end = min(k + size, last)
        online.update({"u": record.inputs["u"][k:end]}, {"y": record.outputs["y"][k:end]})


@pytest.fixture(scope="module")
def followed(record: ps.Record) -> ps.Identifier:
    online = stream()
    feed(online, record)
    return online


def test_the_exact_posterior_after_many_windows(record: ps.Record, followed: ps.Identifier) -> None:
    """Means, standard deviations and evidence by linear regression; nine windows have gone by."""
    assert followed.first_kept >= SAMPLES - 2 * WINDOW - 1
    design = np.stack([motion(record, *unit) - motion(record, 0, 0, 0) for unit in np.eye(3)], axis=1)
    outputs = np.asarray(record.outputs["y"])
    precision = design.T @ design / NOISE**2 + np.eye(3) / 4
    covariance = np.linalg.inv(precision)
    mean = covariance @ design.T @ outputs / NOISE**2
    spread = NOISE**2 * np.eye(SAMPLES) + 4 * design @ design.T
    evidence = -0.5 * (
        SAMPLES * np.log(2 * np.pi) + np.linalg.slogdet(spread)[1] + outputs @ np.linalg.solve(spread, outputs)
    )
    found = followed.posterior
    size = 150.0  # effective particles at least
    for k, name in enumerate(TRUTH):
        sd = np.sqrt(covariance[k, k])
        assert abs(found.mean(name) - mean[k]) < 4 * sd / np.sqrt(size)
        assert abs(np.log(found.sd(name) / sd)) < 4 / np.sqrt(2 * size)
    assert found.log_evidence_error < 0.2
    assert abs(found.log_evidence - evidence) < 4 * found.log_evidence_error


def test_what_is_kept_is_bounded(followed: ps.Identifier) -> None:
    assert WINDOW <= followed.samples - followed.first_kept <= 2 * WINDOW + 1
    late = [r for r in followed.posterior.history.rejuvenations if r.sample > 3 * WINDOW]
    assert all(r.work <= SAMPLER.particles * r.moves * (2 * WINDOW + 1) for r in late)


def test_portions_and_files_make_no_difference(record: ps.Record, followed: ps.Identifier, tmp_path: Path) -> None:
    online = stream()
    feed(online, record, 0, 230, size=77)
    online.posterior.table()
    online.save(tmp_path / "stream.npz")
    online = ps.Identifier.load(tmp_path / "stream.npz")
    feed(online, record, 230, 232, size=1)
    feed(online, record, 232, SAMPLES, size=SAMPLES)
    assert_identical(online.posterior, followed.posterior)


def test_all_samples_are_kept_while_the_posterior_is_not_gaussian(record: ps.Record) -> None:
    """The sign of b is not known: two modes, which no quadratic function has."""
    model = replace(LINEAR, outputs=lambda s, u, p: {"y": s.x + p.b**2}, name="sign")
    outputs = motion(record, 1.0, 0.25, 1.5)
    online = ps.Identifier(model, PRIORS, {"y": NOISE}, INITIAL, DT, sampler=SAMPLER, window=WINDOW)
    feed(online, record.replace(outputs={"y": outputs})[:200])
    assert online.first_kept == 0
    b = online.posterior.columns["b"]
    assert b.min() < -0.4 and b.max() > 0.4


def test_states_need_the_samples(followed: ps.Identifier) -> None:
    with pytest.raises(ps.InputError, match="record"):
        followed.posterior.states()


def test_a_quadratic_function_is_carried_exactly() -> None:
    random = np.random.default_rng(2)
    theta = np.array([[3.0], [-200.0], [1e-3]]) + np.diag([1.0, 50.0, 1e-5]) @ random.standard_normal((3, 40))
    half = random.standard_normal((3, 3)) @ np.diag([1.0, 0.02, 1e5])
    mean = np.array([3.5, -190.0, 1e-3])

    def log_density(at: np.ndarray) -> np.ndarray:
        return -7.0 - 0.5 * np.sum((half @ (at - mean[:, None])) ** 2, axis=0)

    slopes = random.standard_normal((2, 3))
    found = CarriedPosterior.fit(
        9, theta, np.full(40, 1 / 40), log_density(theta), slopes @ theta, np.full((2, 40), 0.3)
    )
    assert found is not None and found.samples == 9
    other = np.array([[3.0], [-200.0], [1e-3]]) + np.diag([1.0, 50.0, 1e-5]) @ random.standard_normal((3, 10))
    np.testing.assert_allclose(found.log_density(other), log_density(other), rtol=1e-7)
    np.testing.assert_allclose(found.states(other), slopes @ other, rtol=1e-7, atol=1e-5)
    np.testing.assert_allclose(found.state_sd, 0.3)
    upside_down = -log_density(theta)
    assert CarriedPosterior.fit(9, theta, np.full(40, 1 / 40), upside_down, slopes @ theta, theta[:2]) is None


@pytest.mark.parametrize(
    ("window", "sampler", "message"),
    [
        (10, SAMPLER, "window is 10; it must be a whole number from 64"),
        (True, SAMPLER, "window is True"),
        (100, ps.Sampler(particles=16), "window needs at least 20 particles for 3 unknowns, not 16"),
    ],
)
def test_bad_windows(window: int, sampler: ps.Sampler, message: str) -> None:
    with pytest.raises(ps.InputError, match=message):
        stream(window, sampler=sampler)
