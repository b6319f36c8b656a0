"""Records: the arguments they accept and refuse, and the inputs they give to a solver."""

import copy
import math
import pickle

import numpy as np
import pandas
import pytest
import xarray
from hypothesis import given
from hypothesis import strategies as st

from probsysid._internal.errors import InputError
from probsysid.data.record import Record
from tests.data.records import FORCE, POSITION, WORDS, T, record

# Contents


def test_attributes():
    r = record(start=2.0, units={"force": "N"}, name="run 7")
    np.testing.assert_allclose(r.time, 2 + 0.1 * np.arange(T), rtol=1e-15)
    assert (r.dt, r.samples, len(r), r.name) == (0.1, T, T, "run 7")
    assert r.duration == pytest.approx(4.9)
    assert (r.input_names, r.output_names) == (("force",), ("position",))
    np.testing.assert_array_equal(r.inputs["force"], FORCE)
    np.testing.assert_array_equal(r.outputs["position"], POSITION)
    assert dict(r.units) == {"force": "N"}
    assert dict(r.intersample) == {"force": "linear"}


def test_it_copies_and_is_read_only():
    mine = FORCE.copy()
    r = record(inputs={"force": mine})
    mine[:] = 0
    np.testing.assert_array_equal(r.inputs["force"], FORCE)
    assert mine.flags.writeable
    for array in (r.time, r.inputs["force"], r.outputs["position"], r[3:9].inputs["force"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError):
        r.inputs["force"] = mine
    with pytest.raises(AttributeError, match=r"read-only, 'dt'.*replace"):
        r.dt = 1.0


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_copies_and_pickles(clone):
    r = record(intersample="bandlimited", units={"force": "N"})[10:40]
    other = clone(r)
    assert repr(other) == repr(r)
    np.testing.assert_array_equal(other.input_grid(3), r.input_grid(3))
    assert not other.outputs["position"].flags.writeable


@pytest.mark.parametrize("make", [list, tuple, pandas.Series, xarray.DataArray, np.float32])
def test_sequences_of_any_kind(make):
    r = record(inputs={"force": make(FORCE)})
    assert r.inputs["force"].dtype == np.float64
    np.testing.assert_allclose(r.inputs["force"], FORCE, rtol=1e-7)


def test_masked_samples_are_missing():
    r = Record(outputs={"y": np.ma.masked_greater(np.arange(4), 2)}, dt=1)
    np.testing.assert_array_equal(r.outputs["y"], [0, 1, 2, np.nan])
    with pytest.raises(InputError, match="input 'u' is nan at sample 3"):
        Record(inputs={"u": np.ma.masked_greater(np.arange(4), 2)}, dt=1)


def test_a_name_may_be_input_and_output():
    r = Record({"x": FORCE}, {"x": POSITION}, dt=0.1, units={"x": "m"})
    assert r.input_names == r.output_names == ("x",)


def test_without_channels_or_with_functions_only():
    assert Record(time=[0, 1, 3]).input_grid(2).shape == (3, 2, 0)
    assert Record(time=[0, 1, 3]).input_derivatives(2).shape == (3, 0, 3)
    assert Record(time=[0, 1, 3]).input_at([0.5]).shape == (1, 0)
    assert Record(dt=0.5, samples=3).duration == 1.0
    assert Record({"u": np.sin}, dt=0.5, samples=3).inputs["u"] is np.sin


def test_repr():
    y = POSITION.copy()
    y[3:5] = np.nan
    r = record(outputs={"y": y}, units={"force": "N", "y": "mm"}, name="run")
    channels = "inputs: force [N] (linear); outputs: y [mm] (2 missing)"
    assert repr(r) == f"Record('run', 50 samples; dt=0.1 s; {channels})"
    assert repr(Record(time=[0, 1, 3])) == "Record(3 samples; non-uniform)"


# Time


def test_uniform_within_jitter():
    time = np.linspace(3, 7, 1001)
    assert Record(time=time).dt == pytest.approx(0.004, rel=1e-12)
    wiggle = np.where(np.arange(1001) % 2, 1e-7, -1e-7) * 0.004
    assert Record(time=time + wiggle).dt == pytest.approx(0.004, rel=1e-9)  # 2e-7 / 1000 at most
    assert Record(time=time + 100 * wiggle).dt is None
    np.testing.assert_array_equal(Record(time=time + 100 * wiggle).time, time + 100 * wiggle)


# Errors name what is wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either dt or time, got neither"),
        ({"dt": 1, "time": [0]}, "either dt or time, got both"),
        ({"dt": 1}, "without sampled channels needs time, or dt and samples"),
        ({"inputs": {"u": np.sin}, "dt": 1}, "without sampled channels needs time, or dt and samples"),
        ({"time": [0, 1], "samples": 2}, "go with dt, not with time: got samples = 2"),
        ({"time": [0, 1], "start": 3.0}, r"go with dt, not with time: .*start = 3\.0"),
        ({"dt": -0.1, "samples": 3}, r"dt must be positive, got -0\.1"),
        ({"dt": "fast", "samples": 3}, "dt must be a finite number, got 'fast'"),
        ({"dt": 1, "samples": 2.5}, r"samples must be a whole number, 1 or more, got 2\.5"),
        ({"dt": 1, "samples": 0}, "samples must be a whole number, 1 or more, got 0"),
        ({"dt": 1, "samples": 3, "start": np.nan}, "start must be a finite number, got nan"),
        ({"time": [0, 1, 1]}, r"time must increase, but time\[2\] = 1\.0 follows time\[1\] = 1\.0"),
        ({"time": [0, 2, 1]}, r"time\[2\] = 1\.0 follows time\[1\] = 2\.0"),
        ({"time": [0, np.nan, 1]}, r"time\[1\] is nan"),
        ({"time": np.array(["2024-01-01"], dtype="datetime64[s]")}, r"time holds dates \(2024-01-01"),
        ({"inputs": FORCE, "dt": 1}, "inputs must map names to samples, .* got a ndarray"),
        ({"inputs": {"u 1": FORCE}, "dt": 1}, "inputs: a name must be a Python identifier .* got 'u 1'"),
        ({"outputs": {"lambda": FORCE}, "dt": 1}, "outputs: .* no keyword, got 'lambda'"),
        ({"outputs": {3: FORCE}, "dt": 1}, "outputs: .* got 3"),
        (
            {"inputs": {"u": [1, 2]}, "outputs": {"y": [1]}, "dt": 1},
            "output 'y' has 1 samples, but input 'u' has 2",
        ),
        ({"outputs": {"y": [1, 2]}, "time": [0, 1, 2]}, "output 'y' has 2 samples, but time has 3"),
        ({"outputs": {"y": [1, 2]}, "dt": 1, "samples": 3}, "output 'y' has 2 samples, but the record has 3"),
        ({"outputs": {"y": []}, "dt": 1}, "output 'y' is empty"),
        (
            {"outputs": {"y": np.ones((4, 1))}, "dt": 1},
            r"output 'y' has shape \(4, 1\), expected one dimension",
        ),
        ({"outputs": {"y": 3.0}, "dt": 1}, r"output 'y' has shape \(\)"),
        ({"outputs": {"y": [1j]}, "dt": 1}, r"output 'y' holds complex numbers \(1j\)"),
        ({"outputs": {"y": ["a"]}, "dt": 1}, r"output 'y' holds text \(a\)"),
        ({"outputs": {"y": [object()]}, "dt": 1}, "output 'y' holds something that is not a number"),
        ({"outputs": {"y": [0, np.nan, -np.inf]}, "dt": 1}, "output 'y' is -inf at sample 2: write NaN"),
        ({"inputs": {"u": [0, 1, np.nan]}, "dt": 1}, "input 'u' is nan at sample 2"),
        ({"inputs": {"u": [0, np.inf]}, "dt": 1}, "input 'u' is inf at sample 1"),
        ({"inputs": {"u": [0, 1]}, "dt": 1, "units": {"v": "N"}}, "units: there is no channel 'v'"),
        (
            {"inputs": {"force": [0]}, "dt": 1, "intersample": "bandlimitted"},
            "one of zoh, linear, bandlimited, periodic, got 'bandlimitted'. Did you mean 'bandlimited'",
        ),
        ({"inputs": {"u": [0]}, "dt": 1, "intersample": "foh"}, "got 'foh'. Did you mean 'linear'"),
        ({"inputs": {"u": [0]}, "dt": 1, "intersample": "bl"}, "got 'bl'. Did you mean 'bandlimited'"),
        ({"inputs": {"u": [0]}, "dt": 1, "intersample": None}, "got None"),
        (
            {"inputs": {"force": [0]}, "dt": 1, "intersample": {"forse": "zoh"}},
            "no input 'forse'. Did you mean 'force'",
        ),
        (
            {"inputs": {"u": [0]}, "dt": 1, "intersample": {"u": "spline"}},
            "intersample of 'u' must be .* got 'spline'",
        ),
        (
            {"inputs": {"u": np.sin}, "time": [0, 1], "intersample": {"u": "zoh"}},
            "intersample of 'u' must be one of callable, got 'zoh'",
        ),
        (
            {"inputs": {"u": [0, 1, 2]}, "time": [0, 1, 3], "intersample": "bandlimited"},
            "'u': intersample='bandlimited' needs uniform sampling, but the steps of time go from 1 to 2 s",
        ),
        (
            {"inputs": {"u": lambda t: math.log(t - 2)}, "time": [1, 2]},
            "input 'u': it fails at t = 1 s: ",
        ),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InputError, match=message):
        Record(**arguments)


