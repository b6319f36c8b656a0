"""The settings of the particle filter."""

from dataclasses import dataclass
from typing import Literal, get_args

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.validation import is_real, is_whole

Guide = Literal["auto", "ekf", "none"]

MOST_POINTS = 2**16
"""Beyond this many points per particle the noise of an estimate has other reasons than their number."""


@dataclass(frozen=True)
class ParticleFilter:
    """How likelihoods are estimated that are not Gaussian sample by sample: by points that move with the equations'
    noise and are weighted by the data, within each particle of the sampler.

    `identify` and `Identifier` take it in place of a `Solver`; a model that needs it gets it by itself.

    Args:
        particles: points within each particle to begin with.
        guide: `"ekf"` draws the noise of each interval from its Gaussian approximation given the next sample, which
            needs far fewer points; `"none"` draws it without looking ahead (the bootstrap filter); `"auto"` guides
            where the data say something about the noise.
        substeps: integration steps per sampling interval.
        ess: points are resampled when their effective number falls below this fraction.
        most: points within each particle at most; their number is doubled when few moves are accepted.
    """

    particles: int = 64
    guide: Guide = "auto"
    substeps: int = 4
    ess: float = 0.5
    most: int = 4096

    def __post_init__(self) -> None:
        for name, least in (("particles", 1), ("substeps", 1), ("most", 1)):
            value = getattr(self, name)
            if not is_whole(value) or not least <= value <= MOST_POINTS:
                raise InputError(
                    f"ParticleFilter: {name} is {value!r}; it must be a whole number from {least} to {MOST_POINTS}."
                )
        if self.guide not in get_args(Guide):
            hint = did_you_mean(str(self.guide), get_args(Guide))
            raise InputError(f"ParticleFilter: guide is {self.guide!r}; it must be 'auto', 'ekf' or 'none'.{hint}")
        if not (is_real(self.ess) and 0 < self.ess <= 1):
            raise InputError(f"ParticleFilter: ess is {self.ess!r}; it must be above 0 and at most 1.")

    def points(self, level: int) -> int:
        """Points within each particle after their number was doubled `level` times."""
        return self.particles * 2**level

    @property
    def levels(self) -> int:
        """How many times their number may be doubled."""
        return max(0, (self.most // self.particles).bit_length() - 1)
