"""Typical scales of force, length and time in the data, which give first guesses of parameters."""

from dataclasses import dataclass

import numpy as np

from probsysid.data.readers import Table
from probsysid.study.catalogue import ParameterHint
from probsysid.study.columns import Columns
from probsysid.study.first_look import FirstLook


@dataclass(frozen=True)
class Scales:
    """Typical force, length and time of the data."""

    force: float
    length: float
    time: float

    def guess(self, hint: ParameterHint) -> float:
        """A parameter's value by dimensional analysis: its factor times powers of the scales."""
        a, b, c = hint.dimension
        return float(hint.factor * self.force**a * self.length**b * self.time**c)


def data_scales(table: Table, columns: Columns, time: np.ndarray, lag: FirstLook | None = None) -> Scales:
    """Standard deviations, and the time per radian at the first output's strongest line; where the response is a lag,
    its gain and its time constant."""
    duration = float(time[-1] - time[0]) or 1.0
    force = max((spread(columns.numbers(table, name)) for name in columns.inputs.values()), default=1.0)
    if not columns.outputs:
        return Scales(force, 1.0, duration / 20)
    quantity, column = next(iter(columns.outputs.items()))
    values = columns.numbers(table, column)
    period = duration / max(_strongest_line(values[np.isfinite(values)]), 1.0)
    if lag is not None and np.isfinite(lag.gain) and lag.gain != 0:
        return Scales(force, abs(lag.gain) * force, lag.time)
    radian = period / (2 * np.pi) if lag is None else lag.time
    power = 2 if quantity.startswith("acceleration") else 1 if quantity.startswith("velocity") else 0
    return Scales(force, spread(values) * radian**power, radian)


def spread(values: np.ndarray) -> float:
    """Standard deviation of the finite values; their magnitude, at least 1, if they are constant."""
    finite = values[np.isfinite(values)]
    deviation = float(np.std(finite)) if len(finite) else 0.0
    return deviation if deviation > 0 else max(float(np.max(np.abs(finite), initial=0.0)), 1.0)


def _strongest_line(values: np.ndarray) -> float:
    """Number of periods in the record at the strongest line of its spectrum, linear trend removed."""
    if len(values) < 8:
        return 1.0
    index = np.arange(len(values))
    detrended = values - np.polyval(np.polyfit(index, values, 1), index)
    spectrum = np.abs(np.fft.rfft(detrended * np.hanning(len(values))))
    return float(np.argmax(spectrum[1:]) + 1)
