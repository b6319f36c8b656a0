"""Explore with a pilot, certify with the target.

A target may have a pilot: nearly the same posterior for a fraction of the price.  A run starts on the target itself,
whose filter stays stable where prior draws are stiff.  As soon as the particles' likelihoods by the pilot differ too
little to matter, and the pilot loses none of them, it goes on with the pilot; a particle that the pilot alone loses
brings it back.  At the end the particles are taken over to the target: by weights, or by tempering with moves where the
weights would be too uneven.  The posterior and the evidence are then those of the target.
"""

from dataclasses import replace

import numpy as np

from probsysid._internal.errors import SamplingError
from probsysid._internal.statistics import effective_sample_size
from probsysid.smc import adaptive_points, adaptive_substeps
from probsysid.smc.adaptive_substeps import (
    FINEST,
    TOLERANCE,
    MultilevelTarget,
    Trial,
    compute,
    evaluate,
    likelihood_of_some,
    log_ratios,
    loss,
    milestone,
    some_particles,
    switch,
    with_work,
)
from probsysid.smc.budget import PILOT_COST
from probsysid.smc.ibis import IBISState, StepInfo
from probsysid.smc.options import Sampler

NEGLIGIBLE = 1e-3
"""Share of the posterior that the pilot may lose."""

SOME = 128
"""Particles on which levels are tried, for an eighth of the price of all."""

AGREEING = 0.01
"""Loss of effective sample size up to which a level of the target agrees with the pilot, or a coarser one of the pilot
with its present one: means differ by at most a tenth of a standard deviation."""

OFFSET = 0.1
"""Mean difference of the log likelihoods up to which it does: the log evidence differs by so much."""

UNEVEN = 0.3
"""Fraction of the effective sample size beyond which a finer level of the target is tried before particles are moved:
the pilot, whose steps were chosen, is more accurate than a target that differs from it by so much."""


def forward(run: IBISState, target: MultilevelTarget, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """`adaptive_substeps.forward`, on the pilot where that will do; `adaptive_points.forward` of estimates."""
    if target.estimated:
        return adaptive_points.forward(run, target, sampler)
    if run.pilot:
        return _on_pilot(run, target, sampler)
    run, step = adaptive_substeps.forward(run, target, sampler)
    pilot = target.pilot
    if pilot is None or run.samples < 2 or milestone(run.samples - 1) != run.samples:
        return run, step
    taken = _taken_over(run, pilot)
    return (run, step) if taken is None else (taken, step._replace(rebased=taken.evidence_by_island))


def _taken_over(run: IBISState, pilot: MultilevelTarget) -> IBISState | None:
    """The run on the pilot, at the same level or at one finer; None if that makes a difference."""
    alive = run.normalised_weights > 0
    for level in range(run.level, min(run.level + 1, FINEST) + 1):
        other = evaluate(run, pilot.at(level))
        ratios = log_ratios(run, other)
        if np.all(np.isfinite(ratios.ravel()[alive])) and loss(run, other) <= TOLERANCE:
            return replace(
                run,
                pilot=True,
                level=level,
                state=other.state,
                log_weights=run.log_weights + ratios,
                log_likelihood=other.likelihood,
            )
    return None


def _on_pilot(run: IBISState, target: MultilevelTarget, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """A step on the pilot, or back to the target where the pilot fails."""
    assert target.pilot is not None
    try:
        after, step = adaptive_substeps.forward(run, target.pilot, sampler, Trial(AGREEING, SOME))
    except SamplingError:  # where the target fails, too, it will say so
        return certify(run, target, sampler)
    if after.lost > run.lost and _loses_what_counts(run, target, after.samples):
        return certify(run, target, sampler)
    return replace(after, work=run.work + (after.work - run.work) / PILOT_COST), step


def _loses_what_counts(run: IBISState, target: MultilevelTarget, stop: int) -> bool:
    """Whether particles that the pilot loses before sample `stop` matter to the posterior by the target itself."""
    assert target.pilot is not None
    weights, ahead = run.normalised_weights, replace(run, samples=stop)
    lost = ~np.isfinite(evaluate(ahead, target.pilot.at(run.level)).likelihood.ravel())
    if weights[lost].sum() <= NEGLIGIBLE:
        return False
    gain = log_ratios(run, evaluate(ahead, target.at(run.level))).ravel()
    if not np.isfinite(gain[weights > 0]).any():
        return False
    posterior = weights * np.exp(gain - gain[weights > 0].max())
    return bool(posterior[lost].sum() > NEGLIGIBLE * posterior.sum())


def _coarsest(run: IBISState, target: MultilevelTarget) -> tuple[IBISState, int]:
    """The coarsest level at which the target agrees with the pilot on some of the particles, up to one finer than the
    run's, or the run's; the pilot at its finest level, which costs little, stands for exact integration."""
    assert target.pilot is not None
    chosen = some_particles(run, SOME)
    exact = likelihood_of_some(run, target.pilot.at(FINEST), chosen)
    for level in range(min(run.level + 2, FINEST)):
        run = with_work(run, target, level, SOME)
        ratios = likelihood_of_some(run, target.at(level), chosen) - exact
        even = np.all(np.isfinite(ratios)) and effective_sample_size(ratios) >= (1 - AGREEING) * SOME
        if even and abs(ratios.mean()) <= OFFSET:
            return run, level
    return run, run.level


def certify(run: IBISState, target: MultilevelTarget, sampler: Sampler) -> tuple[IBISState, StepInfo]:
    """The run on the target itself.  Raises a `SamplingError` where the target loses all particles."""
    nothing = StepInfo(np.empty((0, run.islands)), np.empty((0, run.islands)))
    if not run.pilot:
        return run, nothing
    assert target.pilot is not None
    run, coarsest = _coarsest(run, target)
    for level in range(coarsest, FINEST + 1):
        run, own = compute(run, target, level)
        if loss(run, own) <= UNEVEN or level == FINEST:
            break
    changed, rejuvenations = switch(run, target.pilot.at(run.level), target.at(level), own, level, sampler)
    changed = replace(changed, pilot=False)
    return changed, nothing._replace(rejuvenations=rejuvenations, rebased=changed.evidence_by_island)
