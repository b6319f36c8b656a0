"""How a posterior was computed: the run's settings as typed fields, and the problem behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from probsysid._internal.errors import InputError
from probsysid.model.model import Model
from probsysid.model.problem import Problem
from probsysid.odefilter.solver import Solver
from probsysid.posterior.stored_setup import can_decode, decode_setup, encode_setup


@dataclass(frozen=True)
class RunSettings:
    """Facts about a run that tables and reports show."""

    version: str
    """Of probsysid."""
    created: str
    """Date and time."""
    model: str
    particles: int
    samples: int
    sweeps: float
    """Filtering per particle, in units of one sweep over the data."""
    lost: int
    """Particles whose energy stopped being finite."""
    solver: str
    sampler: str
    seed: int
    islands: int
    ess_threshold: float
    seconds: float
    priors: dict[str, str]
    """In words, by quantity."""
    units: dict[str, str]
    substeps: int
    """Integration steps per sampling interval."""
    steps_chosen: bool
    """Whether their number was found automatically."""
    refined_from: int | None = None
    """Particles of the run, where fresh draws have taken their place."""
    pareto_shape: float | None = None
    """Of the weights of fresh draws."""
    method: str = "sample"
    """`"map"` for draws of a Laplace approximation."""

    @property
    def run_particles(self) -> int:
        """Particles of the run; fresh draws are not counted."""
        return self.particles if self.refined_from is None else self.refined_from


@dataclass(frozen=True, eq=False)
class Setup:
    """The problem and the solver; those of a saved posterior are rebuilt from data when they are first asked for."""

    given: tuple[Problem, Solver] | None = None
    stored: Mapping[str, Any] | None = field(default=None, repr=False)
    """Data of `stored_setup.encode_setup`."""
    model: Model | None = None
    """In place of the stored one."""

    @property
    def known(self) -> bool:
        """Whether there is a problem."""
        return self.given is not None or (self.stored is not None and can_decode(dict(self.stored), self.model))

    @property
    def problem(self) -> Problem:
        return self._loaded[0]

    @property
    def solver(self) -> Solver:
        return self._loaded[1]

    def data(self) -> Mapping[str, Any] | None:
        """For files."""
        return encode_setup(*self.given) if self.given is not None else self.stored

    @cached_property
    def _loaded(self) -> tuple[Problem, Solver]:
        if self.given is not None:
            return self.given
        if self.stored is None:
            raise InputError("this posterior was saved without its model; load it with setup=...")
        try:
            return decode_setup(dict(self.stored), self.model)
        except InputError as error:
            raise InputError(f"this posterior has no model: {str(error).rstrip('.')}.") from None
