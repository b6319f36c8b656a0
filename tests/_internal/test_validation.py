"""Predicates and look-ups for values that users give, and the errors made of them."""

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from probsysid._internal.errors import InputError, ModelWarning, SamplingError, said_later
from probsysid._internal.validation import choose, is_finite, is_real, is_whole


@pytest.mark.parametrize(
    ("value", "real", "whole", "finite"),
    [
        (3, True, True, True),
        (np.int64(3), True, True, True),
        (2.5, True, False, True),
        (np.float32(2.5), True, False, True),
        (Fraction(1, 3), True, False, True),
        (np.inf, True, False, False),
        (np.nan, True, False, False),
        (True, False, False, True),
        ("3", False, False, True),  # NumPy reads numbers from text
        ("three", False, False, False),
        (None, False, False, False),
        (1j, False, False, False),
        ([1.0, 2.0], False, False, True),
        (np.array([1.0, np.nan]), False, False, False),
    ],
)
def test_kinds_of_numbers(value: Any, real: bool, whole: bool, finite: bool) -> None:
    assert (is_real(value), is_whole(value), is_finite(value)) == (real, whole, finite)


def test_choices_by_name() -> None:
    known = {"ekf-1": 1, "none": None}
    given = object()
    assert choose("method", given, known) is given
    assert choose("method", "EKF_1", known) == 1
    assert choose("method", "none", known) is None
    with pytest.raises(InputError, match=r"^method is 'ekf1'; known are: ekf-1, none\. Did you mean 'ekf-1'\?$"):
        choose("method", "ekf1", known)


def test_only_warnings_about_the_model_are_suppressed() -> None:
    with said_later():
        warnings.warn("the data contradict the model", ModelWarning, stacklevel=1)
    with said_later(), pytest.warns(UserWarning, match="another"):
        warnings.warn("another", UserWarning, stacklevel=1)


def test_a_sampling_error_has_its_sample() -> None:
    assert (SamplingError("stopped", 7).sample, SamplingError("stopped").sample) == (7, None)