def test_refusals_of_methods():
    r = record()
    with pytest.raises(InputError, match=r"record\[3\]"):
        r[3]
    with pytest.raises(InputError, match=r"step 1, got 2; use resample\(factor"):
        r[::2]
    with pytest.raises(InputError, match=r"record\[60:\] is empty: the record has 50 samples"):
        r[60:]
    with pytest.raises(InputError, match="substeps must be a whole number, 1 or more, got 0"):
        r.input_grid(0)
    with pytest.raises(InputError, match="order must be a whole number, 0 or more, got -1"):
        r.input_derivatives(-1)
    with pytest.raises(InputError, match=r"known from 0 to 4\.9 s, not at 5 s"):
        r.input_at([0.0, 5.0])
    with pytest.raises(InputError, match="not at nan s"):
        r.input_at(np.nan)
    with pytest.raises(InputError, match="'left' or 'right', got 'middle'"):
        r.input_at([0.0], side="middle")
    with pytest.raises(InputError, match=r"not 'output'\. Did you mean 'outputs'"):
        r.replace(output={})


# Inputs as functions of time


def test_grid_and_derivatives_hold_each_input_in_its_place():
    time = np.array([0.0, 1.0, 3.0])
    r = Record({"a": [1, 2, 4], "b": [1, 2, 4], "c": np.square}, time=time, intersample={"a": "zoh"})
    assert dict(r.intersample) == {"a": "zoh", "b": "linear", "c": "callable"}
    grid = r.input_grid(2)
    np.testing.assert_array_equal(grid[..., 0], [[1, 1], [1, 1], [2, 2]])
    np.testing.assert_array_equal(grid[..., 1], [[1, 1], [1.5, 2], [3, 4]])
    np.testing.assert_array_equal(grid[..., 2], [[0, 0], [0.25, 1], [4, 9]])
    derivatives = r.input_derivatives(2)
    np.testing.assert_array_equal(derivatives[:, 0], [[1, 0, 0], [2, 0, 0], [4, 0, 0]])
    np.testing.assert_array_equal(derivatives[:, 1], [[1, 1, 0], [2, 1, 0], [4, 1, 0]])
    # A polynomial of degree 2: exact up to rounding, which grows by about 100 per derivative.
    np.testing.assert_allclose(derivatives[:, 2], [[0, 0, 2], [1, 2, 2], [9, 6, 2]], atol=1e-9)
    np.testing.assert_array_equal(r.input_at([1.0], "left"), [[1, 2, 1]])
    np.testing.assert_array_equal(r.input_at(1.0), [[2, 2, 1]])


