"""How a target integrates: with the probabilistic solver, or with Runge-Kutta steps that count as exact.

The second is the *pilot* of the first: cheap, for particles that are only passing through.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import jax
import numpy as np
from jaxtyping import Float

from probsysid.data.record import Record
from probsysid.model.model import Model
from probsysid.model.noise import is_coloured
from probsysid.model.problem import Problem
from probsysid.odefilter import filter_inputs, runge_kutta
from probsysid.odefilter.continuous_discrete import LARGEST, ContinuousDiscreteEKF
from probsysid.odefilter.data_given_ode import DataGivenODE
from probsysid.odefilter.filter import SampleFilter
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.packed_samples import PackedSamples
from probsysid.odefilter.runge_kutta import RungeKuttaFilter
from probsysid.odefilter.solver import Solver
from probsysid.particlefilter.filter import InnerFilter
from probsysid.particlefilter.settings import ParticleFilter

SETTLED = 200
"""Intervals after which the solver's own variances do not change any more."""


class Integrator(Protocol):
    """Makes the filter of a model, and the samples as that filter reads them."""

    def sample_filter(self, model: Model, jump_order: int | None) -> SampleFilter:
        """The filter of a model whose inputs' derivative of order `jump_order` jumps at samples."""
        ...

    def samples(
        self, record: Record, sample_filter: SampleFilter, substeps: int, first: int | None = None, number: int = 0
    ) -> PackedSamples:
        """The samples of a record, the one with this number; or, of one that grows, those from `first` on, of which
        `record` holds these and the one before."""
        ...


@dataclass(frozen=True)
class ProbabilisticSolver:
    """The solver's ODE filter."""

    solver: Solver

    def sample_filter(self, model: Model, jump_order: int | None) -> ODEFilter | DataGivenODE:
        return self.solver.likelihood_filter(model, jump_order)

    def samples(
        self, record: Record, sample_filter: SampleFilter, substeps: int, first: int | None = None, number: int = 0
    ) -> PackedSamples:
        if isinstance(sample_filter, DataGivenODE):
            sample_filter = sample_filter.alone
        assert isinstance(sample_filter, ODEFilter)
        unit = None
        if first is not None:
            assert record.dt is not None, "records that grow are sampled uniformly"
            place = max(first - 1, 0) + np.arange(record.samples)
            unit = _units(sample_filter, record.dt, substeps)[np.minimum(place, SETTLED)]
        prepared = filter_inputs.prepare(record, sample_filter, substeps, unit)
        prepared = jax.tree.map(lambda leaf: leaf[1 if first else 0 :], prepared)
        roomy = self.solver.substeps == "auto" or substeps > 1
        return PackedSamples.of(filter_inputs.with_room(prepared) if roomy else prepared)


@lru_cache(maxsize=32)
def _units(ode_filter: ODEFilter, dt: float, substeps: int) -> Float[np.ndarray, "sample substep coordinate"]:
    """Unit variances of the first intervals of a record with constant steps; the last stands for all that follow."""
    return filter_inputs.units(ode_filter, np.full(SETTLED, dt / substeps), substeps)


@dataclass(frozen=True)
class RungeKutta:
    """Classical Runge-Kutta of order four, without integration error: the pilot."""

    disturbed: bool = False
    """Whether there is process noise."""
    joint: bool = True
    """Whether the state is then conditioned on the data."""

    @classmethod
    def of(cls, problem: Problem, solver: Solver) -> "RungeKutta":
        """The pilot of a solver."""
        return cls(problem.disturbed, solver.joint)

    def sample_filter(self, model: Model, jump_order: int | None) -> RungeKuttaFilter | ContinuousDiscreteEKF:
        return ContinuousDiscreteEKF(model, self.joint) if self.disturbed else RungeKuttaFilter(model)

    def samples(
        self, record: Record, sample_filter: SampleFilter, substeps: int, first: int | None = None, number: int = 0
    ) -> PackedSamples:
        prepared = runge_kutta.prepare(record, sample_filter.model, substeps)
        return PackedSamples.of(jax.tree.map(lambda leaf: leaf[1 if first else 0 :], prepared))


@dataclass(frozen=True)
class PointFilters:
    """Particle filters, which estimate the likelihood."""

    settings: ParticleFilter
    random: bool
    """Whether anything is random between samples or at the first; if not, one point is all."""
    level: int = 0
    """How many times the number of points was doubled."""

    @classmethod
    def of(cls, problem: Problem, settings: ParticleFilter) -> "PointFilters":
        """For a problem."""
        return cls(settings, problem.disturbed or problem.model.diffusion is not None)

    def at(self, level: int) -> "PointFilters":
        """With the number of points doubled so many times."""
        return replace(self, level=level)

    def sample_filter(self, model: Model, jump_order: int | None) -> InnerFilter:
        points = self.settings.points(self.level) if self.random else 1
        guided = self.settings.guide == "ekf" or (
            self.settings.guide == "auto" and any(map(any, model.outputs_sparsity))
        )
        return InnerFilter(model, points, self.settings.substeps, guided and self.random, self.settings.ess)

    def samples(
        self, record: Record, sample_filter: SampleFilter, substeps: int, first: int | None = None, number: int = 0
    ) -> PackedSamples:
        prepared = runge_kutta.prepare(record, sample_filter.model, substeps)
        sample = max((first or 0) - 1, 0) + np.arange(record.samples)
        index = np.stack([np.full(record.samples, number), sample], axis=-1)
        prepared = prepared._replace(grid=prepared.grid[:, : 2 * substeps], count=None, index=index)
        return PackedSamples.of(jax.tree.map(lambda leaf: leaf[1 if first else 0 :], prepared))


def integrator_of(problem: Problem, solver: Solver) -> Integrator:
    """What a solver integrates with."""
    settings = solver.particle_filter
    return ProbabilisticSolver(solver) if settings is None else PointFilters.of(problem, settings)


def why_no_pilot(problem: Problem) -> str | None:
    """Why there is no pilot of a problem; None where there is one."""
    if any(map(is_coloured, problem.noise.values())):
        return "there is no cheap likelihood of a model with coloured noise"
    if problem.disturbed and len(problem.model.physical_names) > LARGEST:
        return f"there is no cheap likelihood of a model with process noise and more than {LARGEST} components"
    return None


def has_pilot(problem: Problem) -> bool:
    """Whether there is a cheap likelihood."""
    return why_no_pilot(problem) is None
