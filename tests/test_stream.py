"""A stream is a batch: the same posterior to the last bit, however the samples are portioned."""

import numpy as np
import pytest

import probsysid as ps
from tests import duffing

SAMPLES = 90


@pytest.fixture(scope="module")
def record() -> ps.Record:
    return duffing.measure(SAMPLES)


@pytest.fixture(scope="module")
def batch(record: ps.Record) -> ps.Posterior:
    return ps.identify(duffing.model, record, **duffing.options())


def feed(online: ps.Identifier, record: ps.Record, first: int, last: int) -> None:
    online.update({"force": record.inputs["force"][first:last]}, {"position": record.outputs["position"][first:last]})


def assert_identical(one: ps.Posterior, other: ps.Posterior) -> None:
    np.testing.assert_array_equal(one.theta, other.theta)
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.evidence_by_part, other.evidence_by_part)
    np.testing.assert_array_equal(one.history.ess, other.history.ess)
    assert one.history.rejuvenations == other.history.rejuvenations


def test_one_by_one(record: ps.Record, batch: ps.Posterior) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    for k in range(SAMPLES):
        online.update({"force": record.inputs["force"][k]}, {"position": record.outputs["position"][k]})
    assert_identical(online.posterior, batch)


def test_in_blocks_saved_and_loaded(record: ps.Record, batch: ps.Posterior, tmp_path) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    for first, last in [(0, 1), (1, 40), (40, 41)]:
        feed(online, record, first, last)
    online.save(tmp_path / "state.npz")
    online = ps.Identifier.load(tmp_path / "state.npz")
    feed(online, record, 41, SAMPLES)
    assert_identical(online.posterior, batch)


def test_the_posterior_on_the_way_is_that_of_the_record_so_far(record: ps.Record) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    feed(online, record, 0, 60)
    assert_identical(online.posterior, ps.identify(duffing.model, record[:60], **duffing.options()))


def test_missing_outputs_may_be_left_out(record: ps.Record) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    feed(online, record, 0, 20)
    online.update({"force": record.inputs["force"][20:25]}, {})
    feed(online, record, 25, 40)
    gaps = np.array(record.outputs["position"][:40])
    gaps[20:25] = np.nan
    batch = ps.identify(duffing.model, record[:40].replace(outputs={"position": gaps}), **duffing.options())
    assert_identical(online.posterior, batch)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({"forse": 1.0}, {"position": 1.0}, "no input 'forse'"),
        ({}, {"position": 1.0}, "input 'force' is missing"),
        ({"force": np.nan}, {"position": 1.0}, "input 'force' is nan"),
        ({"force": 1.0}, {"position": np.inf}, "output 'position' is inf"),
        ({"force": [1.0, 2.0]}, {"position": 1.0}, "different lengths"),
        ({"force": "much"}, {"position": 1.0}, "'much'"),
        ({"force": 1.0}, {"velocity": 1.0}, "no output 'velocity'"),
    ],
)
def test_bad_samples_are_refused_and_nothing_is_taken_in(inputs, outputs, message) -> None:
    online = ps.Identifier(duffing.model, dt=duffing.DT, **duffing.options())
    with pytest.raises(ps.InputError, match=message):
        online.update(inputs, outputs)
    assert online.samples == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dt": 0.0}, "dt is 0.0"),
        ({"intersample": "bandlimited"}, "online it must be"),
        ({"noise": {}}, "noise has no entry for 'position'"),
        ({"seed": -1}, "seed is -1"),
        ({"sampler": ps.Sampler(path="likelihood")}, "online it must be 'data'"),
    ],
)
def test_bad_settings(changes, message) -> None:
    with pytest.raises(ps.InputError, match=message):
        ps.Identifier(duffing.model, **{"dt": duffing.DT, **duffing.options(), **changes})
