"""Adaptive number of points in the particle filters of an SMC^2 run (Chopin, Jacob and Papaspiliopoulos 2013).

Where a target's energies are unbiased estimates, the sampler is right for any number of points: estimates kept with
the particles make it a sampler on a larger space, in which the right posterior is a marginal.  But the noisier they
are, the fewer moves are accepted.  When acceptance has fallen, all particles are estimated anew with twice the points,
and weighted by the ratio of the new estimate to the old one, which is exact (their section 3.6); where these weights
would be too uneven, the change is tempered with moves in between.  The levels of the target are these doublings.
"""

import numpy as np

from probsysid._internal.errors import SamplingError
from probsysid.smc import ibis
from probsysid.smc.adaptive_substeps import MultilevelTarget, compute, log_ratios, switch_level, with_change
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import Sampler

LOW = 0.2
"""Acceptance rate below which the points are looked at (Chopin, Jacob and Papaspiliopoulos 2013, section 3.6)."""

NOISY = 1.0
"""Variance of the difference between two estimates from which on more points are worth their price: with points twice
as many in one of them it is 1.5 times that of the estimates, and the best variance of these is about one (Doucet, Pitt,
Deligiannidis and Kohn 2015)."""


def forward(run: IBISState, target: MultilevelTarget, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """`ibis.step` with the run's number of points, which is doubled where acceptance has fallen."""
    try:
        after, step = ibis.step(run, target.at(run.level), sampler)
    except SamplingError:
        if run.samples == 0 or run.level >= target.most_levels:
            raise
        nothing = StepInfo(np.empty((0, run.islands)), np.empty((0, run.islands)))
        return doubled(run, nothing, target, sampler, anyway=True)
    return checked(after, step, target, sampler)


def temper_all(run: IBISState, target: MultilevelTarget, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """`ibis.temper_all`, likewise."""
    after, step = ibis.temper_all(run, target.at(run.level), sampler)
    return checked(after, step, target, sampler)


def checked(run: IBISState, step: StepInfo, target: MultilevelTarget, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """The run after a step, with twice as many points where moves were hardly accepted."""
    low = any(info.acceptance < LOW for info in step.rejuvenations)
    return doubled(run, step, target, sampler) if low and run.level < target.most_levels else (run, step)


def doubled(
    run: IBISState, step: StepInfo, target: MultilevelTarget, sampler: Sampler, *, anyway: bool = False
) -> tuple[IBISState, StepInfo]:
    """The run with twice as many points, unless the noise of its estimates is not what keeps moves from being
    accepted."""
    run, finer = compute(run, target, run.level + 1)
    if not anyway and variance(run, log_ratios(run, finer)) < NOISY:
        return run, step
    changed, rejuvenations = switch_level(run, target, finer, run.level + 1, sampler)
    return changed, with_change(step, run, changed, rejuvenations)


def variance(run: IBISState, ratios: np.ndarray) -> float:
    """Of the log ratios over the particles; infinite where one is lost."""
    weights, found = run.normalised_weights, ratios.ravel()
    alive = weights > 0
    if not np.isfinite(found[alive]).all():
        return float("inf")
    mean = weights[alive] @ found[alive]
    return float(weights[alive] @ (found[alive] - mean) ** 2)
