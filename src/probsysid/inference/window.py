"""Streams of any length: samples that a rejuvenation need not go over again.

Every `length` samples the posterior, as a function of the particle, is noted (`CarriedPosterior`).  `length` samples
later it takes the place of everything before: particles are weighted for what stands instead, exactly, as where the
number of integration steps changes, so that the evidence stays right.  The weights say what that costs.  Where they
would be too uneven, because the posterior is not close to a Gaussian yet, all samples are kept until it is.
"""

from dataclasses import dataclass, replace

import numpy as np

from probsysid._internal.errors import InputError
from probsysid._internal.validation import check_count
from probsysid.smc.adaptive_substeps import TOLERANCE, LevelEvaluation, loss
from probsysid.smc.ibis import IBISState
from probsysid.targets.carried import PER_COEFFICIENT, CarriedPosterior, coefficients
from probsysid.targets.stream_target import StreamTarget

SHORTEST = 64
"""Samples."""


@dataclass(frozen=True, eq=False)
class Window:
    """How many samples a stream keeps, and the posterior that will stand for those before."""

    length: int
    noted: CarriedPosterior | None = None

    @classmethod
    def checked(cls, length: object, target: StreamTarget) -> "Window":
        """For a stream that begins; raises where there are too few particles for what has to be fitted to them."""
        window = cls(check_count("window", length, SHORTEST))
        dimension = target.problem.space.dimension
        needed = PER_COEFFICIENT * coefficients(dimension)
        if target.particles < needed:
            raise InputError(
                f"window needs at least {needed} particles for {dimension} unknowns, not {target.particles}; "
                "take more, or leave window out."
            )
        return window

    def end(self, samples: int) -> int:
        """The number of samples after which it is next looked at."""
        return (samples // self.length + 1) * self.length

    def moved(self, run: IBISState, target: StreamTarget) -> "tuple[Window, IBISState, StreamTarget]":
        """After so many samples: the posterior that was noted before takes over, and the present one is noted."""
        if self.noted is not None:
            run, target = _taken_over(run, target, self.noted)
        return replace(self, noted=_note(run, target)), run, target


def _note(run: IBISState, target: StreamTarget) -> CarriedPosterior | None:
    """The posterior at the present state of a run, if a quadratic function can stand for its logarithm."""
    own, theta = target.of(run), run.flat_theta
    log_density = np.asarray(own.log_prior(theta)) + run.log_likelihood.ravel()
    states, sds = own.physical(np.asarray(run.state), theta, run.samples - 1)
    return CarriedPosterior.fit(run.samples, theta, run.normalised_weights, log_density, states, sds)


def _taken_over(run: IBISState, target: StreamTarget, noted: CarriedPosterior) -> tuple[IBISState, StreamTarget]:
    """The run after a posterior that is carried over, or as it is where that would cost too many particles."""
    shorter = target.on(target.stream.since(noted.samples - 1), noted)
    theta, shape = run.flat_theta, run.log_likelihood.shape
    state, likelihood, energy = shorter.of(run).sweep(theta, run.samples)
    total = likelihood - energy
    before = np.asarray(target.log_prior(theta)) - np.asarray(shorter.log_prior(theta))
    other = LevelEvaluation(state, (total - before).reshape(shape))  # prior times likelihood, as likelihoods
    ratios = other.likelihood - run.log_likelihood
    if not np.all(np.isfinite(ratios.ravel()[run.normalised_weights > 0])) or loss(run, other) > TOLERANCE:
        return run, target
    weighted = run.log_weights + np.where(np.isfinite(ratios), ratios, -np.inf)
    return replace(run, state=state, log_weights=weighted, log_likelihood=total.reshape(shape)), shorter
