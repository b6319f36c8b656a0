"""Which likelihood a model gets: that of the solver, or estimates by a particle filter where it needs one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from probsysid._internal.errors import InputError
from probsysid.model.model import Model
from probsysid.model.noise import is_coloured
from probsysid.odefilter.solver import Solver
from probsysid.particlefilter.settings import ParticleFilter


def solver_for(
    model: Model, given: Solver | ParticleFilter, noise: Mapping[str, Any] | None, method: str = "sample"
) -> Solver:
    """The solver as it was given, or with a particle filter: one that was given, or that the model needs."""
    if isinstance(given, Solver) and not model.needs_particle_filter and given.particle_filter is None:
        return given
    if isinstance(given, ParticleFilter):
        settings = given
    else:
        settings = given.particle_filter or ParticleFilter()
        if given.substeps != "auto":
            settings = replace(settings, substeps=int(given.substeps))
    if method == "map":
        raise InputError(
            "method is 'map', which needs the gradient of the likelihood, and a particle filter only estimates its "
            "value; use 'sample'."
        )
    for name, kind in (noise or {}).items():
        if is_coloured(kind):
            raise InputError(
                f"the noise of {name!r} is coloured, which particle filters do not know; give the {model.name} a "
                "coordinate that is measured with it, and a diffusion."
            )
    return Solver(substeps=settings.substeps, particle_filter=settings)


def check_window(solver: Solver, window: object) -> None:
    """Raise where a stream with a window has a likelihood that is estimated."""
    if window is not None and solver.particle_filter is not None:
        raise InputError(
            f"window is {window!r}, but what a particle filter has learnt from samples that are not kept cannot be "
            "carried on; leave window out."
        )