def test_input_at_tolerates_rounding_at_the_ends():
    r = record()
    np.testing.assert_array_equal(r.input_at([-1e-9, r.time[-1] + 1e-9])[:, 0], FORCE[[0, -1]])
    assert Record({"u": math.sqrt}, dt=0.1, samples=3).input_at(-1e-9) == 0


def test_jump_order():
    assert Record(time=[0, 1]).jump_order is None
    assert [record(intersample=word).jump_order for word in WORDS] == [0, 1, None, None]
    both = {"inputs": {"a": FORCE, "b": FORCE}}
    assert record(**both, intersample={"a": "zoh", "b": "linear"}).jump_order == 0
    assert record(**both, intersample={"a": "bandlimited", "b": "linear"}).jump_order == 1
    assert Record({"u": np.sin}, time=[0, 1]).jump_order is None


@given(st.sampled_from(WORDS), st.integers(0, T - 1), st.integers(1, T), st.integers(1, 4), st.integers(0, 3))
def test_slicing_commutes_with_everything(word, first, length, substeps, order):
    """The inputs of a slice are those of the whole record, at its ends too, and after slicing again."""
    whole = record(intersample=word)
    rows = slice(first, min(first + length, T))
    part = whole[: rows.stop][rows.start :]
    np.testing.assert_array_equal(part.time, whole.time[rows])
    np.testing.assert_array_equal(part.inputs["force"], FORCE[rows])
    np.testing.assert_array_equal(part.outputs["position"], POSITION[rows])
    np.testing.assert_array_equal(part.input_grid(substeps)[1:], whole.input_grid(substeps)[rows][1:])
    np.testing.assert_array_equal(part.input_grid(substeps)[0, :, 0], np.full(substeps, FORCE[first]))
    np.testing.assert_array_equal(part.input_derivatives(order), whole.input_derivatives(order)[rows])
    np.testing.assert_array_equal(part.input_at(part.time), whole.input_at(part.time))


