"""From a record to the data that the filter reads."""

from typing import Any

import numpy as np
import pytest

import probsysid as ps
from probsysid.odefilter import iwp
from probsysid.odefilter.filter_inputs import prepare
from tests.odefilter.cases import Case

T = 12
FORCE, WIND = np.random.default_rng(0).normal(size=(2, T))
POSITION = np.random.default_rng(1).normal(size=T)


def model() -> ps.Model:
    return ps.Model(
        {"x": 2, "z": 1},
        lambda s, u, p: {"x": u.force - s.x - s.z, "z": -s.z},
        lambda s, u, p: {"position": s.x, "acceleration": s.ddx},
    )


def record(**changes: Any) -> ps.Record:
    settings: dict[str, Any] = {"inputs": {"wind": WIND, "force": FORCE}, "outputs": {"position": POSITION}, "dt": 0.1}
    return ps.Record(**(settings | changes))


def hand_made(samples: Any, smoothness: tuple[int, ...], time: np.ndarray, **settings: Any) -> Any:
    """The same samples as `Case` builds them for the textbook filter, given the inputs."""
    return Case(
        model(),
        smoothness,
        time=time,
        outputs=samples.outputs,
        noise=np.ones((2, 1)),
        initial_mean=np.zeros((3, 1)),
        initial_sd=np.zeros((3, 1)),
        grid=samples.grid,
        inputs=samples.inputs,
        **settings,
    ).sample


@pytest.mark.parametrize("substeps", [1, 3])
def test_uniform_and_smooth(substeps: int) -> None:
    ode_filter = ps.Solver(smoothness=3).ode_filter(model())
    samples = prepare(record(intersample="bandlimited"), ode_filter, substeps)
    assert samples.grid.shape == (T, substeps, 1)  # the input that the model uses, not the other
    np.testing.assert_allclose(samples.grid[:, -1, 0], FORCE, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(samples.inputs[:, 0, 0], FORCE, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(samples.outputs[:, 0], POSITION)
    assert np.all(np.isnan(samples.outputs[:, 1]))  # not in the record: missing at all samples
    assert samples.rescale is None
    expected = hand_made(samples, (3, 3), 0.1 * np.arange(T), substeps=substeps)
    for name in ("unit", "scales", "step", "departure"):
        np.testing.assert_allclose(getattr(samples, name), getattr(expected, name), rtol=1e-12, err_msg=name)


def test_held_inputs_jump_at_samples() -> None:
    ode_filter = ps.Solver(smoothness=3).ode_filter(model(), jump_order=0)
    assert ode_filter.restarts
    samples = prepare(record(intersample="zoh"), ode_filter, 2)
    # Over the interval before sample k the input is still that of sample k - 1; at the sample it is its own.
    np.testing.assert_array_equal(samples.grid[1:, :, 0], np.stack([FORCE[:-1]] * 2, axis=-1))
    np.testing.assert_array_equal(samples.inputs[:, 0, 0], FORCE)
    np.testing.assert_array_equal(samples.departure[1:, 0, 0], FORCE[:-1])
    assert not np.any(samples.inputs[..., 1:]) and not np.any(samples.departure[..., 1:])


def test_linear_inputs_depart_with_their_slope() -> None:
    ode_filter = ps.Solver(smoothness=3).ode_filter(model(), jump_order=1)
    assert ode_filter.restarts
    samples = prepare(record(intersample="linear"), ode_filter, 1)
    np.testing.assert_allclose(samples.departure[1:, 0, 1], np.diff(FORCE) / 0.1, rtol=1e-12)
    assert not np.any(samples.inputs[..., 1:])  # a stream does not know the slope that follows the newest sample


def test_irregular_steps() -> None:
    time = np.cumsum(np.random.default_rng(2).uniform(0.05, 0.2, T))
    ode_filter = ps.Solver(smoothness={"x": 4, "z": 1}).ode_filter(model())
    samples = prepare(record(dt=None, time=time), ode_filter, 2)
    np.testing.assert_allclose(samples.step[1:], np.diff(time) / 2, rtol=1e-15)
    for k in (1, 5, T - 1):
        step = (time[k] - time[k - 1]) / 2
        np.testing.assert_allclose(samples.scales[k], [*iwp.scale(4, step), *iwp.scale(1, step)], rtol=1e-15)
        np.testing.assert_allclose(samples.rescale[k] * samples.scales[k], samples.scales[k - 1], rtol=1e-15)
    expected = hand_made(samples, (4, 1), time, substeps=2, uniform=False)
    np.testing.assert_allclose(samples.unit, expected.unit, rtol=1e-12)


def test_an_input_that_is_not_in_the_record() -> None:
    ode_filter = ps.Solver().ode_filter(model())
    with pytest.raises(ps.InputError, match=r"the model uses the input 'force', the record's inputs are: wind"):
        prepare(record(inputs={"wind": WIND}), ode_filter, 1)
