"""Phases of a record's channels: exact delays, lengths that are kept, filters that are undone."""

import numpy as np
import pytest

from probsysid import InputError, Record
from tests.data.records import FORCE, POSITION, T, record


@pytest.mark.parametrize("count", [T, T - 1])
def test_a_phase_proportional_to_frequency_is_a_delay(count: int):
    before = Record({"force": FORCE[:count]}, {"position": POSITION[:count]}, dt=0.1)
    after = before.allpass(lambda f: -2 * np.pi * f * 0.3)
    low = np.fft.rfftfreq(count, 0.1) < 4.9  # half the sampling rate has no phase
    for name, values in (*before.inputs.items(), *before.outputs.items()):
        found = np.fft.rfft((after.inputs | after.outputs)[name])
        np.testing.assert_allclose(found[low], np.fft.rfft(np.roll(values, 3))[low], atol=1e-12)


def test_it_is_a_rotation_and_its_negative_undoes_it():
    r = record()
    turned = r.allpass(lambda f: 0.4 * f**3)
    assert np.sum(turned.outputs["position"] ** 2) == pytest.approx(np.sum(POSITION**2), rel=1e-12)
    assert not np.allclose(turned.outputs["position"], POSITION, atol=0.1)
    np.testing.assert_allclose(turned.allpass(lambda f: -0.4 * f**3).outputs["position"], POSITION, atol=1e-13)


def test_named_channels_only():
    r = record(intersample="bandlimited")
    turned = r.allpass(lambda f: f, channels=["force"])
    np.testing.assert_array_equal(turned.outputs["position"], POSITION)
    assert not np.allclose(turned.inputs["force"], FORCE, atol=0.1)
    assert (turned.intersample["force"], turned.dt, turned.samples) == ("bandlimited", 0.1, T)


def test_it_undoes_what_filters_did_to_the_harmonic_of_a_nonlinear_system():
    """y = u + 0.1 u^3, both channels behind one filter: the linear path does not see it, the harmonic does."""
    t = 0.01 * np.arange(500)
    u = np.sin(2 * np.pi * 8 * t)
    clean = Record({"u": u}, {"y": u + 0.1 * u**3}, dt=0.01)
    filtered = clean.allpass(lambda f: -0.5 * (f / 24) ** 3)

    def misfit(r: Record) -> float:
        u = np.asarray(r.inputs["u"])
        return float(np.sqrt(np.mean((np.asarray(r.outputs["y"]) - u - 0.1 * u**3) ** 2)))

    third = 0.1 / 4 * abs(np.exp(-0.5j) - np.exp(-0.5j * 3 / 27)) / np.sqrt(2)  # what 8 Hz carries triples in phase
    assert misfit(filtered) == pytest.approx(third, rel=1e-9)
    assert misfit(filtered.allpass(lambda f: 0.5 * (f / 24) ** 3)) < 1e-14


@pytest.mark.parametrize(
    ("r", "phase", "message"),
    [
        (Record({}, {"y": [1.0, 2.0, 4.0]}, time=[0.0, 1.0, 3.0]), np.sin, "needs uniform sampling"),
        (Record({}, {"y": [1.0, np.nan, 4.0]}, dt=1.0), np.sin, "output 'y' is missing at sample 1"),
        (Record({"u": np.sin}, {"y": [1.0, 2.0, 4.0]}, dt=1.0), np.sin, "input 'u' is a function of time"),
        (Record({}, {"y": [1.0, 2.0, 4.0]}, dt=1.0), lambda f: 0.5, r"2 numbers, found an array of shape \(\)"),
        (
            Record({}, {"y": [1.0, 2.0, 4.0]}, dt=1.0),
            lambda f: np.where(f > 0, np.inf, 0),
            "phase is inf at 0.333333 Hz",
        ),
    ],
)
def test_what_it_refuses(r: Record, phase, message: str):
    with pytest.raises(InputError, match=message):
        r.allpass(phase)


def test_an_unknown_channel():
    with pytest.raises(InputError, match=r"no channel 'forc'.*'force'"):
        record().allpass(np.sin, channels=["forc"])
