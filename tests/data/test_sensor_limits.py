"""Clipped and quantised channels, told from their values; resolutions and slow peaks are neither."""

import numpy as np

from probsysid.data.sensor_limits import runs_at, sensor_limits

TIME = np.arange(1000)
SINE = np.sin(0.02 * TIME)


def test_clipping_is_found_on_the_side_where_it_is() -> None:
    noisy = SINE + 0.01 * np.random.default_rng(0).standard_normal(len(TIME))
    assert sensor_limits(noisy) == {}
    assert sensor_limits(np.minimum(noisy, 0.8)) == {"upper": 0.8}
    assert sensor_limits(np.clip(noisy, -0.5, 0.8)) == {"upper": 0.8, "lower": -0.5}
    gaps = np.minimum(noisy, 0.8)
    gaps[::7] = np.nan
    assert sensor_limits(gaps) == {"upper": 0.8}


def test_a_slow_peak_seen_with_a_coarse_resolution_is_not_clipped() -> None:
    assert sensor_limits(np.round(SINE / 0.01) * 0.01) == {}
    assert sensor_limits(np.round(np.minimum(SINE, 0.8) / 0.01) * 0.01).keys() == {"upper"}


def test_a_step_is_found_where_noise_and_motion_do_not_hide_it() -> None:
    noise = np.random.default_rng(0).standard_normal(len(TIME))
    assert sensor_limits(np.round(SINE / 0.25) * 0.25) == {"step": 0.25}
    assert sensor_limits(np.round((SINE + 0.01 * noise) / 0.05) * 0.05) == {"step": 0.05}
    assert sensor_limits(np.round((SINE + 0.1 * noise) / 0.05) * 0.05) == {}
    assert sensor_limits(np.repeat(SINE[::5], 5)) == {}  # held values are no multiples of a step


def test_what_says_nothing_has_no_limits() -> None:
    assert sensor_limits(np.full(10, np.nan)) == {} and sensor_limits(np.ones(300)) == {}
    assert runs_at(np.array([0.0, 1, 1, 1, 0, 1]), 1.0) == (3, 3)
