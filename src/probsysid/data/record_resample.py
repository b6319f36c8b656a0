"""A record's time axis and outputs at another sampling step."""

from collections.abc import Mapping

import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.record_checks import positive_number
from probsysid.data.time_axis import SAME_TIME, NewSamples, NewTimes, Samples, Times


def requested_step(dt: float | None, factor: float | None, present: float | None) -> float:
    """The new step: `dt`, or `factor` times the present one."""
    if dt is not None and factor is None:
        return positive_number("dt", dt)
    if dt is not None or factor is None:
        raise InputError(f"resample needs either dt or factor, got {dt = } and {factor = }.")
    if present is None:
        raise InputError("resample(factor=...) needs uniform sampling; use resample(dt).")
    return positive_number("factor", factor) * present


def whole_ratio(step: float, present: float | None) -> int | None:
    """The number of present steps in a new one, or None if it is not an integer."""
    ratio = 0 if present is None else round(step / present)
    return ratio if present is not None and ratio >= 1 and abs(step / present - ratio) <= SAME_TIME * ratio else None


def uniform_times(time: Times, step: float) -> NewTimes:
    """The uniform grid from the first to the last time."""
    count = int(np.floor(float(time[-1] - time[0]) / step + SAME_TIME)) + 1
    return np.minimum(time[0] + step * np.arange(count), time[-1])


def decimated(outputs: Mapping[str, Samples], ratio: int, antialias: bool) -> dict[str, NewSamples]:
    """Every `ratio`-th sample of each output, low-pass filtered first if `antialias`."""
    if not antialias:
        return {key: values[::ratio] for key, values in outputs.items()}
    for key, values in outputs.items():
        count = int(np.sum(np.isnan(values)))
        if count:
            raise InputError(f"output {key!r} has {count} missing samples: antialias cannot filter it.")
    return {key: _low_passed(values, ratio) for key, values in outputs.items()}


def interpolated(outputs: Mapping[str, Samples], old: Times, new: NewTimes) -> dict[str, NewSamples]:
    """The outputs at other times, by linear interpolation."""
    return {key: np.interp(new, old, values) for key, values in outputs.items()}


def _low_passed(values: Samples, ratio: int) -> NewSamples:
    """Every `ratio`-th sample, without frequencies above half the new sampling rate."""
    from scipy.signal import resample_poly  # takes half a second to import, and is rarely needed

    return resample_poly(values, 1, ratio, padtype="line")
