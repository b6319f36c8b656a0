"""Records at another sampling step."""

import numpy as np
import pytest

from probsysid import InputError, Record
from tests.data.records import FORCE, POSITION, WORDS, record

INTERPOLATION = 3e-12 * np.ptp(FORCE)
"""The error of band-limited inputs on their finer grid."""


@pytest.mark.parametrize("word", WORDS)
def test_resample_picks_outputs_and_keeps_inputs(word):
    r = record(intersample=word)
    coarse = r.resample(factor=3)
    assert coarse.dt == pytest.approx(0.3)
    np.testing.assert_array_equal(coarse.time, r.time[::3])
    np.testing.assert_array_equal(coarse.outputs["position"], POSITION[::3])
    np.testing.assert_allclose(coarse.inputs["force"], FORCE[::3], atol=INTERPOLATION)
    fine = r.input_grid(2)[1 : 3 * (len(coarse) - 1) + 1].reshape(-1, 6)
    np.testing.assert_allclose(coarse.input_grid(6)[1:, :, 0], fine, atol=INTERPOLATION)
    highest = np.pi / 0.1  # a derivative multiplies errors by up to the highest frequency
    np.testing.assert_allclose(coarse.input_derivatives(1), r.input_derivatives(1)[::3], atol=INTERPOLATION * highest)
    assert r.resample(dt=0.3).samples == coarse.samples


def test_resample_needs_whole_factors_unless_it_interpolates():
    r = record()
    message = r"outputs cannot be picked at dt = 0\.15 s from samples with dt = 0\.1 s"
    with pytest.raises(InputError, match=message):
        r.resample(0.15)
    with pytest.raises(InputError, match=message):
        r.resample(0.15, outputs="linear", antialias=True)
    linear = r.resample(0.15, outputs="linear")
    assert linear.samples == 33
    np.testing.assert_allclose(linear.outputs["position"][1], (POSITION[1] + POSITION[2]) / 2, rtol=1e-12)
    upsampled = record(outputs=None, intersample="bandlimited").resample(factor=0.5)
    np.testing.assert_allclose(upsampled.inputs["force"][::2], FORCE, atol=INTERPOLATION)
    assert upsampled.time[-1] == pytest.approx(4.9)


def test_resample_non_uniform():
    r = Record({"u": [0, 1, 3]}, {"y": [0, np.nan, 6]}, time=[0, 1, 3])
    with pytest.raises(InputError, match=r"needs uniform sampling; use resample\(dt\)"):
        r.resample(factor=2)
    with pytest.raises(InputError, match="from non-uniform samples"):
        r.resample(1.0)
    new = r.resample(0.5, outputs="linear")
    np.testing.assert_allclose(new.inputs["u"], new.time)
    np.testing.assert_array_equal(np.isnan(new.outputs["y"]), [False, True, True, True, True, True, False])
    for wrong in ({}, {"dt": 1, "factor": 2}, {"dt": 1, "outputs": "cubic"}, {"dt": -1}):
        with pytest.raises(InputError):
            r.resample(**wrong)


def test_antialias_removes_frequencies_that_would_be_aliased():
    """A slow sine remains and a fast one, which picking would alias, is removed: 0.5 % is the ripple of the filter."""
    time = np.arange(4000) * 1e-3
    slow, fast = 3 + np.sin(2 * np.pi * 5 * time), np.sin(2 * np.pi * 240 * time)
    r = Record(outputs={"y": slow + fast}, dt=1e-3)
    filtered = r.resample(factor=4, antialias=True)
    assert filtered.samples == r.resample(factor=4).samples == 1000
    inside = slice(20, -20)
    error = np.abs(filtered.outputs["y"] - slow[::4])
    assert error[inside].max() < 5e-3
    assert error.max() < 0.5  # half of the fast sine's amplitude: at the ends, the offset of 3 must not drop to zero
    assert np.abs(r.resample(factor=4).outputs["y"] - slow[::4])[inside].max() > 0.5
    with pytest.raises(InputError, match="'y' has 1 missing samples: antialias"):
        Record(outputs={"y": [1, np.nan, 3, 4]}, dt=1).resample(factor=2, antialias=True)
