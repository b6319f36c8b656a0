"""Smoothed states of a posterior whose likelihood was estimated by particle filters."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from probsysid._internal.errors import InputError
from probsysid.data.record import Record
from probsysid.model.problem import Problem
from probsysid.odefilter.solver import Solver
from probsysid.particlefilter.keys import seeds_of
from probsysid.particlefilter.smoothing import PointPaths, smoother
from probsysid.targets.integrators import PointFilters

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior

MORE_POINTS = 3
"""Doublings of the points that filtering takes: going back, they have fewer and fewer ancestors."""


def smoothed_points(
    problem: Problem, solver: Solver, theta: np.ndarray, record: Record, number: int, seed: int
) -> PointPaths:
    """The smoothed state of every particle on a record, the one with this number."""
    assert solver.particle_filter is not None
    integrator = PointFilters.of(problem, solver.particle_filter).at(MORE_POINTS)
    inner = integrator.sample_filter(problem.model, record.jump_order)
    packed = integrator.samples(record, inner, solver.steps, number=number)
    samples = jax.vmap(packed.form.unpack)(jnp.asarray(packed.numbers))
    values = jax.vmap(problem.space.values_of_one, in_axes=-1, out_axes=-1)(jnp.asarray(theta))
    particles = jax.vmap(lambda v: problem.particle(v, number), in_axes=-1, out_axes=-1)(values)
    particles = particles._replace(seed=seeds_of(np.concatenate([theta, np.full((1, theta.shape[1]), float(seed))])))
    return smoother(inner, particles, samples, jax.random.key(seed))


def check_simulated(posterior: "Posterior", what: str) -> None:
    """Raise where something is asked that simulates the model without its diffusion, or measurements around an output
    that is a distribution."""
    model = posterior.setup.problem.model
    if model.needs_particle_filter:
        raise InputError(
            f"{what} is not there for the {model.name}, whose equations have a diffusion or whose outputs are "
            "distributions; its states are (posterior.states)."
        )
