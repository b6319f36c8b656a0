"""Sticking friction: an axis pushed with less than Fc comes to rest and stays there."""

import numpy as np
import pytest

import probsysid as ps
from probsysid.benchmarks import emps
from probsysid.benchmarks.case import free_run

CONSTANTS = {name: np.array([value]) for name, value in emps.JANOT.items()}


def push(force: float, velocity: float, seconds: float = 3.0) -> np.ndarray:
    count = round(seconds / emps.DT)
    record = ps.Record(
        inputs={"force": np.full(count, force)},
        outputs={"position": np.zeros(count)},
        dt=emps.DT,
        intersample="zoh",
    )
    return free_run(emps.model("friction"), record, emps.STEPS, {"x": 0.0, "dx": velocity})(CONSTANTS)[0]


@pytest.mark.parametrize("force", [-20.0, -3.0, 0.0, 15.0])
def test_a_stuck_axis_stays_stuck(force: float) -> None:
    assert abs(force - emps.JANOT["offset"]) < emps.JANOT["Fc"]
    position = push(force, velocity=0.05)
    # at rest x' decays with tau = 1 ms: nothing but rounding is left of it after a second
    assert abs(position[-1] - position[-1000]) < 1e-12
    assert position[-1] > 0.001  # it came to rest by itself, after sliding


def test_a_strong_push_moves_it_at_the_speed_of_viscous_friction() -> None:
    force = 50.0
    position = push(force, velocity=0.0, seconds=8.0)
    speed = (position[-1] - position[-101]) / (100 * emps.DT)
    expected = (force - emps.JANOT["offset"] - emps.JANOT["Fc"]) / emps.JANOT["Fv"]
    assert speed == pytest.approx(expected, rel=1e-6)  # the transient has decayed to exp(-8 Fv/M) = 4e-8


def test_deceleration_is_that_of_coulomb_friction() -> None:
    position = push(0.0, velocity=0.1, seconds=0.05)
    velocity = np.diff(position) / emps.DT
    M, Fv, Fc, offset = (emps.JANOT[name] for name in ("M", "Fv", "Fc", "offset"))
    expected = -(Fc + offset + Fv * velocity[20]) / M
    # a central difference over T = 10 ms of a decay with rate Fv/M = 2.1/s: (T Fv/M)^2 / 24 = 2e-5
    assert (velocity[25] - velocity[15]) / (10 * emps.DT) == pytest.approx(expected, rel=1e-4)


def test_the_asymmetric_model_with_equal_constants_is_the_symmetric_one() -> None:
    count = 2000
    force = 80 * np.sin(2 * np.pi * 0.7 * emps.DT * np.arange(count))
    record = ps.Record({"force": force}, {"position": np.zeros(count)}, dt=emps.DT, intersample="zoh")
    both = {**CONSTANTS, "Fv_forward": CONSTANTS["Fv"], "Fv_backward": CONSTANTS["Fv"]}
    one = free_run(emps.model("friction"), record, emps.STEPS)(CONSTANTS)
    other = free_run(emps.model("asymmetric"), record, emps.STEPS)(both)
    # rounding of 8000 steps of a motion of less than a metre
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