def test_slice_has_no_edges():
    """For lines up to 0.45 fs the error is 2e-2 at the end of a record and 3e-8 inside: a slice has that of the inside.

    From the table of `BandLimited`, whose numbers are rms values over windows: ten times those bound a maximum.
    """
    frequency, phase = 2 * np.pi * np.linspace(0.01, 0.45, 200), np.random.default_rng(1).uniform(0, 6, 200)

    def signal(times):
        return np.cos(np.multiply.outer(times, frequency) + phase).sum(axis=-1) / 10

    time = np.arange(2000.0)
    part = Record({"u": signal(time)}, dt=1, intersample="bandlimited")[900:1100]
    middles = part.input_grid(2)[1:, 0, 0]
    assert np.abs(middles - signal(part.time[:-1] + 0.5)).max() < 3e-7


def test_negative_slices_keep_time_and_step():
    part = record()[-10:-1]
    assert (part.samples, part.dt) == (9, 0.1)
    assert part.time[0] == pytest.approx(4.0)


# Replacing


def test_replace():
    r = record(intersample="bandlimited", units={"force": "N", "position": "m"})
    part = r[10:20]
    new = part.replace(outputs={"speed": np.zeros(10)}, name="new")
    assert (new.name, new.output_names, dict(new.units)) == ("new", ("speed",), {"force": "N"})
    np.testing.assert_array_equal(new.input_grid(3), part.input_grid(3))  # still without edges
    np.testing.assert_array_equal(new.time, part.time)
    doubled = r.replace(inputs={"force": 2 * FORCE})
    assert doubled.intersample["force"] == "bandlimited"
    np.testing.assert_array_equal(doubled.input_grid(3), 2 * r.input_grid(3))  # a factor of 2 adds no rounding
    assert r.replace(inputs={"force": np.sin}).intersample["force"] == "callable"
    assert part.replace(intersample="zoh").jump_order == 0
    with pytest.raises(InputError, match="output 'y' has 3 samples, but the record has 10"):
        part.replace(outputs={"y": [1, 2, 3]})
    uneven = Record({"u": [1, 2, 3]}, time=[0, 1, 3]).replace(outputs={"y": [1, 2, 3]})
    assert uneven.dt is None


def test_single_samples():
    for word in WORDS:
        one = record(intersample=word)[7:8]
        assert one.input_grid(2).shape == (1, 2, 1)
        assert one.replace(name="one").dt == 0.1
        lone = Record({"u": [3]}, time=[1.0], intersample=word)
        np.testing.assert_allclose(lone.input_derivatives(2), [[[3, 0, 0]]])
        np.testing.assert_allclose(lone.input_grid(2), [[[3], [3]]])
