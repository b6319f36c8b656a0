"""What the filter reads at one sample: inputs, measured outputs and the step's units, equal for all particles."""

from typing import Any, NamedTuple

from probsysid._internal.array_types import Numbers, Scalar


class IntervalData(NamedTuple):
    """A sample and the interval that leads to it; of many samples, with the sample axis first."""

    grid: Numbers
    """Inputs at the end of each step of the interval, as limits from the left: (substeps, input)."""
    inputs: Numbers
    """Inputs and their time derivatives at the sample, as limits from the right: (input, derivative).  The derivatives
    are read at the start only."""
    departure: Numbers
    """The same at the previous sample, where the interval begins."""
    outputs: Numbers
    """Measured outputs, NaN where missing."""
    unit: Numbers
    """Variance of the ODE residual for unit diffusion: (substeps, coordinate)."""
    scales: Numbers
    """Nordsieck scales: the physical value of one scaled unit of each component on this interval."""
    step: Numbers
    """Length of one integration step on this interval."""
    rescale: Numbers | None = None
    """Scales of the previous interval over those of this one; None if all intervals are equal."""
    count: Any = None  # not Numbers | None: a tuple has a method of this name, of another type
    """Number of steps of the interval if `grid` and `unit` are padded; None if they are not."""
    index: Any = None
    """Numbers of the record and of the sample in it, for filters that draw random numbers; None for others."""

    @property
    def share(self) -> Scalar:
        """Length of one integration step in sampling intervals."""
        return 1 / (self.grid.shape[0] if self.count is None else self.count)
