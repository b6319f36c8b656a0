"""Sample times from a column: units, dates, rounding, jitter and gaps; errors name the line."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from probsysid._internal.errors import InputError
from probsysid.data.readers.table import Table
from probsysid.data.time_axis import uniform_step

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "d": 86400.0}

SMALL = 0.01
"""The fraction of a step by which times may be off a uniform grid and still be taken as uniform."""

ROUNDED = 0.6
"""The same for rounded times, in units of their last digit: rounding moves a time by up to half of it."""

Jitter = Literal["auto", "keep", "remove"]


@dataclass(frozen=True, eq=False)
class Sampling:
    """The times of the samples; `dt` if they are uniform."""

    time: np.ndarray
    dt: float | None
    notes: tuple[str, ...] = ()


def sample_times(table: Table, column: str | int, unit: str, jitter: Jitter) -> Sampling:
    """The time axis given by a column."""
    time = _seconds(table, column, unit)
    label = f"{table.path}: the time column {str(column)!r}"
    _check(time, label, table.place)
    step = uniform_step(time)
    if step is not None or len(time) < 3:
        return Sampling(time, step)
    step, offset, off = _grid(time)
    described = (
        f"the time column {str(column)!r} is off a uniform grid, step {step:.6g} s, by up to {off / step:.2g} steps"
    )
    gaps = int(np.sum(np.diff(time) > 1.5 * np.median(np.diff(time))))
    remove = jitter == "remove" or (jitter == "auto" and (off <= SMALL * step or off <= ROUNDED * _last_digit(time)))
    if remove:
        if off > 0.5 * step:
            raise InputError(
                f"{label} cannot be taken as uniform: it is off by up to {off / step:.2g} of a step"
                f"{f', with {gaps} gaps' if gaps else ''}; leave jitter at 'auto' or set 'keep'."
            )
        return Sampling(offset + step * np.arange(len(time)), step, (f"{described}: taken as uniform",))
    note = f"{described}{f', with {gaps} gaps' if gaps else ''}: kept as it is"
    return Sampling(time, None, (note,))


def _seconds(table: Table, column: str | int, unit: str) -> np.ndarray:
    """A column of numbers in a unit of time, or of dates, in seconds."""
    raw = table.raw(column)
    if isinstance(raw, pd.Series) and not pd.api.types.is_numeric_dtype(raw):
        dates = raw if pd.api.types.is_datetime64_any_dtype(raw) else _dates(raw)
        if dates is not None:
            return (dates - dates.iloc[0]).dt.total_seconds().to_numpy(float)
    return table.numbers(column) * SECONDS[unit]


def _dates(raw: pd.Series) -> pd.Series | None:
    """Dates such as 2024-03-01 12:00:00.25; None if not all cells are dates."""
    try:
        return pd.to_datetime(raw, format="ISO8601")
    except (ValueError, TypeError, OverflowError):
        return None


def _check(time: np.ndarray, label: str, place: Callable[[int], str]) -> None:
    if not np.all(np.isfinite(time)):
        k = int(np.argmin(np.isfinite(time)))
        raise InputError(f"{label} has {'no value' if np.isnan(time[k]) else time[k]} at {place(k)}.")
    steps = np.diff(time)
    if np.any(steps <= 0):
        k = int(np.argmax(steps <= 0)) + 1
        what = "repeats" if steps[k - 1] == 0 else "goes back: it has"
        raise InputError(
            f"{label} {what} {time[k]:.10g} s at {place(k)}, after {time[k - 1]:.10g} s; times must increase."
        )


def _grid(time: np.ndarray) -> tuple[float, float, float]:
    """Step (by least squares) and start of the closest uniform grid, and the largest distance from it."""
    index = np.arange(len(time)) - (len(time) - 1) / 2
    step = float(index @ time / (index @ index))
    residual = time - step * np.arange(len(time))
    offset = float((residual.max() + residual.min()) / 2)
    return step, offset, float(np.max(np.abs(residual - offset)))


def _last_digit(time: np.ndarray) -> float:
    """The decimal unit to which all times are rounded; 0 if they are not rounded."""
    reach = np.max(np.abs(time))
    for digits in range(-3, 10):
        scaled = time * 10.0**digits
        if np.max(np.abs(scaled - np.round(scaled))) < 1e-9 * max(reach * 10.0**digits, 1.0) + 1e-9:
            return float(10.0**-digits)
    return 0.0
