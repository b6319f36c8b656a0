"""Weighted statistics."""

import numpy as np

from probsysid._internal.statistics import weighted_moments


def test_values_without_weight_do_not_count() -> None:
    weights = np.array([0.25, 0.0, 0.75, 0.0])
    assert weighted_moments(np.array([1.0, np.inf, 5.0, np.nan]), weights) == (4.0, np.sqrt(3.0))
