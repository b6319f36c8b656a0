"""Phases of a record's channels changed by frequency: what a filter in front of the converters did, or its undoing."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.fft
from jaxtyping import Float

from probsysid._internal.errors import InputError, did_you_mean
from probsysid.data.intersample import Function
from probsysid.data.time_axis import Samples

Phase = Callable[[Float[np.ndarray, " line"]], Float[np.ndarray, " line"]]
"""Frequencies in Hz, from zero on -> phases in radians."""


def with_phases(
    inputs: Mapping[str, Samples | Function],
    outputs: Mapping[str, Samples],
    dt: float | None,
    phase: Phase,
    channels: Sequence[str] | None,
) -> dict[str, dict[str, Samples | Function]]:
    """The inputs and outputs with `phase` added to the channels named, to all by default."""
    if dt is None:
        raise InputError("allpass needs uniform sampling.")
    known = [*inputs, *(key for key in outputs if key not in inputs)]
    wanted = known if channels is None else list(channels)
    for key in wanted:
        if key not in known:
            raise InputError(f"the record has no channel {key!r}.{did_you_mean(key, known)}")
    changed: dict[str, dict[str, Samples | Function]] = {"inputs": dict(inputs), "outputs": dict(outputs)}
    for kind, values in changed.items():
        for key in wanted:
            if key in values:
                values[key] = _with_phase(f"{kind.removesuffix('s')} {key!r}", values[key], dt, phase)
    return changed


def _with_phase(name: str, values: Samples | Function, dt: float, phase: Phase) -> Samples:
    """The samples with `phase` added at each frequency.

    A rotation of the sample vector: its length is kept exactly, so that white noise stays white and log evidences stay
    comparable.  Its Fourier lines at zero and at half the sampling rate have no phase to change.
    """
    if callable(values):
        raise InputError(f"{name} is a function of time, whose phases allpass cannot change.")
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise InputError(f"{name} is missing at sample {missing[0]}: allpass needs every sample.")
    added = _phases(scipy.fft.rfftfreq(len(values), dt), phase)
    added[0] = 0.0
    if len(values) % 2 == 0:
        added[-1] = 0.0
    return scipy.fft.irfft(scipy.fft.rfft(values) * np.exp(1j * added), len(values))


def _phases(frequencies: Float[np.ndarray, " line"], phase: Phase) -> Float[np.ndarray, " line"]:
    found = np.array(phase(frequencies), dtype=float)
    if found.shape != frequencies.shape:
        raise InputError(
            f"phase must give one angle in radians per frequency: {len(frequencies)} numbers, found an array of shape "
            f"{found.shape}."
        )
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        raise InputError(f"phase is {found[wrong[0]]} at {frequencies[wrong[0]]:.6g} Hz.")
    return found
