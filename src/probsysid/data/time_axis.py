"""When two times are the same, and when a time axis is uniform."""

import numpy as np
from jaxtyping import Float

Times = Float[np.ndarray, "T"]  # the time axis of a record
Samples = Float[np.ndarray, "T"]  # the values of one channel
NewTimes = Float[np.ndarray, "new_T"]  # after resampling
NewSamples = Float[np.ndarray, "new_T"]

# Two times closer than this fraction of a sampling step are the same time: far above the rounding of t_0 + k*dt, far
# below any step that a solver takes.
SAME_TIME = 1e-6
# A time axis is uniform if no sample is further than this fraction of a step from the uniform grid.
ON_GRID = 1e-3


def uniform_step(time: Times) -> float | None:
    """The sampling step, or None if one step is off by more than 1e-6 of it, or one sample by more than 1e-3."""
    if len(time) < 2:
        return None
    step = float(time[-1] - time[0]) / (len(time) - 1)
    jitter = np.max(np.abs(np.diff(time) - step))
    drift = np.max(np.abs(time - time[0] - step * np.arange(len(time))))
    return step if jitter <= SAME_TIME * step + rounding(time) and drift <= ON_GRID * step else None


def rounding(time: Times) -> float:
    """A bound on the rounding error of a difference of two of these times."""
    return float(4 * np.spacing(np.max(np.abs(time))))
