"""What may be given as the noise of an output, and what becomes of it."""

from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid import dist
from probsysid.inference.identify import problem_fingerprint
from probsysid.model.noise import check_records, clipped, quantities, with_levels
from probsysid.model.problem import Problem
from probsysid.posterior.stored_setup import decode_setup, encode_setup

MODEL = ps.Model({"x": 1}, lambda s, u, p: {"x": -p.a * s.x}, lambda s, u, p: {"y": s.x, "z": 2 * s.x})
LEVEL = dist.LogNormal(0.0, 1.0)


def problem(**noise: Any) -> Problem:
    return Problem.make(MODEL, {"a": LEVEL}, noise, [{"x": 1.0}], None)


def test_quantities_are_named_after_the_output() -> None:
    found = problem(y=ps.Noise(LEVEL, degrees="auto"), z=ps.Noise(0.1, time=dist.LogNormal(0, 1)))
    assert found.space.names == ("a", "noise.y", "noise.y.degrees", "noise.z.time")
    assert float(found.fixed(0)["noise.z"]) == 0.1
    particle = found.particle({name: np.float64(2.0) for name in found.space.names}, 0)
    assert (particle.noise[0].degrees, particle.noise[1].level, particle.noise[1].time) == (2.0, 0.1, 2.0)


def test_noise_that_is_only_a_level_is_that_level() -> None:
    assert problem(y=ps.Noise(0.2), z=0.1).noise == {"y": 0.2, "z": 0.1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": -1.0}, "level is -1.0"),
        ({"level": dist.Normal(0, 1)}, "negative"),
        ({"transform": "sqrt"}, "'sqrt'"),
        ({"degrees": 0}, "degrees is 0"),
        ({"step": 0.0}, "step is 0.0"),
        ({"step": "1"}, "step is '1'"),
        ({"lower": 2.0, "upper": 1.0}, "below upper"),
        ({"transform": "log", "lower": -1.0}, "lower is -1.0"),
        ({"time": 1.0, "degrees": 3.0}, "time and degrees"),
        ({"time": float("nan")}, "time is nan"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ps.InputError, match=words):
        ps.Noise(**options)


def test_a_logarithm_of_what_is_not_positive_is_refused_with_the_sample() -> None:
    record = ps.Record(outputs={"y": np.array([1.0, 2.0, 0.0, -1.0])}, dt=0.1)
    with pytest.raises(ps.InputError, match="'y' is 0 at sample 2"):
        ps.identify(MODEL, record, {"a": LEVEL}, {"y": ps.Noise(transform="log")}, {"x": 1.0})
    with pytest.raises(ps.InputError, match="at sample 2 of record 1"):
        check_records({"y": ps.Noise(1.0, transform="log")}, [record[:2], record])


def test_online_too() -> None:
    noise = {"y": ps.Noise(0.1, transform="log"), "z": 0.1}
    online = ps.Identifier(MODEL, {"a": LEVEL}, noise, {"x": 1.0}, 0.1, sampler=ps.Sampler(particles=16, islands=2))
    with pytest.raises(ps.InputError, match="'y' is -1 at sample 1 of the new ones"):
        online.submit({}, {"y": [1.0, -1.0]})
    assert online.samples == 0
    with pytest.raises(ps.InputError, match="'y' has no level"):
        ps.Identifier(MODEL, {"a": LEVEL}, {"y": ps.Noise(degrees=3), "z": 0.1}, {"x": 1.0}, 0.1)


def test_bounds_in_another_unit_are_refused() -> None:
    record = ps.Record(outputs={"y": np.array([10.0, 20.0, 30.0])}, dt=0.1)
    with pytest.raises(ps.InputError, match="all values of 'y' are at or beyond"):
        check_records({"y": ps.Noise(1.0, upper=0.01)}, [record])


def test_levels_that_are_not_given_follow_the_data() -> None:
    record = ps.Record(outputs={"y": np.exp(np.array([0.0, 1.0, 2.0, 3.0])), "z": np.arange(4.0)}, dt=0.1)
    found = with_levels({"y": ps.Noise(transform="log")}, ("y", "z"), [record])
    assert float(found["y"].level.loc) == pytest.approx(float(found["z"].loc))
    assert list(quantities(found)) == ["noise.y", "noise.z"]


def test_bounds_are_met_up_to_rounding() -> None:
    form = ps.Noise(1.0, lower=-0.1, upper=0.3).form
    np.testing.assert_array_equal(clipped(form, np.array([-0.1, 0.0, 0.1 * 3, 0.3 - 1e-6, np.nan])), [1, 0, 1, 0, 0])


def test_a_problem_survives_storage_and_its_fingerprint_changes_with_the_noise() -> None:
    kinds = [
        ps.Noise(LEVEL, degrees="auto", upper=1.0),
        ps.Noise(LEVEL, degrees="auto", upper=2.0),
        ps.Noise(LEVEL, degrees=4.0, upper=2.0),
        ps.Noise(LEVEL, upper=2.0),
        ps.Noise(LEVEL, step=2.0),
        ps.Noise(LEVEL, time=2.0),
        ps.Noise(LEVEL, transform="log"),
        LEVEL,
    ]
    marks = set()
    for kind in kinds:
        given = problem(y=kind, z=0.1)
        again, solver = decode_setup(encode_setup(given, ps.Solver()))
        mark = problem_fingerprint(given, ps.Solver(), ps.Sampler(), 0)
        assert problem_fingerprint(again, solver, ps.Sampler(), 0) == mark
        marks.add(mark)
    assert len(marks) == len(kinds)
