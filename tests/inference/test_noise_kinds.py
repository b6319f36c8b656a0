"""Every kind of noise from data to predictions, on a first-order lag."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from probsysid.posterior.diagnostics.noise_marks import noise_marks
from probsysid.targets.integrators import has_pilot

MODEL = ps.Model({"x": 1}, lambda s, u, p: {"x": u.u - p.a * s.x}, lambda s, u, p: {"y": s.x})
RATE, LEVEL, DT, SAMPLES = 1.5, 0.05, 0.1, 60
LEVELS = dist.LogNormal(np.log(0.05), 1.0)
KINDS: dict[str, ps.Noise] = {
    "log": ps.Noise(LEVELS, transform="log"),
    "Student-t": ps.Noise(LEVELS, degrees="auto"),
    "quantised": ps.Noise(LEVELS, step=0.1),
    "clipped": ps.Noise(LEVELS, upper=0.9),
    "coloured": ps.Noise(LEVELS, time=dist.LogNormal(-1.0, 1.0)),
}
SIMILAR = ("quantised", "clipped", "log")
"""Smoothed as with Student-t noise: by the first two moments of the output; or as with Gaussian noise."""
SAMPLER = ps.Sampler(particles=128, islands=2, recover=False)


def record(kind: str) -> ps.Record:
    random = np.random.default_rng(3)
    time = DT * np.arange(SAMPLES)
    force = np.where(time % 4 < 2, 2.0, 0.5)
    states = [0.5]
    for value in force[:-1]:
        states.append(value / RATE + (states[-1] - value / RATE) * np.exp(-RATE * DT))
    x, errors = np.array(states), LEVEL * random.standard_normal(SAMPLES)
    match kind:
        case "log":
            y = x * np.exp(errors)
        case "Student-t":
            y = x + errors
            y[[10, 30, 45]] += [1.0, -2.0, 1.5]
        case "quantised":
            y = 0.1 * np.round((x + errors) / 0.1)
        case "clipped":
            y = np.minimum(x + errors, 0.9)
        case _:
            y = x + np.convolve(errors, 0.7 ** np.arange(20))[:SAMPLES]
    return ps.Record({"u": force}, {"y": y}, dt=DT, intersample="zoh")


@cache
def identified(kind: str) -> ps.Posterior:
    """Once for all tests."""
    return ps.identify(
        MODEL,
        record(kind),
        {"a": dist.LogNormal(0.0, 0.5)},
        {"y": KINDS[kind]},
        {"x": 0.5},
        solver=ps.Solver(substeps=1),
        sampler=SAMPLER,
    )


@pytest.fixture(scope="module", params=[pytest.param(k, marks=[pytest.mark.long] * (k == "quantised")) for k in KINDS])
def found(request: pytest.FixtureRequest) -> tuple[str, ps.Posterior]:
    return request.param, identified(request.param)


def test_the_rate_is_found(found: tuple[str, ps.Posterior]) -> None:
    _, posterior = found
    assert abs(posterior.mean("a") - RATE) < 3 * posterior.sd("a") < 0.5


def test_it_can_be_stored(found: tuple[str, ps.Posterior], tmp_path: Path) -> None:
    kind, posterior = found
    posterior.save(tmp_path / "posterior.nc")
    again = ps.Posterior.load(tmp_path / "posterior.nc")
    assert again.setup.problem.noise["y"].form == KINDS[kind].form
    np.testing.assert_array_equal(again.values["noise.y"], posterior.values["noise.y"])


def test_predictions_hold_the_data(found: tuple[str, ps.Posterior]) -> None:
    check_prediction(*found)


# Each kind and option compiles for seconds: one kind with all options is quick, the others have the free run.
@pytest.mark.parametrize("options", [{"initial": "estimate"}, {"ahead": 2}], ids=["estimated start", "ahead"])
@pytest.mark.parametrize("kind", [k if k == "clipped" else pytest.param(k, marks=pytest.mark.long) for k in KINDS])
def test_other_predictions_hold_the_data(kind: str, options: dict[str, Any]) -> None:
    check_prediction(kind, identified(kind), **options)


def check_prediction(kind: str, posterior: ps.Posterior, **options: Any) -> None:
    band = posterior.predict(record(kind), level=0.9, **options)
    assert band.attrs["y_coverage"] >= 0.8
    assert np.all(np.isfinite(band["y_sd"]))
    assert kind != "clipped" or float(band["y_high"].max()) == 0.9


@pytest.mark.parametrize("kind", ["Student-t", *(pytest.param(k, marks=pytest.mark.long) for k in ("log", "coloured"))])
def test_initial_states_are_estimated_as_the_noise_is(kind: str) -> None:
    """An outlier among the first samples does not move where a prediction starts."""
    data = record(kind)
    values = np.array(data.outputs["y"])
    values[1] += 3.0 * (kind == "Student-t")
    data = data.replace(outputs={"y": values})
    starts = identified(kind).simulate(data, initial="estimate", initial_samples=15).outputs["y"][:, 0]
    assert abs(np.mean(starts) - 0.5) < 3 * np.std(starts) < 0.4


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.long] * (k in SIMILAR)) for k in KINDS])
def test_states_are_smoothed(kind: str) -> None:
    posterior = identified(kind)
    states = posterior.states(draws=8)
    clean = ps.solve(MODEL, {"a": RATE}, record(kind), initial={"x": 0.5}).mean["x"]
    assert np.max(np.abs(states.mean["x"] - clean)) < 0.1  # no outlier of 1 to 2 has dragged them
    assert all(np.all(np.isfinite(values)) for values in states.innovations.values())


@pytest.mark.long
def test_a_report_is_written(tmp_path: Path) -> None:
    identified("coloured").report(tmp_path / "report.html")
    assert "noise.y.time" in (tmp_path / "report.html").read_text()


def test_residuals_raise_no_doubt(found: tuple[str, ps.Posterior]) -> None:
    _, posterior = found
    assert not posterior.doubts
    assert 0.5 < posterior.residuals("y").spread < 1.3


def test_samples_are_marked() -> None:
    for kind, clipped, outliers in (
        ("Student-t", 0, 3),
        ("clipped", int(np.sum(record("clipped").outputs["y"] >= 0.9)), 0),
    ):
        posterior = identified(kind)
        marks = noise_marks(posterior, posterior.simulate(record(kind)), "y")
        assert (len(marks.clipped), len(marks.outliers)) == (clipped, outliers)
        assert len(marks.sentences("y", SAMPLES)) == 1


def test_the_pilot_is_not_for_coloured_noise() -> None:
    for kind in KINDS:
        assert has_pilot(identified(kind).setup.problem) == (kind != "coloured")


@pytest.mark.parametrize("kind", [pytest.param("Student-t", marks=pytest.mark.long), "coloured"])
def test_online_is_batch(kind: str) -> None:
    """The same numbers, sample by sample."""
    batch = identified(kind)
    data = record(kind)
    online = ps.Identifier(
        MODEL,
        {"a": dist.LogNormal(0.0, 0.5)},
        {"y": KINDS[kind]},
        {"x": 0.5},
        DT,
        intersample="zoh",
        solver=ps.Solver(substeps=1),
        sampler=SAMPLER,
    )
    online.update({"u": np.asarray(data.inputs["u"])}, {"y": np.asarray(data.outputs["y"])})
    np.testing.assert_array_equal(online.posterior.values["a"], batch.values["a"])
