"""Maximum a posteriori: the best mode of a posterior, in the units of its quantities.

The mode is that of the density in unconstrained coordinates, in which the posterior is sampled and Laplace's
approximation is made.  (A mode moves when coordinates change; means and quantiles mean the same in all.)
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Float

from probsysid._internal.errors import InputError, SamplingError
from probsysid._internal.validation import check_seed
from probsysid.model.parameter_space import ParameterSpace
from probsysid.parallel.default import default_executor
from probsysid.posterior.diagnostics.mode_check import MAPEstimate
from probsysid.posterior.draws import scalars
from probsysid.posterior.importance_sampling import LogTarget
from probsysid.posterior.modes import Mode, Points, find_modes, peaks, polish
from probsysid.posterior.point_states import check_simulated
from probsysid.targets.batch_target import BatchTarget
from probsysid.targets.integrators import has_pilot

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

PORTION = 64
"""Points that the pilot takes at once: a search asks for tens of them."""

STARTS = 8
"""Searches from prior draws."""

FINER = 2
"""Runge-Kutta steps in place of one of the filter's, ..."""
MOST_STEPS = 32
"""... up to this many per sampling interval.  On the Duffing oscillator, whose filter takes two, log densities of the
particles then differ by 0.16 (standard deviation), as they do from those of a filter with eight; with two steps for two
by 1.04."""

FIRST_WIDTH = 0.1
"""Of a mode, over the prior's standard deviation: the first guess."""


def find_map(posterior: "Posterior", *, seed: int = 0) -> MAPEstimate:
    """The best mode of a posterior's density: `posterior.map` where the run has found it, otherwise by a search, which
    takes some seconds.

    Args:
        posterior: with its records.
        seed: of the prior draws that searches start from, besides the best particle.
    """
    check_seed(seed)
    check_simulated(posterior, "a search for the mode")
    if posterior.map is not None:
        return posterior.map
    if not posterior.records:
        raise InputError("this posterior has no records, which a search for its mode needs; load it with records=...")
    own = LogTarget.of(posterior, default_executor())
    assert isinstance(own.target, BatchTarget)
    prior = np.asarray(own.target.sample_prior(jax.random.key(seed), max(own.portion, 16 * PORTION)))
    modes = polish(own, search(cheap_target(own.target, own.portion), prior, posterior.theta))
    if not modes:
        raise SamplingError(NO_START)
    return estimate(modes[0], posterior.setup.problem.space)


NO_START = (
    "no mode was found: the likelihood is not finite at any particle or prior draw. Do the priors allow a model that "
    "stays bounded on these inputs?"
)


def cheap_target(target: BatchTarget, portion: int, finer: int = FINER) -> LogTarget:
    """The log density with a Runge-Kutta likelihood of `finer` times as many steps, or the target itself, `portion`
    points at once, where there is none."""
    if not has_pilot(target.problem):
        return LogTarget(target, portion)
    steps = max(target.substeps, min(finer * target.substeps, MOST_STEPS))
    return LogTarget(target.with_runge_kutta(steps, PORTION), PORTION)


def search(
    objective: LogTarget,
    prior: Points,
    particles: Float[np.ndarray, "dimension particle"] | None = None,
    starts: int = STARTS,
    go_on: Callable[[], bool] = lambda: True,
) -> list[Mode]:
    """Modes reached from peaks among prior draws and from the best particle, best first; as far as `go_on` allows."""
    begin = [peaks(prior, objective(prior), starts)]
    if particles is not None:
        begin.append(particles[:, [int(np.argmax(objective(particles)))]])
    return find_modes(objective, np.hstack(begin), FIRST_WIDTH * prior.std(axis=1), go_on=go_on)


def estimate(mode: Mode, space: ParameterSpace, shift: float = 0.0) -> MAPEstimate:
    """A mode in the units of its quantities; `shift` is added to its log density."""
    values = scalars({name: np.asarray(value) for name, value in space.values(mode.theta[:, None]).items()})
    shifted = replace(mode, log_density=mode.log_density + shift)
    return MAPEstimate({n: float(v[0]) for n, v in values.items()}, shifted.log_density, shifted.log_evidence)
