"""Uniform time axes."""

import numpy as np
import pytest

from probsysid.data.time_axis import uniform_step


def test_uniform_step_allows_rounding_and_not_drift():
    assert uniform_step(1.7e9 + 1e-3 * np.arange(1000)) == pytest.approx(1e-3, rel=5e-7)  # spacing 2.4e-7
    slow_then_fast = np.cumsum(np.where(np.arange(100_000) < 50_000, 1 + 5e-7, 1 - 5e-7))
    assert uniform_step(slow_then_fast) is None  # each step is within 1e-6, yet the middle is 0.025 steps off
    assert uniform_step(np.array([1.0])) is None
